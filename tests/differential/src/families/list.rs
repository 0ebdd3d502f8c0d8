//! Lists: the whole group.
//!
//! Commands that would wait are sent in transactions, where none waits. Lists are made under other limits of the packed
//! form, too, so that all changes of form are met.

use super::{Family, row};
use crate::words::{Word, collection_key, decimal, index, int, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "list",
    words: WORDS,
    rows: &[
        row(12, "(LPUSH|RPUSH) key element+"),
        row(4, "(LPUSHX|RPUSHX) key element+"),
        row(6, "(LPOP|RPOP) key"),
        row(4, "(LPOP|RPOP) key count"),
        row(4, "LLEN key"),
        row(8, "LINDEX key index"),
        row(8, "LRANGE key index index"),
        row(3, "LRANGE key 0 -1"),
        row(8, "LSET key near element"),
        row(2, "LSET key index element"),
        row(10, "LINSERT key (BEFORE|AFTER) element element"),
        row(1, "LINSERT key junk element element"),
        row(6, "LREM key near element"),
        row(2, "LREM key index element"),
        row(3, "LTRIM key near far"),
        row(1, "LTRIM key index index"),
        row(8, "LPOS key element {RANK near|COUNT small|MAXLEN small}"),
        row(2, "LPOS key element {RANK index|COUNT count|MAXLEN count|junk}"),
        row(5, "LMOVE key key (LEFT|RIGHT) (LEFT|RIGHT)"),
        row(1, "LMOVE key key (LEFT|junk) (RIGHT|junk)"),
        row(3, "RPOPLPUSH key key"),
        row(4, "LMPOP 2 key key (LEFT|RIGHT) [COUNT small]"),
        row(2, "LMPOP numkeys key [key] (LEFT|RIGHT|junk) {COUNT count}"),
        row(2, "MULTI ; RPUSH filled A B C ; (BLPOP|BRPOP) none filled timeout ; EXEC"),
        row(2, "MULTI ; RPUSH filled A B C ; BLMPOP 0 2 none filled (LEFT|RIGHT) [COUNT small] ; EXEC"),
        row(
            1,
            "MULTI ; RPUSH filled A B C ; BLMPOP timeout numkeys filled [filled] (LEFT|RIGHT|junk) {COUNT count} ; EXEC",
        ),
        row(2, "MULTI ; RPUSH filled A B C ; BLMOVE filled key (LEFT|RIGHT) (LEFT|RIGHT|junk) timeout ; EXEC"),
        row(2, "MULTI ; RPUSH filled A B C ; BRPOPLPUSH filled key timeout ; EXEC"),
        row(2, "OBJECT ENCODING key"),
        row(
            4,
            "CONFIG SET LIST-MAX-LISTPACK-SIZE fill LIST-COMPRESS-DEPTH depth ; DEL key ; RPUSH key element+ ; LPUSH key element+ ; OBJECT ENCODING key ; CONFIG SET LIST-MAX-LISTPACK-SIZE -2 LIST-COMPRESS-DEPTH 0",
        ),
        row(
            3,
            "CONFIG SET LIST-MAX-LISTPACK-SIZE fill ; (LPOP|RPOP) key ; LMOVE key key LEFT RIGHT ; LSET key near element ; OBJECT ENCODING key ; CONFIG SET LIST-MAX-LISTPACK-SIZE -2",
        ),
        row(2, "DEBUG DIGEST-VALUE key"),
        row(2, "COPY key key [REPLACE]"),
        row(2, "DEL key"),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("element", element),
    ("near", |rng| decimal(rng.i8(-6..6))),
    ("far", |rng| one_of(rng, &["-1", "-2", "5", "40"])),
    ("index", index),
    ("small", |rng| decimal(rng.i8(0..5))),
    ("count", |rng| if rng.bool() { decimal(rng.i8(-1..6)) } else { int(rng) }),
    ("numkeys", |rng| one_of(rng, &["1", "2", "2", "1", "0", "-1", "3", "x", "9223372036854775807"])),
    ("timeout", |rng| one_of(rng, &["0", "0.1", "1", "1", "-1", "x", "1e300", "inf", "nan", "9223372036854775.807"])),
    ("filled", |_| b"filled".to_vec()),
    ("none", |_| b"none".to_vec()),
    ("fill", |rng| one_of(rng, &["-2", "-1", "-5", "3", "8", "1", "0", "100"])),
    ("depth", |rng| one_of(rng, &["0", "1", "2"])),
    ("junk", |rng| one_of(rng, &["", "x", "LEF", "COUNT"])),
];

/// Draws few values, so that they are found again; some are too large for a listpack with others, or for any.
fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..9 => decimal(rng.i32(-2..12)),
        9..14 => one_of(rng, &["a", "b", "c", "", "01", "-0", "1.5", "9223372036854775808"]),
        14..16 => int(rng),
        16..18 => vec![b'a' + rng.u8(..3); 30 + 40 * rng.usize(..3)],
        18 => vec![b'p' + rng.u8(..3); 2000],
        _ => vec![b'x' + rng.u8(..2); [4090, 8186, 9000][rng.usize(..3)]],
    }
}
