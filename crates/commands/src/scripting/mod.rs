//! Lua scripts and functions.
//!
//! ```text
//!   EVAL, FCALL -> worker's interpreter -> redis.call -> Run: the command on the caller's Context -> reply -> Lua values
//!   (eval.rs,      (interpreter.rs,        (api.rs)      (run.rs, on transaction::Group)        (convert.rs)
//!    function.rs)   sandbox.lua)
//! ```
//!
//! Each worker has one interpreter, made when its first script runs. What it compiled it keeps, by the text and by the
//! SHA; the texts are the engine's ([`engine::scripts::script_cache`]), so that a script that one worker was given runs
//! on all.
//!
//! **Locks.** A script runs under the locks of the keys that it was given (the dispatcher takes them), and it is atomic
//! whatever else it touches:
//!
//! - One whose text, or whose library's, shows that it touches no other keys ([`declared_keys`]) needs no more than
//!   these, ever.
//! - Another one, whose runs are not known yet or that has touched other keys before, begins with the right to take any
//!   lock.
//! - One that touches another key for the first time, before it has changed anything, is ended without its noticing and
//!   begins again with that right: nothing has happened.
//! - Before its first change a script claims the right to take more locks, unless its text shows that it needs none.
//!   One has it at a time. A script that does not get it begins again and waits for the right to any lock, and one
//!   without keys takes that at once. So a key that is touched for the first time after a change is no trouble: its
//!   lock is added to those that are held, and a command that holds it while waiting for one of these gives way
//!   ([`engine::locks::protocol`]). The next run has the right to any from its beginning.
//! - One that has changed nothing and wants what another script has had for a while ends without a trace and is run
//!   again later.
//!
//! **Long runs.** The interpreter counts instructions and looks at the clock now and then, and so does every command.
//! After half a millisecond a script is long: what wants its locks is put off and tried again by its worker, which
//! serves others meanwhile, and the worker whose thread the script has serves its other clients from within it
//! (`Host::while_long`), as far as the locks that they want are free. Past `busy-reply-threshold` the server is busy:
//! all that was put off, and whatever else is not for such times, is answered -BUSY (`Host::while_busy`). Who ends the
//! script raises a flag that the next look sees.
//!
//! **The log** gets what a script's commands changed, between MULTI and EXEC if there are several.
//!
//! All here is safe Rust; the C of Lua 5.1 and its binding are mlua's. How a native function finds the command that
//! runs the script is `scoped-tls-hkt`'s: a reference in the thread's storage for as long as the script runs.

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
mod script_run;
mod script_slot;

use engine::Engine;
use interpreter::Interpreter;

/// For every thread that runs commands, now and then: gives up the memory of scripts that were flushed.
pub fn forget_flushed(engine: &Engine) {
    Interpreter::forget_flushed(engine.scripts());
}

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[eval::COMMANDS, fcall::COMMANDS];
