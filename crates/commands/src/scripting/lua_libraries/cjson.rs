//! The library `cjson`: tables to JSON and back.
//!
//! A table with positive whole numbers as keys, and no others, is an array, any other an object; an empty one is `{}`.
//! `null` is `cjson.null`. A change of the library's options lasts as long as the interpreter.

use super::cjson_decode;
use crate::scripting::failure::{bad_argument, message};
use crate::scripting::lua_arguments::{FunctionWords, number, type_name};
use crate::scripting::lua_memory::{self, native, room_to_grow};
use mlua::{IntoLua, Lua, MultiValue, Table, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Deeper values would not fit the thread's stack, whatever the options say.
pub(super) const DEPTH_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

/// The options, which functions of the same name ask for and set.
#[derive(Clone, Copy)]
pub(super) struct JsonOptions {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    pub decode_depth: i32,
    precision: i32,
    keep_buffer: bool,
    encode_invalid: InvalidNumbers,
    pub decode_invalid: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX as i32,
            decode_depth: DEPTH_MAX as i32,
            precision: 14,
            keep_buffer: true,
            encode_invalid: InvalidNumbers::Refused,
            decode_invalid: true,
        }
    }
}

/// Sets an option, as the arguments of the function of its name say, and returns its value.
type SetOption = fn(&FunctionWords<'_>, &mut JsonOptions) -> mlua::Result<MultiValue>;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let options = Rc::new(Cell::new(JsonOptions::default()));
    let known = Rc::clone(&options);
    library.raw_set("encode", native(lua, move |lua, values| encode(lua, values, known.get()))?)?;
    let known = Rc::clone(&options);
    library.raw_set("decode", native(lua, move |lua, values| decode(lua, values, known.get()))?)?;
    for (name, most, option) in OPTIONS {
        let options = Rc::clone(&options);
        let function = native(lua, move |lua, values| {
            let words = FunctionWords { lua, values };
            if words.values.len() > most {
                return Err(words.wrong(most, "found too many arguments"));
            }
            let mut changed = options.get();
            let answer = option(&words, &mut changed);
            options.set(changed);
            answer
        })?;
        library.raw_set(name, function)?;
    }
    library.raw_set("new", native(lua, |lua, _: MultiValue| table(lua))?)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// Functions of options, with the number of arguments that each takes.
const OPTIONS: [(&str, usize, SetOption); 7] = [
    ("encode_sparse_array", 3, |words, options| {
        let convert = flag(words, &mut options.sparse_convert)?;
        let ratio = whole(words, 1, &mut options.sparse_ratio, 0, i32::MAX)?;
        let safe = whole(words, 2, &mut options.sparse_safe, 0, i32::MAX)?;
        Ok(MultiValue::from_iter([convert, ratio, safe]))
    }),
    ("encode_max_depth", 1, |words, options| only(whole(words, 0, &mut options.encode_depth, 1, i32::MAX))),
    ("decode_max_depth", 1, |words, options| only(whole(words, 0, &mut options.decode_depth, 1, i32::MAX))),
    ("encode_number_precision", 1, |words, options| only(whole(words, 0, &mut options.precision, 1, 14))),
    ("encode_keep_buffer", 1, |words, options| only(flag(words, &mut options.keep_buffer))),
    ("encode_invalid_numbers", 1, encode_invalid_numbers),
    ("decode_invalid_numbers", 1, |words, options| only(flag(words, &mut options.decode_invalid))),
];

fn only(value: mlua::Result<Value>) -> mlua::Result<MultiValue> {
    value.map(|value| MultiValue::from_iter([value]))
}

/// Returns the index of the first argument among these words; None: it is nil.
fn choice(words: &FunctionWords<'_>, names: &[&[u8]]) -> mlua::Result<Option<usize>> {
    match words.values.front() {
        None | Some(Value::Nil) => return Ok(None),
        Some(Value::Boolean(flag)) => return Ok(Some(usize::from(*flag))),
        Some(_) => {}
    }
    let word = words.text(0)?;
    let word = word.as_bytes();
    let word = engine::before_nul(&word);
    match names.iter().position(|name| *name == word) {
        Some(index) => Ok(Some(index)),
        None => Err(words.wrong(0, &[b"invalid option '", word, b"'"].concat())),
    }
}

fn flag(words: &FunctionWords<'_>, setting: &mut bool) -> mlua::Result<Value> {
    if let Some(index) = choice(words, &[b"off", b"on"])? {
        *setting = index == 1;
    }
    Ok(Value::Boolean(*setting))
}

fn whole(words: &FunctionWords<'_>, index: usize, setting: &mut i32, least: i32, most: i32) -> mlua::Result<Value> {
    let value = words.int_or(index, *setting)?;
    if !(least..=most).contains(&value) {
        return Err(words.wrong(0, &format!("expected integer between {least} and {most}")));
    }
    *setting = value;
    Ok(Value::Number(value.into()))
}

fn encode_invalid_numbers(words: &FunctionWords<'_>, options: &mut JsonOptions) -> mlua::Result<MultiValue> {
    const CHOICES: [InvalidNumbers; 3] = [InvalidNumbers::Refused, InvalidNumbers::Written, InvalidNumbers::Null];
    if let Some(index) = choice(words, &[b"off", b"on", b"null"])? {
        options.encode_invalid = CHOICES[index];
    }
    only(match options.encode_invalid {
        InvalidNumbers::Refused => Ok(Value::Boolean(false)),
        InvalidNumbers::Written => Ok(Value::Boolean(true)),
        InvalidNumbers::Null => "null".into_lua(words.lua),
    })
}

fn decode(lua: &Lua, values: MultiValue, options: JsonOptions) -> mlua::Result<Value> {
    if values.len() != 1 {
        return Err(bad_argument(lua, 1, "expected 1 argument"));
    }
    let text = FunctionWords { lua, values }.text(0)?;
    cjson_decode::decode(lua, &text.as_bytes(), options)
}

fn encode(lua: &Lua, values: MultiValue, options: JsonOptions) -> mlua::Result<Value> {
    let (1, Some(value)) = (values.len(), values.front()) else {
        return Err(bad_argument(lua, 1, "expected 1 argument"));
    };
    let encoder = Encoder { lua, options, out: RefCell::default() };
    encoder.value(value, 0)?;
    lua_memory::string(lua, &encoder.out.into_inner()).map(Value::String)
}

/// Bytes that a byte of a string takes at most.
const ESCAPED: usize = 6;
/// Bound of the quotes around a string, and of the length of a number.
const SHORT: usize = 32;

struct Encoder<'l> {
    lua: &'l Lua,
    options: JsonOptions,
    out: RefCell<Vec<u8>>,
}

impl Encoder<'_> {
    fn put(&self, bytes: &[u8]) {
        self.out.borrow_mut().extend_from_slice(bytes);
    }

    fn value(&self, value: &Value, depth: usize) -> mlua::Result<()> {
        match value {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(value) => self.put(if *value { b"true" } else { b"false" }),
            Value::Nil => self.put(b"null"),
            null if null.is_null() => self.put(b"null"),
            Value::Table(table) => {
                let depth = depth + 1;
                if depth > DEPTH_MAX.min(self.options.encode_depth as usize) {
                    return Err(message(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
                }
                match self.array_len(table)? {
                    Some(len) => self.array(table, len, depth)?,
                    None => self.object(table, depth)?,
                }
            }
            other => {
                let text = format!("Cannot serialise {}: type not supported", type_name(other));
                return Err(message(self.lua, text));
            }
        }
        Ok(())
    }

    fn string(&self, text: &[u8]) -> mlua::Result<()> {
        let mut out = self.out.borrow_mut();
        room_to_grow(&out, text.len().saturating_mul(ESCAPED) + SHORT)?;
        out.push(b'"');
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => out.extend([b'\\', *byte]),
                8 => out.extend(b"\\b"),
                b'\t' => out.extend(b"\\t"),
                b'\n' => out.extend(b"\\n"),
                12 => out.extend(b"\\f"),
                b'\r' => out.extend(b"\\r"),
                0..32 | 127 => out.extend(format!("\\u{byte:04x}").bytes()),
                _ => out.push(*byte),
            }
        }
        out.push(b'"');
        Ok(())
    }

    fn number(&self, number: f64) -> mlua::Result<()> {
        room_to_grow(&self.out.borrow(), SHORT)?;
        if number.is_finite() {
            self.put(general(number, self.options.precision as usize).as_bytes());
            return Ok(());
        }
        match self.options.encode_invalid {
            InvalidNumbers::Refused => {
                return Err(message(self.lua, "Cannot serialise number: must not be NaN or Inf"));
            }
            InvalidNumbers::Null => self.put(b"null"),
            InvalidNumbers::Written if number.is_nan() => self.put(b"nan"),
            InvalidNumbers::Written => self.put(if number > 0.0 { b"inf" } else { b"-inf" }),
        }
        Ok(())
    }

    /// Returns the length of the array that the table is; None for an object. C counts in 32 bits.
    fn array_len(&self, table: &Table) -> mlua::Result<Option<usize>> {
        let (mut highest, mut items) = (0i32, 0i32);
        for pair in table.pairs::<Value, Value>() {
            match number(&pair?.0) {
                Some(index) if index >= 1.0 && index == index.floor() => {
                    if index > f64::from(highest) {
                        highest = if index > f64::from(i32::MAX) { i32::MIN } else { index as i32 };
                    }
                }
                _ => return Ok(None),
            }
            items += 1;
        }
        let JsonOptions { sparse_ratio, sparse_safe, sparse_convert, .. } = self.options;
        if sparse_ratio > 0 && highest > items.wrapping_mul(sparse_ratio) && highest > sparse_safe {
            if !sparse_convert {
                return Err(message(self.lua, "Cannot serialise table: excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(usize::try_from(highest).ok().filter(|highest| *highest > 0))
    }

    fn array(&self, table: &Table, len: usize, depth: usize) -> mlua::Result<()> {
        self.put(b"[");
        for index in 1..=len {
            if index > 1 {
                self.put(b",");
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.put(b"]");
        Ok(())
    }

    fn object(&self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.put(b"{");
        for (index, pair) in table.pairs::<Value, Value>().enumerate() {
            let (key, value) = pair?;
            if index > 0 {
                self.put(b",");
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.put(b"\"");
                    self.number(number(&key).unwrap_or_default())?;
                    self.put(b"\"");
                }
                _ => {
                    let text = format!("Cannot serialise {}: table key must be a number or string", type_name(&key));
                    return Err(message(self.lua, text));
                }
            }
            self.put(b":");
            self.value(&value, depth)?;
        }
        self.put(b"}");
        Ok(())
    }
}

/// Returns a number with so many digits, in the shorter of C's two notations (`%.*g`).
fn general(number: f64, precision: usize) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let text = format!("{number:.*e}", precision - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (number, text) in [
            (1.0, "1"),
            (100.0, "100"),
            (-0.5, "-0.5"),
            (1.0 / 3.0, "0.33333333333333"),
            (12_345_678_901_234_567_890.0, "1.2345678901235e+19"),
            (0.000_012_5, "1.25e-05"),
            (1e14, "1e+14"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(general(number, 14), text);
        }
        assert_eq!(general(123_456.789, 3), "1.23e+05");
    }
}
