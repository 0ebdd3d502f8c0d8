//! Whether a function can keep the tables that it is called with.
//!
//! A function of a library may put its keys and arguments away, so each call would have to make two tables for it. Most
//! only look elements up (`keys[1]`, `#args`), which their code shows: such a function gets the same two tables in
//! every call.
//!
//! ```text
//!   ESC Lua | version format endian int size_t instruction number integral | function
//!   function: source (length, bytes), two lines (int), upvalues, parameters, varargs, registers (a byte each),
//!             number of instructions (int), instructions, number of constants, constants (type, value), number of functions,
//!             functions; the same way lines (int), locals (name, from, to: int), upvalues' names
//!   instruction: B 9 bits, C 9 bits, A 8 bits, opcode 6 bits
//! ```
//!
//! The parameters are registers 0 and 1 for all of the call. Whatever could hand one of them on, even if it holds
//! something else by then, counts as keeping it; what is not understood does, too. The same is asked of scripts, which
//! find their tables as the globals KEYS and ARGV: after one that may change them they are emptied. Layout and opcodes
//! are those of Lua 5.1 (`lundump.c`, `lopcodes.h`).

/// Registers of the two tables.
const TABLES: u32 = 2;
/// A function's code as this machine's Lua writes it: version 5.1, its format, little endian, sizes of int, size_t,
/// instructions and numbers, numbers that are not integers.
const HEADER: &[u8] = b"\x1bLua\x51\0\x01\x04\x08\x04\x08\0";

const MOVE: u32 = 0;
const LOADK: u32 = 1;
const GETUPVAL: u32 = 4;
const GETGLOBAL: u32 = 5;
const GETTABLE: u32 = 6;
const SETGLOBAL: u32 = 7;
const SETUPVAL: u32 = 8;
const SETTABLE: u32 = 9;
const SELF: u32 = 11;
const ADD: u32 = 12;
const UNM: u32 = 18;
const LEN: u32 = 20;
const CONCAT: u32 = 21;
const EQ: u32 = 23;
const LE: u32 = 25;
const TESTSET: u32 = 27;
const CALL: u32 = 28;
const RETURN: u32 = 30;
const FORLOOP: u32 = 31;
const SETLIST: u32 = 34;
const VARARG: u32 = 37;

/// Whether the function with this dumped code may keep its first two arguments, or change them.
pub(super) fn may_keep(code: &[u8]) -> bool {
    let code = code.strip_prefix(HEADER).and_then(|code| Dump(code).instructions());
    code.is_none_or(|(varies, instructions)| varies || hands_on(words(instructions)))
}

/// Whether the script with this dumped code may change what it finds as KEYS and ARGV, or hand it on: anything but
/// `KEYS[n]` and `#KEYS`. What could reach them by other ways counts, too.
pub(super) fn may_change_words(code: &[u8]) -> bool {
    code.strip_prefix(HEADER).and_then(|code| Dump(code).changes_words(0)).unwrap_or(true)
}

fn words(instructions: &[u8]) -> impl Iterator<Item = u32> + Clone {
    instructions.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// The rest of a dump.
struct Dump<'c>(&'c [u8]);

impl<'c> Dump<'c> {
    fn take(&mut self, len: usize) -> Option<&'c [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn int(&mut self) -> Option<usize> {
        let taken = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(taken)).ok()
    }

    fn string(&mut self) -> Option<&'c [u8]> {
        let len = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.take(usize::try_from(len).ok()?)
    }

    /// A function's instructions, and whether it takes a varying number of arguments.
    fn instructions(&mut self) -> Option<(bool, &'c [u8])> {
        self.string()?;
        let [.., varies, _] = self.take(4 + 4 + 4)? else { return None };
        let instructions = self.int()?.checked_mul(4)?;
        Some((*varies != 0, self.take(instructions)?))
    }

    fn changes_words(&mut self, depth: usize) -> Option<bool> {
        let (_, instructions) = self.instructions()?;
        let mut constants = Vec::new();
        for _ in 0..self.int()? {
            constants.push(match self.byte()? {
                0 => None,
                1 => self.take(1).and(None),
                3 => self.take(8).and(None),
                4 => Some(self.string()?),
                _ => return None,
            });
        }
        let reaches_globals = constants.iter().flatten().any(|text| BY_NAME.contains(text));
        if depth > DEPTH_MAX || reaches_globals || hands_words_on(words(instructions), &constants) {
            return Some(true);
        }
        for _ in 0..self.int()? {
            if self.changes_words(depth + 1)? {
                return Some(true);
            }
        }
        let lines = self.int()?.checked_mul(4)?;
        self.take(lines)?;
        for _ in 0..self.int()? {
            self.string()?;
            self.take(4 + 4)?;
        }
        for _ in 0..self.int()? {
            self.string()?;
        }
        Some(false)
    }
}

/// What globals can be reached by whose names are not in the code.
const BY_NAME: [&[u8]; 3] = [b"_G\0", b"load\0", b"loadstring\0"];
/// How deeply functions are nested that are looked into.
const DEPTH_MAX: usize = 20;

fn hands_words_on(mut instructions: impl Iterator<Item = u32> + Clone, constants: &[Option<&[u8]>]) -> bool {
    while let Some(word) = instructions.next() {
        if word & 0x3F != GETGLOBAL {
            continue;
        }
        match constants.get((word >> 14) as usize) {
            Some(Some(b"KEYS\0" | b"ARGV\0")) if !is_only_looked_into(instructions.clone(), word >> 6 & 0xFF) => {
                return true;
            }
            Some(_) => {}
            None => return true,
        }
    }
    false
}

/// Whether the table that has just come into a register is looked into next, by which it leaves the register.
fn is_only_looked_into(instructions: impl Iterator<Item = u32>, table: u32) -> bool {
    for word in instructions {
        let (op, a, c, b) = (word & 0x3F, word >> 6 & 0xFF, word >> 14 & 0x1FF, word >> 23);
        match op {
            GETTABLE if b == table => return a == table && c != table,
            LEN if b == table => return a == table,
            // The index is worked out.
            LOADK | GETUPVAL | GETGLOBAL | CALL if a > table => {}
            MOVE | GETTABLE | ADD..=LEN if a > table && b != table && c != table => {}
            _ => return false,
        }
    }
    false
}

fn hands_on(mut instructions: impl Iterator<Item = u32>) -> bool {
    while let Some(word) = instructions.next() {
        let (op, a, c, b) = (word & 0x3F, word >> 6 & 0xFF, word >> 14 & 0x1FF, word >> 23);
        let (is_a, is_b, is_c) = (a < TABLES, b < TABLES, c < TABLES);
        let hands_on = match op {
            MOVE | TESTSET | UNM => is_b,
            // The table that is looked into is B.
            GETTABLE => is_c,
            SETGLOBAL | SETUPVAL => is_a,
            SETTABLE => is_a || is_b || is_c,
            SELF..UNM | EQ..=LE => is_b || is_c,
            CONCAT => is_b,
            // The last one that every function has returns nothing.
            RETURN => is_a && b != 1,
            CALL..RETURN | FORLOOP..=SETLIST => is_a,
            _ => op > VARARG,
        };
        if hands_on {
            return true;
        }
        if op == SETLIST && c == 0 {
            // A number that did not fit.
            instructions.next();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::{Function, Lua};

    fn keeps(body: &str) -> bool {
        let lua = Lua::new();
        let function: Function =
            lua.load(format!("local up return function(keys, args) {body} end")).eval().expect(body);
        may_keep(&function.dump(true))
    }

    #[test]
    fn who_only_looks_elements_up_keeps_nothing() {
        for body in [
            "",
            "return redis.call('GET', keys[1])",
            "local n = #keys for i = 1, n do redis.call('SET', keys[i], args[i] .. '') end return {keys[1], n}",
            "if args[1] == 'x' then up = args[2] elseif args then return 1 end return #args + 1",
            "local t = {} t[keys[1]] = args[2] return t",
            "local a, b = keys[1], args[1] return function() return a, b end",
            "if not keys[2] then return redis.error_reply('no') end while args[up] do up = up + 1 end",
            "return tonumber(args[1]) or args[2]",
        ] {
            assert!(!keeps(body), "{body}");
        }
    }

    #[test]
    fn who_hands_a_table_on_may_keep_it() {
        for body in [
            "return keys",
            "return args",
            "return 1, args",
            "local k = keys return k[1]",
            "up = keys",
            "up = up or args",
            "up = args and keys",
            "other = args",
            "keys[1] = 1",
            "args.x = 1",
            "local t = {} t.x = keys",
            "local t = {} t[args] = 1",
            "return up[keys]",
            "local t = {1, keys} return t",
            "return {args}",
            "return unpack(args)",
            "for i, k in ipairs(keys) do up = k end",
            "for k in pairs(args) do up = k end",
            "return function() return keys[1] end",
            "return keys:len()",
            "return up:len(args)",
            "return 'a' .. args",
            "return keys .. 'a'",
            "return keys == up",
            "return up < args",
            "return -args",
            "return keys + 1",
            "return 1 + args",
            "return keys()",
            "args(1)",
            "keys, args = args, keys",
            "setmetatable(keys, {})",
        ] {
            assert!(keeps(body), "{body}");
        }
    }

    fn changes_words(script: &str) -> bool {
        let lua = Lua::new();
        let script = lua.load(script).into_function().expect(script);
        may_change_words(&script.dump(true))
    }

    #[test]
    fn scripts_that_look_words_up_leave_them_alone() {
        for script in [
            "",
            "return redis.call('GET', KEYS[1])",
            "return redis.call('SET', KEYS[1], ARGV[#ARGV])",
            "for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[2 * i + 1] or '') end return {KEYS[1], #ARGV}",
            "local k = KEYS[tonumber(ARGV[1]) + 1] return k",
            "local function f(i) return ARGV[i] end return f(1) .. KEYS[f(2)]",
            "if KEYS[1] == ARGV[1] then return 1 end return -#KEYS",
        ] {
            assert!(!changes_words(script), "{script}");
        }
    }

    #[test]
    fn scripts_that_hand_words_on_may_change_them() {
        for script in [
            "KEYS[1] = 1",
            "ARGV.x = 1",
            "return KEYS",
            "local k = KEYS return k[1]",
            "return unpack(ARGV)",
            "for i, k in ipairs(KEYS) do end",
            "table.insert(KEYS, 1)",
            "setmetatable(ARGV, {})",
            "local function f() return KEYS end f()[1] = 2",
            "local function f() local function g() ARGV[1] = 1 end g() end f()",
            "return KEYS[KEYS]",
            "local t = KEYS or ARGV t[1] = 1",
            "_G['KE' .. 'YS'][1] = 1",
            "loadstring('KE' .. 'YS[1] = 1')()",
            "load(f)()",
            "return KEYS[f and g]",
            "KEYS[1].x = KEYS",
        ] {
            assert!(changes_words(script), "{script}");
        }
        assert!(may_change_words(b"") && may_change_words(HEADER));
    }

    #[test]
    fn what_is_no_function_of_lua_counts_as_keeping() {
        let lua = Lua::new();
        let native = lua.create_function(|_, ()| Ok(())).expect("a function");
        let varying: Function = lua.load("return function(...) return 1 end").eval().expect("a function");
        let plain: Function = lua.load("return function(a, b) return a[1] end").eval().expect("a function");
        assert!(may_keep(&varying.dump(true)) && may_keep(&native.dump(true)) && may_keep(b""));
        let code = plain.dump(true);
        assert!(!may_keep(&code) && !may_keep(&plain.dump(false)));
        for len in 0..HEADER.len() + 8 + 8 + 4 + 4 {
            assert!(may_keep(&code[..len]), "{len}");
        }
    }
}
