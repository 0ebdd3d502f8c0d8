//! Replies to Lua values, and Lua values to replies.
//!
//! | reply | in Lua | | in Lua | reply |
//! |---|---|---|---|---|
//! | `:1` | number | | number | `:1`, the fraction cut off |
//! | `$1 x` | string | | string | `$1 x` |
//! | `+OK` | `{ok = 'OK'}` | | `{ok = 'OK'}` | `+OK` |
//! | `-ERR` | `{err = 'ERR'}` | | `{err = 'ERR'}` | `-ERR` |
//! | `*2` | table | | table | `*n`, up to the first nil |
//! | `$-1`, `*-1` | `false` | | `false`, anything else | null |
//! | `_` | `nil` | | `true` | `:1`, in RESP3 `#t` |
//! | `,1.5` `(1` | `{double = 1.5}` `{big_number = '1'}` | | | and back |
//! | `%1` `~1` | `{map = {}}` `{set = {x = true}}` | | | and back |
//! | `=5 txt:x` | `{verbatim_string = {format =, string =}}` | | | and back |
//! | `#t` | boolean | | after `setresp(3)`: `false` | `#f` |
//!
//! Tables are read without asking their metatables.

use super::failure::{self, ErrorTable, text};
use super::lua_arguments;
use super::lua_memory::room_for;
use mlua::{IntoLua, Lua, Table, Value};
use resp::{Protocol, Reply};
use std::borrow::Cow;

/// How deeply tables nest in a reply.
const DEPTH_MAX: usize = 300;

/// Bytes of Lua's memory that a line of a reply takes besides its text.
const ELEMENT: usize = 128;

/// Bound of the bytes that a value takes that is no string.
const SHORT: usize = 64;

/// 2^63
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns the number of an integer reply; Lua knows doubles only.
fn number(text: &[u8]) -> Value {
    Value::Number(resp::number::parse_i64(text).unwrap_or_default() as f64)
}

/// Reads the reply at the start of `bytes`, which a command has just written.
pub(super) fn to_lua(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    room_for(bytes.len().saturating_add(lines.saturating_mul(ELEMENT)))?;
    let mut reader = Reader { lua, bytes };
    reader.value()
}

/// Returns the text of a reply that consists of one short text.
pub(super) fn text_of(reply: &[u8]) -> Option<&str> {
    const SHORT: usize = 1 << 10;
    let (b'$', rest) = reply.split_first().filter(|_| reply.len() < SHORT).map(|(kind, rest)| (*kind, rest))? else {
        return None;
    };
    let text = rest.strip_suffix(b"\r\n")?;
    let digits = text.iter().position(|byte| *byte == b'\r')?;
    std::str::from_utf8(text.get(digits + 2..)?).ok()
}

struct Reader<'b> {
    lua: &'b Lua,
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    fn line(&mut self) -> (u8, &'b [u8]) {
        let end = self.bytes.iter().position(|byte| *byte == b'\r').unwrap_or(self.bytes.len());
        let (line, rest) = self.bytes.split_at(end);
        self.bytes = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((0, line), |(kind, text)| (*kind, text))
    }

    fn blob(&mut self, len: usize) -> &'b [u8] {
        let len = len.min(self.bytes.len());
        let (blob, rest) = self.bytes.split_at(len);
        self.bytes = rest.get(2..).unwrap_or_default();
        blob
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        self.lua.create_string(bytes).map(Value::String)
    }

    fn field(&self, name: &str, value: impl IntoLua) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let (kind, text) = self.line();
        let count = || resp::number::parse_i64(text).and_then(|n| usize::try_from(n).ok());
        match kind {
            b':' => Ok(number(text)),
            b'$' => match count() {
                Some(len) => {
                    let blob = self.blob(len);
                    self.string(blob)
                }
                None => Ok(Value::Boolean(false)),
            },
            b'+' => match std::str::from_utf8(text) {
                Ok(text) => self.field("ok", text),
                Err(_) => self.field("ok", self.string(text)?),
            },
            b'-' => failure::table(self.lua, text, true),
            b'*' | b'>' => match count() {
                Some(len) => self.array(len),
                None => Ok(Value::Boolean(false)),
            },
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => {
                let number = resp::number::parse_f64(text).unwrap_or(f64::NAN);
                self.field("double", Value::Number(number))
            }
            b'(' => self.field("big_number", self.string(text)?),
            b'=' => {
                let blob = self.blob(count().unwrap_or(0));
                let (format, string) = blob.split_at(3.min(blob.len()));
                let inner = self.lua.create_table_with_capacity(0, 2)?;
                inner.raw_set("format", self.string(format)?)?;
                inner.raw_set("string", self.string(string.get(1..).unwrap_or_default())?)?;
                self.field("verbatim_string", Value::Table(inner))
            }
            b'%' => self.map(count().unwrap_or(0)),
            b'~' => self.set(count().unwrap_or(0)),
            b'|' => {
                // Attributes are not shown to scripts.
                for _ in 0..2 * count().unwrap_or(0) {
                    self.value()?;
                }
                self.value()
            }
            _ => Ok(Value::Nil),
        }
    }

    fn array(&mut self, len: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for index in 1..=len {
            table.raw_set(index, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            let (key, value) = (self.value()?, self.value()?);
            table.raw_set(key, value)?;
        }
        self.field("map", Value::Table(table))
    }

    fn set(&mut self, len: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, len)?;
        for _ in 0..len {
            table.raw_set(self.value()?, true)?;
        }
        self.field("set", Value::Table(table))
    }
}

/// Replaces line ends, which would end the reply early.
fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return text.into();
    }
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// Writes a script's return value, which is not an error, and returns the errors that are part of it. `resp` is the
/// protocol that the script chose by `setresp`.
///
/// # Errors
/// There is not enough memory; a part was written.
pub(super) fn to_reply(reply: &mut Reply, value: &Value, resp: Protocol) -> mlua::Result<Vec<ErrorTable>> {
    let mut out = Out { reply, resp, errors: Vec::new(), room: FIRST_ROOM, refused: Ok(()) };
    match value {
        Value::Table(table) => write_good_table(&mut out, table, 1),
        value => write(&mut out, value, 0),
    }
    out.refused.map(|()| out.errors)
}

/// A reply that is being written.
struct Out<'r> {
    reply: &'r mut Reply,
    resp: Protocol,
    errors: Vec<ErrorTable>,
    /// Length up to which there is room for it.
    room: usize,
    /// Error once there was no room; the rest is not written.
    refused: mlua::Result<()>,
}

/// Length that a reply may have without asking for memory.
const FIRST_ROOM: usize = 64 << 10;

impl Out<'_> {
    /// Whether so many bytes may be written.
    #[inline]
    fn has_room_for(&mut self, more: usize) -> bool {
        let len = self.reply.len().saturating_add(more);
        len <= self.room && self.refused.is_ok() || self.ask(len)
    }

    #[cold]
    fn ask(&mut self, len: usize) -> bool {
        if self.refused.is_ok() {
            // The buffer doubles, and a copy is made.
            self.refused = room_for(len.saturating_mul(4));
            self.room = len.saturating_mul(2);
        }
        self.refused.is_ok()
    }
}

fn write(out: &mut Out<'_>, value: &Value, depth: usize) {
    if !out.has_room_for(SHORT) {
        return;
    }
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            if out.has_room_for(text.len()) {
                out.reply.bulk(&text);
            }
        }
        Value::Integer(number) => out.reply.int(*number),
        // C converts NaN and numbers that are too large for an integer to this.
        Value::Number(number) if number.is_nan() || number.abs() >= TOO_LARGE => out.reply.int(i64::MIN),
        Value::Number(number) => out.reply.int(*number as i64),
        Value::Boolean(value) if out.resp == Protocol::Resp3 => out.reply.boolean(*value),
        Value::Boolean(true) => out.reply.int(1),
        Value::Table(_) if depth >= DEPTH_MAX => out.reply.error("ERR reached lua stack limit"),
        Value::Table(table) => write_table(out, table, depth + 1),
        _ => out.reply.null(),
    }
}

fn write_table(out: &mut Out<'_>, table: &Table, depth: usize) {
    match ErrorTable::of(table) {
        Some(error) => {
            out.reply.error(&error.text);
            out.errors.push(error);
        }
        None => write_good_table(out, table, depth),
    }
}

/// Writes a table that is not an error.
fn write_good_table(out: &mut Out<'_>, table: &Table, depth: usize) {
    // Most tables are arrays, and have none of these fields.
    if table.raw_len() > 0 && !has_fields(table) {
        return write_array(out, table, depth);
    }
    if let Ok(Value::String(status)) = table.raw_get("ok") {
        return out.reply.simple(one_line(engine::before_nul(&status.as_bytes())));
    }
    if let Ok(number @ (Value::Number(_) | Value::Integer(_))) = table.raw_get::<Value>("double") {
        return out.reply.double(lua_arguments::number(&number).unwrap_or_default());
    }
    if let Ok(Value::Table(map)) = table.raw_get("map") {
        let mark = out.reply.begin_map();
        let mut len = 0;
        for (key, value) in map.pairs::<Value, Value>().flatten() {
            write(out, &key, depth);
            write(out, &value, depth);
            len += 1;
        }
        return out.reply.end_map(mark, len);
    }
    if let Ok(Value::Table(set)) = table.raw_get("set") {
        let mark = out.reply.begin_set();
        let mut len = 0;
        for (element, _) in set.pairs::<Value, Value>().flatten() {
            write(out, &element, depth);
            len += 1;
        }
        return out.reply.end_set(mark, len);
    }
    if let Some(digits) = text(table, "big_number") {
        return out.reply.big_number(one_line(engine::before_nul(&digits)));
    }
    if let Ok(Value::Table(verbatim)) = table.raw_get("verbatim_string")
        && let (Some(told), Some(string)) = (text(&verbatim, "format"), text(&verbatim, "string"))
    {
        let mut format = [b' '; 3];
        for (place, byte) in format.iter_mut().zip(engine::before_nul(&told)) {
            *place = *byte;
        }
        return out.reply.verbatim(&format, &string);
    }
    write_array(out, table, depth);
}

fn has_fields(table: &Table) -> bool {
    const NAMES: [&str; 6] = ["ok", "double", "map", "set", "big_number", "verbatim_string"];
    NAMES.iter().any(|name| !matches!(table.raw_get::<Value>(*name), Ok(Value::Nil) | Err(_)))
}

fn write_array(out: &mut Out<'_>, table: &Table, depth: usize) {
    let mark = out.reply.begin_array();
    let mut len = 0;
    while let Ok(value) = table.raw_get::<Value>(len + 1)
        && !value.is_nil()
    {
        write(out, &value, depth);
        len += 1;
    }
    out.reply.end_array(mark, len);
}
