//! Times at which a running script is looked at: whether others wait for it, whether it is to end.
//!
//! Lua calls a hook after so many instructions. One instruction may take long: it calls a function of C that processes
//! much data, or joins long strings. So work is counted besides: bytes that Lua takes ([`note_taken`]), and calls of
//! functions that may take long, by the length of their arguments ([`note_call`]). After so much work the next
//! instruction is the last before a look. A look that is late even so makes the next ones follow after fewer
//! instructions; one that is early makes long arguments count for less.

#![allow(unsafe_code)]

use mlua::{Function, Lua, Table, ffi};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Instructions between two looks: well below a millisecond of those that are quick.
pub(super) const EVERY: u32 = 25_000;
/// Instructions between two looks where instructions were found to be slow.
const EVERY_SLOW: c_int = 100;
/// Nanoseconds between two looks that say that instructions are slow.
const SLOW: u64 = 4_000_000;
/// Calls between two looks, of functions with short arguments.
const CALLS: usize = 128;
/// Elements or bytes of an argument that count as one more call.
const PER_CALL: usize = 1024;
/// Calls that one counts for at most while calls are found to be quick, whatever their arguments: a search may find at
/// once.
const MOST_QUICK: usize = 4;
/// Nanoseconds between two looks that say that they come too often.
const QUICK: u64 = 100_000;
/// Bytes that Lua takes between two looks.
pub(super) const TAKEN: usize = 4 << 20;

/// Functions of Lua that may take long for their arguments, and those that make coroutines.
const FUNCTIONS: [(&str, &[&str], ffi::lua_CFunction); 5] = [
    ("string", &["find", "format", "gmatch", "gsub", "lower", "match", "rep", "reverse", "upper"], enter_counted),
    ("table", &["concat", "maxn", "sort"], enter_counted),
    ("table", &["insert"], enter_if_moving::<3>),
    ("table", &["remove"], enter_if_moving::<2>),
    ("coroutine", &["create", "wrap"], enter_maker),
];

thread_local! {
    /// Calls since the last look; a look is due from [`CALLS`] on.
    static CALLED: Cell<usize> = const { Cell::new(0) };
    /// Calls that one counts for at most.
    static MOST: Cell<usize> = const { Cell::new(CALLS) };
}

/// Sets the time of the next look, which is so many nanoseconds after the last one: soon where instructions are slow. A
/// run whose stack has no room is looked at as before.
pub(super) fn set_pace(lua: &Lua, nanos: u64) {
    CALLED.set(0);
    let set = move |state| {
        // SAFETY: the state is the one that runs, and the functions change nothing but its hook.
        unsafe {
            let now = ffi::lua_gethookcount(state);
            match nanos {
                SLOW.. => MOST.set(CALLS),
                ..QUICK if now == 1 => MOST.set((MOST.get() / 2).max(MOST_QUICK)),
                _ => {}
            }
            let next = match now {
                _ if nanos >= SLOW => EVERY_SLOW,
                1 => EVERY as c_int,
                now => now.saturating_mul(4).min(EVERY as c_int),
            };
            if next != now {
                ffi::lua_sethook(state, ffi::lua_gethook(state), ffi::LUA_MASKCOUNT, next);
            }
        }
    };
    // SAFETY: the function raises no error and leaves the stack as it is.
    _ = unsafe { lua.exec_raw::<()>((), set) };
}

/// Makes the next instruction the last before a look, unless the run's stack has no room.
#[cold]
pub(super) fn look_soon(lua: &Lua) {
    // SAFETY: the state is the one that runs; the function raises no error and leaves the stack as it is.
    _ = unsafe { lua.exec_raw::<()>((), |state| hurry(state)) };
}

/// Makes the next instruction the last before a look, unless a debugger looks at each line.
///
/// # Safety
/// The state is one of this thread's interpreter.
#[cold]
unsafe fn hurry(state: *mut ffi::lua_State) {
    // SAFETY: the functions may be called at any time, and change nothing but the hook.
    unsafe {
        let hook = ffi::lua_gethook(state);
        if hook.is_some() && ffi::lua_gethookmask(state) == ffi::LUA_MASKCOUNT {
            ffi::lua_sethook(state, hook, ffi::LUA_MASKCOUNT, 1);
        }
    }
}

/// Records that Lua has taken [`TAKEN`] bytes. The state may not be the one that runs, which the next [call](note_call)
/// knows.
///
/// # Safety
/// The state is one of this thread's interpreter.
#[cold]
pub(super) unsafe fn note_taken(state: *mut ffi::lua_State) {
    CALLED.set(CALLS);
    // SAFETY: the caller's promise.
    unsafe { hurry(state) }
}

/// Counts a call of a function that may take long, with its argument.
///
/// # Safety
/// The state is one of this thread's interpreter, and runs the function.
#[inline]
pub(super) unsafe fn note_call(state: *mut ffi::lua_State) {
    // SAFETY: an argument that is not there has no type, and neither a string nor a table is changed by its length.
    let length = unsafe {
        match ffi::lua_type(state, 1) {
            ffi::LUA_TSTRING | ffi::LUA_TTABLE => ffi::lua_objlen(state, 1),
            _ => 0,
        }
    };
    let called = CALLED.get().saturating_add(1 + (length / PER_CALL).min(MOST.get()));
    CALLED.set(called);
    if called >= CALLS {
        CALLED.set(0);
        // SAFETY: the caller's promise.
        unsafe { hurry(state) }
    }
}

/// Counts calls of Lua's own functions: of those that may take long, and of those that make coroutines.
pub(super) fn note_calls(lua: &Lua) -> mlua::Result<()> {
    for (library, names, enter) in FUNCTIONS {
        let library: Table = lua.globals().raw_get(library)?;
        for name in names {
            let function: Function = library.raw_get(*name)?;
            library.raw_set(*name, entered_by(lua, function, enter)?)?;
        }
    }
    Ok(())
}

/// Puts `enter` before a function of Lua.
fn entered_by(lua: &Lua, function: Function, enter: ffi::lua_CFunction) -> mlua::Result<Function> {
    // SAFETY: the closure has nothing to drop, so the error of `lua_pushcclosure`, which is caught by the call around
    // it, may pass it. Its one argument is the function, on a stack with room for more than is pushed.
    unsafe {
        lua.exec_raw(function, |state| {
            // Its upvalues would not be found.
            let has_none = ffi::lua_getupvalue(state, 1, 1).is_null();
            let Some(call) = ffi::lua_tocfunction(state, 1).filter(|_| has_none) else {
                return ffi::lua_settop(state, 0);
            };
            ffi::lua_pushlightuserdata(state, call as *mut c_void);
            ffi::lua_pushcclosure(state, enter, 1);
            ffi::lua_remove(state, 1);
        })
    }
}

/// Calls Lua's function as Lua would.
///
/// # Safety
/// Lua calls it, as a closure that [`entered_by`] has made.
unsafe extern "C-unwind" fn enter_counted(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for this function.
    unsafe {
        note_call(state);
        call_inner(state)
    }
}

/// Calls Lua's function as Lua would. The function moves the elements of a table if it gets so many arguments.
///
/// # Safety
/// Lua calls it, as a closure that [`entered_by`] has made.
unsafe extern "C-unwind" fn enter_if_moving<const ARGUMENTS: c_int>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for this function.
    unsafe {
        if ffi::lua_gettop(state) >= ARGUMENTS {
            note_call(state);
        }
        call_inner(state)
    }
}

/// Calls Lua's function as Lua would. The function makes a coroutine, which is looked at as soon as the one that makes
/// it.
///
/// # Safety
/// Lua calls it, as a closure that [`entered_by`] has made.
unsafe extern "C-unwind" fn enter_maker(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for this function; the functions change nothing but the hook.
    unsafe {
        if ffi::lua_gethookmask(state) == ffi::LUA_MASKCOUNT && ffi::lua_gethookcount(state) > EVERY_SLOW {
            ffi::lua_sethook(state, ffi::lua_gethook(state), ffi::LUA_MASKCOUNT, EVERY_SLOW);
        }
        call_inner(state)
    }
}

/// Calls the function that another one was put before.
///
/// # Safety
/// A closure that [`entered_by`] has made runs.
unsafe fn call_inner(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: the upvalue is Lua's function, which has none itself. This frame has nothing to drop.
    unsafe {
        let call = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1));
        std::mem::transmute::<*mut c_void, ffi::lua_CFunction>(call)(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::{HookTriggers, VmState};

    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the looks at 10,000 searches in a long string; each search finds that so many nanoseconds have passed.
    fn looks_at_searches(nanos: u64) -> usize {
        LOOKS.set(0);
        let lua = Lua::new();
        note_calls(&lua).expect("Lua's functions");
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(EVERY), move |lua, _| {
            LOOKS.set(LOOKS.get() + 1);
            set_pace(lua, nanos);
            Ok(VmState::Continue)
        })
        .expect("a hook");
        lua.load("local s = ('x'):rep(2^20) for i = 1, 10000 do s:find('x', 1, true) end").exec().expect("a script");
        LOOKS.get()
    }

    #[test]
    fn searches_that_find_at_once_are_looked_at_seldom_however_long_the_text() {
        let slow = looks_at_searches(SLOW);
        assert!(slow >= 10_000, "{slow}");
        let quick = looks_at_searches(QUICK / 100);
        assert!((10..1000).contains(&quick), "{quick}");
        let between = looks_at_searches(QUICK);
        assert!(between < 1000, "{between}: what was learnt holds");
        let slow = looks_at_searches(SLOW);
        assert!(slow > 9_900, "{slow}: all but those before the first look");
    }
}
