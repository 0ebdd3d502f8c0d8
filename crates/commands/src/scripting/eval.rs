//! EVAL and its kin, SCRIPT.

use super::api;
use super::convert;
use super::current_run::{RUN, Reach};
use super::debugger;
use super::failure::{ErrorTable, Failed};
use super::flags::ScriptFlags;
use super::interpreter::{Compiled, Interpreter, Outcome, ScriptArgs};
use super::lua_memory;
use super::private_copy;
use super::script_run::{Code, Obstacle, ScriptCall, ScriptRun};
use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{
    ALLOW_BUSY, Command, DENY_OOM, Flags, Group, KeySpec, MAY_REPLICATE, NO_MANDATORY_KEYS, NO_SCRIPT,
};
use crate::core::command::{READONLY, RUNS_SCRIPTS, SKIP_MONITOR, STALE, WRITE, key};
use crate::core::command_table::lookup;
use crate::core::context::{Blocking, Context, Flow};
use crate::core::help::HELP;
use crate::core::instrument;
use crate::core::redact::monitor_line;
use crate::core::{admission, busy_script};
use crate::transactions::cluster_handle::defer_reply;
use engine::config::Directive;
use engine::scripts::script_cache::Sha;
use engine::time::Nanos;
use engine::{Engine, Error, Word};
use mlua::Value;
use std::rc::Rc;

const SCRIPTING: Command = Command { group: Group::Scripting, since: "2.6.0", lazy_free: None, ..Command::DEFAULT };

/// Flags of commands that run scripts and functions.
pub(super) const CALL: Flags = NO_SCRIPT.and(SKIP_MONITOR).and(NO_MANDATORY_KEYS).and(STALE).and(RUNS_SCRIPTS);

const EVAL: Command = Command {
    arity: -3,
    flags: CALL.and(MAY_REPLICATE),
    keys: &[EVAL_KEYS.notes(UNSURE)],
    complexity: "Depends on the script that is executed.",
    flags_of_call: Some(|_, flags, args| ScriptFlags::judge(ScriptFlags::told(&args[1]), flags)),
    ..SCRIPTING
};

const EVAL_RO: Command =
    Command { since: "7.0.0", flags: CALL.and(READONLY), keys: &[EVAL_RO_KEYS.notes(UNSURE_RO)], ..EVAL };

const EVAL_KEYS: KeySpec = key(2).rw().access().update().counted(0, 1, 1);
const EVAL_RO_KEYS: KeySpec = key(2).ro().access().counted(0, 1, 1);
const UNSURE: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const UNSURE_RO: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

pub const COMMANDS: &[Command] = &[
    Command {
        name: "eval",
        syntax: "script numkeys:int [key]... [arg]...",
        summary: "Executes a server-side Lua script.",
        run: |cx, args| eval(cx, args, false),
        ..EVAL
    },
    Command {
        name: "evalsha",
        keys: &[EVAL_KEYS],
        syntax: "sha1 numkeys:int [key]... [arg]...",
        summary: "Executes a server-side Lua script by SHA1 digest.",
        flags_of_call: Some(flags_by_sha),
        run: |cx, args| evalsha(cx, args, false),
        ..EVAL
    },
    Command {
        name: "eval_ro",
        syntax: "script numkeys:int [key]... [arg]...",
        summary: "Executes a read-only server-side Lua script.",
        run: |cx, args| eval(cx, args, true),
        ..EVAL_RO
    },
    Command {
        name: "evalsha_ro",
        keys: &[EVAL_RO_KEYS],
        syntax: "sha1 numkeys:int [key]... [arg]...",
        summary: "Executes a read-only server-side Lua script by SHA1 digest.",
        flags_of_call: Some(flags_by_sha),
        run: |cx, args| evalsha(cx, args, true),
        ..EVAL_RO
    },
    Command {
        name: "script",
        arity: -2,
        summary: "A container for Lua scripts management commands.",
        complexity: "Depends on subcommand.",
        subcommands: SCRIPT,
        ..SCRIPTING
    },
];

const SCRIPT: &[Command] = &[
    Command {
        name: "debug",
        since: "3.2.0",
        arity: -3,
        flags: NO_SCRIPT,
        syntax: "(mode: YES | SYNC | NO) [engine]@9.1.0",
        summary: "Sets the debug mode of server-side Lua scripts.",
        complexity: "O(1)",
        run: debug,
        ..SCRIPTING
    },
    Command {
        name: "exists",
        arity: -3,
        flags: NO_SCRIPT.and(STALE),
        syntax: "sha1...",
        summary: "Determines whether server-side Lua scripts exist in the script cache.",
        complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        routing: Routing::Everywhere(Merge::InAll),
        run: exists,
        ..SCRIPTING
    },
    Command {
        name: "flush",
        arity: -2,
        flags: NO_SCRIPT.and(STALE),
        syntax: "[flush-type: ASYNC | SYNC]@6.2.0",
        summary: "Removes all server-side Lua scripts from the script cache.",
        complexity: "O(N) with N being the number of scripts in cache",
        history: &[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        routing: Routing::Everywhere(Merge::Alike),
        run: flush,
        ..SCRIPTING
    },
    Command { group: Group::Scripting, since: "5.0.0", ..HELP },
    Command {
        name: "kill",
        arity: 2,
        flags: NO_SCRIPT.and(ALLOW_BUSY),
        summary: "Terminates a server-side Lua script during execution.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        takes_no_lock: true,
        run: |cx, _| kill(cx, false),
        ..SCRIPTING
    },
    Command {
        name: "load",
        arity: 3,
        flags: NO_SCRIPT.and(STALE),
        syntax: "script",
        summary: "Loads a server-side Lua script to the script cache.",
        complexity: "O(N) with N being the length in bytes of the script body.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        routing: Routing::Everywhere(Merge::Alike),
        run: load,
        ..SCRIPTING
    },
    Command {
        name: "show",
        since: "8.0.0",
        arity: 3,
        flags: NO_SCRIPT.and(STALE),
        syntax: "sha1",
        summary: "Show server-side Lua script in the script cache.",
        complexity: "O(1).",
        run: show,
        ..SCRIPTING
    },
];

/// Returns the flags of a call of a script that is known by its SHA.
fn flags_by_sha(engine: &Engine, flags: Flags, args: &Args<'_>) -> Flags {
    let scripts = engine.scripts();
    let known = sha(&args[1]).and_then(|sha| Interpreter::flags_of(scripts, &sha).or_else(|| scripts.flags(&sha)));
    ScriptFlags::judge(known.map(ScriptFlags), flags)
}

/// Returns the number of keys, which stands at argument 2.
fn key_count(args: &Args<'_>) -> Result<usize, Error> {
    let count = args.int(2)?;
    if count > (args.len() - 3) as i64 {
        return Err(Error::MoreKeysThanArguments);
    }
    usize::try_from(count).map_err(|_| Error::NegativeKeyCount)
}

fn eval(cx: &mut Context<'_>, args: &mut Args<'_>, read_only: bool) -> Result<(), Error> {
    if cx.session.debugs_copy {
        let begun = private_copy::begin(cx, args);
        shown_if_failed(cx, args, begun)?;
        if cx.engine.pubsub().is_monitored() {
            show_to_monitors(cx, args);
        }
        return Ok(());
    }
    let found = compile(cx, args);
    let (interpreter, script, keys) = shown_if_failed(cx, args, found)?;
    let is_debugged = cx.session.debugs_scripts;
    let call = of_script(&script, read_only, args, is_debugged);
    if is_debugged {
        return debug_run(cx, &interpreter, call, &script, keys);
    }
    invoke(cx, &interpreter, call, keys)
}

fn compile(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(Rc<Interpreter>, Rc<Compiled>, usize), Error> {
    let keys = key_count(args)?;
    let (scripts, now) = (cx.engine.scripts(), cx.engine.metrics()[cx.session.worker].clock());
    let interpreter = Interpreter::current(scripts)?;
    let script = interpreter.script(scripts, &args[1], now).inspect_err(|_| {
        if cx.session.debugs_scripts {
            leave_debugger(cx, debugger::NOTHING_TO_SAY);
        }
    })?;
    Ok((interpreter, script, keys))
}

fn evalsha(cx: &mut Context<'_>, args: &mut Args<'_>, read_only: bool) -> Result<(), Error> {
    let found = find(cx, args);
    let (interpreter, script, keys) = shown_if_failed(cx, args, found)?;
    let call = of_script(&script, read_only, args, false);
    invoke(cx, &interpreter, call, keys)
}

fn find(cx: &Context<'_>, args: &Args<'_>) -> Result<(Rc<Interpreter>, Rc<Compiled>, usize), Error> {
    let sha = sha(&args[1]).ok_or(Error::NoScript)?;
    if cx.session.debugs_scripts {
        return Err(Error::EvalshaDebugged);
    }
    let keys = key_count(args)?;
    let (scripts, now) = (cx.engine.scripts(), cx.engine.metrics()[cx.session.worker].clock());
    let interpreter = Interpreter::current(scripts)?;
    let script = interpreter.script_by_sha(scripts, &sha, now)?.ok_or(Error::NoScript)?;
    Ok((interpreter, script, keys))
}

/// Shows a failed call to monitors, too.
pub(super) fn shown_if_failed<T>(cx: &Context<'_>, command: &Args<'_>, found: Result<T, Error>) -> Result<T, Error> {
    if found.as_ref().is_err_and(|error| *error != Error::WouldBlock) && cx.engine.pubsub().is_monitored() {
        show_to_monitors(cx, command);
    }
    found
}

fn of_script<'r>(script: &'r Compiled, read_only: bool, command: &'r Args<'r>, is_debugged: bool) -> ScriptCall<'r> {
    let (name, flags) = (&script.script.sha, ScriptFlags(script.script.flags));
    ScriptCall { name, code: Code::Script(script), flags, read_only, command, is_debugged }
}

/// Runs a script that its client debugs; the connection ends with it.
fn debug_run(
    cx: &mut Context<'_>,
    interpreter: &Interpreter,
    call: ScriptCall<'_>,
    script: &Compiled,
    keys: usize,
) -> Result<(), Error> {
    if !cx.key_args.is_empty() {
        // The debugger can touch any key at any time.
        cx.keys.escalate_anew()?;
    }
    let (text, start) = (&script.script.text, cx.reply.len());
    debugger::begin(&interpreter.lua, text).map_err(|_| Error::NoInterpreter)?;
    let done = invoke(cx, interpreter, call, keys);
    let said = debugger::end();
    interpreter.calm().map_err(|_| Error::NoInterpreter)?;
    let reply = cx.reply.as_slice()[start..].to_vec();
    cx.reply.truncate(start);
    leave_debugger(cx, &said);
    cx.reply.raw(&reply);
    done
}

/// Writes the last output of the debugger before the reply.
fn leave_debugger(cx: &mut Context<'_>, said: &[u8]) {
    cx.session.debugs_scripts = false;
    cx.reply.raw(said);
    cx.flow = Flow::Close;
}

fn sha(word: &[u8]) -> Option<Sha> {
    let mut sha: Sha = word.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

/// Whether a script that declares flags may run now. For one that declares none, each command is checked when it is
/// called.
fn permit(cx: &Context<'_>, call: &ScriptCall<'_>) -> Result<(), Error> {
    let flags = call.flags;
    if cx.keys.origin().caller.is_obeyed() {
        return Ok(());
    }
    let is_stale = cx.engine.persistence_status().deny_reasons().is_stale();
    if is_stale && (flags.has(ScriptFlags::UNSPECIFIED) || !flags.has(ScriptFlags::ALLOW_STALE)) {
        return Err(Error::PrimaryDown);
    }
    if flags.has(ScriptFlags::UNSPECIFIED) {
        return Ok(());
    }
    if flags.has(ScriptFlags::NO_CLUSTER) && cx.engine.is_clustered() {
        return Err(Error::ScriptNoCluster);
    }
    if flags.has(ScriptFlags::NO_WRITES) {
        return Ok(());
    }
    let may_grow = flags.has(ScriptFlags::ALLOW_OOM);
    if let Some(error) = admission::refusal_in_script(cx.engine, WRITE.and(DENY_OOM), may_grow, false) {
        return Err(error);
    }
    if call.read_only {
        return Err(Error::ScriptWritesInRo);
    }
    Ok(())
}

/// Runs a script or a function, whose keys begin at argument 3, and replies what it returns.
pub(super) fn invoke(
    cx: &mut Context<'_>,
    interpreter: &Interpreter,
    call: ScriptCall<'_>,
    keys: usize,
) -> Result<(), Error> {
    let permitted = permit(cx, &call);
    shown_if_failed(cx, call.command, permitted)?;
    let ScriptCall { name, code, command, .. } = call;
    let known = code.reach();
    let (scripts, db) = (cx.engine.scripts(), cx.session.db);
    let broken = |error: mlua::Error| {
        let text = error.to_string();
        let text = text.lines().next().unwrap_or_default();
        Error::ScriptFailed(Word::of(name), Word::of(text))
    };
    interpreter.limit_memory(cx.engine.config()).map_err(broken)?;
    let key_args = cx.key_args;
    if matches!(known.get(), Reach::Unknown | Reach::Beyond) && !key_args.is_empty() {
        cx.keys.escalate_anew()?;
    }
    if cx.engine.pubsub().is_monitored() {
        show_to_monitors(cx, command);
    }
    loop {
        let buffers = interpreter.buffers.take().unwrap_or_default();
        let mut run = ScriptRun::begin(cx, call.again(), key_args, &interpreter.runs, buffers);
        let outcome = RUN.set(&mut run, || {
            let words = ScriptArgs { args: command, keys };
            match code {
                Code::Script(script) => interpreter.run_script(scripts, script, &words),
                Code::Function(known) => interpreter.run_function(scripts, &known.function, &words),
            }
        });
        let (obstacle, reach, protocol) = (run.obstacle, run.reach, run.protocol);
        let (buffers, killed) = run.end(db);
        interpreter.buffers.set(Some(buffers).filter(|buffers| buffers.is_spare()));
        if obstacle.is_some() || !matches!(outcome, Ok(Ok(_))) {
            interpreter.calm().map_err(broken)?;
        }
        if reach == Reach::Beyond || known.get() == Reach::Unknown {
            known.set(reach);
        }
        match obstacle {
            None => {
                let start = cx.reply.len();
                let mut outcome = outcome.map_err(broken)?;
                if let Some(error) = killed {
                    let place = outcome.err().and_then(|failed| failed.place);
                    outcome = Err(Failed { place, ..Failed::of(&error) });
                }
                let replied = reply(cx, command, outcome, protocol);
                if replied.is_ok() {
                    defer_reply(cx, command, start);
                }
                return replied;
            }
            Some(Obstacle::LongScript) => return Err(Error::WouldBlock),
            Some(Obstacle::OtherKeys) => cx.keys.escalate_anew()?,
        }
    }
}

/// Shows the call to monitors before the commands that it calls.
#[cold]
fn show_to_monitors(cx: &Context<'_>, command: &Args<'_>) {
    if let Some(entry) = lookup(command) {
        let line = monitor_line(cx.session, entry, command, cx.now);
        cx.engine.pubsub().feed_monitors(cx.session.worker, &line);
    }
}

/// Counts the errors that are part of a reply.
#[cold]
fn count_errors(cx: &Context<'_>, command: &Args<'_>, errors: &[ErrorTable]) {
    let worker = cx.session.worker;
    for error in errors.iter().filter(|error| !error.counted) {
        cx.engine.metrics()[worker].count_custom_error(&error.text);
    }
    if let Some(entry) = lookup(command) {
        instrument::count_failed(cx.engine, worker, entry);
    }
}

fn reply(cx: &mut Context<'_>, command: &Args<'_>, outcome: Outcome, protocol: resp::Protocol) -> Result<(), Error> {
    let (mut text, counted) = match outcome {
        Ok(value) => {
            let told = if let Value::Table(table) = &value { ErrorTable::of(table) } else { None };
            match told {
                Some(error) => (error.text, error.counted),
                None => {
                    let start = cx.reply.len();
                    let Ok(errors) = convert::to_reply(cx.reply, &value, protocol) else {
                        lua_memory::end_shortage();
                        cx.reply.truncate(start);
                        return Err(Error::Script(Word::of(lua_memory::RAN_OUT)));
                    };
                    if !errors.is_empty() {
                        count_errors(cx, command, &errors);
                    }
                    return Ok(());
                }
            }
        }
        Err(Failed { mut text, counted, place, .. }) => {
            if let Some((source, line)) = place {
                let line = line.to_string();
                text = [&text[..], b" script: on ", source.as_bytes(), b":", line.as_bytes(), b"."].concat();
            }
            (text, counted)
        }
    };
    // A line's end would become part of the error code that is counted.
    text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    if !counted {
        cx.engine.metrics()[cx.session.worker].count_custom_error(&text);
    }
    Err(Error::Script(Word::of(text)))
}

fn load(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (scripts, now) = (cx.engine.scripts(), cx.engine.metrics()[cx.session.worker].clock());
    let sha = api::hex(&args[2]);
    Interpreter::current(scripts)?.add(scripts, sha, &args[2], true, now)?;
    cx.reply.bulk(&sha);
    Ok(())
}

fn exists(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let scripts = cx.engine.scripts();
    cx.reply.array(args.len() - 2);
    for word in args.from(2) {
        let known = sha(word).is_some_and(|sha| scripts.contains(&sha));
        cx.reply.int(known.into());
    }
    Ok(())
}

fn show(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let script = sha(&args[2]).and_then(|sha| cx.engine.scripts().find(&sha, Nanos(0))).ok_or(Error::NoScript)?;
    cx.reply.bulk(&script.text);
    Ok(())
}

fn flush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 || (args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async")) {
        return Err(Error::ScriptFlush);
    }
    let lazy = match args.get(2) {
        Some(_) => args.is(2, "async"),
        None => cx.engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_USER_FLUSH),
    };
    let scripts = cx.engine.scripts().flush();
    if lazy {
        cx.keys.effects.discard_scripts(scripts);
    }
    cx.reply.ok();
    Ok(())
}

fn debug(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.blocking != Blocking::Allowed || !cx.reply.as_slice().is_empty() {
        return Err(Error::ScriptDebugInPipeline);
    }
    if args.len() > 4 {
        return Err(Error::SubcommandUse(Word::of("DEBUG"), "SCRIPT"));
    }
    if !["no", "yes", "sync"].iter().any(|word| args.is(2, word)) {
        return Err(Error::ScriptDebugUse);
    }
    if args.len() == 4 && !args.is(3, "lua") {
        return Err(Error::ScriptDebugEngine(Word::up_to_nul(&args[3])));
    }
    if args.is(2, "yes") {
        private_copy::check_size(cx.engine)?;
    }
    cx.session.debugs_scripts = !args.is(2, "no");
    cx.session.debugs_copy = args.is(2, "yes");
    cx.reply.ok();
    Ok(())
}

/// Ends a script or function that runs for longer than others wait silently.
pub(super) fn kill(cx: &mut Context<'_>, functions: bool) -> Result<(), Error> {
    let threshold = cx.engine.config().snapshot().int(Directive::BUSY_REPLY_THRESHOLD);
    let threshold = u64::try_from(threshold).ok().filter(|threshold| *threshold > 0);
    let nanos = threshold.map_or(u64::MAX, |milliseconds| milliseconds.saturating_mul(1_000_000));
    let runs = cx.engine.scripts().lasting(cx.engine.host().nanos(), nanos);
    let Some(first) = runs.first() else {
        return Err(Error::NotBusy);
    };
    if runs.iter().all(|run| run.is_function() != functions) {
        return Err(busy_script::busy_error(first.is_function()));
    }
    let mut ended = false;
    for run in runs.iter().filter(|run| run.is_function() == functions) {
        ended |= run.kill();
    }
    if !ended {
        return Err(Error::Unkillable);
    }
    cx.reply.ok();
    Ok(())
}
