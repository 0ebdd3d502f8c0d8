//! FCALL, FCALL_RO, FUNCTION.

use super::convert;
use super::eval::{self, invoke, kill};
use super::flags::ScriptFlags;
use super::functions::{self, LOAD_TIMEOUT, Made};
use super::interpreter::Interpreter;
use super::run::{Call, Code};
use crate::args::Args;
use crate::cx::Cx;
use crate::help::HELP;
use crate::row::{ALLOW_BUSY, Command, DENY_OOM, Group, MAY_REPLICATE, NO_MANDATORY_KEYS, NO_SCRIPT, READONLY, ROW};
use crate::row::{SKIP_MONITOR, STALE, WRITE, key};
use engine::config::Directive;
use engine::glob;
use engine::scripts::{Libraries, Library, Running};
use engine::{Engine, Error};
use persistence::dump;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const FUNCTION: Command = Command { group: Group::Scripting, since: "7.0.0", ..ROW };

const FCALL: Command = Command {
    arity: -3,
    flags: NO_SCRIPT.and(SKIP_MONITOR).and(MAY_REPLICATE).and(NO_MANDATORY_KEYS).and(STALE),
    syntax: "function numkeys:int [key]... [arg]...",
    complexity: "Depends on the function that is executed.",
    ..FUNCTION
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "fcall",
        keys: &[key(2)
            .rw()
            .access()
            .update()
            .counted(0, 1, 1)
            .notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")],
        summary: "Invokes a function.",
        run: |cx, args| fcall(cx, args, false),
        ..FCALL
    },
    Command {
        name: "fcall_ro",
        flags: NO_SCRIPT.and(SKIP_MONITOR).and(NO_MANDATORY_KEYS).and(STALE).and(READONLY),
        keys: &[key(2)
            .ro()
            .access()
            .counted(0, 1, 1)
            .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")],
        summary: "Invokes a read-only function.",
        run: |cx, args| fcall(cx, args, true),
        ..FCALL
    },
    Command {
        name: "function",
        arity: -2,
        summary: "A container for function commands.",
        complexity: "Depends on subcommand.",
        subcommands: SUBCOMMANDS,
        ..FUNCTION
    },
];

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "delete",
        arity: 3,
        flags: NO_SCRIPT.and(WRITE),
        syntax: "library-name",
        summary: "Deletes a library and its functions.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: delete,
        ..FUNCTION
    },
    Command {
        name: "dump",
        arity: 2,
        flags: NO_SCRIPT,
        summary: "Dumps all libraries into a serialized binary payload.",
        complexity: "O(N) where N is the number of functions",
        run: dump,
        ..FUNCTION
    },
    Command {
        name: "flush",
        arity: -2,
        flags: NO_SCRIPT.and(WRITE),
        syntax: "[flush-type: ASYNC | SYNC]",
        summary: "Deletes all libraries and functions.",
        complexity: "O(N) where N is the number of functions deleted",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: flush,
        ..FUNCTION
    },
    Command { group: Group::Scripting, since: "7.0.0", ..HELP },
    Command {
        name: "kill",
        arity: 2,
        flags: NO_SCRIPT.and(ALLOW_BUSY),
        summary: "Terminates a function during execution.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        run: |cx, _| kill(cx, true),
        ..FUNCTION
    },
    Command {
        name: "list",
        arity: -2,
        flags: NO_SCRIPT,
        syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
        summary: "Returns information about all libraries.",
        complexity: "O(N) where N is the number of functions",
        tips: &["nondeterministic_output_order"],
        run: list,
        ..FUNCTION
    },
    Command {
        name: "load",
        arity: -3,
        flags: NO_SCRIPT.and(WRITE).and(DENY_OOM),
        syntax: "[REPLACE] function-code",
        summary: "Creates a library.",
        complexity: "O(1) (considering compilation time is redundant)",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: load,
        ..FUNCTION
    },
    Command {
        name: "restore",
        arity: -3,
        flags: NO_SCRIPT.and(WRITE).and(DENY_OOM),
        syntax: "serialized-value [policy: FLUSH | APPEND | REPLACE]",
        summary: "Restores all libraries from a payload.",
        complexity: "O(N) where N is the number of functions on the payload",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        run: restore,
        ..FUNCTION
    },
    Command {
        name: "stats",
        arity: 2,
        flags: NO_SCRIPT.and(ALLOW_BUSY),
        summary: "Returns information about a function during execution.",
        complexity: "O(1)",
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        run: stats,
        ..FUNCTION
    },
];

const NO_LIBRARY: Error = Error::text("ERR Library not found");

fn fcall(cx: &mut Cx<'_>, args: &mut Args<'_>, read_only: bool) -> Result<(), Error> {
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    let found = interpreter.functions.find(&interpreter, scripts, &args[1]);
    let found = found.and_then(|found| {
        let found = found.ok_or(Error::text("ERR Function not found"))?;
        Ok((found, key_count(args)?))
    });
    let (found, keys) = eval::shown_if_failed(cx, args, found)?;
    // A script may call it within itself if there is nothing that scripts may not call.
    let code = Code::Function { known: &found, lent: !scripts.allows_all() };
    let (name, flags) = (&found.name[..], found.flags);
    let call = Call { name, code, flags, read_only, command: args, is_debugged: false };
    invoke(cx, &interpreter, call, keys)
}

fn key_count(args: &Args<'_>) -> Result<usize, Error> {
    let count = args.int(2).map_err(|_| Error::text("ERR Bad number of keys provided"))?;
    if count > (args.len() - 3) as i64 {
        return Err(Error::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Error::text("ERR Number of keys can't be negative"))
}

fn exists(library: &[u8]) -> Error {
    Error::new([b"ERR Library '", library, b"' already exists"].concat())
}

/// Adds a library; fails when its name, or one of its functions' names in another library, is taken.
fn insert(libraries: &mut Libraries, library: Library, replace: bool) -> Result<(), Error> {
    if libraries.contains_key(&library.name) && !replace {
        return Err(exists(&library.name));
    }
    libraries.remove(&library.name);
    for function in &library.functions {
        let taken = |other: &Arc<Library>| other.functions.iter().any(|f| f.name.eq_ignore_ascii_case(&function.name));
        if libraries.values().any(taken) {
            return Err(Error::new([b"ERR Function ", &function.name[..], b" already exists"].concat()));
        }
    }
    libraries.insert(library.name.clone(), Arc::new(library));
    Ok(())
}

fn load(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let code = args.len() - 1;
    let mut replace = false;
    for index in 2..code {
        if !args.is(index, "replace") {
            return Err(Error::new([b"ERR Unknown option given: ", convert::up_to_nul(&args[index])].concat()));
        }
        replace = true;
    }
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    if !replace && let Ok(name) = functions::library_name(&args[code]) {
        // Before it runs.
        let taken = scripts.libraries().contains_key(&name[..]);
        if taken {
            return Err(exists(&name));
        }
    }
    let made = functions::make(&interpreter, scripts, &args[code], LOAD_TIMEOUT)?;
    let id = scripts.next_library_id();
    let library = made.library(&args[code], id);
    scripts.change_libraries(|libraries| insert(libraries, library, replace))?;
    cx.reply.bulk(&made.name);
    changed(cx);
    Ok(())
}

/// Adds a library that a file has. `replace`: in the place of what has its name. Its text may run for as long as it
/// takes.
pub(crate) fn load_library(engine: &Engine, code: &[u8], replace: bool) -> Result<(), Error> {
    let scripts = engine.scripts();
    let interpreter = Interpreter::passing(scripts)?;
    let made = functions::make(&interpreter, scripts, code, Duration::MAX);
    interpreter.retire(scripts);
    let library = made?.library(code, scripts.next_library_id());
    scripts.change_libraries(|libraries| insert(libraries, library, replace))
}

/// The change is counted, and goes into the log as the command that made it.
fn changed(cx: &mut Cx<'_>) {
    cx.keys.effects.dirty += 1;
    cx.engine.saves().elsewhere.fetch_add(1, Relaxed);
}

fn delete(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let removed = |libraries: &mut Libraries| libraries.remove(&args[2]).map(drop).ok_or(NO_LIBRARY);
    cx.engine.scripts().change_libraries(removed)?;
    cx.reply.ok();
    changed(cx);
    Ok(())
}

/// The subcommand is named as it was written.
fn wrong_arguments(args: &Args<'_>) -> Error {
    let name = convert::up_to_nul(&args[1]);
    Error::new([b"ERR unknown subcommand or wrong number of arguments for '", name, b"'. Try FUNCTION HELP."].concat())
}

fn flush(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(wrong_arguments(args));
    }
    if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
        return Err(Error::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    cx.engine.scripts().change_libraries(|libraries| {
        libraries.clear();
        Ok::<(), Error>(())
    })?;
    cx.reply.ok();
    changed(cx);
    Ok(())
}

fn list(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (mut pattern, mut with_code, mut index) = (None, false, 2);
    while index < args.len() {
        if !with_code && args.is(index, "withcode") {
            with_code = true;
        } else if pattern.is_none() && args.is(index, "libraryname") {
            index += 1;
            pattern = Some(args.get(index).ok_or(Error::text("ERR library name argument was not given"))?);
        } else {
            return Err(Error::new([b"ERR Unknown argument ", &args[index]].concat()));
        }
        index += 1;
    }
    let libraries = cx.engine.scripts().libraries();
    let wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, name));
    let shown: Vec<_> = libraries.values().filter(|library| wanted(&library.name)).collect();
    let reply = &mut *cx.reply;
    reply.array(shown.len());
    for library in shown {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(&library.name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"description");
            match &function.description {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            }
            reply.bulk(b"flags");
            let flags = ScriptFlags(function.flags);
            let names: Vec<_> = ScriptFlags::NAMES.iter().filter(|(flag, _)| flags.has(*flag)).collect();
            reply.set(names.len());
            names.iter().for_each(|(_, name)| reply.simple(name));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let scripts = cx.engine.scripts();
    let busy = scripts.busy();
    let running = busy.first();
    if let Some(script) = running.filter(|running| !running.is_function) {
        return Err(super::busy_error(script.is_function));
    }
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match running {
        None => cx.reply.null(),
        Some(running) => show_running(cx, running),
    }
    let libraries = scripts.libraries();
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.int(libraries.len() as i64);
    cx.reply.bulk(b"functions_count");
    cx.reply.int(libraries.values().map(|library| library.functions.len()).sum::<usize>() as i64);
    Ok(())
}

fn show_running(cx: &mut Cx<'_>, running: &Running) {
    let milliseconds = cx.engine.host().nanos().saturating_sub(running.began) / 1_000_000;
    cx.reply.map(3);
    cx.reply.bulk(b"name");
    cx.reply.bulk(&running.name);
    cx.reply.bulk(b"command");
    cx.reply.array(running.command.len());
    running.command.iter().for_each(|word| cx.reply.bulk(word));
    cx.reply.bulk(b"duration_ms");
    cx.reply.int(milliseconds as i64);
}

fn dump(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let libraries = cx.engine.scripts().libraries();
    let compress = cx.engine.config().snapshot().flag(Directive::RdbCompression);
    cx.reply.bulk(&dump::dump_functions(libraries.values().map(|library| &*library.code), compress));
    Ok(())
}

/// The texts of the libraries in a dump.
fn texts(engine: &Engine, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let relaxed = engine.config().snapshot().choice(Directive::RdbVersionCheck) == "relaxed";
    let payload = dump::verify(bytes, relaxed, engine.saves().skips_checksums())
        .ok_or(Error::text("ERR DUMP payload version or checksum are wrong"))?;
    match dump::restore_functions(payload) {
        Ok(Some(texts)) => Ok(texts),
        Ok(None) => Err(Error::text("ERR given type is not a function")),
        Err(_) => Err(Error::text("ERR Failed loading library data")),
    }
}

fn restore(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 4 {
        return Err(wrong_arguments(args));
    }
    let (mut replace, mut flush) = (false, false);
    if args.len() == 4 {
        (replace, flush) = (args.is(3, "replace"), args.is(3, "flush"));
        if !replace && !flush && !args.is(3, "append") {
            return Err(Error::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    }
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    let texts = texts(cx.engine, &args[2])?;
    let make = |code: &Vec<u8>| functions::make(&interpreter, scripts, code, LOAD_TIMEOUT);
    let made: Vec<Made> = texts.iter().map(make).collect::<Result<_, Error>>()?;
    scripts.change_libraries(|libraries| {
        if flush {
            libraries.clear();
        }
        let mut restored = Libraries::new();
        for (made, code) in made.iter().zip(&texts) {
            let library = made.library(code, scripts.next_library_id());
            insert(&mut restored, library, false)?;
        }
        if let Some(name) = restored.keys().find(|name| libraries.contains_key(*name) && !replace) {
            return Err(Error::new([b"ERR Library ", &name[..], b" already exists"].concat()));
        }
        restored.keys().for_each(|name| _ = libraries.remove(name));
        restored.into_values().try_for_each(|library| insert(libraries, Library::clone(&library), false))
    })?;
    cx.reply.ok();
    changed(cx);
    Ok(())
}
