//! How native functions fail.
//!
//! A native's error is an opaque value of the binding. When it is raised Lua has [`raised`] turn it into the value that
//! scripts expect: a string that begins with the place, or a table with the text of a command's error in `err`.

use super::{current_run, lua_memory};
use mlua::{Lua, Table, Value};
use std::cell::RefCell;
use std::fmt;

/// Error of a native function.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error table. `counted`: it is in the statistics already.
    Reply { text: Vec<u8>, counted: bool },
    /// A message with its place.
    Message(Vec<u8>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Reply { text, .. } | Failure::Message(text)) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Failure {}

/// Returns the error of the run itself: an error table.
pub(super) fn error(text: &str) -> mlua::Error {
    mlua::Error::external(Failure::Reply { text: text.as_bytes().to_vec(), counted: false })
}

/// Returns the error of a function that the server provides: an error table, as for a command.
pub(super) fn refusal(text: &str) -> mlua::Error {
    mlua::Error::external(Failure::Reply { text: [b"ERR ", text.as_bytes()].concat(), counted: false })
}

/// Returns the error of a library's function: a string that begins with the caller's place.
pub(super) fn message(lua: &Lua, text: impl AsRef<[u8]>) -> mlua::Error {
    let place = lua.inspect_stack(1, |caller| {
        let source = caller.source().short_src.map(|name| name.into_owned()).unwrap_or_default();
        caller.current_line().map(|line| format!("{source}:{line}: "))
    });
    let place = place.flatten().unwrap_or_default();
    mlua::Error::external(Failure::Message([place.as_bytes(), text.as_ref()].concat()))
}

/// Returns the error of Lua itself in such a function: it begins with no place.
pub(super) fn bare_message(text: &str) -> mlua::Error {
    mlua::Error::external(Failure::Message(text.as_bytes().to_vec()))
}

thread_local! {
    /// Place of the last failure.
    static PLACE: RefCell<Option<SourceLine>> = const { RefCell::new(None) };
}

/// Name of a text, and a line of it.
pub(super) type SourceLine = (String, i64);

/// Keeps the place of what has failed just now, or forgets it.
pub(super) fn note_place(place: Option<SourceLine>) {
    PLACE.set(place);
}

/// Returns a native's error, which has just been raised, in the form for scripts. One that ends the run meets no
/// handler.
pub(super) fn raised(lua: &Lua, error: Value) -> mlua::Result<Value> {
    if current_run::is_ending() {
        PLACE.set(place(lua));
    }
    clean(lua, error)
}

/// Returns the place of the function that has failed, or of its caller if that is a native. A native that a native
/// calls has [`NATIVE_PLACE`].
pub(super) fn place(lua: &Lua) -> Option<SourceLine> {
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source().source.map(|name| name.into_owned()).unwrap_or_default();
            frame.current_line().map(|line| (source, line as i64))
        })
    };
    let native = || (NATIVE_PLACE.0.to_owned(), NATIVE_PLACE.1);
    at(1)?.or_else(|| Some(at(2)?.unwrap_or_else(native)))
}

/// The place of a function that is not written in Lua.
const NATIVE_PLACE: (&str, i64) = ("=[C]", -1);

/// Returns a value as Lua's `tostring` shows it.
pub(super) fn shown(lua: &Lua, value: &Value) -> mlua::Result<Vec<u8>> {
    Ok(match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec()).unwrap_or_default()
        }
        null if null.is_null() => b"userdata: (nil)".to_vec(),
        other => other.to_string()?.into_bytes(),
    })
}

/// Failure of a run.
pub(super) struct Failed {
    pub text: Vec<u8>,
    /// It is in the statistics already.
    pub counted: bool,
    pub place: Option<SourceLine>,
    /// The run raised a value that is no error.
    pub is_odd: bool,
}

impl Failed {
    /// Returns the failure of a run that ends with this error.
    #[cold]
    pub fn of(error: &engine::Error) -> Failed {
        Failed { text: error.text().unwrap_or_default().into_owned(), counted: false, place: None, is_odd: false }
    }
}

/// Returns the failure of a run whose error and place have just been recorded.
pub(super) fn failed(lua: &Lua, error: Value) -> mlua::Result<Failed> {
    let (error, place) = (clean(lua, error)?, PLACE.take());
    let mut is_odd = false;
    let (text, counted) = match &error {
        Value::Table(table) => match ErrorTable::raised(lua, table) {
            Some(told) => (told.text, told.counted),
            None => {
                is_odd = true;
                (b"ERR unknown error".to_vec(), false)
            }
        },
        other => {
            let text = shown(lua, other)?;
            // Lua raises this error without recording its place.
            if place.is_none() && text == lua_memory::NOT_ENOUGH.as_bytes() {
                (lua_memory::RAN_OUT.to_vec(), false)
            } else {
                ([b"ERR ", engine::before_nul(&text)].concat(), false)
            }
        }
    };
    Ok(Failed { text, counted, place, is_odd })
}

/// Returns an error like [`message`], in the words of Lua's own functions: by the name that the function is called by.
pub(super) fn bad_argument(lua: &Lua, index: usize, text: &(impl AsRef<[u8]> + ?Sized)) -> mlua::Error {
    let names = lua.inspect_stack(0, |native| {
        let names = native.names();
        (names.name.map(|name| name.into_owned()), names.name_what == Some("method"))
    });
    let (name, is_method) = names.unwrap_or_default();
    let name = name.unwrap_or_else(|| "?".to_owned());
    let start = match (is_method, index) {
        (true, 1) => format!("calling '{name}' on bad self ("),
        _ => format!("bad argument #{} to '{name}' (", index as i64 - i64::from(is_method)),
    };
    message(lua, [start.as_bytes(), text.as_ref(), b")"].concat())
}

/// The error of setting a field of a table that is read-only.
pub(super) const READ_ONLY: &str = "Attempt to modify a readonly table";

/// An error table.
pub(super) fn table(lua: &Lua, text: &[u8], counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// Returns a native's error as a script sees it; anything else as it is.
pub(super) fn clean(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = value else { return Ok(value) };
    match error.downcast_ref::<Failure>() {
        Some(Failure::Reply { text, counted }) => table(lua, text, *counted),
        Some(Failure::Message(text)) => Ok(Value::String(lua.create_string(text)?)),
        None => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Ok(Value::String(lua.create_string(first)?))
        }
    }
}

/// An error that a script returned or raised.
pub(super) struct ErrorTable {
    pub text: Vec<u8>,
    pub counted: bool,
}

impl ErrorTable {
    /// Returns the error of a table that is part of a reply.
    pub fn of(table: &Table) -> Option<ErrorTable> {
        let text = text(table, "err")?;
        let text = without_line_ends(engine::before_nul(&text)).to_vec();
        let counted = matches!(table.raw_get("ignore_error_stats_update"), Ok(Value::Boolean(true)));
        Some(ErrorTable { text, counted })
    }

    /// Returns the error of a table that was raised: a number is a text there.
    fn raised(lua: &Lua, table: &Table) -> Option<ErrorTable> {
        let text = match table.raw_get("err") {
            Ok(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
                lua.coerce_string(value).ok()??
            }
            _ => return None,
        };
        let counted = matches!(table.raw_get("ignore_error_stats_update"), Ok(Value::Boolean(true)));
        Some(ErrorTable { text: engine::before_nul(&text.as_bytes()).to_vec(), counted })
    }
}

/// Returns a text without line ends at its beginning and its end.
pub(super) fn without_line_ends(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Returns the text in the field of a table, if it is one; a number is one too.
pub(super) fn text(table: &Table, name: &str) -> Option<Vec<u8>> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}
