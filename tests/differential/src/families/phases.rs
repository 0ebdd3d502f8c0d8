//! Events besides the commands of a history, one phase a round: links to replicas are cut, memory is short and
//! keys expire unseen, keys leave for another server. Words in capitals with a dash are filled in as they are sent.

use super::{Family, row};
use crate::words::{Word, collection_key, decimal, one_of};

/// Each with how many steps of a history there are to one of its own.
pub const ALL: &[(u8, &Family)] = &[(250, &CUT_LINKS), (30, &SHORT_MEMORY), (30, &MIGRATION)];

/// Ports of the other server, of a way to it that breaks, and of none; and a limit that is reached soon.
pub const TARGET: &[u8] = b"TARGET-PORT";
pub const BREAKING: &[u8] = b"BREAKING-PORT";
pub const CLOSED: &[u8] = b"CLOSED-PORT";
pub const TIGHT: &[u8] = b"TIGHT-MEMORY";

/// Replicas resume where they were, or begin again once the history has another name.
const CUT_LINKS: Family = Family {
    name: "cut-links",
    words: WORDS,
    rows: &[
        row(4, "CLIENT KILL TYPE REPLICA"),
        row(4, "CLIENT KILL TYPE REPLICA ; SET key few ; WAIT 1 1500"),
        row(1, "MULTI ; SET key few ; CLIENT KILL TYPE REPLICA ; APPEND key few ; EXEC"),
        row(2, "DEBUG CHANGE-REPL-ID ; CLIENT KILL TYPE REPLICA ; WAIT 1 1500"),
        row(1, "BGREWRITEAOF ; CLIENT KILL TYPE REPLICA"),
    ],
    rules: &[],
};

const SHORT_MEMORY: Family = Family {
    name: "short-memory",
    words: WORDS,
    rows: &[
        row(4, "CONFIG SET MAXMEMORY-POLICY policy"),
        row(6, "CONFIG SET MAXMEMORY tight"),
        row(2, "CONFIG SET MAXMEMORY 0"),
        row(4, "SET key long PX soon ; BLPOP nokey 0.02"),
        row(2, "DEBUG SLEEP 0.02"),
        row(2, "MULTI ; PEXPIRE key soon ; DEBUG SLEEP 0.006 ; APPEND key few ; EXEC"),
    ],
    rules: &[],
};

const MIGRATION: Family = Family {
    name: "migration",
    words: WORDS,
    rows: &[
        row(8, "MIGRATE host (target|breaking|closed) nothing db 50 {COPY|REPLACE} KEYS key key key"),
        row(8, "MIGRATE host (target|breaking) key db 50 {COPY|REPLACE}"),
        row(2, "MIGRATE host breaking nothing 0 50 REPLACE KEYS key+"),
        row(2, "MULTI ; SET key few ; MIGRATE host (target|breaking) key db 50 [REPLACE] ; APPEND key few ; EXEC"),
        row(2, "EVAL migrates 0 host (target|breaking) nothing 0 50 [REPLACE] KEYS key key"),
        row(2, "SET key few PX soon ; MIGRATE host target key db 50 REPLACE"),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[
    ("key", |rng| if rng.bool() { collection_key(rng) } else { one_of(rng, &["x0", "x1", "c0"]) }),
    ("policy", |rng| one_of(rng, POLICIES)),
    ("nokey", |_| b"nokey".to_vec()),
    ("few", |rng| decimal(rng.i32(0..8))),
    ("soon", |rng| one_of(rng, &["1", "2", "5", "20"])),
    ("long", |rng| vec![b'v'; rng.usize(..3000)]),
    ("db", |rng| one_of(rng, &["0", "0", "0", "1", "99"])),
    ("host", |_| b"127.0.0.1".to_vec()),
    ("nothing", |_| Vec::new()),
    ("migrates", |_| b"return redis.pcall('MIGRATE', unpack(ARGV))".to_vec()),
    ("target", |_| TARGET.to_vec()),
    ("breaking", |_| BREAKING.to_vec()),
    ("closed", |_| CLOSED.to_vec()),
    ("tight", |_| TIGHT.to_vec()),
];

const POLICIES: &[&str] = &[
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "noeviction",
];
