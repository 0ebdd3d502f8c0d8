//! Additions to Lua's sources in `vendor/` for the server: read-only tables, and errors of natives that are plain
//! values for scripts.
//!
//! The binding raises a native's error as an opaque value. Lua asks [`replace_error`] for the value that scripts know
//! before any of them sees it, so `pcall`, `xpcall` and coroutines are Lua's own. An error that ends the run passes all
//! functions that catch errors, and no function of the script handles it.

#![allow(unsafe_code)]
#![allow(unused_doc_comments, reason = "a block of foreign functions says what they ask for")]

use super::current_run::{error_caught, is_ending};
use super::failure;
use mlua::{Function, Lua, MultiValue, Table, Value, ffi};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Functions of the sources in `vendor/`.
///
/// # Safety
/// As for the functions of Lua: the state is one of this thread, and the indices are those of tables on its stack.
unsafe extern "C-unwind" {
    fn lua_setreadonly(state: *mut ffi::lua_State, index: c_int, readonly: c_int);
    fn lua_isreadonly(state: *mut ffi::lua_State, index: c_int) -> c_int;
    fn lua_hostpcall(state: *mut ffi::lua_State, args: c_int, results: c_int, handler: c_int) -> c_int;
    fn lua_onerrors(state: *mut ffi::lua_State, host_error: ffi::lua_CFunction, caught: ffi::lua_CFunction);
}

/// The key of the function that makes values of errors, by its address.
static CLEAN: u8 = 0;

thread_local! {
    /// An error is being replaced: the one that is raised meanwhile stays as it is.
    static REPLACING: Cell<bool> = const { Cell::new(false) };
}

fn clean_key() -> *const c_void {
    (&raw const CLEAN).cast()
}

/// Makes a table read-only, or writable. Returns whether that is a change.
pub(super) fn set_readonly(lua: &Lua, table: &Table, readonly: bool) -> mlua::Result<bool> {
    let was = is_readonly(lua, table)?;
    // SAFETY: the argument on the stack is a table, and the functions raise no error.
    unsafe {
        lua.exec_raw::<()>(table, move |state| {
            lua_setreadonly(state, 1, c_int::from(readonly));
            ffi::lua_settop(state, 0);
        })?;
    }
    Ok(was != readonly)
}

/// Whether nothing may be set in a table. The binding's functions do not look: a native asks before it sets something
/// in a table that a script has given it.
pub(super) fn is_readonly(lua: &Lua, table: &Table) -> mlua::Result<bool> {
    // SAFETY: the argument on the stack is a table, whose place the answer takes; the functions raise no error.
    unsafe {
        lua.exec_raw(table, |state| {
            let answer = lua_isreadonly(state, 1);
            ffi::lua_settop(state, 0);
            ffi::lua_pushboolean(state, answer);
        })
    }
}

/// The local variables that the function at a level of the stack has so far, in their order. For a hook only.
pub(super) fn locals(lua: &Lua, level: usize) -> Vec<(Vec<u8>, Value)> {
    // The function that looks is a level of its own.
    let Ok(level) = c_int::try_from(level + 1) else { return Vec::new() };
    let one = |number: c_int| {
        // SAFETY: the record is plain data that `lua_getstack` fills. Lua looks whether the level and the variable are
        // there. The stack has room for the name and the value, and there is nothing to drop.
        let found = unsafe {
            lua.exec_raw::<(Option<mlua::LuaString>, Value)>((), move |state| {
                let mut frame: ffi::lua_Debug = std::mem::zeroed();
                let name = match ffi::lua_getstack(state, level, &raw mut frame) {
                    0 => std::ptr::null(),
                    _ => ffi::lua_getlocal(state, &raw const frame, number),
                };
                if name.is_null() {
                    ffi::lua_settop(state, 0);
                } else {
                    ffi::lua_pushstring(state, name);
                    ffi::lua_insert(state, -2);
                }
            })
        };
        let (name, value) = found.ok()?;
        Some((name?.as_bytes().to_vec(), value))
    };
    // Lua's own temporaries have a name in brackets, with an asterisk.
    (1..).map_while(one).filter(|(name, _)| !name.starts_with(b"(*")).collect()
}

/// Has Lua ask `clean` for the values of errors that natives raise.
pub(super) fn take_errors(lua: &Lua, clean: &Function) -> mlua::Result<()> {
    // SAFETY: the stack has the function, which is kept in the registry; the call around this catches the error for
    // want of memory, and there is nothing to drop.
    unsafe {
        lua.exec_raw::<()>(clean, |state| {
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, clean_key());
            lua_onerrors(state, replace_error, is_raised_again);
        })
    }
}

/// Makes the function that runs a script: called with the handler of its error, the script and its arguments. The
/// function returns whether all went well, and the value or the error.
pub(super) fn runner(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: the function keeps to the protocol of Lua's functions.
    unsafe { lua.create_c_function(run) }
}

/// Replaces the error on the top of the stack by the value that scripts know. Returns whether it ends the run.
///
/// # Safety
/// Lua calls it, with an error on the stack and room for more.
unsafe extern "C-unwind" fn replace_error(state: *mut ffi::lua_State) -> c_int {
    if REPLACING.get() {
        return 0;
    }
    REPLACING.set(true);
    // SAFETY: there is room for a function and its argument, and errors are caught: this frame has nothing to drop.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, clean_key());
        ffi::lua_insert(state, -2);
        ffi::lua_pcall(state, 1, 1, 0);
    }
    REPLACING.set(false);
    c_int::from(is_ending())
}

/// Whether the error on the top of the stack, which a script has caught, is raised again: it ends the run, or is a
/// panic of ours, which is a value of the binding.
///
/// # Safety
/// Lua calls it, with an error on the stack.
unsafe extern "C-unwind" fn is_raised_again(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: there is room for a table, which is taken off again; no function here raises an error.
    let is_panic = unsafe {
        ffi::lua_type(state, -1) == ffi::LUA_TUSERDATA && ffi::lua_getmetatable(state, -1) != 0 && {
            ffi::lua_settop(state, -2);
            true
        }
    };
    c_int::from(is_panic || is_ending())
}

/// Calls its second argument with those behind it, and its first with an error, while the stack is there.
///
/// # Safety
/// Lua calls it, with two arguments at least.
unsafe extern "C-unwind" fn run(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the call catches errors, and its results on the stack leave room for one more value. This frame has
    // nothing to drop.
    unsafe {
        let status = lua_hostpcall(state, ffi::lua_gettop(state) - 2, 1, 1);
        if status != ffi::LUA_OK {
            error_caught();
        }
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_insert(state, -2);
    }
    2
}

/// The place at which the handler of other servers fails when it is given a table that is read-only.
const HANDLER: (&str, i64) = ("@err_handler_def", 10);

/// The handler of a run's errors, called while the stack is there: keeps the place of the function that has failed,
/// and makes a table with the error's text and place. A script sees it where `load` catches an error of its reader.
pub(super) fn note(lua: &Lua, error: Value) -> mlua::Result<Value> {
    if let Value::Table(table) = &error
        && is_readonly(lua, table)?
    {
        let (source, line) = HANDLER;
        failure::note_place(Some((source.to_owned(), line)));
        let text = format!("ERR {}:{line}: {}", &source[1..], failure::READ_ONLY);
        return failure::table(lua, text.as_bytes(), false).or(Ok(error));
    }
    failure::note_place(failure::place(lua));
    // Without memory for the table the error stays what it is.
    handle(lua, error.clone()).or(Ok(error))
}

/// The handler that scripts find among their globals: a table with the text of the error and its place.
pub(super) fn handle(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let table = match error {
        Value::Table(table) if is_readonly(lua, &table)? => {
            return Err(failure::bare_message(failure::READ_ONLY));
        }
        Value::Table(table) => table,
        other => {
            let table = lua.create_table()?;
            let text = failure::shown(lua, &other)?;
            table.raw_set("err", lua.create_string([b"ERR ", &text[..]].concat())?)?;
            table
        }
    };
    if let Some((source, line)) = failure::place(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(Value::Table(table))
}

/// The handler of reading a global variable that is not there.
pub(super) fn missing(lua: &Lua, words: MultiValue) -> mlua::Result<()> {
    use failure::message;
    let name = match (words.len(), words.get(1)) {
        (2, Some(name)) => lua.coerce_string(name.clone())?,
        _ => return Err(message(lua, "Wrong number of arguments to luaProtectedTableError")),
    };
    let Some(name) = name else {
        return Err(message(lua, "Second argument to luaProtectedTableError must be a string or number"));
    };
    let start: &[u8] = b"Script attempted to access nonexistent global variable '";
    Err(message(lua, [start, engine::before_nul(&name.as_bytes()), b"'"].concat()))
}
