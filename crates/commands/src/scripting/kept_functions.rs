//! The functions that an interpreter keeps: those of scripts and of libraries.
//!
//! The binding holds each value that Rust refers to in one of some 8,000 places. Kept functions therefore lie in one
//! table of Lua, which takes one place, and Rust refers to them by their index.

use mlua::{Function, Lua, Table};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) struct KeptFunctions {
    table: Table,
    /// Highest index that was given out.
    last: Cell<usize>,
    /// Indices below it that can be given out again.
    free: RefCell<Vec<usize>>,
    /// Indices whose handles are gone, and whose functions are still in the table.
    dropped: Rc<RefCell<Vec<usize>>>,
}

/// A function that is kept as long as this handle lives.
pub(super) struct Kept {
    index: usize,
    dropped: Rc<RefCell<Vec<usize>>>,
}

impl KeptFunctions {
    pub fn new(lua: &Lua) -> mlua::Result<KeptFunctions> {
        let table = lua.create_table()?;
        Ok(KeptFunctions { table, last: Cell::default(), free: RefCell::default(), dropped: Rc::default() })
    }

    pub fn keep(&self, function: &Function) -> mlua::Result<Kept> {
        let mut free = self.free.borrow_mut();
        for index in self.dropped.take() {
            self.table.raw_set(index, false)?;
            free.push(index);
        }
        let index = free.pop().unwrap_or_else(|| {
            self.last.set(self.last.get() + 1);
            self.last.get()
        });
        self.table.raw_set(index, function)?;
        Ok(Kept { index, dropped: Rc::clone(&self.dropped) })
    }

    #[inline]
    pub fn get(&self, kept: &Kept) -> mlua::Result<Function> {
        self.table.raw_get(kept.index)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.dropped.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, KeptFunctions};
    use crate::testing::Client;
    use mlua::{Function, Lua};

    const MANY: usize = 20_000;

    #[test]
    fn places_of_functions_that_are_gone_are_used_again() {
        let lua = Lua::new();
        let kept = KeptFunctions::new(&lua).expect("a table");
        let function =
            |n: usize| lua.load(format!("return {n}")).into_function().and_then(|function| kept.keep(&function));
        let call = |handle: &Kept| kept.get(handle).and_then(|function: Function| function.call::<usize>(()));
        let first = function(1).expect("a function");
        for n in 2..MANY {
            let next = function(n).expect("a function");
            assert_eq!((call(&first).ok(), call(&next).ok()), (Some(1), Some(n)));
        }
        assert!(kept.last.get() < 4, "{}", kept.last.get());
    }

    #[test]
    fn scripts_are_as_many_as_memory_has_room_for() {
        let mut client = Client::new();
        let shas: Vec<_> = (0..MANY).map(|n| client.run_words(&["SCRIPT", "LOAD", &format!("return {n}")])).collect();
        for (n, sha) in shas.iter().enumerate() {
            assert_eq!(client.run_words(&["EVALSHA", sha, "0"]), format!(":{n}"));
        }
        client.is("EVAL return(7) 0", ":7");
    }

    #[test]
    fn functions_of_libraries_are_as_many_as_memory_has_room_for() {
        let mut client = Client::new();
        let library = format!(
            "#!lua name=many\nfor n = 1, {MANY} do redis.register_function('f' .. n, function() return n end) end"
        );
        assert_eq!(client.run_words(&["FUNCTION", "LOAD", &library]), "many");
        for n in [1, 7_979, 7_999, 8_001, MANY] {
            client.is(&format!("FCALL f{n} 0"), &format!(":{n}"));
        }
        client.is("EVAL return(7) 0", ":7");
    }

    #[test]
    fn libraries_that_come_and_go_leave_nothing_behind() {
        let mut client = Client::new();
        for n in 0..MANY {
            let library = format!("#!lua name=lib\nredis.register_function('f', function() return {n} end)");
            assert_eq!(client.run_words(&["FUNCTION", "LOAD", &library]), "lib");
            client.is("FCALL f 0", &format!(":{n}")).is("FUNCTION FLUSH", "+OK");
        }
    }

    #[test]
    fn errors_leave_nothing_behind() {
        let mut client = Client::new();
        let nested = "local function fail(n) local _, err = pcall(n > 0 and fail or error, n - 1) error({err = err}) end \
                      for n = 1, 20 do pcall(fail, n) pcall(redis.call, 'GET') pcall(error, {}) \
                      coroutine.resume(coroutine.create(function() cjson.decode('[') end)) end fail(3)";
        for _ in 0..1_000 {
            assert_eq!(client.run_words(&["EVAL", nested, "0"]), "--1 script: on @user_script:1.");
            assert!(client.run_words(&["EVAL", "return {err = redis.pcall('SET').err .. x", "0"]).starts_with("-ERR"));
            assert!(client.run_words(&["FUNCTION", "LOAD", "#!lua name=l\nerror({})"]).starts_with("-ERR"));
        }
        client.is("EVAL return(7) 0", ":7");
    }
}
