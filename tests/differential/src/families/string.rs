//! Strings: the whole group.

use super::{Family, newest, row};
use crate::words::{Word, decimal, int, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "string",
    words: WORDS,
    rows: &[
        row(14, "SET key value"),
        row(8, "SET key value [NX|XX] [GET] [EX secs|PX millis|EXAT at_secs|PXAT at_millis|KEEPTTL]"),
        row(8, "SET key value {NX|XX|GET|KEEPTTL|EX secs|PX millis|EXAT at_secs|PXAT at_millis|PERSIST}"),
        row(14, "GET key"),
        row(5, "GETEX key [EX secs|PX millis|EXAT at_secs|PXAT at_millis|PERSIST]"),
        row(3, "GETEX key {EX secs|PX millis|EXAT at_secs|PXAT at_millis|PERSIST|KEEPTTL|NX}"),
        row(3, "GETDEL key"),
        row(4, "GETSET key value"),
        row(5, "APPEND key value"),
        row(5, "SETRANGE key offset value"),
        row(5, "GETRANGE key index index"),
        row(3, "SUBSTR key index index"),
        row(5, "LCS key key {IDX|LEN|MINMATCHLEN index|WITHMATCHLEN}"),
        row(3, "LCS key key IDX {MINMATCHLEN index|WITHMATCHLEN}"),
        row(5, "INCR key"),
        row(5, "DECR key"),
        row(5, "INCRBY key int"),
        row(5, "DECRBY key int"),
        row(8, "INCRBYFLOAT key float"),
        row(4, "SET key int"),
        row(4, "SET key float"),
        row(4, "MSET (key value)+"),
        row(2, "MSET key+"),
        row(4, "MSETNX (key value)+"),
        row(2, "MSETNX key+"),
        row(5, "MGET key+"),
        row(4, "SETEX key secs value"),
        row(4, "PSETEX key millis value"),
        row(4, "SETNX key value"),
        row(5, "STRLEN key"),
        newest(6, "SET key value [GET] IFEQ value {GET|NX|XX|KEEPTTL|EX secs|IFEQ value}", "SET probe v IFEQ v"),
        newest(4, "SET key small ; SET key value IFEQ small [GET] [EX secs|KEEPTTL]", "SET probe v IFEQ v"),
        newest(3, "DELIFEQ key value", "DELIFEQ probe v"),
        newest(4, "SET key small ; DELIFEQ key small", "DELIFEQ probe v"),
        newest(
            6,
            "MSETEX count (key value)+ {NX|XX|EX secs|PX millis|EXAT at_secs|PXAT at_millis|KEEPTTL}",
            "MSETEX 1 probe v",
        ),
        newest(
            4,
            "MSETEX 2 key value key value [NX|XX] [EX secs|PX millis|EXAT at_secs|PXAT at_millis|KEEPTTL]",
            "MSETEX 1 probe v",
        ),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[("offset", offset), ("small", small), ("count", count)];

/// Draws the offset of SETRANGE; see `hazard.rs` for offsets that are too far.
fn offset(rng: &mut Rng) -> Vec<u8> {
    match rng.u16(..1000) {
        0..800 => decimal(rng.i32(0..70)),
        800..850 => decimal(rng.i32(-5..0)),
        850..950 => int(rng),
        950..980 => decimal(rng.i32(500..40_000)),
        980..982 => decimal(rng.i32(1_000_000..16_000_000)),
        _ => one_of(rng, &["536870911", "536870912", "536870913", "9223372036854775807"]),
    }
}

/// Draws so few values that two draws are often equal.
fn small(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["a", "1", "", "01"])
}

fn count(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => decimal(rng.i32(1..4)),
        _ => int(rng),
    }
}
