//! FCALL, FCALL_RO, FUNCTION.

use super::current_run::LOAD_TIMEOUT;
use super::eval::{self, CALL, invoke, kill};
use super::flags::ScriptFlags;
use super::functions::{self, Made};
use super::interpreter::Interpreter;
use super::script_run::{Code, ScriptCall};
use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{
    ALLOW_BUSY, Command, DENY_OOM, Flags, Group, MAY_REPLICATE, NO_SCRIPT, READONLY, WRITE, key,
};
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::config::Directive;
use engine::keyspace::caller::ExecContext;
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::Keys;
use engine::scripts::function_libraries::{Libraries, Library, LibraryChange};
use engine::scripts::script_cache::Running;
use engine::time::UnixMs;
use engine::{Engine, Error, Word, glob};
use persistence::dump;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const FUNCTION: Command = Command { group: Group::Scripting, since: "7.0.0", lazy_free: None, ..Command::DEFAULT };

const FCALL: Command = Command {
    arity: -3,
    flags: CALL.and(MAY_REPLICATE),
    syntax: "function numkeys:int [key]... [arg]...",
    complexity: "Depends on the function that is executed.",
    flags_of_call: Some(flags_by_name),
    ..FUNCTION
};

/// Returns the flags of a call of a function.
fn flags_by_name(engine: &Engine, flags: Flags, args: &Args<'_>) -> Flags {
    let libraries = engine.scripts().libraries();
    let functions = libraries.with_function(&args[1]).map(|library| &library.functions);
    let found = functions.and_then(|known| known.iter().find(|function| function.name.eq_ignore_ascii_case(&args[1])));
    ScriptFlags::judge(found.map(|function| ScriptFlags(function.flags)), flags)
}

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
        flags: CALL.and(READONLY),
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
        routing: Routing::Everywhere(Merge::Alike),
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
        routing: Routing::Everywhere(Merge::Alike),
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
        takes_no_lock: true,
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
        routing: Routing::Everywhere(Merge::Alike),
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
        routing: Routing::Everywhere(Merge::Alike),
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
        takes_no_lock: true,
        run: stats,
        ..FUNCTION
    },
];

fn fcall(cx: &mut Context<'_>, args: &mut Args<'_>, read_only: bool) -> Result<(), Error> {
    let outcome = call(cx, args, read_only);
    // The reply describes the function, too.
    cx.keys.note_seen_libraries();
    outcome
}

fn call(cx: &mut Context<'_>, args: &mut Args<'_>, read_only: bool) -> Result<(), Error> {
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    let found = interpreter.functions.find(&interpreter, (scripts, cx.keys.libraries()), &args[1]);
    let found = found.and_then(|found| {
        let found = found.ok_or(Error::NoSuchFunction)?;
        Ok((found, key_count(args)?))
    });
    let (found, keys) = eval::shown_if_failed(cx, args, found)?;
    let code = Code::Function(&found);
    let (name, flags) = (&found.name[..], found.flags);
    let call = ScriptCall { name, code, flags, read_only, command: args, is_debugged: false };
    invoke(cx, &interpreter, call, keys)
}

fn key_count(args: &Args<'_>) -> Result<usize, Error> {
    let count = args.int(2).map_err(|_| Error::FunctionKeyCount)?;
    if count > (args.len() - 3) as i64 {
        return Err(Error::MoreKeysThanArguments);
    }
    usize::try_from(count).map_err(|_| Error::NegativeKeyCount)
}

fn exists(library: &[u8]) -> Error {
    Error::LibraryExists(Word::of(library))
}

/// Returns the change that adds these; fails when the name of one of their functions belongs to a library that stays.
fn put(libraries: &Libraries, added: Vec<Library>) -> Result<LibraryChange, Error> {
    let stays = |name: &[u8]| added.iter().all(|library| *library.name != *name);
    for function in added.iter().flat_map(|library| &library.functions) {
        if libraries.with_function(&function.name).is_some_and(|owner| stays(&owner.name)) {
            return Err(function_exists(&function.name));
        }
    }
    Ok(LibraryChange { add: added.into_iter().map(Arc::new).collect(), ..LibraryChange::default() })
}

fn function_exists(name: &[u8]) -> Error {
    Error::FunctionExists(Word::of(name))
}

/// Returns the change that adds one library.
fn put_one(libraries: &Libraries, library: Library, replace: bool) -> Result<LibraryChange, Error> {
    if libraries.contains(&library.name) && !replace {
        return Err(exists(&library.name));
    }
    put(libraries, vec![library])
}

fn load(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let code = args.len() - 1;
    let mut replace = false;
    for index in 2..code {
        if !args.is(index, "replace") {
            return Err(Error::FunctionLoadOption(Word::up_to_nul(&args[index])));
        }
        replace = true;
    }
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    if !replace && let Ok(name) = functions::library_name(&args[code]) {
        // Before it runs.
        let taken = cx.keys.libraries().all().contains(&name);
        if taken {
            return Err(exists(&name));
        }
    }
    let made = functions::make(&interpreter, scripts, &args[code], LOAD_TIMEOUT)?;
    let id = scripts.next_library_id();
    let library = made.library(&args[code], id);
    cx.keys.change_libraries(|libraries| put_one(libraries, library, replace))?;
    cx.reply.bulk(&made.name);
    Ok(())
}

/// Adds the libraries of a file; one interpreter makes all of them.
pub(crate) struct FromFile<'e> {
    engine: &'e Engine,
    /// Libraries that receive them, if not those that clients call.
    beside: Option<&'e RefCell<Libraries>>,
    interpreter: Option<Interpreter>,
}

impl<'e> FromFile<'e> {
    pub fn new(engine: &'e Engine, beside: Option<&'e RefCell<Libraries>>) -> Self {
        FromFile { engine, beside, interpreter: None }
    }

    /// Adds a library. `replace`: it replaces the library of its name. Its text may run for as long as it takes.
    pub fn add(&mut self, code: &[u8], replace: bool) -> Result<(), Error> {
        let scripts = self.engine.scripts();
        if self.interpreter.is_none() {
            self.interpreter = Some(Interpreter::passing(scripts)?);
        }
        let Some(interpreter) = &self.interpreter else { return Ok(()) };
        let made = functions::make(interpreter, scripts, code, Duration::MAX)?;
        let library = made.library(code, scripts.next_library_id());
        if let Some(beside) = self.beside {
            let mut libraries = beside.borrow_mut();
            let change = put_one(&libraries, library, replace)?;
            libraries.apply(change);
            return Ok(());
        }
        let held = HeldLocks::Anything(Box::new(self.engine.locks().escalated()));
        let mut keys = Keys::new(self.engine, held, 0, ExecContext::client(UnixMs(0)));
        let result = keys.change_libraries(|libraries| put_one(libraries, library, replace));
        keys.unlock();
        result
    }
}

impl Drop for FromFile<'_> {
    fn drop(&mut self) {
        if let Some(interpreter) = self.interpreter.take() {
            interpreter.retire(self.engine.scripts());
        }
    }
}

fn delete(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.change_libraries(|libraries| match libraries.contains(&args[2]) {
        true => Ok(LibraryChange { remove: Some(args[2].into()), ..LibraryChange::default() }),
        false => Err(Error::NoSuchLibrary),
    })?;
    cx.reply.ok();
    Ok(())
}

/// Returns the error with the subcommand as it was written.
fn wrong_arguments(args: &Args<'_>) -> Error {
    Error::SubcommandUse(Word::up_to_nul(&args[1]), "FUNCTION")
}

fn flush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(wrong_arguments(args));
    }
    if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
        return Err(Error::FunctionFlush);
    }
    let lazy = match args.get(2) {
        Some(_) => args.is(2, "async"),
        None => cx.engine.config().snapshot().flag(Directive::LAZYFREE_LAZY_USER_FLUSH),
    };
    let before = cx.keys.libraries().all();
    cx.keys.change_libraries(|_| Ok(LibraryChange { clear: true, ..LibraryChange::default() }))?;
    if lazy {
        cx.keys.effects.discard_libraries(before);
    }
    cx.reply.ok();
    Ok(())
}

fn list(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (mut pattern, mut with_code, mut index) = (None, false, 2);
    while index < args.len() {
        if !with_code && args.is(index, "withcode") {
            with_code = true;
        } else if pattern.is_none() && args.is(index, "libraryname") {
            index += 1;
            pattern = Some(args.get(index).ok_or(Error::FunctionListNoName)?);
        } else {
            return Err(Error::FunctionListArgument(Word::of(&args[index])));
        }
        index += 1;
    }
    let libraries = cx.keys.libraries().all();
    let wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches_ignoring_case(pattern, name));
    let shown: Vec<_> = libraries.iter().filter(|library| wanted(&library.name)).collect();
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

fn stats(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let scripts = cx.engine.scripts();
    let busy = scripts.busy();
    let running = busy.first();
    if let Some(script) = running.filter(|running| !running.run.is_function()) {
        return Err(busy_script::busy_error(script.run.is_function()));
    }
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match running {
        None => cx.reply.null(),
        Some(running) => show_running(cx, running),
    }
    let libraries = cx.keys.libraries().all();
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.int(libraries.len() as i64);
    cx.reply.bulk(b"functions_count");
    cx.reply.int(libraries.iter().map(|library| library.functions.len()).sum::<usize>() as i64);
    Ok(())
}

fn show_running(cx: &mut Context<'_>, running: &Running) {
    let milliseconds = cx.engine.host().nanos().since(running.run.began()) / 1_000_000;
    cx.reply.map(3);
    cx.reply.bulk(b"name");
    cx.reply.bulk(&running.name);
    cx.reply.bulk(b"command");
    cx.reply.array(running.command.len());
    running.command.iter().for_each(|word| cx.reply.bulk(word));
    cx.reply.bulk(b"duration_ms");
    cx.reply.int(milliseconds as i64);
}

fn dump(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let libraries = cx.keys.libraries().all();
    let compress = cx.engine.config().snapshot().flag(Directive::RDBCOMPRESSION);
    cx.reply.bulk(&dump::dump_functions(libraries.iter().map(|library| &*library.code), compress));
    Ok(())
}

/// Returns the texts of the libraries in a dump.
fn texts(engine: &Engine, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let relaxed = engine.config().snapshot().choice(Directive::RDB_VERSION_CHECK) == "relaxed";
    let payload =
        dump::verify(bytes, relaxed, engine.persistence_status().skips_checksums()).ok_or(Error::BadPayload)?;
    match dump::restore_functions(payload) {
        Ok(Some(texts)) => Ok(texts),
        Ok(None) => Err(Error::FunctionRestoreType),
        Err(_) => Err(Error::FunctionRestoreData),
    }
}

fn restore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 4 {
        return Err(wrong_arguments(args));
    }
    let (mut replace, mut flush) = (false, false);
    if args.len() == 4 {
        (replace, flush) = (args.is(3, "replace"), args.is(3, "flush"));
        if !replace && !flush && !args.is(3, "append") {
            return Err(Error::FunctionRestorePolicy);
        }
    }
    let scripts = cx.engine.scripts();
    let interpreter = Interpreter::current(scripts)?;
    let texts = texts(cx.engine, &args[2])?;
    let make = |code: &Vec<u8>| functions::make(&interpreter, scripts, code, LOAD_TIMEOUT);
    let made: Vec<Made> = texts.iter().map(make).collect::<Result<_, Error>>()?;
    let mut restored: Vec<Library> = Vec::with_capacity(made.len());
    let (mut names, mut functions) = (HashSet::new(), HashSet::new());
    for (made, code) in made.iter().zip(&texts) {
        let library = made.library(code, scripts.next_library_id());
        if !names.insert(library.name.clone()) {
            return Err(exists(&library.name));
        }
        if let Some(twin) = library.functions.iter().find(|f| !functions.insert(f.name.to_ascii_lowercase())) {
            return Err(function_exists(&twin.name));
        }
        restored.push(library);
    }
    cx.keys.change_libraries(|libraries| {
        if flush {
            return Ok(LibraryChange { clear: true, ..put(&Libraries::default(), restored)? });
        }
        if let Some(library) = restored.iter().find(|library| libraries.contains(&library.name) && !replace) {
            return Err(Error::LibraryExistsOnRestore(Word::of(&library.name)));
        }
        put(libraries, restored)
    })?;
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use resp::reply_value::Value;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};

    const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";

    #[test]
    fn a_change_is_in_the_log_before_others_see_it() {
        let mut client = Client::new();
        let _log = client.log();
        let asked = Arc::new(AtomicU64::new(0));
        let (other, count) = (Mutex::new(client.beside()), Arc::clone(&asked));
        client.engine().change_log().watch(move || {
            // Another worker.
            let ask = || other.lock().expect("no other test").run("FUNCTION LIST");
            let told = std::thread::scope(|scope| scope.spawn(ask).join().expect("a reply"));
            assert_eq!(told != "[]", [false, true, false][count.fetch_add(1, Relaxed) as usize], "{told}");
        });
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
        client.is("FCALL f 1 k", ":1").is("MULTI", "+OK").is("FUNCTION DELETE lib", "+QUEUED");
        client.is("FCALL f 1 k", "+QUEUED").is("FUNCTION LIST", "+QUEUED");
        client.is("EXEC", "[+OK -ERR Function not found []]").is("FCALL f 1 k", "-ERR Function not found");
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
        assert_eq!(asked.load(Relaxed), 3);
    }

    #[test]
    fn a_change_is_in_the_log_before_the_next_can_be_made() {
        let mut client = Client::new();
        let (engine, appended) = (Arc::downgrade(client.shared_engine()), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&appended);
        client.engine().change_log().watch(move || {
            let engine = engine.upgrade().expect("the engine");
            assert!(engine.locks().claim().is_none(), "another change can come in between");
            count.fetch_add(1, Relaxed);
        });
        let _log = client.log();
        let empty = client.value("FUNCTION DUMP");
        let Value::Bulk(dump) = empty else { panic!("{empty:?}") };
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", LIBRARY]), "lib");
        client.is("FUNCTION DELETE lib", "+OK").is("FUNCTION FLUSH", "+OK");
        let restored = client.value_of([&b"FUNCTION"[..], b"RESTORE", &dump].into_iter().collect());
        assert_eq!(restored, Value::Simple(b"OK".to_vec()));
        assert_eq!(appended.load(Relaxed), 4);
        client.is("MULTI", "+OK").is("FUNCTION FLUSH", "+QUEUED").is("EXEC", "[+OK]");
        assert_eq!(appended.load(Relaxed), 5);
    }

    #[test]
    fn names_of_functions_are_taken_by_libraries_that_stay() {
        let mut client = Client::new();
        let mut load = |words: &[&str]| client.run_words(&[&["FUNCTION", "LOAD"], words].concat());
        assert_eq!(load(&[LIBRARY]), "lib");
        assert_eq!(load(&[LIBRARY]), "-ERR Library 'lib' already exists");
        assert_eq!(load(&["REPLACE", LIBRARY]), "lib");
        assert_eq!(load(&[&LIBRARY.replace("lib", "other").replace("'f'", "'F'")]), "-ERR Function F already exists");
        client.is("FUNCTION DELETE other", "-ERR Library not found").is("FCALL f 0", ":1");
    }
}
