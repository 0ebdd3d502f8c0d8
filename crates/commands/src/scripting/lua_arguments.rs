//! How the functions of libraries look at their arguments.

use super::failure::bad_argument;
use mlua::{Lua, LuaString, MultiValue, Value};

/// A number, whichever of the binding's two kinds it is.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// The arguments of a function of a library.
pub(super) struct FunctionWords<'l> {
    pub lua: &'l Lua,
    pub function: &'static str,
    pub values: MultiValue,
}

impl FunctionWords<'_> {
    pub fn wrong(&self, index: usize, text: &str) -> mlua::Error {
        bad_argument(self.lua, index + 1, self.function, text)
    }

    fn expected(&self, index: usize, what: &str) -> mlua::Error {
        let got = self.values.get(index).map_or("no value", Value::type_name);
        let got = if got == "integer" { "number" } else { got };
        self.wrong(index, &format!("{what} expected, got {got}"))
    }

    /// Argument `index` (from 0) as a number, as Lua converts it.
    pub fn number(&self, index: usize) -> mlua::Result<f64> {
        let value = self.values.get(index).cloned().ok_or_else(|| self.expected(index, "number"))?;
        self.lua.coerce_number(value)?.ok_or_else(|| self.expected(index, "number"))
    }

    pub fn number_or(&self, index: usize, default: f64) -> mlua::Result<f64> {
        match self.values.get(index) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => self.number(index),
        }
    }

    /// Argument `index` as a string, as Lua converts it.
    pub fn text(&self, index: usize) -> mlua::Result<LuaString> {
        let value = self.values.get(index).cloned().ok_or_else(|| self.expected(index, "string"))?;
        self.lua.coerce_string(value)?.ok_or_else(|| self.expected(index, "string"))
    }
}
