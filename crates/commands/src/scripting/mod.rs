//! Lua scripts and functions.
//!
//! ```text
//!   EVAL, FCALL -> worker's interpreter -> redis.call -> ScriptRun: command on the Context -> reply -> Lua values
//!   (eval.rs,      (interpreter.rs,        (api.rs)      (script_run.rs,                       (convert.rs)
//!    fcall.rs)      sandbox.lua)                          on CommandGroup)
//! ```
//!
//! Each worker has one interpreter, made when its first script runs. It keeps the scripts that it compiled, by the text
//! and by the SHA; the texts are the engine's ([`engine::scripts::script_cache`]), so that a script that one worker was
//! given runs on all.
//!
//! **Locks.** A script runs under the locks of the keys that it was given (the dispatcher takes them), and it is atomic
//! whatever other keys it touches:
//!
//! - A script whose text, or whose library's, shows that it touches no other keys ([`declared_keys`]) never needs more
//!   than these.
//! - Another one, whose runs are not known yet or that has touched other keys before, begins with the right to take any
//!   lock.
//! - A script that touches another key for the first time, before it has changed anything, is ended without its
//!   noticing and begins again with that right: nothing has happened.
//! - Before its first change a script claims the right to take more locks, unless its text shows that it needs none.
//!   One has it at a time. A script that does not get it begins again and waits for the right to any lock, and one
//!   without keys takes that at once. So a key that is touched for the first time after a change is no trouble: its
//!   lock is added to those that are held, and a command that holds it while waiting for one of these gives way
//!   ([`engine::locks::protocol`]). The next run has the right to any from its beginning.
//! - A script that has changed nothing and wants a lock that another script has had for a while ends without a trace
//!   and is run again later.
//!
//! **Long runs.** The interpreter counts instructions and looks at the clock now and then, and so does every command.
//! After half a millisecond a script is long: a command that wants its locks is put off and retried by its worker,
//! which serves others meanwhile, and the worker whose thread the script has serves its other clients from within it
//! (`Host::serve_clients`), as far as the locks that they want are free. Past `busy-reply-threshold` the server is
//! busy: all commands that were put off, and any other that may not run in such a time, are answered -BUSY
//! (`Host::serve_clients_busy`). A client that ends the script raises a flag that the next look sees.
//!
//! **The log** gets the changes of a script's commands, between MULTI and EXEC if there are several.
//!
//! All code here is safe Rust; the C of Lua 5.1 and its binding are mlua's. A native function finds the command that
//! runs the script by `scoped-tls-hkt`: a reference in the thread's storage for as long as the script runs.

mod api;
mod call_buffers;
mod convert;
mod current_run;
mod debugger;
mod declared_keys;
pub(crate) mod eval;
mod failure;
pub(crate) mod fcall;
mod flags;
mod functions;
mod human;
mod interpreter;
mod kept_functions;
mod looks;
mod lua_arguments;
mod lua_host;
mod lua_libraries;
mod lua_memory;
mod lua_tokens;
mod math_random;
mod private_copy;
mod script_run;
mod script_slot;

use engine::Engine;
use interpreter::Interpreter;

/// Frees the memory of scripts that were flushed; every thread that runs commands calls it now and then.
pub fn forget_flushed(engine: &Engine) {
    Interpreter::forget_flushed(engine.scripts());
}

use crate::core::command::Command;

/// Commands of this room.
pub const COMMANDS: &[&[Command]] = &[eval::COMMANDS, fcall::COMMANDS];
