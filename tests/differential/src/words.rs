//! The words that rows of every family are made of: keys, values, numbers, deadlines.
//!
//! Each word draws mostly what is legal, so that commands do something, and often enough what is not. All drawing is
//! from the seeded generator: a seed stands for the same commands on every machine.
//!
//! Two servers execute the same command at slightly different times, so no deadline may fall due during a run, and
//! whether a deadline was given or counted from now must be readable from it:
//!
//!     past                       now .. a day         relative ones         ABSOLUTE_SECS         beyond
//!     0 ... 2001                 (never drawn)        now + 1 day .. 30 y   2100 .. 2125          huge relative ones
//!
//! `compare.rs` is exact about deadlines within `ABSOLUTE_SECS` and tolerant about the others.

use fastrand::Rng;
use std::ops::Range;

/// Draws one argument.
pub type Draw = fn(&mut Rng) -> Vec<u8>;

/// A name that rows use, and what it draws.
pub type Word = (&'static str, Draw);

/// Unix times in which only deadlines lie that were given as such: the years 2100 to 2125.
pub const ABSOLUTE_SECS: Range<i64> = 4_102_444_800..4_890_000_000;

/// Relative deadlines are at least this far away.
pub const RELATIVE_SECS_MIN: i64 = 86_400;
/// ... and those that are not huge end before `ABSOLUTE_SECS` begins.
const RELATIVE_SECS_MAX: i64 = 1_000_000_000;

pub const COMMON: &[Word] = &[
    ("key", key),
    ("value", value),
    ("int", int),
    ("index", index),
    ("float", float),
    ("secs", secs),
    ("millis", millis),
    ("at_secs", at_secs),
    ("at_millis", at_millis),
    ("db", db),
    ("junk", junk),
];

/// All keys there are: few, so that commands meet each other's values.
pub const KEYS: [&[u8]; 14] = [
    b"k0",
    b"k1",
    b"k2",
    b"k3",
    b"k4",
    b"k5",
    b"k6",
    b"key:{7}",
    b"KEY-8",
    b"",
    b"\x00\xff\r\n9",
    b"long-key-long-key-long-key-long-key-long-key-long-key-long-key-11",
    COLLECTIONS[0],
    COLLECTIONS[1],
];

/// The keys that hold collections more often than not: `key` rarely draws them, so that strings are rarely put there.
pub const COLLECTIONS: [&[u8]; 2] = [b"c0", b"c1"];

pub fn one_of(rng: &mut Rng, texts: &[&str]) -> Vec<u8> {
    texts[rng.usize(..texts.len())].as_bytes().to_vec()
}

pub fn decimal(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

pub fn key(rng: &mut Rng) -> Vec<u8> {
    let rare = if rng.u8(..4) == 0 { 0 } else { COLLECTIONS.len() };
    KEYS[rng.usize(..KEYS.len() - rare)].to_vec()
}

/// The word `key` of families whose values are not strings.
pub fn collection_key(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..4) {
        0 => key(rng),
        _ => COLLECTIONS[rng.usize(..COLLECTIONS.len())].to_vec(),
    }
}

/// Lengths at and beside which strings are stored differently, and ordinary ones.
fn length(rng: &mut Rng) -> usize {
    match rng.u16(..1000) {
        0..700 => rng.usize(..16),
        700..800 => rng.usize(43..=46),
        800..900 => rng.usize(60..=66),
        900..980 => rng.usize(100..=300),
        980..994 => rng.usize(510..=514),
        994..998 => rng.usize(32_766..=32_770),
        _ => rng.usize(60_000..=70_000),
    }
}

pub fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..4 => decimal(rng.i32(-20..1000)),
        4..6 => int(rng),
        6..8 => float(rng),
        8 => Vec::new(),
        9 => one_of(rng, &["NX", "GET", "EX", "0", "OK", "nil", "foobar", "hello world", "\r\n", "\u{e9}\u{4e16}"]),
        // Few letters, so that texts have something in common.
        10..16 => (0..length(rng)).map(|_| rng.u8(b'a'..=b'c')).collect(),
        _ => (0..length(rng)).map(|_| rng.u8(..)).collect(),
    }
}

const LIMITS: &[&str] = &[
    "9223372036854775807",
    "9223372036854775806",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "-4294967296",
    "1000000000000",
    "4611686018427387904",
];

const NOT_INTEGERS: &[&str] = &[
    "",
    " ",
    " 1",
    "1 ",
    "+1",
    "01",
    "-0",
    "00",
    "-01",
    "0x10",
    "1.0",
    "1e3",
    "abc",
    "nan",
    "inf",
    "--1",
    "-",
    "+",
    "1\0",
    "1_0",
    "1,0",
    "99999999999999999999999999999999",
];

/// An operand: mostly small, sometimes at a limit, sometimes no integer at all.
pub fn int(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..6 => decimal(rng.i32(-20..200)),
        6 => decimal(rng.i64(..)),
        7 | 8 => one_of(rng, LIMITS),
        _ => one_of(rng, NOT_INTEGERS),
    }
}

/// A position in something short, counted from either end.
pub fn index(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..7 => decimal(rng.i32(-12..20)),
        7 => decimal(rng.i32(-600..600)),
        _ => int(rng),
    }
}

const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "0.2",
    "-0.1",
    "1.5",
    "3.0e3",
    "2.5e-3",
    "1e17",
    "1e18",
    "1e22",
    "123456789.987654321",
    ".5",
    "5.",
    "-0",
    "-0.0",
    "1e308",
    "-1e308",
    "1.7976931348623157e308",
    "5e-324",
    "1e-10",
    "9007199254740993",
    "999999999999999999",
    "0.30000000000000004",
    "3.14159265358979323846",
    "100000000000000000000",
    "1e-7",
];

const STRANGE_FLOATS: &[&str] = &[
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "-INFINITY",
    "nan",
    "-nan",
    "NaN",
    "nan(1)",
    "1e309",
    "-1e309",
    "1e400",
    "1e4932",
    "1e5000",
    "1e-400",
    "0x1p3",
    "0x10",
    "0x",
    " 1.0",
    "1.0 ",
    "+1.5",
    "1e",
    "e5",
    "1e+5",
    "1E5",
    "1.5.2",
    "1,5",
    "1_0",
    "",
    " ",
    ".",
    "-",
    "+",
    "1\0",
    "abc",
    "0x1.8p1",
    "00012",
    "--1",
    "1.0f",
    "1d",
];

pub fn float(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..3 => decimal(rng.i32(-20..200)),
        3..5 => decimal(f64::from(rng.i32(-100_000..100_000)) / 1000.0),
        5 => decimal((rng.f64() - 0.5) * 1000.0),
        6..8 => one_of(rng, FLOATS),
        8 => one_of(rng, STRANGE_FLOATS),
        _ => int(rng),
    }
}

/// Seconds from now.
pub fn secs(rng: &mut Rng) -> Vec<u8> {
    relative(rng, 1)
}

/// Milliseconds from now.
pub fn millis(rng: &mut Rng) -> Vec<u8> {
    relative(rng, 1000)
}

fn relative(rng: &mut Rng, per_sec: i64) -> Vec<u8> {
    match rng.u8(..20) {
        // Any two of them lie so far apart that GT and LT see the same order on both servers.
        0..14 => decimal(rng.i64(RELATIVE_SECS_MIN * per_sec..RELATIVE_SECS_MAX * per_sec)),
        14 => decimal(0),
        15 => decimal(rng.i64(-1_000_000..0)),
        16 => one_of(rng, LIMITS),
        17 => one_of(
            rng,
            &[
                "9223372036854775",
                "9223372036854776",
                "-9223372036854775",
                "-9223372036854776",
                "9223300000000000",
                "9223300000000000000",
            ],
        ),
        _ => one_of(rng, NOT_INTEGERS),
    }
}

/// A Unix time in seconds.
pub fn at_secs(rng: &mut Rng) -> Vec<u8> {
    absolute(rng, 1)
}

/// A Unix time in milliseconds.
pub fn at_millis(rng: &mut Rng) -> Vec<u8> {
    absolute(rng, 1000)
}

fn absolute(rng: &mut Rng, per_sec: i64) -> Vec<u8> {
    match rng.u8(..20) {
        // A few values are repeated, for GT and LT between equals.
        0..6 => decimal((ABSOLUTE_SECS.start + rng.i64(0..3)) * per_sec),
        6..14 => decimal(rng.i64(ABSOLUTE_SECS.start * per_sec..ABSOLUTE_SECS.end * per_sec)),
        14..16 => decimal(rng.i64(1..1_000_000_000)),
        16 => decimal(rng.i64(-1000..=0)),
        17 => one_of(rng, LIMITS),
        18 => one_of(rng, &["9223372036854775", "9223372036854776", "9223300000000000"]),
        _ => one_of(rng, NOT_INTEGERS),
    }
}

pub fn db(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => decimal(rng.u8(..3)),
        8 => decimal(0),
        _ => one_of(rng, &["-1", "16", "17", "abc", "", "01", "1 ", "9223372036854775808", "4294967296"]),
    }
}

/// An argument that fits nowhere in particular.
pub fn junk(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0 => key(rng),
        1 => value(rng),
        2 => int(rng),
        3 => float(rng),
        4 => one_of(
            rng,
            &[
                "NX",
                "XX",
                "GT",
                "LT",
                "GET",
                "EX",
                "PX",
                "EXAT",
                "PXAT",
                "KEEPTTL",
                "PERSIST",
                "REPLACE",
                "DB",
                "WITHSCORES",
                "LEN",
                "IDX",
                "BIT",
                "BYTE",
                "COUNT",
                "MATCH",
                "TYPE",
            ],
        ),
        5 => Vec::new(),
        6 => one_of(rng, &["\0", "\r\n", "'", "\"", "%s%n", "\u{1}\u{7f}", "*", "$-1"]),
        _ => vec![b'x'; rng.usize(1..200)],
    }
}
