//! The memory of scripts, which can be refused.
//!
//! A script that wants more memory than there is (`ulimit -v`, strict overcommit) must fail alone. The binding's
//! allocator ends the process instead, so an interpreter gets the allocator of this module: Lua raises an error for a
//! request that it refuses. A refusal is too late when nothing is left, for then the next allocation of any other
//! thread ends the process. So a script takes more only while [`LEFT_FOR_OTHERS`] could be mapped besides.
//!
//! The process's allocator keeps the addresses of memory that a thread has freed, for the same thread. A script that
//! takes no more than an earlier one of its thread therefore needs only [`FLOOR`] besides.
//!
//! Lua's errors are jumps, and no jump may pass a frame of Rust. Natives call the binding as if that could not fail
//! (with `lua-memory-limit` it protects each call instead, which costs time). So a request is refused only while Lua's
//! own code runs, which [`in_lua`] and [`native`] know:
//!
//! ```text
//!   Rust -- in_lua --> Lua: may be refused -- native --> Rust: is never refused -- returns --> Lua ..
//! ```
//!
//! A native [asks](room_for) before it takes much. When it takes memory that should have been refused the script is
//! [short](is_short) of memory, and the next look at the clock ends it.

#![allow(unsafe_code)]

use super::{failure, looks};
use memmap2::MmapMut;
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaString, ffi};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, copy_nonoverlapping, null_mut};

/// Bytes that are left for all other work whenever scripts are granted more.
const LEFT_FOR_OTHERS: usize = 64 << 20;
/// Bytes that are left where a script takes no more than an earlier one: it gets addresses that the process's allocator
/// kept.
const FLOOR: usize = 32 << 20;
/// Bytes that are taken between two looks at the free memory.
const STEP: usize = 8 << 20;
/// Bytes that natives take without asking.
const UNASKED: usize = 64 << 10;

/// Lua's words for the shortage.
pub(super) const NOT_ENOUGH: &str = "not enough memory";
/// The error that the client of a script reads.
pub(super) const RAN_OUT: &[u8] = b"ERR Error running script, not enough memory";

thread_local! {
    /// Bytes that this thread's scripts had while others had enough.
    static MOST: Cell<usize> = const { Cell::new(0) };
    /// Natives took memory that was not available.
    static SHORT: Cell<bool> = const { Cell::new(false) };
    /// A request was refused since the last [`take_refused`].
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    /// Lua's own code runs: no frame of Rust is between it and the call that catches its errors.
    static IN_LUA: Cell<bool> = const { Cell::new(false) };
}

/// The side of the binding that runs until this is dropped; then the one before runs again.
pub(super) struct Side {
    was_lua: bool,
}

impl Side {
    /// Returns the guard of a hook, which Lua calls in its midst.
    pub fn rust() -> Side {
        Side { was_lua: IN_LUA.replace(false) }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        IN_LUA.set(self.was_lua);
    }
}

/// Enters Lua: `call` does nothing but call a function of Lua with values of Lua, or compile one. Lua catches its
/// errors in there, and the binding takes no memory of Lua around it.
pub(super) fn in_lua<T>(call: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    let _side = Side { was_lua: IN_LUA.replace(true) };
    call()
}

/// Makes a function that Lua calls.
pub(super) fn native<F, A, R>(lua: &Lua, function: F) -> mlua::Result<Function>
where
    F: Fn(&Lua, A) -> mlua::Result<R> + 'static,
    A: FromLuaMulti,
    R: IntoLuaMulti,
{
    #[allow(clippy::disallowed_methods, reason = "the one place")]
    let bindings = lua.create_function(function)?;
    // SAFETY: the closure has nothing to drop, so the error of `lua_pushcclosure`, which is caught by the call around
    // it, may pass it. Its one argument is the function, on a stack with room for more than is pushed.
    unsafe {
        lua.exec_raw(bindings, |state| {
            // It must have one upvalue, the Rust closure.
            let has_one = !ffi::lua_getupvalue(state, 1, 1).is_null() && ffi::lua_getupvalue(state, 1, 2).is_null();
            let Some(call) = ffi::lua_tocfunction(state, 1).filter(|_| has_one) else {
                return ffi::lua_settop(state, 0);
            };
            ffi::lua_pushlightuserdata(state, call as *mut c_void);
            ffi::lua_pushcclosure(state, enter_native, 2);
            ffi::lua_remove(state, 1);
        })
    }
}

/// Calls the binding's function as Lua would; no request is refused meanwhile. An error passes this function, and code
/// that catches errors in the sandbox calls another native, which returns.
///
/// # Safety
/// Lua calls it, as a closure that [`native`] has made.
unsafe extern "C-unwind" fn enter_native(state: *mut ffi::lua_State) -> c_int {
    IN_LUA.set(false);
    // SAFETY: Lua runs this on a state of the thread; the second upvalue is the binding's function, which finds its
    // closure in the first upvalue of the running function. This frame has nothing to drop.
    let results = unsafe {
        looks::note_call(state);
        let call = ffi::lua_touserdata(state, ffi::lua_upvalueindex(2));
        std::mem::transmute::<*mut c_void, ffi::lua_CFunction>(call)(state)
    };
    IN_LUA.set(true);
    results
}

/// Whether the script that this thread runs is to end since memory is short.
#[inline]
pub(super) fn is_short() -> bool {
    SHORT.get()
}

/// Records that the code which began the script has caught the error of the shortage.
pub(super) fn end_shortage() {
    SHORT.set(false);
}

/// Whether memory was refused since the last call: there may be much garbage.
pub(super) fn take_refused() -> bool {
    end_shortage();
    REFUSED.take()
}

/// Whether so many bytes could be mapped.
fn is_available(bytes: usize) -> bool {
    MmapMut::map_anon(bytes).is_ok()
}

fn refuse<T>() -> mlua::Result<T> {
    REFUSED.set(true);
    Err(failure::bare_message(NOT_ENOUGH))
}

/// Asks for the memory that a native is about to take.
///
/// # Errors
/// There is not so much memory.
#[inline]
pub(super) fn room_for(bytes: usize) -> mlua::Result<()> {
    if bytes <= UNASKED && !is_short() { Ok(()) } else { ask_for(bytes) }
}

#[cold]
fn ask_for(bytes: usize) -> mlua::Result<()> {
    if is_short() || !is_available(bytes.saturating_add(LEFT_FOR_OTHERS)) { refuse() } else { Ok(()) }
}

/// Asks for room for so many more bytes in a buffer.
#[inline]
pub(super) fn room_to_grow(buffer: &Vec<u8>, more: usize) -> mlua::Result<()> {
    let (len, free) = (buffer.len(), buffer.capacity() - buffer.len());
    if free >= more { Ok(()) } else { room_for(len.saturating_add(more).saturating_mul(2)) }
}

/// Makes a string of Lua, for which there may be no room.
pub(super) fn string(lua: &Lua, bytes: &[u8]) -> mlua::Result<LuaString> {
    room_for(bytes.len())?;
    lua.create_string(bytes)
}

/// The memory that an interpreter has taken.
struct Account {
    /// The interpreter's main state.
    state: *mut ffi::lua_State,
    used: Cell<usize>,
    /// Bytes that it has taken since it last requested a look at the run.
    taken: Cell<usize>,
    /// Bytes that it may take without a look at the free memory.
    free_to: Cell<usize>,
    /// `lua-memory-limit`; 0 is none. With one the binding protects all of its calls.
    limit: Cell<usize>,
}

impl Account {
    /// Whether it may take so many bytes more.
    #[inline]
    fn may_take(&self, more: usize) -> bool {
        let total = self.used.get().saturating_add(more);
        total <= self.free_to.get() || self.ask(more, total)
    }

    #[cold]
    fn ask(&self, more: usize, total: usize) -> bool {
        let limit = self.limit.get();
        if limit > 0 && total > limit {
            REFUSED.set(true);
            return false;
        }
        let left_free = is_available(LEFT_FOR_OTHERS.saturating_add(more));
        if left_free {
            MOST.set(MOST.get().max(total));
        }
        let is_granted = left_free || total <= MOST.get() && is_available(FLOOR);
        if !is_granted {
            REFUSED.set(true);
            if self.may_fail() {
                return false;
            }
            SHORT.set(true);
        }
        self.look_again_after(total);
        true
    }

    fn look_again_after(&self, total: usize) {
        let (next, limit) = (total.saturating_add(STEP), self.limit.get());
        self.free_to.set(if limit > 0 { next.min(limit) } else { next });
    }

    /// Records that a block has another size.
    fn resized(&self, old: usize, new: usize) {
        let used = self.used.get().wrapping_add(new).wrapping_sub(old);
        self.used.set(used);
        if used.saturating_add(2 * STEP) < self.free_to.get() {
            self.look_again_after(used);
        }
    }

    /// Counts bytes that are taken. Returns whether they are so many that the run is to be looked at.
    #[inline]
    fn is_much_taken(&self, more: usize) -> bool {
        let taken = self.taken.get().saturating_add(more);
        let is_much = taken >= looks::TAKEN;
        self.taken.set(if is_much { 0 } else { taken });
        is_much
    }

    fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
        self.look_again_after(self.used.get());
    }

    /// Whether Lua's error for a refusal passes no frame of Rust.
    fn may_fail(&self) -> bool {
        IN_LUA.get() || self.limit.get() > 0
    }
}

const fn layout(bytes: usize) -> Option<Layout> {
    match Layout::from_size_align(bytes, ffi::SYS_MIN_ALIGN) {
        Ok(layout) => Some(layout),
        Err(_) => None,
    }
}

/// Lua's allocator: makes a block, changes its size, or frees it when the size becomes 0. Null: there is no memory.
///
/// # Safety
/// `account` is an [`Account`], and `block` is null or a block of `old` bytes that this function or the binding's has
/// made.
unsafe extern "C" fn allocate(account: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: the interpreter was given the account, which lives longer than that; no reference to it is mutable.
    let account = unsafe { &*account.cast::<Account>() };
    let block = block.cast::<u8>();
    let old = if block.is_null() { 0 } else { old };
    if new > old && !account.may_take(new - old) {
        return null_mut();
    }
    let (Some(before), Some(after)) = (layout(old), layout(new)) else { return null_mut() };
    let is_large = new > old && new - old > STEP;
    let made = match (block.is_null(), new) {
        (true, 0) => null_mut(),
        // SAFETY: the layout has a size.
        (true, _) => unsafe { alloc(after) },
        // SAFETY: as above.
        (false, _) if is_large => unsafe { alloc(after) },
        (false, 0) => {
            // SAFETY: the block is of this layout: both allocators make blocks of the process's, with this alignment.
            unsafe { dealloc(block, before) };
            null_mut()
        }
        // SAFETY: as above; the new size is not 0 and has a layout.
        (false, _) => unsafe { realloc(block, before, new) },
    };
    if new > 0 && made.is_null() {
        if !account.may_fail() {
            handle_alloc_error(after);
        }
        REFUSED.set(true);
        return null_mut();
    }
    if is_large {
        // It may have been made of addresses that were kept, or of those that were left.
        if account.may_fail() && !is_available(FLOOR) {
            // SAFETY: the block has just been made, of this layout.
            unsafe { dealloc(made, after) };
            REFUSED.set(true);
            return null_mut();
        }
        if !block.is_null() {
            // SAFETY: the two blocks are of these layouts, the new one is the larger, and each is whole.
            unsafe {
                copy_nonoverlapping(block, made, old);
                dealloc(block, before);
            }
        }
    }
    account.resized(old, new);
    if new > old && account.is_much_taken(new - old) {
        // SAFETY: the interpreter calls this, on its own thread.
        unsafe { looks::note_taken(account.state) };
    }
    made.cast()
}

/// The memory of an interpreter; the binding's allocator is restored in the end.
pub(super) struct LuaMemory {
    lua: Lua,
    account: NonNull<Account>,
    /// The binding's allocator.
    bindings: (ffi::lua_Alloc, *mut c_void),
}

impl LuaMemory {
    /// Gives an interpreter the allocator that can fail.
    pub fn of(lua: &Lua) -> mlua::Result<LuaMemory> {
        let mut bindings = None;
        let found = &raw mut bindings;
        let look = move |state| {
            let mut account = null_mut();
            // SAFETY: the state is the interpreter's; `found` outlives the call, and no other code uses it meanwhile.
            unsafe { *found = Some((state, ffi::lua_getallocf(state, &raw mut account), account)) };
        };
        // SAFETY: the function raises no error and leaves the stack as it is.
        unsafe { lua.exec_raw::<()>((), look) }?;
        let (state, allocator, data) = bindings.ok_or_else(|| failure::bare_message("no allocator"))?;
        let used = lua.used_memory();
        let account = Account {
            state,
            used: Cell::new(used),
            taken: Cell::new(0),
            free_to: Cell::new(used + STEP),
            limit: Cell::new(0),
        };
        let account = NonNull::from(Box::leak(Box::new(account)));
        let memory = LuaMemory { lua: lua.clone(), account, bindings: (allocator, data) };
        memory.use_own()?;
        Ok(memory)
    }

    fn account(&self) -> &Account {
        // SAFETY: it is freed by `drop` only, and never lent mutably.
        unsafe { self.account.as_ref() }
    }

    /// Makes Lua call `allocator` from now on.
    fn use_allocator(&self, allocator: ffi::lua_Alloc, data: *mut c_void) -> mlua::Result<()> {
        // SAFETY: each of the two takes blocks of the other, and its data is there as long as it is used. The function
        // raises no error and leaves the stack as it is.
        unsafe { self.lua.exec_raw::<()>((), move |state| ffi::lua_setallocf(state, allocator, data)) }
    }

    fn use_own(&self) -> mlua::Result<()> {
        self.use_allocator(allocate, self.account.as_ptr().cast())
    }

    /// Sets how many bytes all of its scripts may take; 0 is no limit. With one every call of the binding is protected.
    pub fn set_limit(&self, limit: usize) -> mlua::Result<()> {
        self.account().set_limit(0);
        let (allocator, data) = self.bindings;
        self.use_allocator(allocator, data)?;
        // The binding learns from its own limit whether to protect its calls; it never gets there.
        let set = self.lua.set_memory_limit(if limit > 0 { isize::MAX as usize } else { 0 });
        self.use_own()?;
        self.account().set_limit(limit);
        set.map(|_| ())
    }

    /// Collects all garbage. The call takes some memory itself, so it is not limited.
    pub fn collect(&self) -> mlua::Result<()> {
        let limit = self.account().limit.get();
        self.account().set_limit(0);
        let collected = self.lua.gc_collect();
        self.account().set_limit(limit);
        collected
    }
}

impl Drop for LuaMemory {
    fn drop(&mut self) {
        self.account().set_limit(0);
        let (allocator, data) = self.bindings;
        if self.use_allocator(allocator, data).is_ok() {
            // SAFETY: it came from a box, Lua has just forgotten it, and this is dropped once.
            drop(unsafe { Box::from_raw(self.account.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_taken_and_given_back_is_counted() {
        let lua = Lua::new();
        let memory = LuaMemory::of(&lua).expect("a memory");
        lua.gc_collect().expect("a collection");
        let before = memory.account().used.get();
        let grow: Function = lua
            .load("local t = {} for i = 1, 100000 do t[i] = 'x' .. i end return #t")
            .into_function()
            .expect("a function");
        assert_eq!(grow.call::<usize>(()).ok(), Some(100_000));
        assert!(memory.account().used.get() > before + 1_000_000);
        lua.gc_collect().expect("a collection");
        assert!(memory.account().used.get().abs_diff(before) < 1_500_000, "{}", memory.account().used.get());
    }

    #[test]
    fn more_than_the_limit_is_an_error_and_leaves_the_interpreter_whole() {
        let lua = Lua::new();
        let memory = LuaMemory::of(&lua).expect("a memory");
        memory.set_limit(4 << 20).expect("a limit");
        let grow: Function =
            lua.load("local t = {} while true do t[#t + 1] = 'x' .. #t end").into_function().expect("a function");
        for _ in 0..3 {
            let error = grow.call::<()>(()).expect_err("there is no room");
            assert!(error.to_string().contains(NOT_ENOUGH), "{error}");
            assert!(take_refused());
            lua.gc_collect().expect("a collection");
        }
        memory.set_limit(0).expect("no limit");
        assert_eq!(lua.load("return #string.rep('x', 5000000)").eval::<usize>().ok(), Some(5_000_000));
    }

    #[test]
    fn memory_that_cannot_be_had_is_refused() {
        assert!(room_for(UNASKED).is_ok() && room_for(1 << 20).is_ok());
        assert!(room_for(usize::MAX).is_err() && room_for(1 << 60).is_err());
        assert!(take_refused() && !take_refused());
    }
}
