//! Keys and databases: all of the generic group that needs no value serialization, sorting or waiting.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, decimal, int, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "generic",
    words: WORDS,
    rows: &[
        row(8, "SET key value"),
        row(4, "SET key value (EX secs|PX millis|EXAT at_secs|PXAT at_millis)"),
        row(4, "ZADD key float value"),
        row(3, "DEL key+"),
        row(3, "UNLINK key+"),
        row(4, "EXISTS key+"),
        row(5, "TYPE key"),
        row(3, "TOUCH key+"),
        row(4, "RENAME key key"),
        row(4, "RENAMENX key key"),
        row(6, "COPY key key {DB db|REPLACE}"),
        row(4, "MOVE key db"),
        row(6, "EXPIRE key secs {NX|XX|GT|LT}"),
        row(6, "PEXPIRE key millis {NX|XX|GT|LT}"),
        row(6, "EXPIREAT key at_secs {NX|XX|GT|LT}"),
        row(6, "PEXPIREAT key at_millis {NX|XX|GT|LT}"),
        row(5, "TTL key"),
        row(5, "PTTL key"),
        row(5, "EXPIRETIME key"),
        row(5, "PEXPIRETIME key"),
        row(4, "PERSIST key"),
        row(5, "OBJECT ENCODING key"),
        row(2, "OBJECT REFCOUNT key"),
        row(2, "OBJECT (FREQ|IDLETIME) key"),
        row(1, "OBJECT (HELP|junk [key])"),
        row(3, "KEYS pattern"),
        row(5, "SCAN 0 {MATCH pattern|COUNT count|TYPE type}"),
        row(1, "SCAN bad_cursor [COUNT count]"),
        row(1, "SELECT 9 ; FLUSHDB ; RANDOMKEY ; SELECT 0"),
        row(1, "SELECT 9 ; FLUSHDB ; SET key value ; RANDOMKEY ; DBSIZE ; SELECT 0"),
        row(1, "RANDOMKEY junk"),
        // Expired keys count until a command meets them; a scan meets them all.
        row(3, "SCAN 0 COUNT 1000 ; DBSIZE"),
        row(1, "DBSIZE junk"),
        row(1, "FLUSHDB [ASYNC|SYNC|junk]"),
        row(3, "SWAPDB db db"),
        row(3, "SELECT db"),
        row(6, "SELECT 0"),
        row(3, "GET key"),
    ],
    rules: &[
        ("KEYS", Rule::Unordered),
        // A user who may not flush sees the keys that there are.
        ("RANDOMKEY", Rule::Kind),
        ("SCAN", Rule::Scan),
        ("TTL", Rule::TimeLeft(1)),
        ("EXPIRETIME", Rule::Deadline(1)),
        ("PTTL", Rule::TimeLeft(1000)),
        ("PEXPIRETIME", Rule::Deadline(1000)),
        ("OBJECT IDLETIME", Rule::Kind),
        // Versions differ in which integers they share.
        ("OBJECT REFCOUNT", Rule::Kind),
        ("OBJECT ENCODING", Rule::Encoding),
    ],
};

const WORDS: &[Word] = &[("pattern", pattern), ("count", count), ("type", type_name), ("bad_cursor", bad_cursor)];

fn pattern(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..3 => b"*".to_vec(),
        3..9 => one_of(
            rng,
            &[
                "k*",
                "k?",
                "k[0-3]",
                "k[^0-3]",
                "k[3-0]",
                "k[012]",
                "K*",
                "*[0-9]",
                "?",
                "??",
                "",
                "k\\1",
                "\\k1",
                "key:{*}",
                "key:*",
                "[k]1",
                "[^k]*",
                "k[",
                "k[1",
                "k[1-",
                "k[]",
                "k[^]",
                "k\\",
                "*\\",
                "**1",
                "*?*",
                "???????*",
                "k[\\1]",
                "[a-z][0-9]",
                "[K]EY-8",
                "*key*11",
                "k1",
                "nothing",
                "[-k]1",
                "k[a-0]",
                "*\0*",
            ],
        ),
        _ => (0..rng.usize(1..8)).map(|_| b"k01[]^-\\*?"[rng.usize(..10)]).collect(),
    }
}

fn count(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => decimal(rng.u8(1..20)),
        8 => one_of(rng, &["0", "-1", "1000000000", "9223372036854775807"]),
        _ => int(rng),
    }
}

fn type_name(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => one_of(rng, &["string", "zset", "list", "set", "hash", "stream"]),
        _ => one_of(rng, &["STRING", "ZSet", "", "nothing", "strin", "none"]),
    }
}

fn bad_cursor(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["abc", "1x", "x1", "0x", "nan", "1e3"])
}
