//! Sets: the whole group. A random choice is compared only where there is one possibility.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, collection_key, decimal, int, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "set",
    words: WORDS,
    rows: &[
        row(20, "SADD key member+"),
        row(12, "SADD key small_int+"),
        row(10, "SREM key member+"),
        row(5, "SREM key small_int+"),
        row(8, "SISMEMBER key member"),
        row(5, "SMISMEMBER key member+"),
        row(5, "SCARD key"),
        row(8, "SMEMBERS key"),
        row(8, "SMOVE key key member"),
        row(2, "SPOP key 100000"),
        row(2, "SPOP (one|none) (0|junk|-1|1 junk)"),
        row(3, "DEL one ; SADD one member ; SPOP one [few] ; EXISTS one"),
        row(2, "SPOP none [count]"),
        row(4, "SRANDMEMBER key 100000"),
        row(2, "SRANDMEMBER (one|none) (0|junk|-9223372036854775808|1 junk)"),
        row(2, "DEL one ; SADD one member ; SRANDMEMBER one [few]"),
        row(1, "SRANDMEMBER none [count]"),
        row(6, "(SINTER|SUNION|SDIFF) key+"),
        row(3, "(SINTER|SUNION|SDIFF) key key key key"),
        row(6, "(SINTERSTORE|SUNIONSTORE|SDIFFSTORE) key key+ ; OBJECT ENCODING key"),
        row(3, "(SINTERSTORE|SUNIONSTORE|SDIFFSTORE) key key key key key"),
        row(4, "SINTERCARD 2 key key [LIMIT count]"),
        row(2, "SINTERCARD count key+ {LIMIT count|LIMIT junk|junk}"),
        row(3, "SSCAN key 0 COUNT 100000 [MATCH pattern]"),
        row(1, "SSCAN key (0|junk) (COUNT junk|NOSCORES|NOVALUES|junk|COUNT 0|COUNT)"),
        row(6, "OBJECT ENCODING key"),
        row(3, "DEBUG DIGEST-VALUE key"),
        row(2, "COPY key key [REPLACE]"),
        // Not below the next: the form of a union would depend on the order in which a table shows its members.
        row(1, "CONFIG SET most_ints (128|512)"),
        row(1, "CONFIG SET most_members (0|4|16|128)"),
        row(1, "CONFIG SET longest (2|8|64)"),
    ],
    rules: &[
        ("SMEMBERS", Rule::Unordered),
        ("SPOP", Rule::Unordered),
        ("SRANDMEMBER", Rule::Unordered),
        ("SINTER", Rule::Unordered),
        ("SUNION", Rule::Unordered),
        ("SDIFF", Rule::Unordered),
        ("SSCAN", Rule::Nested),
    ],
};

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("member", member),
    ("small_int", |rng| decimal(rng.i32(-20..20))),
    ("count", |rng| if rng.u8(..8) < 7 { decimal(rng.i8(-1..4)) } else { int(rng) }),
    ("few", |rng| decimal(rng.i8(1..4))),
    ("most_ints", |_| b"set-max-intset-entries".to_vec()),
    ("most_members", |_| b"set-max-listpack-entries".to_vec()),
    ("longest", |_| b"set-max-listpack-value".to_vec()),
    ("none", |_| b"none".to_vec()),
    ("one", |_| b"one".to_vec()),
    ("pattern", |rng| one_of(rng, &["*", "m*", "[a-d]", "?", "1?", "\\a", ""])),
];

fn member(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..4 => vec![rng.u8(b'a'..=b'h')],
        4 => decimal(format!("m{}", rng.u16(..300))),
        5..8 => decimal(rng.i32(-20..20)),
        8 => one_of(rng, &["", "A", "\0", "\u{ff}", "07", "-0", "9223372036854775807", "12345678901234567890"]),
        _ => value(rng),
    }
}
