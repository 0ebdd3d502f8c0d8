//! FUNCTION, FCALL.

use mlua::{Lua, Table};

#[derive(Default)]
pub(super) struct Loaded {}

pub(super) fn registration(lua: &Lua) -> mlua::Result<Table> {
    lua.create_table()
}

pub(super) fn look() -> Result<(), mlua::Error> {
    Ok(())
}
