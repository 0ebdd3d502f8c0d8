//! The library `cmsgpack`: MessagePack.
//!
//! Numbers that are integers are packed as the shortest integer, tables with the keys 1 to n and no others as arrays,
//! all others as maps. Tables deeper than [`DEPTH_MAX`] become nil, so that one that contains itself ends.

use crate::scripting::failure::{bad_argument, bare_message, message};
use crate::scripting::lua_arguments::{FunctionWords, c_integer, number};
use crate::scripting::lua_memory::{self, native, room_for, room_to_grow};
use mlua::{Lua, MultiValue, Table, Value};

/// Bound of the bytes of a value that is no string, and of the head of one.
const SHORT: usize = 16;
/// Bytes of Lua's memory that a byte can become: an element of a table that grows.
const VALUE: usize = 48;
/// Bytes that are unpacked without asking for memory.
const UNASKED: usize = 1024;
/// Bytes for which room is asked at a time.
const ASKED_AHEAD: usize = 64 << 10;

const DEPTH_MAX: usize = 16;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", native(lua, pack)?)?;
    let all = |lua: &Lua, values| unpack(&FunctionWords { lua, values }, 0, 0);
    library.raw_set("unpack", native(lua, all)?)?;
    let one = |lua: &Lua, values| {
        let words = FunctionWords { lua, values };
        unpack(&words, 1, words.integer_or(1, 0)?)
    };
    library.raw_set("unpack_one", native(lua, one)?)?;
    let limited = |lua: &Lua, values| {
        let words = FunctionWords { lua, values };
        unpack(&words, words.integer(1)?, words.integer_or(2, 0)?)
    };
    library.raw_set("unpack_limit", native(lua, limited)?)?;
    // The fields that scripts know from the library of other servers.
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}

fn pack(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    if values.is_empty() {
        return Err(bad_argument(lua, 0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    values.iter().try_for_each(|value| write(&mut out, value, 0))?;
    lua_memory::string(lua, &out).map(Value::String)
}

fn write(out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    room_to_grow(out, SHORT)?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            room_to_grow(out, text.len() + SHORT)?;
            match text.len() {
                len @ 0..32 => out.push(0xa0 | len as u8),
                len @ 32..256 => out.extend([0xd9, len as u8]),
                len @ 256..65536 => sized(out, 0xda, &(len as u16).to_be_bytes()),
                len => sized(out, 0xdb, &(len as u32).to_be_bytes()),
            }
            out.extend_from_slice(&text);
        }
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(out, *number),
        Value::Number(number) if number.is_finite() && c_integer(*number) as f64 == *number => {
            write_integer(out, c_integer(*number));
        }
        Value::Number(number) => write_double(out, *number),
        Value::Table(table) if depth < DEPTH_MAX => write_table(out, table, depth + 1)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn sized(out: &mut Vec<u8>, tag: u8, size: &[u8]) {
    out.push(tag);
    out.extend_from_slice(size);
}

fn write_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..128 => out.push(number as u8),
        128..256 => out.extend([0xcc, number as u8]),
        256..65536 => sized(out, 0xcd, &(number as u16).to_be_bytes()),
        65536..4_294_967_296 => sized(out, 0xce, &(number as u32).to_be_bytes()),
        4_294_967_296.. => sized(out, 0xcf, &number.to_be_bytes()),
        -32..0 => out.push(number as u8),
        -128..-32 => out.extend([0xd0, number as u8]),
        -32768..-128 => sized(out, 0xd1, &(number as i16).to_be_bytes()),
        -2_147_483_648..-32768 => sized(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => sized(out, 0xd3, &number.to_be_bytes()),
    }
}

/// Writes a number in four bytes where they have the value of eight.
fn write_double(out: &mut Vec<u8>, number: f64) {
    let short = number as f32;
    if f64::from(short) == number {
        sized(out, 0xca, &short.to_be_bytes());
    } else {
        sized(out, 0xcb, &number.to_be_bytes());
    }
}

fn write_table(out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
    let (mut pairs, mut highest, mut array) = (0usize, 0usize, true);
    for pair in table.pairs::<Value, Value>() {
        pairs += 1;
        match number(&pair?.0) {
            Some(index) if (1.0..=f64::from(i32::MAX)).contains(&index) && index == index.trunc() => {
                highest = highest.max(index as usize);
            }
            _ => array = false,
        }
    }
    if array && highest == pairs {
        header(out, pairs, 0x90, 0xdc);
        for index in 1..=pairs {
            write(out, &table.raw_get(index)?, depth)?;
        }
        return Ok(());
    }
    header(out, pairs, 0x80, 0xde);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(out, &key, depth)?;
        write(out, &value, depth)?;
    }
    Ok(())
}

fn header(out: &mut Vec<u8>, len: usize, short: u8, long: u8) {
    match len {
        0..16 => out.push(short | len as u8),
        16..65536 => sized(out, long, &(len as u16).to_be_bytes()),
        _ => sized(out, long + 1, &(len as u32).to_be_bytes()),
    }
}

/// `unpack(data)` returns all values, `unpack_one(data, offset)` and `unpack_limit(data, limit, offset)` return the
/// place where they stopped and then the values; -1 stands for the end.
fn unpack(words: &FunctionWords<'_>, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let lua = words.lua;
    let data = words.text(0)?;
    let data = data.as_bytes();
    let shown = (offset as i32, data.len() as i32);
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {} and limit of {}.", shown.0, shown.1);
        return Err(message(lua, text));
    }
    if offset as u64 > data.len() as u64 {
        let text = format!("Start offset {} greater than input length {}.", shown.0, shown.1);
        return Err(message(lua, text));
    }
    let everything = limit == 0 && offset == 0;
    let limit = if everything { usize::MAX } else { limit as usize };
    let at = offset as usize;
    let mut reader = Reader { lua, data: &data, at, asked_to: at.saturating_add(UNASKED) };
    let mut found = Vec::new();
    while reader.at < data.len() && found.len() < limit {
        if found.len() == RETURNED_MAX {
            let text = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";
            return Err(message(lua, text));
        }
        found.push(reader.value(0)?);
    }
    if !everything {
        let stopped = if reader.at < data.len() { reader.at as f64 } else { -1.0 };
        found.insert(0, Value::Number(stopped));
    }
    Ok(MultiValue::from_iter(found))
}

/// Values that a function can return at once: as many as fit Lua's stack for native functions.
const RETURNED_MAX: usize = 7_998;

/// Depth to which values may nest that are unpacked; deeper ones would not fit the thread's stack.
const NESTING_MAX: usize = 200;

struct Reader<'d> {
    lua: &'d Lua,
    data: &'d [u8],
    at: usize,
    /// There is room for the values of the bytes before this one.
    asked_to: usize,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> mlua::Result<&[u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.data.len());
        let end = end.ok_or_else(|| message(self.lua, "Missing bytes in input."))?;
        if end > self.asked_to {
            let ahead = end.saturating_add(ASKED_AHEAD).min(self.data.len());
            room_for((ahead - self.asked_to).saturating_mul(VALUE))?;
            self.asked_to = ahead;
        }
        let bytes = &self.data[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn unsigned(&mut self, len: usize) -> mlua::Result<u64> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text(&mut self, len: u64) -> mlua::Result<Value> {
        let lua = self.lua;
        lua.create_string(self.take(len as usize)?).map(Value::String)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        if depth > NESTING_MAX {
            return Err(message(self.lua, "Bad data format in input."));
        }
        let tag = self.take(1)?[0];
        let real = |number: f64| Ok(Value::Number(number));
        match tag {
            0x00..0x80 => real(tag.into()),
            0xe0.. => real(f64::from(tag as i8)),
            0x80..0x90 => self.map((tag & 15).into(), depth),
            0x90..0xa0 => self.array((tag & 15).into(), depth),
            0xa0..0xc0 => self.text((tag & 31).into()),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => real(f32::from_bits(self.unsigned(4)? as u32).into()),
            0xcb => real(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xce => real(self.unsigned(1 << (tag - 0xcc))? as f64),
            // The upper half is negative, as in the library of other servers.
            0xcf => real(self.unsigned(8)? as i64 as f64),
            0xd0 => real(f64::from(self.unsigned(1)? as i8)),
            0xd1 => real(f64::from(self.unsigned(2)? as i16)),
            0xd2 => real(f64::from(self.unsigned(4)? as i32)),
            0xd3 => real(self.unsigned(8)? as i64 as f64),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))?;
                self.text(len)
            }
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (tag - 0xdc))?;
                self.array(len, depth)
            }
            0xde | 0xdf => {
                let len = self.unsigned(2 << (tag - 0xde))?;
                self.map(len, depth)
            }
            _ => Err(message(self.lua, "Bad data format in input.")),
        }
    }

    fn array(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            match key {
                Value::Nil => return Err(bare_message("table index is nil")),
                Value::Number(number) if number.is_nan() => return Err(bare_message("table index is NaN")),
                _ => {}
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
