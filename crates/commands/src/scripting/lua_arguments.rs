//! Arguments of the functions of libraries.

use super::failure::bad_argument;
use mlua::{Lua, LuaString, MultiValue, Value};

/// Returns a number of either of the binding's two kinds.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// Returns the name of a value's type, as Lua calls it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.type_name() {
        "integer" => "number",
        "lightuserdata" => "userdata",
        name => name,
    }
}

/// Returns the integer that C makes of a number: the fraction is cut off, and any number out of range becomes the
/// lowest.
pub(super) fn c_integer(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The arguments of a function of a library.
pub(super) struct FunctionWords<'l> {
    pub lua: &'l Lua,
    pub values: MultiValue,
}

impl FunctionWords<'_> {
    pub fn wrong(&self, index: usize, text: &(impl AsRef<[u8]> + ?Sized)) -> mlua::Error {
        bad_argument(self.lua, index + 1, text)
    }

    fn expected(&self, index: usize, what: &str) -> mlua::Error {
        let got = self.values.get(index).map_or("no value", type_name);
        self.wrong(index, &format!("{what} expected, got {got}"))
    }

    /// Returns argument `index` (from 0) as a number, as Lua converts it.
    pub fn number(&self, index: usize) -> mlua::Result<f64> {
        let value = self.values.get(index).cloned().ok_or_else(|| self.expected(index, "number"))?;
        self.lua.coerce_number(value)?.ok_or_else(|| self.expected(index, "number"))
    }

    /// Returns argument `index` as C's `int`.
    pub fn int(&self, index: usize) -> mlua::Result<i32> {
        self.number(index).map(|number| c_integer(number) as i32)
    }

    /// Returns argument `index` as an integer of 64 bits.
    pub fn integer(&self, index: usize) -> mlua::Result<i64> {
        self.number(index).map(c_integer)
    }

    pub fn integer_or(&self, index: usize, default: i64) -> mlua::Result<i64> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => self.integer(index),
        }
    }

    pub fn int_or(&self, index: usize, default: i32) -> mlua::Result<i32> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => self.int(index),
        }
    }

    /// Returns argument `index` as a string, as Lua converts it.
    pub fn text(&self, index: usize) -> mlua::Result<LuaString> {
        let value = self.values.get(index).cloned().ok_or_else(|| self.expected(index, "string"))?;
        self.lua.coerce_string(value)?.ok_or_else(|| self.expected(index, "string"))
    }
}
