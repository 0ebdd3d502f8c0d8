//! Strings as bits: SETBIT, BITCOUNT, BITPOS, BITOP and their kin.
//!
//! Bit 0 is the highest bit of the first byte. A string ends in zero bits without end: bits behind it read
//! as 0, and setting one makes it longer.

use crate::bitmaps::popcount::count_ones;
use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::core::yielding::{self, Yielding};
use crate::strings::substring::{is_reversed, max_length, span};
use engine::data::event_class::EventClass;
use engine::data::value::{Object, Str};
use engine::keyspace::caller::Caller;
use engine::keyspace::edit::Ttl;
use engine::propagation::logged_words::record;
use engine::{Engine, Error, Word};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "bitcount",
        group: Group::Bitmap,
        since: "2.6.0",
        arity: -2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key [range: start:int [end-unit-block: end:int [unit: BYTE | BIT]@7.0.0]]",
        summary: "Counts the number of set bits (population counting) in a string.",
        complexity: "O(N)",
        history: &[
            ("7.0.0", "Added the `BYTE|BIT` option."),
            ("8.0.0", "`end` made optional; when called without argument the command reports the last BYTE."),
        ],
        run: bitcount,
        ..Command::DEFAULT
    },
    Command {
        name: "bitop",
        group: Group::Bitmap,
        since: "2.6.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(2).ow().update(), key(3).ro().access().to(-1, 1)],
        syntax: "(operation: AND | OR | XOR | NOT) destkey:key key...",
        summary: "Performs bitwise operations on multiple strings, and stores the result.",
        complexity: "O(N)",
        run: bitop,
        ..Command::DEFAULT
    },
    Command {
        name: "bitpos",
        group: Group::Bitmap,
        since: "2.8.7",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key bit:int [range: start:int [end-unit-block: end:int [unit: BYTE | BIT]@7.0.0]]",
        summary: "Finds the first set (1) or clear (0) bit in a string.",
        complexity: "O(N)",
        history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
        run: bitpos,
        ..Command::DEFAULT
    },
    Command {
        name: "getbit",
        group: Group::Bitmap,
        since: "2.2.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key offset:int",
        summary: "Returns a bit value by offset.",
        complexity: "O(1)",
        run: getbit,
        ..Command::DEFAULT
    },
    Command {
        name: "setbit",
        group: Group::Bitmap,
        since: "2.2.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().update()],
        syntax: "key offset:int value:int",
        summary: "Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.",
        complexity: "O(1)",
        run: setbit,
        ..Command::DEFAULT
    },
];

/// Parses a bit's number; it must lie within the longest string that is allowed.
fn bit_offset(engine: &Engine, caller: Caller, text: &[u8]) -> Result<u64, Error> {
    let offset = resp::number::parse_i64(text).ok_or(Error::BitOffset)?;
    check_offset(engine, caller, offset)
}

/// Offsets up to here lie within every limit that can be configured.
const ALWAYS_ALLOWED: u64 = 8 << 20;

pub(crate) fn check_offset(engine: &Engine, caller: Caller, offset: i64) -> Result<u64, Error> {
    match u64::try_from(offset) {
        Ok(offset) if offset < ALWAYS_ALLOWED || offset / 8 < max_length(engine, caller) as u64 => Ok(offset),
        _ => Err(Error::BitOffset),
    }
}

fn mask_of(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

fn bit_at(bytes: &[u8], offset: u64) -> bool {
    bytes.get((offset / 8) as usize).is_some_and(|byte| byte & mask_of(offset) != 0)
}

fn getbit(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let offset = bit_offset(cx.engine, cx.keys.origin().caller, &args[2])?;
    let value = cx.keys.string(cx.key(args, 1))?;
    let bit = value.is_some_and(|value| bit_at(value.bytes(&mut itoa::Buffer::new()), offset));
    cx.reply.int(i64::from(bit));
    Ok(())
}

fn setbit(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let offset = bit_offset(cx.engine, cx.keys.origin().caller, &args[2])?;
    let bit = match resp::number::parse_i64(&args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Error::BitValue),
    };
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let (old_len, byte, mask) = (edit.string()?.map_or(0, Str::len), (offset / 8) as usize, mask_of(offset));
    let old = edit.with_bytes_at(byte..byte + 1, byte + 1, |bytes| {
        let old = bytes[byte] & mask != 0;
        bytes[byte] = if bit { bytes[byte] | mask } else { bytes[byte] & !mask };
        old
    })?;
    if old_len <= byte || old != bit {
        edit.commit(EventClass::STRING, "setbit");
    } else {
        edit.unchanged();
    }
    cx.reply.int(i64::from(old));
    Ok(())
}

/// The range of BITCOUNT and BITPOS, from their last arguments.
struct Span {
    start: i64,
    end: Option<i64>,
    in_bits: bool,
}

impl Span {
    /// Reads start, end and unit at `index`. The unit is checked before the end.
    fn parse(args: &Args<'_>, index: usize) -> Result<Span, Error> {
        let given = args.len().saturating_sub(index);
        if given > 3 {
            return Err(Error::Syntax);
        }
        let start = if given > 0 { args.int(index)? } else { 0 };
        let in_bits = match given {
            3 if args.is(index + 2, "bit") => true,
            3 if !args.is(index + 2, "byte") => return Err(Error::Syntax),
            _ => false,
        };
        let end = if given > 1 { Some(args.int(index + 1)?) } else { None };
        Ok(Span { start, end, in_bits })
    }

    /// Returns the selected bits of a string of `len` bytes.
    fn bits(&self, len: usize) -> std::ops::Range<u64> {
        let end = self.end.unwrap_or(-1);
        if self.in_bits {
            let bits = span(self.start, end, len * 8);
            bits.start as u64..bits.end as u64
        } else {
            let bytes = span(self.start, end, len);
            bytes.start as u64 * 8..bytes.end as u64 * 8
        }
    }
}

/// Returns the bytes that a range of bits touches, with masks for its first and last byte. The range is not empty.
fn edges(bits: &std::ops::Range<u64>) -> (std::ops::Range<usize>, u8, u8) {
    let last = bits.end - 1;
    let bytes = (bits.start / 8) as usize..(last / 8) as usize + 1;
    (bytes, 0xFF >> (bits.start % 8), 0xFF << (7 - last % 8))
}

fn bitcount(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let span = Span::parse(args, 2)?;
    let value = cx.keys.string(cx.key(args, 1))?;
    let mut digits = itoa::Buffer::new();
    let bytes = value.map_or(&[][..], |value| value.bytes(&mut digits));
    let reversed = is_reversed(span.start, span.end.unwrap_or(-1));
    let bits = if reversed { 0..0 } else { span.bits(bytes.len()) };
    cx.reply.int(count_range(bytes, bits) as i64);
    Ok(())
}

fn count_range(bytes: &[u8], bits: std::ops::Range<u64>) -> u64 {
    if bits.is_empty() {
        return 0;
    }
    let (range, first, last) = edges(&bits);
    let outside = (bytes[range.start] & !first).count_ones() + (bytes[range.end - 1] & !last).count_ones();
    count_ones(&bytes[range]) - u64::from(outside)
}

fn bitpos(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let bit = match args.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(Error::BitArgument),
    };
    let span = Span::parse(args, 3)?;
    let Some(value) = cx.keys.string(cx.key(args, 1))? else {
        cx.reply.int(if bit { -1 } else { 0 });
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = value.bytes(&mut digits);
    let bits = span.bits(bytes.len());
    let position = match first_bit(bytes, bit, bits.clone()) {
        Some(position) => position as i64,
        // Without an end the zeros behind the string count.
        None if !bit && span.end.is_none() && !bits.is_empty() => bits.end as i64,
        None => -1,
    };
    cx.reply.int(position);
    Ok(())
}

/// Returns the first bit of this value in the range.
fn first_bit(bytes: &[u8], bit: bool, bits: std::ops::Range<u64>) -> Option<u64> {
    if bits.is_empty() {
        return None;
    }
    let (range, first, last) = edges(&bits);
    // The search is for a one after this.
    let flip = if bit { 0 } else { 0xFF };
    let found = |index: usize, byte: u8| {
        let position = index as u64 * 8 + u64::from(byte.leading_zeros());
        Some(position).filter(|position| *position < bits.end)
    };
    let head = (bytes[range.start] ^ flip) & first;
    if head != 0 {
        return found(range.start, head);
    }
    let inner = range.start + 1..range.end;
    let skipped = skip(bytes.get(inner.clone())?, flip);
    let index = inner.start + skipped;
    let byte = bytes[..range.end].get(index)? ^ flip;
    let byte = if index + 1 == range.end { byte & last } else { byte };
    if byte == 0 { None } else { found(index, byte) }
}

/// Returns how many bytes from the beginning are equal to `byte`.
fn skip(bytes: &[u8], byte: u8) -> usize {
    let (blocks, _) = bytes.as_chunks::<32>();
    let uniform = |block: &[u8; 32]| block.iter().fold(0, |differs, other| differs | (other ^ byte)) == 0;
    let start = blocks.iter().take_while(|block| uniform(block)).count() * 32;
    start + bytes[start..].iter().take_while(|other| **other == byte).count()
}

/// The operations of BITOP: X is the first string, Y all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Bits in X and in none of Y.
    Diff,
    /// Bits in some of Y and not in X.
    Diff1,
    /// Bits in X and in some of Y.
    AndOr,
    /// Bits in exactly one.
    One,
}

impl Operation {
    /// Returns whether readers of the change log know it.
    fn is_known(self) -> bool {
        matches!(self, Operation::And | Operation::Or | Operation::Xor | Operation::Not)
    }

    fn parse(args: &Args<'_>, index: usize) -> Result<Operation, Error> {
        const WORDS: [(&str, Operation); 8] = [
            ("and", Operation::And),
            ("or", Operation::Or),
            ("xor", Operation::Xor),
            ("not", Operation::Not),
            ("diff", Operation::Diff),
            ("diff1", Operation::Diff1),
            ("andor", Operation::AndOr),
            ("one", Operation::One),
        ];
        let found = WORDS.into_iter().find(|(word, _)| args.is(index, word));
        found.map(|(_, operation)| operation).ok_or(Error::Syntax)
    }
}

fn bitop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let operation = Operation::parse(args, 1)?;
    let sources = args.len() - 3;
    match operation {
        Operation::Not if sources != 1 => return Err(Error::BitopNotManyKeys),
        Operation::Diff | Operation::Diff1 | Operation::AndOr if sources < 2 => return Err(needs_two(operation)),
        _ => {}
    }
    let length = |object: &Object| if let Object::String(bytes) = object { bytes.len() } else { 0 };
    let bytes: usize = (3..args.len()).map(|index| cx.elements(cx.key(args, index), length)).sum();
    let mut fold = Fold::new(operation, cx.yielding(bytes / yielding::BULK)?);
    for index in 3..args.len() {
        let value = cx.keys.string(cx.key(args, index))?;
        let mut digits = itoa::Buffer::new();
        fold.add(value.map_or(&[][..], |value| value.bytes(&mut digits)));
    }
    let result = fold.finish();
    let len = result.len();
    let mut edit = cx.keys.edit_for_result(cx.key(args, 2), len == 0);
    if len > 0 {
        if !operation.is_known() {
            edit.log_as(|| vec![record(&[b"SET", &args[2], &result])]);
        }
        edit.set_object(Object::String(result.into()), Ttl::Clear);
        edit.commit(EventClass::STRING, "set");
    } else if edit.remove() {
        if !operation.is_known() {
            edit.log_as(|| vec![record(&[b"DEL", &args[2]])]);
        }
        edit.commit(EventClass::GENERIC, "del");
    }
    cx.reply.int(len as i64);
    Ok(())
}

fn needs_two(operation: Operation) -> Error {
    Error::BitopOneKey(Word::of(format!("{operation:?}").to_uppercase()))
}

/// Combines strings one after the other, so that no two are looked at together.
struct Fold<'e> {
    operation: Operation,
    count: usize,
    /// X, or the result so far.
    first: Vec<u8>,
    /// Bits that are in some of Y (DIFF1, ANDOR), or in more than one string (ONE).
    others: Vec<u8>,
    yielding: Yielding<'e>,
}

impl<'e> Fold<'e> {
    fn new(operation: Operation, yielding: Yielding<'e>) -> Self {
        Fold { operation, count: 0, first: Vec::new(), others: Vec::new(), yielding }
    }

    fn add(&mut self, source: &[u8]) {
        self.count += 1;
        let Fold { operation, first, others, yielding, .. } = self;
        if self.count == 1 {
            return match operation {
                Operation::Not => combine(first, source, yielding, |_, y| !y),
                _ => combine(first, source, yielding, |_, y| y),
            };
        }
        match operation {
            Operation::And => combine(first, source, yielding, |x, y| x & y),
            Operation::Or => combine(first, source, yielding, |x, y| x | y),
            Operation::Xor => combine(first, source, yielding, |x, y| x ^ y),
            Operation::Diff => combine(first, source, yielding, |x, y| x & !y),
            Operation::Diff1 | Operation::AndOr => combine(others, source, yielding, |x, y| x | y),
            Operation::One => {
                let mut common = Vec::new();
                combine(&mut common, first, yielding, |_, x| x);
                combine(&mut common, source, yielding, |x, y| x & y);
                combine(others, &common, yielding, |x, y| x | y);
                combine(first, source, yielding, |x, y| x | y);
            }
            Operation::Not => {}
        }
    }

    fn finish(self) -> Vec<u8> {
        let Fold { operation, mut first, others, yielding, .. } = self;
        match operation {
            Operation::Diff1 => combine(&mut first, &others, &yielding, |x, y| !x & y),
            Operation::AndOr => combine(&mut first, &others, &yielding, |x, y| x & y),
            Operation::One => combine(&mut first, &others, &yielding, |x, y| x & !y),
            _ => {}
        }
        first
    }
}

/// Bytes that are combined without a look at the clock.
const BLOCK: usize = 64 << 10;

/// Applies `f` to each byte of both; zeros continue the shorter one. The compiler turns the loop into vector
/// instructions.
fn combine(into: &mut Vec<u8>, other: &[u8], yielding: &Yielding<'_>, f: impl Fn(u8, u8) -> u8) {
    let step = |block: &[u8]| yielding.steps(block.len() / yielding::BULK);
    into.reserve_exact(other.len().saturating_sub(into.len()));
    let (common, more) = other.split_at(into.len().min(other.len()));
    for (block, other) in into.chunks_mut(BLOCK).zip(common.chunks(BLOCK)) {
        block.iter_mut().zip(other).for_each(|(x, y)| *x = f(*x, *y));
        step(block);
    }
    for block in into[common.len()..].chunks_mut(BLOCK) {
        block.iter_mut().for_each(|x| *x = f(*x, 0));
        step(block);
    }
    for block in more.chunks(BLOCK) {
        into.extend(block.iter().map(|y| f(0, *y)));
        step(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use proptest::prelude::*;
    use resp::reply_value::Value;

    #[test]
    fn bits() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("SETBIT k 7 1", ":0"),
            ("SETBIT k 7 1", ":1"),
            ("SETBIT k 0 0", ":0"),
            ("SETBIT k 9 0", ":0"),
            ("STRLEN k", ":2"),
            ("GETBIT k 7", ":1"),
            ("GETBIT k 4294967295", ":0"),
            ("GETBIT k 4294967296", "-ERR bit offset is not an integer or out of range"),
            ("SETBIT k -1 2", "-ERR bit offset is not an integer or out of range"),
            ("SETBIT k 1 2", "-ERR bit is not an integer or out of range"),
            ("SET n 1", "+OK"),
            ("SETBIT n 6 1", ":0"),
            ("GET n", "3"),
        ] {
            client.is(command, reply);
        }
        let events = ["0 new k", "0 setbit k", "0 setbit k", "0 new n", "0 set n", "0 setbit n"];
        assert_eq!(client.events(), events);
    }

    #[test]
    fn counts_and_positions() {
        let mut client = Client::new();
        for (command, reply) in [
            ("SET k foobar", "+OK"),
            ("BITCOUNT k", ":26"),
            ("BITCOUNT k 1", ":22"),
            ("BITCOUNT k 1 1", ":6"),
            ("BITCOUNT k 5 30 BIT", ":17"),
            ("BITCOUNT k -1 -2", ":0"),
            ("BITCOUNT none", ":0"),
            ("BITCOUNT none x 0 foo", "-ERR value is not an integer or out of range"),
            ("BITCOUNT none 0 x foo", "-ERR syntax error"),
            ("BITCOUNT none 0 x BIT", "-ERR value is not an integer or out of range"),
            ("BITCOUNT none 0 0 foo", "-ERR syntax error"),
            ("BITCOUNT none 0 x BIT 1", "-ERR syntax error"),
            ("BITPOS k 2", "-ERR The bit argument must be 1 or 0."),
            ("BITPOS k 1 0 x foo", "-ERR syntax error"),
            ("BITPOS k 1", ":1"),
            ("BITPOS k 0 -1", ":40"),
            ("BITPOS k 1 11 20 BIT", ":12"),
            ("BITPOS k 1 10 20", ":-1"),
            ("BITPOS k 1 -10 -20", ":1"),
            ("BITPOS none 0", ":0"),
            ("BITPOS none 1 0 -1", ":-1"),
            ("BITFIELD ones SET i24 0 -1", "[:0]"),
            ("BITPOS ones 0", ":24"),
            ("BITPOS ones 0 1", ":24"),
            ("BITPOS ones 0 3", ":-1"),
            ("BITPOS ones 0 0 -1", ":-1"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn operations_check_their_sources() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("SET a abc", "+OK"),
            ("BITOP FOO d a", "-ERR syntax error"),
            ("BITOP NOT d a a", "-ERR BITOP NOT must be called with a single source key."),
            ("BITOP DIFF1 d a", "-ERR BITOP DIFF1 must be called with at least two source keys."),
            ("BITOP OR d a none", ":3"),
            ("GET d", "abc"),
            ("BITOP AND d none other", ":0"),
            ("GET d", "nil"),
            ("ZADD z 1 m", ":1"),
        ] {
            client.is(command, reply);
        }
        client.is("BITOP AND d none z", &format!("-{}", Error::WrongType));
        assert_eq!(client.events()[2..5], ["0 new d", "0 set d", "0 del d"]);
    }

    /// Computes one bit.
    fn model(operation: Operation, bits: &[bool]) -> bool {
        let (x, y) = (bits[0], &bits[1..]);
        let some = y.contains(&true);
        match operation {
            Operation::And => x && !y.contains(&false),
            Operation::Or => x || some,
            Operation::Xor => bits.iter().filter(|bit| **bit).count() % 2 == 1,
            Operation::Not => !x,
            Operation::Diff => x && !some,
            Operation::Diff1 => !x && some,
            Operation::AndOr => x && some,
            Operation::One => bits.iter().filter(|bit| **bit).count() == 1,
        }
    }

    proptest! {
        #[test]
        fn operations_work_bit_by_bit(sources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 2..5)) {
            use Operation::*;
            for operation in [And, Or, Xor, Not, Diff, Diff1, AndOr, One] {
                let sources = if operation == Not { &sources[..1] } else { &sources[..] };
                let mut fold = Fold::new(operation, Yielding::never());
                sources.iter().for_each(|source| fold.add(source));
                let result = fold.finish();
                prop_assert_eq!(result.len(), sources.iter().map(Vec::len).max().unwrap_or(0));
                for offset in 0..result.len() as u64 * 8 {
                    let bits: Vec<bool> = sources.iter().map(|source| bit_at(source, offset)).collect();
                    prop_assert_eq!(bit_at(&result, offset), model(operation, &bits), "{:?} {}", operation, offset);
                }
            }
        }

        #[test]
        fn ranges_are_counted_and_searched_bit_by_bit(
            seed: u64,
            len in 0usize..200,
            kind in 0u8..4,
            from in 0u64..1700,
            to in 0u64..1700,
        ) {
            // Mostly uniform strings make the search go through words.
            let mut bytes = vec![if kind % 2 == 0 { 0 } else { 0xFF }; len];
            if kind >= 2 && len > 0 {
                bytes[seed as usize % len] = (seed >> 8) as u8;
            }
            let end = to.min(len as u64 * 8);
            let bits = from.min(end)..end;
            let ones = bits.clone().filter(|offset| bit_at(&bytes, *offset)).count() as u64;
            prop_assert_eq!(count_range(&bytes, bits.clone()), ones);
            for bit in [false, true] {
                let first = bits.clone().find(|offset| bit_at(&bytes, *offset) == bit);
                prop_assert_eq!(first_bit(&bytes, bit, bits.clone()), first);
            }
        }
    }

    #[test]
    fn results_are_long_strings_too() {
        let mut client = Client::new();
        client.is("SETBIT a 80000 1", ":0").is("BITOP NOT d a", ":10001").is("BITCOUNT d", ":80007");
        assert!(matches!(client.value("GET d"), Value::Bulk(bytes) if bytes.len() == 10_001));
    }
}
