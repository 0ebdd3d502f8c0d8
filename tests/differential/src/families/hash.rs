//! Hashes: the whole group, deadlines of fields among the newest commands.

use super::{Family, newest, row};
use crate::compare::Rule;
use crate::words::{Word, collection_key, decimal, float, int, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "hash",
    words: WORDS,
    rows: &[
        row(20, "HSET key (field value)+"),
        row(4, "HSET key (field number)+"),
        row(2, "HMSET key (field value)+"),
        row(1, "HSET key field+"),
        row(5, "HSETNX key field value"),
        row(10, "HGET key field"),
        row(5, "HMGET key field+"),
        row(6, "HGETALL key"),
        row(3, "HKEYS key"),
        row(3, "HVALS key"),
        row(6, "HDEL key field+"),
        row(5, "HEXISTS key field"),
        row(4, "HLEN key"),
        row(4, "HSTRLEN key field"),
        row(6, "HINCRBY key field (int|number)"),
        row(6, "HINCRBYFLOAT key field (float|number)"),
        row(3, "HRANDFIELD key 100000 [WITHVALUES]"),
        row(1, "HRANDFIELD none [count [WITHVALUES]]"),
        row(2, "DEL one ; HSET one field value ; HRANDFIELD one [few [WITHVALUES]]"),
        row(1, "HRANDFIELD key (0|nonsense|-9223372036854775808|4611686018427387904 WITHVALUES|1 junk)"),
        row(3, "HSCAN key 0 COUNT 100000 {MATCH pattern|NOVALUES}"),
        row(1, "DEL one ; HSET one field value ; HSCAN one (0|nonsense) (COUNT nonsense|NOSCORES|junk|COUNT 0|COUNT)"),
        row(4, "OBJECT ENCODING key"),
        row(3, "DEBUG DIGEST-VALUE key"),
        row(1, "CONFIG SET most_fields (4|12|512)"),
        row(1, "CONFIG SET longest (4|64)"),
        newest(8, "HSETEX key [NX|XX] [FNX|FXX] [PXAT far|EXAT far_secs|KEEPTTL] FIELDS 1 field value", PROBE),
        newest(4, "HSETEX key [PXAT far|KEEPTTL|PXAT past|EX 0] FIELDS 2 field value field value", PROBE),
        newest(
            4,
            "HSETEX key {NX|XX|FNX|FXX|PXAT far|EX junk|PX -1|KEEPTTL|PERSIST} FIELDS count (field value)+",
            PROBE,
        ),
        newest(6, "HGETEX key [PXAT far|EXAT far_secs|PERSIST|PXAT past] FIELDS 2 field field", PROBE),
        newest(3, "HGETEX key {PXAT far|EX junk|EX 0|PERSIST|KEEPTTL|NX} FIELDS count field+", PROBE),
        newest(4, "HGETDEL key FIELDS 2 field field", PROBE),
        newest(1, "HGETDEL key (FIELDS|junk) count field+", PROBE),
        newest(8, "HPEXPIREAT key (far|past) [NX|XX|GT|LT] FIELDS 2 field field", PROBE),
        newest(5, "HEXPIREAT key far_secs {NX|XX|GT|LT|junk} FIELDS count field+", PROBE),
        newest(2, "(HEXPIRE|HPEXPIRE) key (0|-1|junk|9223372036854775807) FIELDS 1 field", PROBE),
        newest(5, "HPEXPIRETIME key FIELDS 2 field field", PROBE),
        newest(3, "HEXPIRETIME key FIELDS 2 field field", PROBE),
        newest(2, "(HTTL|HPTTL) key (FIELDS|junk) count field+ ; HPERSIST key FIELDS 1 field", PROBE),
        newest(4, "HPERSIST key FIELDS 2 field field", PROBE),
    ],
    rules: &[
        ("HGETALL", Rule::Unordered),
        ("HKEYS", Rule::Unordered),
        ("HVALS", Rule::Unordered),
        ("HRANDFIELD", Rule::Unordered),
        ("HSCAN", Rule::Nested),
        ("HTTL", Rule::Kind),
        ("HPTTL", Rule::Kind),
    ],
};

const PROBE: &str = "HTTL probe FIELDS 1 f";

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("field", field),
    ("number", number),
    ("count", |rng| {
        if rng.u8(..8) < 7 {
            decimal(rng.i8(1..4))
        } else {
            one_of(rng, &["0", "-1", "100", "9223372036854775807", "x"])
        }
    }),
    ("few", |rng| decimal(rng.i8(-4..4))),
    ("most_fields", |_| b"hash-max-listpack-entries".to_vec()),
    ("longest", |_| b"hash-max-listpack-value".to_vec()),
    ("nonsense", |rng| one_of(rng, &["x", "1x", "", "1.5", "- 1"])),
    ("none", |_| b"none".to_vec()),
    ("one", |_| b"one".to_vec()),
    ("pattern", |rng| one_of(rng, &["*", "f*", "[a-d]", "?", "f1?", "\\a", ""])),
    // Times that neither server reaches, few enough for conditions to hold and not to hold.
    ("far", |rng| decimal(4_200_000_000_000u64 + 1500 * rng.u64(..4))),
    ("far_secs", |rng| decimal(4_200_000_000u64 + rng.u64(..6))),
    ("past", |rng| one_of(rng, &["1", "0", "1000000000000"])),
];

fn field(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..5 => vec![rng.u8(b'a'..=b'h')],
        5 | 6 => decimal(format!("f{}", rng.u16(..700))),
        7 => decimal(rng.i32(-5..20)),
        8 => one_of(rng, &["", "A", "\0", "\u{ff}", "aa", "12345678901234567890"]),
        _ => value(rng),
    }
}

fn number(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..4) {
        0 => float(rng),
        1 => int(rng),
        _ => decimal(rng.i32(-100..100)),
    }
}
