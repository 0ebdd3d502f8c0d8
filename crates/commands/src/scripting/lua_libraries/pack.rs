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

use crate::scripting::failure::message;
use crate::scripting::lua_arguments::{FunctionWords, c_integer};
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

/// A format that is walked through. As for C, it ends with the first zero.
struct Format<'f> {
    words: &'f FunctionWords<'f>,
    left: &'f [u8],
    big: bool,
    align: usize,
}

/// A letter of a format, its number of bytes, and the bytes of padding before it.
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'f> Format<'f> {
    fn new(words: &'f FunctionWords<'f>, format: &'f [u8]) -> Format<'f> {
        Format { words, left: engine::before_nul(format), big: cfg!(target_endian = "big"), align: 1 }
    }

    /// Returns the number that stands next, or `default`.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.left.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (number, left) = self.left.split_at(digits);
        self.left = left;
        let add = |sum: i32, digit: &u8| sum.checked_mul(10)?.checked_add(i32::from(digit - b'0'));
        let number = number.iter().try_fold(0, add);
        number.map(|n| n as usize).ok_or_else(|| message(self.words.lua, "integral size overflow"))
    }

    /// Returns the next letter, where `position` bytes are before it.
    fn next(&mut self, position: usize) -> mlua::Result<Option<Item>> {
        let Some((&option, left)) = self.left.split_first() else { return Ok(None) };
        self.left = left;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => self.number(4)?,
            _ => 0,
        };
        if matches!(option, b'i' | b'I') && size > INTEGER_MAX {
            let text = format!("integral size {size} is larger than limit of {INTEGER_MAX}");
            return Err(message(self.words.lua, text));
        }
        let padding = match size.min(self.align) {
            0 => 0,
            _ if option == b'c' => 0,
            // The formula is right for powers of two, and gives other servers' result for other numbers.
            align => (align - (position & (align - 1))) & (align - 1),
        };
        Ok(Some(Item { option, size, padding }))
    }

    /// Follows a letter that stands for no value.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'<' => self.big = false,
            b'>' => self.big = true,
            b'!' => {
                let align = self.number(ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(message(self.words.lua, format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => return Err(self.words.wrong(0, &[b"invalid format option '", &[option][..], b"'"].concat())),
        }
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, bytes: impl DoubleEndedIterator<Item = u8>, big: bool) {
    if big { out.extend(bytes.rev()) } else { out.extend(bytes) }
}

/// Returns the 64 bits that C makes of a number: negative ones in two's complement, others above the signed range as
/// they are.
fn bits(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF { c_integer(number - HALF) as u64 ^ 1 << 63 } else { c_integer(number) as u64 }
}

fn pack(lua: &Lua, values: MultiValue) -> mlua::Result<Value> {
    let mut words = FunctionWords { lua, values };
    let text = words.text(0)?;
    // The error names the first that is missing as nil.
    words.values.push_back(Value::Nil);
    let text = text.as_bytes();
    let mut format = Format::new(&words, &text);
    let (mut out, mut next) = (Vec::new(), 1);
    while let Some(Item { option, size, padding }) = format.next(out.len())? {
        out.resize(out.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = bits(words.number(next)?);
                let byte = |at: usize| if at < 8 { (number >> (8 * at)) as u8 } else { 0 };
                put(&mut out, (0..size).map(byte), format.big);
            }
            b'x' => {
                out.push(0);
                continue;
            }
            b'f' => put(&mut out, (words.number(next)? as f32).to_le_bytes().into_iter(), format.big),
            b'd' => put(&mut out, words.number(next)?.to_le_bytes().into_iter(), format.big),
            b'c' | b's' => {
                let bytes = words.text(next)?;
                let bytes = bytes.as_bytes();
                let size = if size == 0 { bytes.len() } else { size };
                let bytes = bytes.get(..size).ok_or_else(|| words.wrong(next + 1, "string too short"))?;
                room_to_grow(&out, bytes.len() + 1)?;
                out.extend_from_slice(bytes);
                if option == b's' {
                    out.push(0);
                }
            }
            other => {
                format.control(other)?;
                continue;
            }
        }
        next += 1;
    }
    lua_memory::string(lua, &out).map(Value::String)
}

fn unpack(lua: &Lua, values: MultiValue) -> mlua::Result<MultiValue> {
    let words = FunctionWords { lua, values };
    let (text, data) = (words.text(0)?, words.text(1)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    // An offset before the beginning is far behind the end.
    let start = words.integer_or(2, 1)?;
    if start == 0 {
        return Err(words.wrong(2, "offset must be 1 or greater"));
    }
    let mut position = start.wrapping_sub(1) as usize;
    let mut format = Format::new(&words, &text);
    let mut found: Vec<Value> = Vec::new();
    let take = |position: usize, size: usize| {
        let bytes = position.checked_add(size).and_then(|end| data.get(position..end));
        bytes.ok_or_else(|| words.wrong(1, "data string too short"))
    };
    while let Some(Item { option, mut size, padding }) = format.next(position)? {
        position = position.wrapping_add(padding);
        let bytes = take(position, size)?;
        let ordered = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if format.big {
                bytes.reverse();
            }
            bytes
        };
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                found.push(Value::Number(integer(&ordered(bytes), option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let number = f32::from_le_bytes(ordered(bytes).try_into().unwrap_or_default());
                found.push(Value::Number(number.into()));
            }
            b'd' => found.push(Value::Number(f64::from_le_bytes(ordered(bytes).try_into().unwrap_or_default()))),
            b'c' if size > 0 => found.push(Value::String(lua_memory::string(lua, bytes)?)),
            b'c' => {
                // The length is the value that was read last.
                let length = found.pop().map(|value| lua.coerce_number(value)).transpose()?.flatten();
                size = bits(length.ok_or_else(|| message(lua, "format 'c0' needs a previous size"))?) as usize;
                found.push(Value::String(lua_memory::string(lua, take(position, size)?)?));
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| message(lua, "unfinished string in data"))?;
                found.push(Value::String(lua_memory::string(lua, &rest[..end])?));
                size = end + 1;
            }
            other => format.control(other)?,
        }
        position = position.wrapping_add(size);
    }
    found.push(Value::Number(position.wrapping_add(1) as i64 as f64));
    Ok(MultiValue::from_iter(found))
}

/// Returns a number of little-endian bytes; bits above 64 are cut off.
fn integer(bytes: &[u8], signed: bool) -> f64 {
    let mut low = [0; 8];
    let size = bytes.len().min(8);
    low[..size].copy_from_slice(&bytes[..size]);
    let number = u64::from_le_bytes(low);
    if !signed {
        return number as f64;
    }
    // The sign is that of so many bits, counted modulo 64.
    let sign = u64::MAX.wrapping_shl((8 * bytes.len() as u32).wrapping_sub(1));
    (if number & sign != 0 { number | sign } else { number }) as i64 as f64
}

fn size(lua: &Lua, values: MultiValue) -> mlua::Result<f64> {
    let words = FunctionWords { lua, values };
    let text = words.text(0)?;
    let text = text.as_bytes();
    let mut format = Format::new(&words, &text);
    let mut total = 0usize;
    while let Some(Item { option, size, padding }) = format.next(total)? {
        match option {
            b's' => return Err(words.wrong(0, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(words.wrong(0, "option 'c0' has no fixed size")),
            // Alphanumerics that are no letters of a format have no size.
            other if other.is_ascii_alphanumeric() => {}
            other => format.control(other)?,
        }
        total = total.wrapping_add(padding).wrapping_add(size);
    }
    Ok(total as f64)
}
