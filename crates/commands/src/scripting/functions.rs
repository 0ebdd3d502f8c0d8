//! Libraries of functions in the interpreter: how their texts register functions, and which are loaded here.
//!
//! FUNCTION LOAD runs a library's text on its worker to learn which functions it registers; the text then belongs to
//! all workers, and every other worker runs it when a client calls one of the functions there. So the variables of a
//! library are each worker's own.

use super::current_run::{self, LOAD_TIMEOUT, Reach};
use super::declared_keys;
use super::failure::refusal;
use super::flags::ScriptFlags;
use super::interpreter::Interpreter;
use super::kept_functions::{Kept, KeptFunctions};
use super::lua_memory::{self, native};
use engine::scripts::function_libraries::{Function, Library};
use engine::scripts::script_cache::{Scripts, SeenLibraries};
use engine::{Error, Word};
use mlua::{Lua, MultiValue, Table, Value};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

thread_local! {
    /// Functions that the library that is being loaded has registered.
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

/// A library that is being loaded.
struct Loading {
    /// Table that keeps its functions.
    kept: Rc<KeptFunctions>,
    functions: Vec<(Function, Kept)>,
}

/// A function that can be called here.
pub(super) struct Callable {
    /// The name as its library writes it.
    pub name: Box<[u8]>,
    pub function: Kept,
    pub flags: ScriptFlags,
    pub reach: Cell<Reach>,
}

/// Functions that this interpreter has, of the libraries that it knows.
#[derive(Default)]
pub(super) struct LoadedLibraries {
    version: Cell<u64>,
    /// Functions by their name in lower case, with the library's id.
    functions: RefCell<Functions>,
    /// Function that was called last, with the name by which it was called.
    last: RefCell<Option<Called>>,
}

/// Name and the function that it calls.
type Called = (SmallVec<[u8; 64]>, Rc<Callable>);

type Functions = HashMap<Box<[u8]>, (u64, Rc<Callable>), foldhash::fast::RandomState>;

/// Content of a library's text.
pub(super) struct Made {
    pub name: Vec<u8>,
    functions: Vec<(Function, Kept)>,
    /// Keys that the functions touch, as the text shows.
    reach: Reach,
}

impl LoadedLibraries {
    /// Returns the function of this name, in any case; loads its library if it is not here yet.
    pub fn find(
        &self,
        interpreter: &Interpreter,
        (scripts, seen): (&Scripts, SeenLibraries<'_>),
        name: &[u8],
    ) -> Result<Option<Rc<Callable>>, Error> {
        let version = seen.version();
        if self.version.get() == version
            && let Some((last, known)) = &*self.last.borrow()
            && **last == *name
        {
            return Ok(Some(Rc::clone(known)));
        }
        self.last.take();
        let found = self.find_by_name(interpreter, (scripts, seen), version, name)?;
        *self.last.borrow_mut() = found.clone().map(|found| (name.into(), found));
        Ok(found)
    }

    #[inline(never)]
    fn find_by_name(
        &self,
        interpreter: &Interpreter,
        (scripts, seen): (&Scripts, SeenLibraries<'_>),
        version: u64,
        name: &[u8],
    ) -> Result<Option<Rc<Callable>>, Error> {
        let mut name: SmallVec<[u8; 64]> = name.into();
        name.make_ascii_lowercase();
        if self.version.get() != version {
            let libraries = seen.all();
            let known = |name: &[u8]| libraries.with_function(name).map(|library| library.id);
            self.functions.borrow_mut().retain(|name, (id, _)| known(name) == Some(*id));
            self.version.set(version);
        }
        if let Some((_, known)) = self.functions.borrow().get(&name[..]) {
            return Ok(Some(Rc::clone(known)));
        }
        let libraries = seen.all();
        let Some(library) = libraries.with_function(&name) else { return Ok(None) };
        let made = make(interpreter, scripts, &library.code, LOAD_TIMEOUT)?;
        self.keep(made, library.id);
        Ok(self.functions.borrow().get(&name[..]).map(|(_, known)| Rc::clone(known)))
    }

    /// Makes the functions of a library callable here.
    pub fn keep(&self, made: Made, id: u64) {
        let mut functions = self.functions.borrow_mut();
        for (about, function) in made.functions {
            let (own, name) = (about.name.clone(), about.name.to_ascii_lowercase().into());
            let (flags, reach) = (ScriptFlags(about.flags), Cell::new(made.reach));
            let callable = Callable { name: own, function, flags, reach };
            functions.insert(name, (id, Rc::new(callable)));
        }
    }
}

impl Made {
    /// Returns the library as all workers share it.
    pub fn library(&self, code: &[u8], id: u64) -> Library {
        let functions = self.functions.iter().map(|(about, _)| about.clone()).collect();
        Library { name: self.name[..].into(), code: code.into(), functions, id }
    }
}

/// Returns the name that the first line of a library's text gives it.
pub(super) fn library_name(code: &[u8]) -> Result<Vec<u8>, Error> {
    let Some(line) = code.strip_prefix(b"#!") else { return Err(Error::LibraryMetadataMissing) };
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return Err(Error::LibraryMetadata);
    };
    let words = resp::words::split(&code[..end + 2]).ok_or(Error::LibraryMetadata)?;
    let engine = words.first().and_then(|word| word.strip_prefix(b"#!")).unwrap_or_default();
    let mut name: Option<Vec<u8>> = None;
    for word in words.get(1..).unwrap_or_default() {
        match word.get(..5).filter(|start| start.eq_ignore_ascii_case(b"name=")) {
            Some(_) if name.is_some() => {
                return Err(Error::LibraryNameTwice);
            }
            Some(_) => name = Some(word[5..].to_vec()),
            None => return Err(Error::LibraryMetadataValue(Word::of(word))),
        }
    }
    let name = name.ok_or(Error::LibraryNameMissing)?;
    if !is_name(&name) {
        return Err(Error::LibraryName);
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(Error::LibraryEngine(Word::of(engine)));
    }
    Ok(name)
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Runs a library's text, for at most `timeout`.
pub(super) fn make(
    interpreter: &Interpreter,
    scripts: &Scripts,
    code: &[u8],
    timeout: Duration,
) -> Result<Made, Error> {
    let name = library_name(code)?;
    let function = interpreter.compile_library(code).map_err(|error| Error::LibraryNotCompiled(Word::of(error)))?;
    LOADING.set(Some(Loading { kept: Rc::clone(&interpreter.kept), functions: Vec::new() }));
    current_run::begin_load(timeout);
    let outcome = interpreter.run_library(scripts, &function);
    current_run::end_load();
    let functions = LOADING.take().map(|loading| loading.functions).unwrap_or_default();
    let failed = |text: &[u8]| Error::LibraryFailed(Word::of(text));
    match outcome {
        Ok(Ok(_)) if functions.is_empty() => Err(Error::NoFunctions),
        Ok(Ok(_)) if !functions.iter().all(|(function, _)| is_name(&function.name)) => Err(Error::FunctionName),
        Ok(Ok(_)) if has_twins(&functions) => Err(Error::FunctionTwice),
        Ok(Ok(_)) => Ok(Made { name, functions, reach: declared_keys::reach_of_library(code) }),
        outcome => {
            // The time limit may have ended the text.
            interpreter.calm().map_err(|error| failed(error.to_string().as_bytes()))?;
            match outcome {
                Ok(Err(error)) if !error.is_odd => Err(failed(&error.text)),
                Ok(_) => Err(failed(b"")),
                Err(error) => Err(failed(error.to_string().as_bytes())),
            }
        }
    }
}

/// Ends the text of a library that exceeds its time limit.
pub(super) fn check_time() -> Result<(), mlua::Error> {
    if lua_memory::is_short() {
        return Err(refusal(lua_memory::NOT_ENOUGH));
    }
    if current_run::is_load_late() { Err(refusal("FUNCTION LOAD timeout")) } else { Ok(()) }
}

/// Returns the table that the text of a library knows as `redis` and `server`.
pub(super) fn registration(lua: &Lua) -> mlua::Result<Table> {
    let api = lua.create_table()?;
    super::api::shared(lua, &api)?;
    api.raw_set("register_function", native(lua, register)?)?;
    Ok(api)
}

/// `register_function(name, callback)`, or a table of named arguments.
fn register(lua: &Lua, values: MultiValue) -> mlua::Result<()> {
    if LOADING.with_borrow(Option::is_none) {
        return Err(refusal("server.register_function can only be called on FUNCTION LOAD command"));
    }
    let wrong = "wrong number of arguments to server.register_function";
    let (function, callback) = match (values.len(), values.front()) {
        (1, Some(Value::Table(named))) => named_arguments(lua, named)?,
        (1, _) => {
            return Err(refusal(
                "calling server.register_function with a single argument is only applicable to Lua table \
                 (representing named arguments).",
            ));
        }
        (2, Some(name)) => {
            let Some(name) = text(lua, name)? else {
                return Err(refusal("first argument to server.register_function must be a string"));
            };
            let Some(Value::Function(callback)) = values.get(1) else {
                return Err(refusal("second argument to server.register_function must be a function"));
            };
            (Function { name, description: None, flags: 0 }, callback.clone())
        }
        _ => return Err(refusal(wrong)),
    };
    LOADING.with_borrow_mut(|loading| {
        let Some(loading) = loading else { return Ok(()) };
        let callback = loading.kept.keep(&callback)?;
        loading.functions.push((function, callback));
        Ok(())
    })
}

/// Whether two functions have the same name.
fn has_twins(functions: &[(Function, Kept)]) -> bool {
    let mut names: Vec<_> = functions.iter().map(|(function, _)| function.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    !names.is_sorted_by(|a, b| a < b)
}

/// Returns a string, or a number as one.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<Box<[u8]>>> {
    let (Value::String(_) | Value::Integer(_) | Value::Number(_)) = value else { return Ok(None) };
    Ok(lua.coerce_string(value.clone())?.map(|text| text.as_bytes()[..].into()))
}

fn named_arguments(lua: &Lua, named: &Table) -> mlua::Result<(Function, mlua::Function)> {
    let (mut name, mut callback, mut description, mut flags) = (None, None, None, 0);
    let wrong =
        |what: &str| Err(refusal(&format!("{what} argument given to server.register_function must be a string")));
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(lua, &key)? else {
            return Err(refusal("named argument key given to server.register_function is not a string"));
        };
        match (&key.to_ascii_lowercase()[..], value) {
            (b"function_name", value) => name = Some(text(lua, &value)?.map_or_else(|| wrong("function_name"), Ok)?),
            (b"description", value) => {
                description = Some(text(lua, &value)?.map_or_else(|| wrong("description"), Ok)?);
            }
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return Err(refusal("callback argument given to server.register_function must be a function"));
            }
            (b"flags", Value::Table(names)) => flags = named_flags(&names)?,
            (b"flags", _) => {
                let text = "flags argument to server.register_function must be a table representing function flags";
                return Err(refusal(text));
            }
            _ => return Err(refusal("unknown argument given to server.register_function")),
        }
    }
    let name = name.ok_or_else(|| refusal("server.register_function must get a function name argument"))?;
    let callback = callback.ok_or_else(|| refusal("server.register_function must get a callback argument"))?;
    Ok((Function { name, description, flags }, callback))
}

fn named_flags(names: &Table) -> mlua::Result<u32> {
    let mut flags = 0;
    for name in names.sequence_values::<Value>() {
        let flag = match name? {
            Value::String(name) => ScriptFlags::named(&name.as_bytes().to_ascii_lowercase()),
            _ => None,
        };
        flags |= flag.ok_or_else(|| refusal("unknown flag given"))?.0;
    }
    Ok(flags)
}
