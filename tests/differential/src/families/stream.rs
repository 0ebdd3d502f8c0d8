//! Streams: the whole group.
//!
//! No reply may depend on the moment of its execution. Ids are given, and a `*` follows an id that lies far ahead of
//! all clocks, after which it counts on; entries are asked for that have been pending for no time or for longer than a
//! test takes; times in replies have a rule of their own.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, collection_key, decimal, int, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "stream",
    words: WORDS,
    rows: &[
        row(24, "XADD key new_id (field value)+"),
        row(8, "XADD key new_id 1 few 2 few 3 few"),
        row(4, "XADD key {NOMKSTREAM|trim few|trim few LIMIT few|LIMIT few} new_id field value"),
        row(2, "XADD auto 9000000000000-1 1 1 ; XADD auto * (field value)+ ; XADD auto MAXLEN ~ few * 1 2"),
        row(1, "XADD auto 9000000000000-1 1 1 ; XADD auto NOMKSTREAM * 1 ; XREVRANGE auto plus - COUNT 3"),
        row(3, "XLEN key"),
        row(8, "XRANGE key bound bound [COUNT few]"),
        row(6, "XREVRANGE key bound bound [COUNT few]"),
        row(1, "(XRANGE|XREVRANGE) key bound bound {COUNT int|junk}"),
        row(10, "XDEL key id+"),
        row(4, "XTRIM key trim few [LIMIT few]"),
        row(3, "XTRIM key MINID [=|~] id [LIMIT few]"),
        row(1, "XTRIM key {MAXLEN int|MINID id|LIMIT int|junk}"),
        row(2, "XSETID key id {ENTRIESADDED few|MAXDELETEDID id}"),
        row(1, "XSETID key bound {ENTRIESADDED int|MAXDELETEDID bound|junk}"),
        row(8, "XREAD [COUNT few] STREAMS key read_id"),
        row(4, "XREAD [COUNT few] STREAMS key key read_id read_id"),
        row(1, "XREAD {COUNT int|GROUP group consumer|NOACK|BLOCK 1} STREAMS key key read_id [read_id]"),
        row(1, "XREAD BLOCK 1 STREAMS key (read_id|$)"),
        row(8, "XGROUP CREATE key group (id|0|$) [MKSTREAM] [ENTRIESREAD few]"),
        row(1, "XGROUP CREATE key group bound {MKSTREAM|ENTRIESREAD int|junk}"),
        row(4, "XGROUP SETID key group (id|0|$) [ENTRIESREAD few]"),
        row(2, "XGROUP DESTROY key group"),
        row(3, "XGROUP (CREATECONSUMER|DELCONSUMER) key group consumer"),
        row(1, "XGROUP (HELP|junk|CREATE key|DELCONSUMER key group)"),
        row(16, "XREADGROUP GROUP group consumer [COUNT few] [NOACK] STREAMS key (>|group_id)"),
        row(6, "XREADGROUP GROUP group consumer [COUNT few] STREAMS key key (>|group_id) (>|group_id)"),
        row(1, "XREADGROUP {GROUP group consumer|COUNT int|NOACK|BLOCK 1|junk} STREAMS key (>|group_id|$|plus)"),
        row(10, "XACK key group id+"),
        row(5, "XPENDING key group"),
        row(6, "XPENDING key group [IDLE min_idle] bound bound few [consumer]"),
        row(1, "XPENDING key group {IDLE min_idle|bound|int|consumer}"),
        row(8, "XCLAIM key group consumer min_idle id+ {IDLE idle|TIME time|RETRYCOUNT few|FORCE|JUSTID|LASTID id}"),
        row(1, "XCLAIM key group consumer min_idle (id|junk) {IDLE idle|RETRYCOUNT int|LASTID bound|junk}"),
        row(8, "XAUTOCLAIM key group consumer min_idle bound {COUNT few|JUSTID}"),
        row(1, "XAUTOCLAIM key group consumer (min_idle|junk) bound {COUNT int|JUSTID|junk}"),
        row(4, "XINFO STREAM key"),
        row(6, "XINFO STREAM key FULL [COUNT few]"),
        row(4, "XINFO GROUPS key"),
        row(4, "XINFO CONSUMERS key group"),
        row(1, "XINFO (STREAM key junk|HELP|CONSUMERS key|STREAM key FULL COUNT junk|junk)"),
        row(2, "COPY key key REPLACE"),
        row(2, "DEBUG DIGEST-VALUE key"),
        row(1, "DEL key"),
        row(1, "CONFIG SET most_entries (2|5|100)"),
        row(1, "CONFIG SET most_bytes (0|60|4096)"),
    ],
    rules: &[("XINFO", Rule::Times), ("XPENDING", Rule::Times)],
};

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("most_entries", |_| b"stream-node-max-entries".to_vec()),
    ("most_bytes", |_| b"stream-node-max-bytes".to_vec()),
    ("plus", |_| b"+".to_vec()),
    ("auto", |_| b"auto".to_vec()),
    ("field", |rng| if rng.u8(..8) == 0 { value(rng) } else { one_of(rng, &["a", "b", "c", "1", ""]) }),
    ("new_id", new_id),
    ("id", id),
    ("read_id", |rng| if rng.u8(..12) == 0 { one_of(rng, &["$", "+", ">", "-"]) } else { id(rng) }),
    ("group_id", |rng| if rng.bool() { b"0".to_vec() } else { id(rng) }),
    ("bound", bound),
    ("group", |rng| one_of(rng, &["g", "h"])),
    ("consumer", |rng| one_of(rng, &["one", "two", "three", ""])),
    ("few", |rng| decimal(if rng.u8(..8) == 0 { rng.i32(-2..200) } else { rng.i32(0..12) })),
    ("trim", |rng| one_of(rng, &["MAXLEN", "MAXLEN", "MINID"])),
    ("min_idle", |rng| one_of(rng, &["0", "0", "0", "-5", "100000000", "9223372036854775807", "x"])),
    ("idle", |rng| one_of(rng, &["0", "7", "200000000", "100000000000", "-1", "9223372036854775807", "x"])),
    ("time", |rng| one_of(rng, &["0", "1", "5", "999999999", "9999999999999", "-1", "9223372036854775807", "x"])),
];

/// Grows more often than not: the place among the entries of a time is mostly left to the server.
fn new_id(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..12 => b"7-*".to_vec(),
        12..15 => decimal(format!("{}-*", rng.u8(..9))),
        _ => id(rng),
    }
}

fn id(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..24) {
        0..14 => decimal(format!("7-{}", rng.u8(..40))),
        14..19 => decimal(format!("{}-{}", rng.u8(..9), rng.u8(..4))),
        19..22 => decimal(rng.u8(..9)),
        22 => one_of(
            rng,
            &[
                "0-0",
                "0",
                "18446744073709551615-18446744073709551615",
                "18446744073709551615",
                "7-18446744073709551615",
                "7-18446744073709551614",
                "18446744073709551616",
                "7-18446744073709551616",
                "9223372036854775808-1",
            ],
        ),
        _ => one_of(rng, &["x", "", "-", "7-", "-7", "7-x", "7--1", "07-01", "7-1-1", " 7", "+7", "7-+", "1.5", "--"]),
    }
}

fn bound(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0..3 => b"-".to_vec(),
        3..6 => b"+".to_vec(),
        6 | 7 => [b"(", &id(rng)[..]].concat(),
        8 if rng.u8(..8) == 0 => int(rng),
        _ => id(rng),
    }
}
