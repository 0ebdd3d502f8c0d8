//! Whether a function can keep the tables that it is called with.
//!
//! A function of a library may put its keys and arguments away, so each call would have to make two tables for it. Most only look
//! elements up (`keys[1]`, `#args`), which their code shows: such a function gets the same two tables in every call.
//!
//! ```text
//!   ESC Lua | version format endian int size_t instruction number integral | function
//!   function: source (length, bytes), two lines (int), upvalues, parameters, varargs, registers (a byte each),
//!             number of instructions (int), instructions ...
//!   instruction: B 9 bits, C 9 bits, A 8 bits, opcode 6 bits
//! ```
//!
//! The parameters are registers 0 and 1 for all of the call. Whatever could hand one of them on, even if it holds something else by
//! then, counts as keeping it; what is not understood does, too. Layout and opcodes are those of Lua 5.1 (`lundump.c`, `lopcodes.h`).

/// Registers of the two tables.
const TABLES: u32 = 2;
/// A function's code as this machine's Lua writes it: version 5.1, its format, little endian, sizes of int, size_t, instructions
/// and numbers, numbers that are not integers.
const HEADER: &[u8] = b"\x1bLua\x51\0\x01\x04\x08\x04\x08\0";

const MOVE: u32 = 0;
const GETTABLE: u32 = 6;
const SETGLOBAL: u32 = 7;
const SETUPVAL: u32 = 8;
const SETTABLE: u32 = 9;
const SELF: u32 = 11;
const UNM: u32 = 18;
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
    instructions(code).is_none_or(hands_on)
}

/// A function's instructions; None if it is not a function of this Lua's, or takes a varying number of arguments.
fn instructions(code: &[u8]) -> Option<impl Iterator<Item = u32>> {
    let code = code.strip_prefix(HEADER)?;
    let (len, code) = code.split_first_chunk()?;
    let code = code.get(usize::try_from(u64::from_le_bytes(*len)).ok()?..)?;
    let ([_, _, varargs, _], code) = code.get(8..)?.split_first_chunk()?;
    let (count, code) = code.split_first_chunk()?;
    let code = code.get(..usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?)?;
    let words = code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    (*varargs == 0).then_some(words)
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
