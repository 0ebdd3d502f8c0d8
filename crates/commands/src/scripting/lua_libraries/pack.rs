//! The library `struct`: values to bytes and back, by a format.
//!
//! | in a format | is |
//! |---|---|
//! | `<` `>` | little, big byte order from here on |
//! | `!n` | alignment to at most n bytes (8 without a number) |
//! | `b` `B` `h` `H` `l` `L` `T` | 1, 2 and 8 bytes, `T` a size; capitals are unsigned |
//! | `i` `I` with a number | that many bytes, 4 without |
//! | `f` `d` | 4 and 8 bytes of floating point |
//! | `x` | a byte of padding |
//! | `c` with a number | that many bytes; `c0` as many as the number before it |
//! | `s` | bytes with a zero at the end |
//! | blank | nothing |

use crate::scripting::failure::{bad_argument, message};
use crate::scripting::lua_arguments::FunctionWords;
use crate::scripting::lua_memory::{self, native, room_to_grow};
use mlua::{Lua, MultiValue, Table, Value};

const INTEGER_MAX: usize = 32;
const ALIGNMENT: usize = 8;

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", native(lua, pack)?)?;
    library.raw_set("unpack", native(lua, unpack)?)?;
    library.raw_set("size", native(lua, size)?)?;
    Ok(library)
}

/// What a format goes through.
struct Format<'f> {
    lua: &'f Lua,
    function: &'static str,
    left: &'f [u8],
    big: bool,
    align: usize,
}

#[derive(Clone, Copy)]
enum Item {
    Integer { size: usize, signed: bool },
    Float,
    Double,
    Padding,
    Bytes(usize),
    Text,
}

impl<'f> Format<'f> {
    fn new(lua: &'f Lua, function: &'static str, format: &'f [u8]) -> Format<'f> {
        Format { lua, function, left: format, big: cfg!(target_endian = "big"), align: 1 }
    }

    /// The number that stands next, or `default`.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.left.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (number, left) = self.left.split_at(digits);
        self.left = left;
        let number = resp::number::parse_i64(number).and_then(|n| i32::try_from(n).ok());
        number.map(|n| n as usize).ok_or_else(|| message(self.lua, "integral size overflow"))
    }

    fn integer(&mut self, signed: bool) -> mlua::Result<Item> {
        let size = self.number(4)?;
        if size > INTEGER_MAX {
            return Err(message(self.lua, format!("integral size {size} is larger than limit of {INTEGER_MAX}")));
        }
        Ok(Item::Integer { size, signed })
    }

    /// The next item, with how many bytes of padding it needs at `position`.
    fn next(&mut self, position: usize) -> mlua::Result<Option<(Item, usize)>> {
        while let Some((&option, left)) = self.left.split_first() {
            self.left = left;
            let integer = |size: usize| Item::Integer { size, signed: option.is_ascii_lowercase() };
            let item = match option {
                b' ' => continue,
                b'<' => {
                    self.big = false;
                    continue;
                }
                b'>' => {
                    self.big = true;
                    continue;
                }
                b'!' => {
                    self.align = self.number(ALIGNMENT)?;
                    if self.align == 0 || !self.align.is_power_of_two() {
                        return Err(message(self.lua, format!("alignment {} is not a power of 2", self.align)));
                    }
                    continue;
                }
                b'b' | b'B' => integer(1),
                b'h' | b'H' => integer(2),
                b'l' | b'L' => integer(8),
                b'T' => Item::Integer { size: 8, signed: false },
                b'i' | b'I' => self.integer(option == b'i')?,
                b'f' => Item::Float,
                b'd' => Item::Double,
                b'x' => Item::Padding,
                b'c' => Item::Bytes(self.number(1)?),
                b's' => Item::Text,
                // What has no size is not looked at by who asks for sizes.
                other if self.function == "size" && other.is_ascii_alphanumeric() => continue,
                _ => {
                    let text = format!("invalid format option '{}'", char::from(option));
                    return Err(bad_argument(self.lua, 1, self.function, &text));
                }
            };
            let size = match item {
                Item::Integer { size, .. } => size,
                Item::Float => 4,
                Item::Double => 8,
                Item::Padding | Item::Bytes(_) | Item::Text => 1,
            };
            let align = size.min(self.align);
            let padding =
                if align > 1 && align.is_power_of_two() { position.next_multiple_of(align) - position } else { 0 };
            return Ok(Some((item, padding)));
        }
        Ok(None)
    }
}

fn put(out: &mut Vec<u8>, bytes: impl DoubleEndedIterator<Item = u8>, big: bool) {
    if big { out.extend(bytes.rev()) } else { out.extend(bytes) }
}

fn pack(lua: &Lua, mut values: MultiValue) -> mlua::Result<Value> {
    // What is missing is told as nil.
    values.push_back(Value::Nil);
    let words = FunctionWords { lua, function: "pack", values };
    let text = words.text(0)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "pack", &text);
    let (mut out, mut next) = (Vec::new(), 1);
    while let Some((item, padding)) = format.next(out.len())? {
        out.resize(out.len() + padding, 0);
        let big = format.big;
        match item {
            Item::Padding => {
                out.push(0);
                continue;
            }
            Item::Integer { size, .. } => {
                let number = words.number(next)?;
                // Negative numbers in two's complement, others above the signed range as they are.
                let number = if number < 0.0 { i128::from(number as i64) } else { i128::from(number as u64) };
                put(&mut out, (0..size).map(|at| (number >> (8 * at).min(127)) as u8), big);
            }
            Item::Float => put(&mut out, (words.number(next)? as f32).to_le_bytes().into_iter(), big),
            Item::Double => put(&mut out, words.number(next)?.to_le_bytes().into_iter(), big),
            Item::Bytes(size) => {
                let bytes = words.text(next)?;
                let bytes = bytes.as_bytes();
                let size = if size == 0 { bytes.len() } else { size };
                let bytes = bytes.get(..size).ok_or_else(|| words.wrong(next + 1, "string too short"))?;
                room_to_grow(&out, bytes.len())?;
                out.extend_from_slice(bytes);
            }
            Item::Text => {
                let text = words.text(next)?;
                let text = text.as_bytes();
                room_to_grow(&out, text.len())?;
                out.extend_from_slice(&text);
                out.push(0);
            }
        }
        next += 1;
    }
    lua_memory::string(lua, &out).map(Value::String)
}

fn unpack(lua: &Lua, values: MultiValue) -> mlua::Result<MultiValue> {
    let words = FunctionWords { lua, function: "unpack", values };
    let (text, data) = (words.text(0)?, words.text(1)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let start = words.number_or(2, 1.0)?;
    if !(1.0..=9e15).contains(&start) {
        return Err(words.wrong(2, "offset must be 1 or greater"));
    }
    let mut position = start as usize - 1;
    let mut format = Format::new(lua, "unpack", &text);
    let mut found: Vec<Value> = Vec::new();
    let too_short = || words.wrong(1, "data string too short");
    while let Some((item, padding)) = format.next(position)? {
        position = position.saturating_add(padding);
        if position > data.len() {
            return Err(too_short());
        }
        let rest = data.get(position..).unwrap_or_default();
        let mut take = |size: usize| {
            let end = position.checked_add(size)?;
            let bytes = data.get(position..end)?;
            position = end;
            Some(bytes)
        };
        let mut ordered = |size: usize| {
            let mut bytes = take(size)?.to_vec();
            if format.big {
                bytes.reverse();
            }
            Some(bytes)
        };
        let value = match item {
            Item::Padding => {
                take(1).ok_or_else(too_short)?;
                continue;
            }
            Item::Integer { size, signed } => {
                let bytes = ordered(size).ok_or_else(too_short)?;
                Value::Number(integer(&bytes, signed))
            }
            Item::Float => {
                let bytes = ordered(4).ok_or_else(too_short)?;
                Value::Number(f32::from_le_bytes(bytes.try_into().unwrap_or_default()).into())
            }
            Item::Double => {
                let bytes = ordered(8).ok_or_else(too_short)?;
                Value::Number(f64::from_le_bytes(bytes.try_into().unwrap_or_default()))
            }
            Item::Bytes(mut size) => {
                if size == 0 {
                    // The length is what was read last.
                    let length = found.pop().and_then(|value| value.as_f64()).filter(|length| *length >= 0.0);
                    size = length.ok_or_else(|| message(lua, "format 'c0' needs a previous size"))? as usize;
                }
                Value::String(lua_memory::string(lua, take(size).ok_or_else(too_short)?)?)
            }
            Item::Text => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| message(lua, "unfinished string in data"))?;
                let text = take(end + 1).ok_or_else(too_short)?;
                Value::String(lua_memory::string(lua, &text[..end])?)
            }
        };
        found.push(value);
    }
    found.push(Value::Number((position + 1) as f64));
    Ok(MultiValue::from_iter(found))
}

/// A number of little-endian bytes; what does not fit 64 bits is cut off.
fn integer(bytes: &[u8], signed: bool) -> f64 {
    let mut low = [0; 8];
    let size = bytes.len().min(8);
    low[..size].copy_from_slice(&bytes[..size]);
    let number = u64::from_le_bytes(low);
    if !signed || size == 0 {
        return number as f64;
    }
    let unused = 64 - 8 * size as u32;
    ((number << unused) as i64 >> unused) as f64
}

fn size(lua: &Lua, values: MultiValue) -> mlua::Result<f64> {
    let words = FunctionWords { lua, function: "size", values };
    let text = words.text(0)?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "size", &text);
    let mut total = 0usize;
    while let Some((item, padding)) = format.next(total)? {
        let size = match item {
            Item::Integer { size, .. } => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Bytes(0) => return Err(words.wrong(0, "option 'c0' has no fixed size")),
            Item::Bytes(size) => size,
            Item::Text => return Err(words.wrong(0, "option 's' has no fixed size")),
        };
        total = total.saturating_add(padding).saturating_add(size);
    }
    Ok(total as f64)
}
