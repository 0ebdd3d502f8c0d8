//! Transactions: queued and refused commands, replies of EXEC, watched keys. No command in them has a reply that needs
//! a rule.

use super::{Family, row};
use crate::words::{Word, one_of};

pub const FAMILY: Family = Family {
    name: "transaction",
    words: WORDS,
    rows: &[
        row(6, "MULTI ; SET key value ; INCR key ; GET key ; EXEC"),
        row(4, "MULTI ; RPUSH key value value ; LPOP key ; LRANGE key 0 -1 ; EXEC"),
        row(4, "MULTI ; DEL key key ; HSET key F value ; HGET key F ; INCRBYFLOAT key 1.5 ; EXEC"),
        row(3, "MULTI ; ZADD key 1 value ; ZSCORE key value ; RENAME key key ; TYPE key ; EXEC"),
        row(3, "MULTI ; SET key value ; wrong ; EXEC"),
        row(2, "MULTI ; SET key ; GET key ; EXEC"),
        row(2, "MULTI ; SET key value ; DISCARD ; GET key"),
        row(2, "MULTI ; SELECT 1 ; SET key value ; SELECT 0 ; EXISTS key ; EXEC"),
        row(2, "MULTI ; BLPOP key 0 ; BLMOVE key key LEFT RIGHT 0 ; EXEC"),
        row(2, "MULTI ; EVAL script 1 key ; EXEC"),
        row(2, "MULTI ; FLUSHDB ; DBSIZE ; EXEC"),
        row(2, "WATCH key ; MULTI ; GET key ; EXEC"),
        row(2, "WATCH key ; SET key value ; MULTI ; GET key ; EXEC"),
        row(2, "WATCH key key ; UNWATCH ; SET key value ; MULTI ; GET key ; EXEC"),
        row(1, "WATCH key ; DEL key ; MULTI ; GET key ; DISCARD"),
        row(1, "EXEC ; DISCARD"),
        row(1, "UNWATCH [value]"),
        row(1, "MULTI value"),
        row(1, "EXEC value"),
        row(1, "MULTI ; UNWATCH ; PING ; PING value ; EXEC"),
        row(1, "MULTI ; EXEC"),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[
    ("wrong", |rng| one_of(rng, &["nosuch", "get", "", "\0"])),
    ("script", |rng| {
        one_of(rng, &["return redis.pcall('incr',KEYS[1]) and 1", "redis.call('set',KEYS[1],'x') return KEYS[1]"])
    }),
];
