//! Lua scripts and functions.
//!
//! ```text
//!   EVAL, FCALL -> worker's interpreter -> redis.call -> Run: the command on the caller's Cx -> reply -> Lua values
//!   (eval.rs,      (interpreter.rs,        (api.rs)      (run.rs, on transaction::Group)        (convert.rs)
//!    function.rs)   sandbox.lua)
//! ```
//!
//! Each worker has one interpreter, made when its first script runs. What it compiled it keeps, by the text and by the
//! SHA; the texts are the engine's ([`engine::scripts::script_cache`]), so that a script that one worker was given runs on all.
//!
//! **Locks.** A script runs under the locks of the keys that it was given (the dispatcher takes them), and it is atomic
//! whatever else it touches:
//!
//! - One whose runs are not known yet, or that has touched other keys before, begins with the right to take any lock.
//! - One that touches another key for the first time, before it has changed anything, is ended without its noticing and
//!   begins again with that right: nothing has happened.
//! - Before its first change a script claims the right to take more locks, which one has at a time. Who does not get it
//!   begins again with the right to any lock, for which he waits. So a key that is touched for the first time after a
//!   change is no trouble: its lock is added to those that are held, and who may be waiting for one of these gives way
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
mod bit;
mod cjson;
mod cjson_decode;
mod cmsgpack;
mod convert;
mod debugger;
pub mod eval;
mod failure;
pub mod fcall;
mod flags;
mod functions;
mod human;
mod interpreter;
mod keeps;
mod libraries;
mod pack;
mod random;
mod run;

use crate::core::args::Args;
use crate::core::command::{DENY_OOM, Flags, MAY_REPLICATE, STALE, WRITE};
use crate::core::table::Entry;
use engine::{Engine, Error};
use flags::ScriptFlags;
use interpreter::Interpreter;
use std::borrow::Cow;

/// For every thread that runs commands, now and then: gives up the memory of scripts that were flushed.
pub fn forget_flushed(engine: &Engine) {
    Interpreter::forget_flushed(engine.scripts());
}

/// What clients are told while some script runs for too long.
pub(crate) fn busy(engine: &Engine) -> Error {
    busy_error(engine.scripts().busy().first().is_some_and(|running| running.is_function))
}

/// What clients are told while a script runs for too long.
pub(crate) fn busy_error(by_function: bool) -> Error {
    if by_function { Error::BusyFunction } else { Error::BusyScript }
}

/// What a client reads of an error where nothing is run again: that a script keeps the server busy, for what would wait
/// for it.
#[cold]
pub(crate) fn text<'e>(engine: &Engine, error: &'e Error) -> Cow<'e, [u8]> {
    error.text().unwrap_or_else(|| Cow::Owned(busy(engine).text().unwrap_or_default().into_owned()))
}

/// The command's flags, or, where it runs a script that tells what it allows and promises, those of this call.
pub(crate) fn flags_of(engine: &Engine, entry: &Entry, args: &Args<'_>) -> Flags {
    let flags = entry.command.flags;
    if !entry.runs_scripts {
        return flags;
    }
    let Some(told) = told_flags(engine, entry, args).filter(|told| !told.has(ScriptFlags::UNSPECIFIED)) else {
        return flags;
    };
    let mut flags = flags.without(WRITE).without(DENY_OOM).without(STALE).without(MAY_REPLICATE);
    if !told.has(ScriptFlags::NO_WRITES) {
        flags = flags.and(WRITE);
        if !told.has(ScriptFlags::ALLOW_OOM) {
            flags = flags.and(DENY_OOM);
        }
    }
    if told.has(ScriptFlags::ALLOW_STALE) { flags.and(STALE) } else { flags }
}

/// What the script or function says of itself, if there is one.
fn told_flags(engine: &Engine, entry: &Entry, args: &Args<'_>) -> Option<ScriptFlags> {
    let scripts = engine.scripts();
    match entry.command.name {
        "eval" | "eval_ro" => ScriptFlags::of_script(&args[1]).ok(),
        "evalsha" | "evalsha_ro" => {
            let sha = args[1].to_ascii_lowercase().try_into().ok()?;
            scripts.find(&sha, 0).map(|script| ScriptFlags(script.flags))
        }
        "fcall" | "fcall_ro" => {
            let libraries = scripts.libraries();
            let functions = &libraries.with_function(&args[1])?.functions;
            let found = functions.iter().find(|function| function.name.eq_ignore_ascii_case(&args[1]))?;
            Some(ScriptFlags(found.flags))
        }
        _ => None,
    }
}
