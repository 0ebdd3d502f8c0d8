//! A worker's interpreter: Lua in its sandbox, and the code that was compiled in it.
//!
//! The interpreter belongs to its thread and is made by the first script there. SCRIPT FLUSH makes every worker drop
//! its interpreter before the next script, which frees its memory too.

use super::call_buffers::Buffers;
use super::current_run::{RUN, Reach};
use super::failure::Failed;
use super::flags::ScriptFlags;
use super::kept_functions::{Kept, KeptFunctions};
use super::lua_memory::{self, LuaMemory, Side, in_lua, native, room_for};
use super::{api, declared_keys, failure, functions, looks, lua_host, lua_libraries, math_random};
use crate::core::args::Args;
use engine::config::{ConfigStore, Directive};
use engine::scripts::run_slot::RunSlot;
use engine::scripts::script_cache::{Script, Scripts, Sha};
use engine::time::Nanos;
use engine::{Error, Word};
use foldhash::fast::FixedState;
use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
#[cfg(feature = "shuttle")]
use shuttle::thread_local;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

/// Number of newly compiled scripts after which the interpreter drops those that the engine has evicted.
const SPARE: usize = 200;
/// More than a new interpreter takes.
const NEW: usize = 1 << 20;
/// Bytes that a word takes in a table besides its own.
const WORD: usize = 64;
/// How far the interpreter's size may change before it is reported.
const REPORT_STEP: usize = 16 << 10;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Interpreter>>> = const { RefCell::new(None) };
}

/// Index of the first key or argument in the command that calls a script.
const FIRST_WORD: usize = 3;
/// Words for which tables have room from the beginning.
const FEW: usize = 3;
/// Tables that had more words than this are not kept.
const WORDS_KEPT: usize = 100;

/// A script's keys and arguments.
pub(super) struct ScriptArgs<'a> {
    /// Command that calls it.
    pub args: &'a Args<'a>,
    /// Number of its words that are keys.
    pub keys: usize,
}

/// A script that is compiled here.
pub(super) struct Compiled {
    pub script: Arc<Script>,
    pub function: Kept,
    pub reach: Cell<Reach>,
}

/// Tables in which scripts find their keys and arguments, one after the other.
struct Tables {
    keys: Table,
    args: Table,
    /// Number of words that they have been given; a script may have put anything there since.
    given: Cell<usize>,
}

/// Kind of code whose globals the sandbox has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Globals {
    Unset,
    Scripts,
    Functions,
}

pub(super) struct Interpreter {
    pub lua: Lua,
    /// Generation of its scripts: [`Scripts::generation`].
    generation: u64,
    globals: Cell<Globals>,
    for_scripts: Table,
    for_functions: Table,
    /// Puts the keys and arguments of scripts into the tables where scripts find them.
    set_words: Function,
    /// Calls a function and, when it fails, calls `note` while the function's stack is there.
    run: Function,
    note: Function,
    words: RefCell<Tables>,
    begin_load: Function,
    end_load: Function,
    why_not: Function,
    by_text: RefCell<HashMap<u64, Rc<Compiled>>>,
    by_sha: RefCell<HashMap<Sha, Rc<Compiled>>>,
    pub functions: functions::LoadedLibraries,
    /// The functions of scripts and libraries.
    pub kept: Rc<KeptFunctions>,
    /// Runs of this thread, as others see them.
    pub runs: Arc<RunSlot>,
    /// Version of the configuration that its limit of memory is from.
    configured: Cell<u64>,
    limit: Cell<usize>,
    pub buffers: Cell<Option<Box<Buffers>>>,
    reported: Cell<usize>,
    memory: LuaMemory,
}

/// Outcome of a run: a value, or an error.
pub(super) type Outcome = Result<Value, Failed>;

impl Interpreter {
    /// Returns this thread's interpreter for these scripts.
    pub fn current(scripts: &Scripts) -> Result<Rc<Interpreter>, Error> {
        CURRENT.with(|current| {
            let mut current = current.borrow_mut();
            if let Some(interpreter) = current.as_ref().filter(|known| known.generation == scripts.generation()) {
                return Ok(Rc::clone(interpreter));
            }
            if let Some(old) = current.take() {
                old.retire(scripts);
            }
            let made = Interpreter::passing(scripts)?;
            Ok(Rc::clone(current.insert(Rc::new(made))))
        })
    }

    /// Returns the flags of a script that this thread has compiled.
    pub fn flags_of(scripts: &Scripts, sha: &Sha) -> Option<u32> {
        CURRENT.with(|current| {
            let current = current.borrow();
            let current = current.as_ref().filter(|known| known.generation == scripts.generation())?;
            let by_sha = current.by_sha.borrow();
            by_sha.get(sha).map(|known| &known.script).filter(|script| !script.is_gone()).map(|script| script.flags)
        })
    }

    /// Drops this thread's interpreter if its scripts have been flushed.
    pub fn forget_flushed(scripts: &Scripts) {
        CURRENT.with(|current| {
            current.borrow_mut().take_if(|known| known.generation != scripts.generation());
        });
    }

    /// Returns an interpreter for a moment, on any thread. The caller [retires](Interpreter::retire) it in the end.
    pub fn passing(scripts: &Scripts) -> Result<Interpreter, Error> {
        Interpreter::new(scripts).map_err(|_| Error::NoInterpreter)
    }

    /// Stops counting its memory.
    pub fn retire(&self, scripts: &Scripts) {
        scripts.note_interpreter(self.generation, self.reported.take(), 0);
    }

    fn new(scripts: &Scripts) -> mlua::Result<Interpreter> {
        room_for(NEW)?;
        let libs = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = fresh(libs)?;
        looks::note_calls(&lua)?;
        let natives = lua.create_table()?;
        lua_host::take_errors(&lua, &native(&lua, failure::raised)?)?;
        let note = native(&lua, lua_host::note)?;
        natives.raw_set("protect", native(&lua, |lua, table| lua_host::set_readonly(lua, &table, true))?)?;
        natives.raw_set("open", native(&lua, |lua, table| lua_host::set_readonly(lua, &table, false))?)?;
        natives.raw_set("missing", native(&lua, lua_host::missing)?)?;
        natives.raw_set("error_handler", native(&lua, lua_host::handle)?)?;
        natives.raw_set("api", api::for_scripts(&lua)?)?;
        natives.raw_set("function_api", api::for_functions(&lua)?)?;
        natives.raw_set("libraries", lua_libraries::all(&lua)?)?;
        natives.raw_set("registration", functions::registration(&lua)?)?;
        natives.raw_set("insecure_api", scripts.has_insecure_api())?;
        math_random::add(&lua, &natives)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
        let runner: Table = in_lua(|| sandbox.call(natives))?;
        watch(&lua)?;
        lua.gc_collect()?;
        let interpreter = Interpreter {
            globals: Cell::new(Globals::Unset),
            for_scripts: runner.raw_get("for_scripts")?,
            for_functions: runner.raw_get("for_functions")?,
            set_words: runner.raw_get("set_words")?,
            run: lua_host::runner(&lua)?,
            note,
            words: RefCell::new(Tables::new(&lua)?),
            begin_load: runner.raw_get("begin_load")?,
            end_load: runner.raw_get("end_load")?,
            why_not: runner.raw_get("why_not")?,
            generation: scripts.generation(),
            by_text: RefCell::default(),
            by_sha: RefCell::default(),
            functions: functions::LoadedLibraries::default(),
            kept: Rc::new(KeptFunctions::new(&lua)?),
            runs: scripts.new_run_slot(),
            configured: Cell::new(0),
            limit: Cell::new(0),
            buffers: Cell::default(),
            reported: Cell::new(0),
            memory: LuaMemory::of(&lua)?,
            lua,
        };
        interpreter.report(scripts);
        Ok(interpreter)
    }

    /// Reports now and then how much memory it takes.
    fn report(&self, scripts: &Scripts) {
        let (reported, now) = (self.reported.get(), self.lua.used_memory());
        if reported.abs_diff(now) >= REPORT_STEP {
            scripts.note_interpreter(self.generation, reported, now);
            self.reported.set(now);
        }
    }

    /// Returns the script with this text.
    pub fn script(&self, scripts: &Scripts, text: &[u8], now: Nanos) -> Result<Rc<Compiled>, Error> {
        let hash = FixedState::default().hash_one(text);
        if let Some(known) = self.by_text.borrow().get(&hash)
            && *known.script.text == *text
            && !known.script.is_gone()
        {
            scripts.touch(&known.script, now);
            return Ok(Rc::clone(known));
        }
        let compiled = self.add(scripts, api::hex(text), text, false, now)?;
        self.by_text.borrow_mut().insert(hash, Rc::clone(&compiled));
        Ok(compiled)
    }

    /// Returns the script with this SHA, if any worker knows it.
    pub fn script_by_sha(&self, scripts: &Scripts, sha: &Sha, now: Nanos) -> Result<Option<Rc<Compiled>>, Error> {
        if let Some(known) = self.by_sha.borrow().get(sha).filter(|known| !known.script.is_gone()) {
            scripts.touch(&known.script, now);
            return Ok(Some(Rc::clone(known)));
        }
        let Some(script) = scripts.find(sha, now) else { return Ok(None) };
        self.keep(script).map(Some)
    }

    /// Compiles a script and adds it to those that all workers know.
    pub fn add(
        &self,
        scripts: &Scripts,
        sha: Sha,
        text: &[u8],
        pinned: bool,
        now: Nanos,
    ) -> Result<Rc<Compiled>, Error> {
        let known = self.by_sha.borrow().get(&sha).filter(|known| !known.script.is_gone()).cloned();
        if let Some(known) = known {
            scripts.add(sha, text, known.script.flags, pinned, now);
            scripts.touch(&known.script, now);
            return Ok(known);
        }
        let flags = ScriptFlags::of_script(text)?;
        let function = self.compile_script(text).map_err(|error| Error::ScriptNotCompiled(Word::of(error)))?;
        let script = scripts.add(sha, text, flags.0, pinned, now);
        self.remember(script, &function)
    }

    fn keep(&self, script: Arc<Script>) -> Result<Rc<Compiled>, Error> {
        let function = self.compile_script(&script.text).map_err(|error| Error::Verbatim(Word::of(error)))?;
        self.remember(script, &function)
    }

    fn remember(&self, script: Arc<Script>, function: &Function) -> Result<Rc<Compiled>, Error> {
        let function = self.kept.keep(function).map_err(|_| Error::NoInterpreter)?;
        let reach = Cell::new(declared_keys::reach_of_script(&script.text));
        let compiled = Rc::new(Compiled { script, function, reach });
        let mut by_sha = self.by_sha.borrow_mut();
        by_sha.insert(compiled.script.sha, Rc::clone(&compiled));
        if by_sha.len().is_multiple_of(SPARE) {
            by_sha.retain(|_, known| !known.script.is_gone());
            self.by_text.borrow_mut().retain(|_, known| !known.script.is_gone());
        }
        Ok(compiled)
    }

    fn compile_script(&self, text: &[u8]) -> Result<Function, Vec<u8>> {
        self.compile(text, "@user_script", &self.for_scripts)
    }

    /// Compiles the text of a library.
    pub fn compile_library(&self, text: &[u8]) -> Result<Function, Vec<u8>> {
        self.compile(text, "@user_function", &self.for_functions)
    }

    /// Compiles a text. A first line that names an engine is none of Lua's; the line stays, so that numbers of lines
    /// are right.
    fn compile(&self, text: &[u8], name: &str, globals: &Table) -> Result<Function, Vec<u8>> {
        let text = match text.starts_with(b"#!") {
            true => &text[text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len())..],
            false => text,
        };
        room_for(text.len().saturating_mul(2)).map_err(|_| lua_memory::NOT_ENOUGH.as_bytes().to_vec())?;
        let chunk = self.lua.load(text).set_name(name).set_mode(ChunkMode::Text).set_environment(globals.clone());
        let chunk = in_lua(|| chunk.into_function());
        chunk.map_err(|error| match error {
            // The message is in the script's own bytes, which the binding's error does not have.
            mlua::Error::SyntaxError { message, .. } => {
                let why = match (self.lua.create_string(text), self.lua.create_string(name)) {
                    (Ok(text), Ok(name)) => in_lua(|| self.why_not.call::<LuaString>((text, name))),
                    (Err(error), _) | (_, Err(error)) => Err(error),
                };
                why.map_or(message.into_bytes(), |why| why.as_bytes().to_vec())
            }
            other => other.to_string().into_bytes(),
        })
    }

    /// Runs a script with its keys, which are the first of `words`, and its arguments as globals.
    pub fn run_script(&self, scripts: &Scripts, script: &Compiled, words: &ScriptArgs<'_>) -> mlua::Result<Outcome> {
        if self.words.borrow().given.get() > WORDS_KEPT {
            self.words.replace(Tables::new(&self.lua)?);
            self.globals.set(Globals::Unset);
        }
        let tables = self.words.borrow();
        if self.globals.get() != Globals::Scripts {
            in_lua(|| self.set_words.call::<()>((&tables.keys, &tables.args)))?;
            self.lua.set_globals(self.for_scripts.clone())?;
            self.globals.set(Globals::Scripts);
        }
        tables.fill(&self.lua, words)?;
        let function = self.kept.get(&script.function)?;
        let outcome = in_lua(|| self.run.call((&self.note, function)));
        drop(tables);
        self.end(scripts, outcome)
    }

    /// Calls a function of a library with its keys and arguments, in tables that it may keep.
    pub fn run_function(&self, scripts: &Scripts, function: &Kept, words: &ScriptArgs<'_>) -> mlua::Result<Outcome> {
        self.see_functions()?;
        let (keys, args) = words.split();
        let words = (&self.note, self.kept.get(function)?, self.strings(keys)?, self.strings(args)?);
        let outcome = in_lua(|| self.run.call(words));
        self.end(scripts, outcome)
    }

    /// Runs the text of a library, which registers its functions.
    pub fn run_library(&self, scripts: &Scripts, function: &Function) -> mlua::Result<Outcome> {
        self.see_functions()?;
        in_lua(|| self.begin_load.call::<()>(()))?;
        let outcome = in_lua(|| self.run.call((&self.note, function)));
        in_lua(|| self.end_load.call::<()>(()))?;
        self.end(scripts, outcome)
    }

    /// Sets the globals of functions.
    fn see_functions(&self) -> mlua::Result<()> {
        if self.globals.get() != Globals::Functions {
            self.lua.set_globals(self.for_functions.clone())?;
            self.globals.set(Globals::Functions);
        }
        Ok(())
    }

    fn end(&self, scripts: &Scripts, outcome: mlua::Result<(bool, Value)>) -> mlua::Result<Outcome> {
        // Garbage of this script must not make the next one fail.
        let limit = self.limit.get();
        if lua_memory::take_refused() || limit > 0 && self.lua.used_memory() > limit / 2 {
            self.memory.collect()?;
            // The call of the collector may have been short of memory.
            lua_memory::end_shortage();
        }
        self.report(scripts);
        let (ok, value) = outcome?;
        if ok {
            failure::note_place(None);
            return Ok(Ok(value));
        }
        Ok(Err(failure::failed(&self.lua, value)?))
    }

    fn strings<'a>(&self, words: impl ExactSizeIterator<Item = &'a [u8]>) -> mlua::Result<Table> {
        room_for(words.len() * WORD)?;
        let table = self.lua.create_table_with_capacity(words.len(), 0)?;
        put(&self.lua, &table, words)?;
        Ok(table)
    }

    /// Restores what [`watch`] changed to end a script.
    pub fn calm(&self) -> mlua::Result<()> {
        watch(&self.lua)
    }

    /// Follows `lua-memory-limit`: the maximum of bytes for all of its scripts; 0 is no limit.
    pub fn limit_memory(&self, config: &ConfigStore) -> mlua::Result<()> {
        let generation = config.generation();
        if self.configured.get() == generation {
            return Ok(());
        }
        let limit = config.snapshot().int(Directive::LUA_MEMORY_LIMIT).max(0) as usize;
        if self.limit.get() != limit {
            self.memory.set_limit(limit)?;
        }
        self.limit.set(limit);
        self.configured.set(generation);
        Ok(())
    }
}

impl<'a> ScriptArgs<'a> {
    fn len(&self) -> usize {
        self.args.len() - FIRST_WORD
    }

    /// Returns the keys, and the arguments.
    fn split(&self) -> (impl ExactSizeIterator<Item = &'a [u8]>, impl ExactSizeIterator<Item = &'a [u8]>) {
        (self.args.from(FIRST_WORD).take(self.keys), self.args.from(FIRST_WORD + self.keys))
    }
}

impl Tables {
    fn new(lua: &Lua) -> mlua::Result<Tables> {
        let table = || lua.create_table_with_capacity(FEW, 0);
        Ok(Tables { keys: table()?, args: table()?, given: Cell::new(0) })
    }

    #[inline(never)]
    fn clear(&self) -> mlua::Result<()> {
        for table in [&self.keys, &self.args] {
            table.set_metatable(None)?;
            table.clear()?;
        }
        Ok(())
    }

    fn fill(&self, lua: &Lua, words: &ScriptArgs<'_>) -> mlua::Result<()> {
        self.clear()?;
        room_for(words.len() * WORD)?;
        let (keys, args) = words.split();
        put(lua, &self.keys, keys)?;
        put(lua, &self.args, args)?;
        self.given.set(words.len());
        Ok(())
    }
}

/// Puts words into an empty table. A word in UTF-8 goes to Lua directly.
fn put<'a>(lua: &Lua, table: &Table, words: impl Iterator<Item = &'a [u8]>) -> mlua::Result<()> {
    for (index, word) in words.enumerate() {
        room_for(word.len())?;
        match std::str::from_utf8(word) {
            Ok(text) => table.raw_set(index + 1, text)?,
            Err(_) => table.raw_set(index + 1, lua.create_string(word)?)?,
        }
    }
    Ok(())
}

/// Size of the memory at which garbage is collected, in percent of its size after the last collection, and speed of the
/// collector, in percent of allocation: living data is small, and there are as many interpreters as workers.
const COLLECT_AT: i32 = 130;
const COLLECT_SPEED: i32 = 500;

/// Panics of natives are not caught by scripts: functions that catch errors raise them again ([`lua_host`]).
fn fresh(libs: StdLib) -> mlua::Result<Lua> {
    let lua = Lua::new_with(libs, LuaOptions::new())?;
    let params = GcIncParams::default().pause(COLLECT_AT).step_multiplier(COLLECT_SPEED);
    lua.gc_set_mode(GcMode::Incremental(params));
    Ok(lua)
}

/// Makes the run look at the clock now and then.
fn watch(lua: &Lua) -> mlua::Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(looks::EVERY), |lua, _| check_and_pace(lua))
}

fn check_and_pace(lua: &Lua) -> mlua::Result<VmState> {
    let _side = Side::rust();
    match check_time() {
        Ok(nanos) => looks::set_pace(lua, nanos),
        Err(error) => {
            // A script that catches the error gets the next one at once.
            lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                let _side = Side::rust();
                check_time().map(|_| VmState::Continue)
            })?;
            return Err(error);
        }
    }
    Ok(VmState::Continue)
}

/// Looks, and returns the nanoseconds since the last look.
fn check_time() -> mlua::Result<u64> {
    if RUN.is_set() { RUN.with(|run| run.check_time()) } else { functions::check_time().map(|()| 0) }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_script_finds_nothing_of_the_one_before() {
        let mut client = Client::new();
        let mut eval = |script: &str, words: &str| {
            client.run_words(&["EVAL", script].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
        };
        let show = "return {#KEYS, #ARGV, KEYS.x or 0, ARGV[3] or 0, getmetatable(KEYS) and 1 or 0, KEYS[1] or 0}";
        for change in [
            "KEYS.x = 7 ARGV[3] = 7 return #KEYS",
            "KEYS[1] = nil KEYS.x = 7 KEYS.y = 7 return 0",
            "setmetatable(KEYS, {}) setmetatable(ARGV, {}) KEYS.x = 7 return 1",
            "for i = 1, 100 do KEYS[i] = i ARGV[i] = i end error('x')",
        ] {
            for words in ["1 k", "1 k a", "2 k l m", "0", "0 a b c", "3 k l m", "1 k a b c d e"] {
                eval(change, words);
                assert_eq!(eval(show, "0"), "[:0 :0 :0 :0 :0 :0]", "{change} {words}");
                eval(change, words);
                assert_eq!(eval(show, "1 k a"), "[:1 :1 :0 :0 :0 k]", "{change} {words}");
                eval(change, words);
                assert_eq!(eval(show, "2 k l a b c"), "[:2 :3 :0 c :0 k]", "{change} {words}");
            }
        }
    }

    #[test]
    fn an_error_of_a_native_that_a_native_calls_has_the_place_of_natives() {
        let shown = "-ERR Script attempted to access nonexistent global variable 'err' script: on =[C]:-1.";
        for script in ["return pcall(error, _G)", "pcall(function() error(_G) end) return 1"] {
            assert_eq!(Client::new().run_words(&["EVAL", script, "0"]), shown, "{script}");
        }
    }

    #[test]
    fn insecure_functions_show_scripts_and_not_the_sandbox() {
        let mut client = Client::new();
        let no_such = |name: &str| {
            format!(
                "-ERR user_script:1: Script attempted to access nonexistent global variable '{name}' script: on @user_script:1."
            )
        };
        assert_eq!(client.run_words(&["EVAL", "return getfenv()", "0"]), no_such("getfenv"));
        client.engine().scripts().set_insecure_api(true);
        let kept = "-ERR user_script:1: 'setfenv' cannot change environment of given object script: on @user_script:1.";
        for (script, shown) in [
            ("return getfenv()", "[]"),
            ("return {getfenv() == _G, getfenv(1) == _G, getfenv('1') == _G, getfenv(pcall) == _G}", "[:1 :1 :1 :1]"),
            ("return {getfenv(load) == _G, getfenv(getfenv) == _G, getfenv(load).os.execute == nil}", "[:1 :1 :1]"),
            (
                "for level = 0, 9 do local ok, env = pcall(getfenv, level) if ok and env ~= _G then return level end end",
                "nil",
            ),
            ("setfenv(1, {x = 7}) return x", ":7"),
            ("local function f() return y end setfenv(f, {y = 8}) return f()", ":8"),
            ("setfenv(pcall, {}) return 1", kept),
            ("setfenv(0, {}) return 1", kept),
            ("return type(newproxy())", "userdata"),
            (
                "local proxy = newproxy(true) return proxy",
                "-ERR user_script:1: newproxy gives no metatable here script: on @user_script:1.",
            ),
        ] {
            assert_eq!(client.run_words(&["EVAL", script, "0"]), shown, "{script}");
        }
        client.engine().scripts().set_insecure_api(false);
        assert_eq!(client.run_words(&["EVAL", "return newproxy()", "0"]), no_such("newproxy"));
    }

    #[test]
    fn a_command_with_as_many_arguments_as_the_stack_holds_has_one_reply() {
        let script = "local a = {} for i = 1, 7999 do a[i] = 1 end return redis.call('LPUSH', KEYS[1], unpack(a))";
        let library = format!("#!lua name=l\nserver.register_function('f', function(KEYS) {script} end)");
        let mut client = Client::new();
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", &library]), "l");
        for words in [&["EVAL", script, "1", "k"][..], &["FCALL", "f", "1", "l"]] {
            assert_eq!(client.run_words(words), ":7999");
            client.is("PING", "+PONG");
        }
    }

    #[test]
    fn bounds_of_unpack_may_be_any_numbers() {
        let mut client = Client::new();
        let too_many = "-ERR user_script:1: too many results to unpack";
        for (bounds, shown) in [
            ("-2, 2147483647", too_many),
            ("0, 2147483647", too_many),
            ("-2147483648, -2", too_many),
            ("0/0, 5", "[]"),
            ("-1e300, 5", "[]"),
            ("1, 7998", too_many),
            ("1e300, 1", "[]"),
            ("1, -1", "[]"),
            ("2147483646, 2147483647", "[]"),
            ("2, '3'", "[:2 :3]"),
            ("nil, 2", "[:1 :2]"),
            ("{}", "-ERR user_script:1: bad argument #2 to 'unpack' (number expected, got table)"),
        ] {
            let found = client.run_words(&["EVAL", &format!("return {{unpack({{1,2,3}}, {bounds})}}"), "0"]);
            assert!(found.starts_with(shown), "{bounds}: {found}");
        }
        assert_eq!(client.run_words(&["EVAL", "return {unpack({1, 2, 3})}", "0"]), "[:1 :2 :3]");
        let most = |count| format!("local t = {{}} for i = 1, {count} do t[i] = i end return select('#', unpack(t))");
        assert_eq!(client.run_words(&["EVAL", &most(7999), "0"]), ":7999");
        assert!(client.run_words(&["EVAL", &most(8000), "0"]).starts_with(too_many));
    }

    #[test]
    fn a_function_finds_nothing_of_the_call_before() {
        let mut client = Client::new();
        let library = "#!lua name=lib\n\
            redis.register_function('show', function(keys, args)\n\
                return {#keys, #args, keys[1] or 0, keys[3] or 0, args[1] or 0, args[2] or 0, args[3] or 0} end)\n\
            redis.register_function('pair', function(keys, args) return {keys[2] or 0, args[1] or 0} end)\n\
            local kept = {}\n\
            redis.register_function('keep', function(keys, args)\n\
                kept[#kept + 1] = keys return {kept[1][1] or 0, #kept} end)";
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", library]), "lib");
        for (words, shown) in [
            ("3 k l m", "[:3 :0 k m :0 :0 :0]"),
            ("0", "[:0 :0 :0 :0 :0 :0 :0]"),
            ("0 a b c", "[:0 :3 :0 :0 a b c]"),
            ("0 a", "[:0 :1 :0 :0 a :0 :0]"),
            ("1 k", "[:1 :0 k :0 :0 :0 :0]"),
            ("1 k a b", "[:1 :2 k :0 a b :0]"),
            ("1 l a", "[:1 :1 l :0 a :0 :0]"),
            ("2 k l a", "[:2 :1 k :0 a :0 :0]"),
            ("1 k a b c d", "[:1 :4 k :0 a b c]"),
            ("2 k l", "[:2 :0 k :0 :0 :0 :0]"),
        ] {
            assert_eq!(client.run(&format!("FCALL show {words}")), shown, "{words}");
        }
        client.is("FCALL pair 1 k", "[:0 :0]").is("FCALL pair 2 k l", "[l :0]").is("FCALL PAIR 1 k a", "[:0 a]");
        client.is("FCALL keep 1 first", "[first :1]").is("FCALL keep 1 second", "[first :2]");
    }
}
