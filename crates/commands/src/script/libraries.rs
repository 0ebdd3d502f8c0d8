//! The libraries of scripts besides Lua's own.

use mlua::{Lua, Table};

/// All of them, by name.
pub(super) fn all(lua: &Lua) -> mlua::Result<Table> {
    let libraries = lua.create_table()?;
    Ok(libraries)
}
