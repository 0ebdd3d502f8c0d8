//! The library `bit`: operations on 32 bits, as in LuaJIT's library of that name. Results are signed.

use crate::scripting::lua_arguments::FunctionWords;
use crate::scripting::lua_memory::native;
use mlua::{Lua, MultiValue, Table};

pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    // Room for all of them, in this order: a walk through the table meets them as in other servers.
    let bit = lua.create_table_with_capacity(0, 12)?;
    let add = |name: &'static str, operation: fn(&FunctionWords<'_>) -> mlua::Result<i32>| {
        let function =
            native(lua, move |lua, values: MultiValue| operation(&FunctionWords { lua, values }).map(f64::from))?;
        bit.raw_set(name, function)
    };
    add("tobit", |words| bits(words, 0))?;
    add("bnot", |words| Ok(!bits(words, 0)?))?;
    add("band", |words| fold(words, |a, b| a & b))?;
    add("bor", |words| fold(words, |a, b| a | b))?;
    add("bxor", |words| fold(words, |a, b| a ^ b))?;
    add("lshift", |words| Ok(bits(words, 0)? << (bits(words, 1)? & 31)))?;
    add("rshift", |words| Ok(((bits(words, 0)? as u32) >> (bits(words, 1)? & 31)) as i32))?;
    add("arshift", |words| Ok(bits(words, 0)? >> (bits(words, 1)? & 31)))?;
    add("rol", |words| Ok(bits(words, 0)?.rotate_left(bits(words, 1)? as u32 & 31)))?;
    add("ror", |words| Ok(bits(words, 0)?.rotate_right(bits(words, 1)? as u32 & 31)))?;
    add("bswap", |words| Ok(bits(words, 0)?.swap_bytes()))?;
    bit.raw_set("tohex", native(lua, tohex)?)?;
    Ok(bit)
}

/// Returns the low 32 bits of the nearest integer.
fn bits(words: &FunctionWords<'_>, index: usize) -> mlua::Result<i32> {
    // Two to the 52nd and half of that: adding them leaves an integer's low bits at the bottom of the mantissa.
    let number = words.number(index)? + 6_755_399_441_055_744.0;
    Ok(number.to_bits() as i32)
}

fn fold(words: &FunctionWords<'_>, operation: fn(i32, i32) -> i32) -> mlua::Result<i32> {
    let first = bits(words, 0)?;
    // The last argument is converted first: its error counts.
    (1..words.values.len()).rev().try_fold(first, |folded, index| Ok(operation(folded, bits(words, index)?)))
}

/// Returns eight digits, or as many as the second argument says; negative for capitals.
fn tohex(lua: &Lua, values: MultiValue) -> mlua::Result<String> {
    let words = FunctionWords { lua, values };
    let number = bits(&words, 0)?;
    let digits = if words.values.len() > 1 { bits(&words, 1)? } else { 8 };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    Ok(text[8 - count..].to_owned())
}
