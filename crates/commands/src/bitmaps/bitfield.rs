//! BITFIELD: integers of 1 to 64 bits anywhere in a string.
//!
//! A field of `bits` bits at bit offset `at`; its highest bit comes first, as everywhere in bitmaps:
//!
//! ```text
//! byte     at / 8                     at / 8 + 1                 up to 9 bytes
//!       |. . . . . 1 0 1|         |1 0 0 1 . . . .|   ...
//!                  ^ at % 8                ^ at + bits
//! ```
//!
//! Reading and writing go through a window of 16 bytes as one 128-bit number, in which the field begins at
//! bit `at % 8` from the top.

use crate::bitmaps::bitmap::check_offset;
use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, KeyFlags, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::data::value::Str;
use engine::keyspace::caller::Caller;
use engine::{Engine, Error};
use resp::Reply;
use smallvec::SmallVec;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "bitfield",
        group: Group::Bitmap,
        since: "3.2.0",
        arity: -2,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1)
            .rw()
            .access()
            .update()
            .variable()
            .notes("This command allows both access and modification of the key")],
        syntax: "key [operation: (GET get-block: encoding offset:int) | (write: [OVERFLOW overflow-block: WRAP | SAT | FAIL] (write-operation: (SET set-block: encoding offset:int value:int) | (INCRBY incrby-block: encoding offset:int increment:int)))]...",
        summary: "Performs arbitrary bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        keys_of_call: Some(|args, keys| {
            if !(2..args.len()).any(|at| args.is(at, "set") || args.is(at, "incrby")) {
                keys.iter_mut().for_each(|(_, flags)| *flags = KeyFlags(KeyFlags::RO.0 | KeyFlags::ACCESS.0));
            }
        }),
        run: bitfield,
        ..Command::DEFAULT
    },
    Command {
        name: "bitfield_ro",
        group: Group::Bitmap,
        since: "6.0.0",
        arity: -2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key [GET get-block: encoding offset:int]+",
        summary: "Performs arbitrary read-only bitfield integer operations on strings.",
        complexity: "O(1) for each subcommand specified",
        run: bitfield_ro,
        ..Command::DEFAULT
    },
];

/// The treatment of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// The place and the kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    signed: bool,
    /// Bits: 1 to 64; to 63 when unsigned.
    bits: u32,
    /// Offset in bits.
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Increment(i64),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    field: Field,
    action: Action,
    overflow: Overflow,
}

type Operations = SmallVec<[Operation; 4]>;

fn bitfield(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let operations = parse(cx.engine, cx.keys.origin().caller, args)?;
    let ends = operations.iter().filter(|operation| operation.action != Action::Get);
    match ends.map(|operation| operation.field.end()).max() {
        None => read(cx, args, &operations),
        Some(end) => write(cx, args, &operations, end.div_ceil(8) as usize),
    }
}

fn bitfield_ro(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let operations = parse(cx.engine, cx.keys.origin().caller, args)?;
    if operations.iter().any(|operation| operation.action != Action::Get) {
        return Err(Error::BitfieldReadOnly);
    }
    read(cx, args, &operations)
}

fn parse(engine: &Engine, caller: Caller, args: &Args<'_>) -> Result<Operations, Error> {
    let mut operations = Operations::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "overflow") && left >= 1 {
            overflow = match () {
                () if args.is(index + 1, "wrap") => Overflow::Wrap,
                () if args.is(index + 1, "sat") => Overflow::Saturate,
                () if args.is(index + 1, "fail") => Overflow::Fail,
                () => return Err(Error::BitfieldOverflow),
            };
            index += 2;
            continue;
        }
        let action: Option<fn(i64) -> Action> = match () {
            () if args.is(index, "get") && left >= 2 => None,
            () if args.is(index, "set") && left >= 3 => Some(Action::Set),
            () if args.is(index, "incrby") && left >= 3 => Some(Action::Increment),
            () => return Err(Error::Syntax),
        };
        let field = Field::parse(engine, caller, &args[index + 1], &args[index + 2])?;
        index += 3;
        let action = match action {
            None => Action::Get,
            Some(action) => {
                index += 1;
                action(args.int(index - 1)?)
            }
        };
        operations.push(Operation { field, action, overflow });
    }
    Ok(operations)
}

fn read(cx: &mut Context<'_>, args: &Args<'_>, operations: &[Operation]) -> Result<(), Error> {
    let value = cx.keys.string(cx.key(args, 1))?;
    let mut digits = itoa::Buffer::new();
    let bytes = value.map_or(&[][..], |value| value.bytes(&mut digits));
    cx.reply.array(operations.len());
    for operation in operations {
        cx.reply.int(operation.field.load(bytes));
    }
    Ok(())
}

/// Carries out operations of which some write, on a string of at least `min_len` bytes.
fn write(cx: &mut Context<'_>, args: &Args<'_>, operations: &[Operation], min_len: usize) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let grows = edit.string()?.map_or(0, Str::len) < min_len;
    let reply = &mut *cx.reply;
    let changes = edit.with_bytes(min_len, |bytes| {
        reply.array(operations.len());
        operations.iter().map(|operation| u64::from(operation.apply(bytes, grows, reply))).sum::<u64>()
    })?;
    match changes {
        // Every operation failed, but the string became longer all the same.
        0 if grows => edit.commit_silently(1),
        0 => edit.unchanged(),
        _ => edit.commit_many(changes, EventClass::STRING, "setbit"),
    }
    Ok(())
}

impl Operation {
    /// Applies the operation and replies; true if it counts as a change. In a string that `grows` every write does.
    fn apply(&self, bytes: &mut [u8], grows: bool, reply: &mut Reply) -> bool {
        let old = self.field.load(bytes);
        let wanted = match self.action {
            Action::Get => {
                reply.int(old);
                return false;
            }
            Action::Set(value) => self.field.given(value),
            Action::Increment(by) => i128::from(old) + i128::from(by),
        };
        let Some(new) = self.field.fit(wanted, self.overflow) else {
            reply.null();
            return false;
        };
        self.field.store(bytes, new);
        reply.int(if let Action::Set(_) = self.action { old } else { new });
        grows || old != new
    }
}

impl Field {
    fn parse(engine: &Engine, caller: Caller, kind: &[u8], offset: &[u8]) -> Result<Field, Error> {
        let (signed, digits) = match kind {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(Error::BitfieldType),
        };
        let max = if signed { 64 } else { 63 };
        let bits =
            resp::number::parse_i64(digits).filter(|bits| (1..=max).contains(bits)).ok_or(Error::BitfieldType)?;
        let number = |text| resp::number::parse_i64(text).ok_or(Error::BitOffset);
        let offset = match offset {
            // The offset counts in fields. Servers agree on the meaning of a product beyond 64 bits: it wraps.
            [b'#', text @ ..] => number(text)?.wrapping_mul(bits),
            text => number(text)?,
        };
        Ok(Field { signed, bits: bits as u32, at: check_offset(engine, caller, offset)? })
    }

    /// Returns the offset of the bit after the last.
    fn end(self) -> u64 {
        self.at + u64::from(self.bits)
    }

    /// Returns the least and the greatest number that fit.
    fn bounds(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// Returns the number that SET was given. For an unsigned field, a negative number is very large. For a signed one,
    /// so is a number whose distance from the greatest does not fit into 64 bits: servers overflow there, and SET has
    /// come to saturate at the wrong end.
    fn given(self, value: i64) -> i128 {
        if !self.signed {
            return i128::from(value as u64);
        }
        let (value, (_, max)) = (i128::from(value), self.bounds());
        if self.bits < 64 && max - value > i128::from(i64::MAX) { value + (1 << 64) } else { value }
    }

    /// Returns the number stored for `wanted`, or None if none is.
    fn fit(self, wanted: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.bounds();
        if (min..=max).contains(&wanted) {
            return Some(wanted as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.extend(wanted as u64)),
            Overflow::Saturate => Some(if wanted < min { min } else { max } as i64),
            Overflow::Fail => None,
        }
    }

    /// Returns the number of the lowest bits.
    fn extend(self, low: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.signed { (low << unused) as i64 >> unused } else { (low << unused >> unused) as i64 }
    }

    fn load(self, bytes: &[u8]) -> i64 {
        let (window, _) = self.window(bytes);
        self.extend((window >> self.shift()) as u64)
    }

    /// Stores a value. The string is long enough, see [`write()`].
    fn store(self, bytes: &mut [u8], value: i64) {
        let (window, len) = self.window(bytes);
        let mask = ((1 << self.bits) - 1) << self.shift();
        let window = window & !mask | (value as u128) << self.shift() & mask;
        let start = (self.at / 8) as usize;
        bytes[start..start + len].copy_from_slice(&window.to_be_bytes()[..len]);
    }

    /// Returns the distance of the field from the window's lowest bit.
    fn shift(self) -> u32 {
        128 - self.bits - (self.at % 8) as u32
    }

    /// Returns the bytes from the field's first on, and how many of them exist. Missing bytes are 0.
    fn window(self, bytes: &[u8]) -> (u128, usize) {
        let rest = bytes.get((self.at / 8) as usize..).unwrap_or_default();
        let mut window = [0; 16];
        let len = rest.len().min(window.len());
        window[..len].copy_from_slice(&rest[..len]);
        (u128::from_be_bytes(window), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use proptest::prelude::*;

    #[test]
    fn operations_and_their_errors() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("BITFIELD k SET u8 0 255 INCRBY u8 0 1 GET u8 0", "[:0 :0 :0]"),
            ("BITFIELD k SET i8 #1 -1 GET u4 12 GET u8 100", "[:0 :15 :0]"),
            ("BITFIELD k OVERFLOW SAT INCRBY u4 0 100 OVERFLOW WRAP INCRBY u4 0 2", "[:15 :1]"),
            ("BITFIELD k OVERFLOW FAIL SET u2 0 4 GET u2 0", "[nil :0]"),
            ("BITFIELD k OVERFLOW SAT SET u4 0 -1 SET i4 4 -100 GET i4 4", "[:1 :0 :-8]"),
            ("BITFIELD k OVERFLOW SAT SET i8 64 -9223372036854775680 GET i8 64", "[:0 :-128]"),
            ("BITFIELD k OVERFLOW SAT SET i8 64 -9223372036854775681 GET i8 64", "[:-128 :127]"),
            ("BITFIELD k OVERFLOW SAT INCRBY i8 64 -9223372036854775808", "[:-128]"),
            ("BITFIELD k", "[]"),
            ("BITFIELD k GET u64 0", &format!("-{}", Error::BitfieldType)),
            ("BITFIELD k GET i0 0", &format!("-{}", Error::BitfieldType)),
            ("BITFIELD k GET i8 -1", "-ERR bit offset is not an integer or out of range"),
            ("BITFIELD k GET i8 4294967296", "-ERR bit offset is not an integer or out of range"),
            ("BITFIELD k SET i8 0 x", "-ERR value is not an integer or out of range"),
            ("BITFIELD k OVERFLOW FOO", "-ERR Invalid OVERFLOW type specified"),
            ("BITFIELD k OVERFLOW", "-ERR syntax error"),
            ("BITFIELD k SET i8 0", "-ERR syntax error"),
            ("BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
            ("BITFIELD_RO k OVERFLOW SAT GET u8 8", "[:255]"),
            ("BITFIELD none GET u8 0", "[:0]"),
            ("STRLEN none", ":0"),
            ("ZADD z 1 m", ":1"),
        ] {
            client.is(command, reply);
        }
        client.is("BITFIELD z GET u8 0", &format!("-{}", Error::WrongType));
        client.is("BITFIELD z SET u8 0 1", &format!("-{}", Error::WrongType));
        let events: Vec<String> = client.events();
        assert_eq!(events[..5], ["0 new k", "0 setbit k", "0 setbit k", "0 setbit k", "0 setbit k"]);
    }

    #[test]
    fn a_string_that_only_grew_is_logged() {
        let mut client = Client::new();
        let log = client.log();
        client.is("BITFIELD k OVERFLOW FAIL INCRBY u2 0 100", "[nil]").is("STRLEN k", ":1");
        client.is("BITFIELD k OVERFLOW FAIL INCRBY u2 0 100", "[nil]").is("BITFIELD k SET u2 0 0", "[:0]");
        assert_eq!(log.take().len(), 1);
    }

    /// Returns the number with these bits, highest first.
    fn number(bits: &[bool], signed: bool) -> i128 {
        let value = bits.iter().fold(0i128, |value, bit| value * 2 + i128::from(*bit));
        if signed && bits[0] { value - (1 << bits.len()) } else { value }
    }

    fn bits_of(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
    }

    proptest! {
        #[test]
        fn fields_are_where_their_bits_are(
            mut bytes in prop::collection::vec(any::<u8>(), 24),
            signed: bool,
            size in 1u32..=63,
            at in 0u64..128,
            value: i64,
        ) {
            let bits = if signed { size + 1 } else { size };
            let field = Field { signed, bits, at };
            let range = at as usize..field.end() as usize;
            let before = bits_of(&bytes);
            prop_assert_eq!(i128::from(field.load(&bytes)), number(&before[range.clone()], signed));
            let stored = field.extend(value as u64);
            field.store(&mut bytes, stored);
            let after = bits_of(&bytes);
            prop_assert_eq!(i128::from(stored), number(&after[range.clone()], signed));
            prop_assert_eq!(&after[..range.start], &before[..range.start]);
            prop_assert_eq!(&after[range.end..], &before[range.end..]);
        }

        #[test]
        fn a_value_that_does_not_fit_wraps_or_stays_at_the_bound(signed: bool, size in 1u32..=63, old: i64, by: i64) {
            let field = Field { signed, bits: if signed { size + 1 } else { size }, at: 0 };
            let wanted = i128::from(field.extend(old as u64)) + i128::from(by);
            let (min, max) = field.bounds();
            let modulus = 1i128 << field.bits;
            let wrapped = field.fit(wanted, Overflow::Wrap).map(i128::from);
            prop_assert!(wrapped.is_some_and(|new| (min..=max).contains(&new) && (new - wanted) % modulus == 0));
            prop_assert_eq!(field.fit(wanted, Overflow::Saturate).map(i128::from), Some(wanted.clamp(min, max)));
            prop_assert_eq!(field.fit(wanted, Overflow::Fail).is_some(), wrapped == Some(wanted));
        }
    }
}
