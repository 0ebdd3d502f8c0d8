//! Commands whose events of keys differ from others': groups, scripts, and keys that are met after they have expired.
//! They are only drawn when events are compared, since only then nothing but a command removes such keys.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "events",
    words: WORDS,
    rows: &[
        row(10, "EVAL soon 1 key ; DEBUG SLEEP 0.002 ; GET key"),
        row(20, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; reader fleeting"),
        row(20, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; writer fleeting 1"),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; RENAME (fleeting|other) (fleeting|other)"),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; COPY (fleeting|other) (fleeting|other) [REPLACE]"),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; MGET other fleeting fleeting"),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; DEL fleeting other fleeting"),
        row(
            10,
            "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; MULTI ; reader fleeting ; writer fleeting 1 ; reader other ; EXEC",
        ),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; MSETNX other 1 fleeting 2"),
        row(10, "EVAL soon 1 fleeting ; DEBUG SLEEP 0.002 ; BLPOP fleeting other 0.01"),
        row(20, "MULTI ; writer key 1 ; reader key ; writer key 2 ; DEL key ; EXEC"),
        row(20, "MULTI ; RPUSH other A B ; BLPOP other 0 ; BLMOVE other third LEFT RIGHT 0 ; BLPOP other 0 ; EXEC"),
        row(20, "EVAL pair 2 key key"),
        // Sorting a sorted set changes its encoding in the peer.
        row(10, "DEL third ; RPUSH (third|other) B A ; SORT third ALPHA STORE key"),
        row(10, "RESTORE key 0 dumped [REPLACE]"),
        row(10, "BLPOP key key 0.01"),
        row(10, "BLMPOP 0.01 2 key key RIGHT"),
        row(10, "BZPOPMIN key key 0.01"),
        row(10, "BLMOVE key key LEFT LEFT 0.01"),
    ],
    rules: &[("EXEC", Rule::Kind)],
};

const WORDS: &[Word] = &[
    ("soon", soon),
    ("pair", pair),
    ("reader", reader),
    ("writer", writer),
    ("dumped", dumped),
    ("fleeting", fleeting),
    ("other", other),
    ("third", third),
];

/// Leaves a key that expires in a millisecond.
fn soon(rng: &mut Rng) -> Vec<u8> {
    one_of(
        rng,
        &[
            "redis.call('psetex',KEYS[1],1,'v')",
            "redis.call('del',KEYS[1]);redis.call('rpush',KEYS[1],'a');redis.call('pexpire',KEYS[1],1)",
            "redis.call('del',KEYS[1]);redis.call('hset',KEYS[1],'f','v');redis.call('pexpire',KEYS[1],1)",
            "redis.call('del',KEYS[1]);redis.call('zadd',KEYS[1],1,'m');redis.call('pexpire',KEYS[1],1)",
        ],
    )
}

/// Does something with two keys.
fn pair(rng: &mut Rng) -> Vec<u8> {
    one_of(
        rng,
        &[
            "redis.call('get',KEYS[1]);redis.call('set',KEYS[2],'x')",
            "redis.pcall('incr',KEYS[1]);redis.pcall('lpush',KEYS[2],'x')",
            "redis.call('del',KEYS[1]);return redis.pcall('rename',KEYS[1],KEYS[2])",
            "redis.call('exists',KEYS[1],KEYS[2]);redis.call('mset',KEYS[1],1,KEYS[2],2)",
            "redis.call('del',KEYS[1],KEYS[2]);redis.call('type',KEYS[1])",
        ],
    )
}

fn reader(rng: &mut Rng) -> Vec<u8> {
    let names =
        ["GET", "TYPE", "TTL", "EXISTS", "STRLEN", "LLEN", "HGETALL", "ZCARD", "SMEMBERS", "DUMP", "TOUCH", "XLEN"];
    one_of(rng, &names)
}

/// Takes a key and one argument, and leaves nothing to chance.
fn writer(rng: &mut Rng) -> Vec<u8> {
    let names = [
        "SET", "SETNX", "GETSET", "APPEND", "INCRBY", "RPUSH", "LPUSHX", "LPOP", "SADD", "SREM", "HDEL", "ZREM",
        "EXPIRE", "PFADD", "ZPOPMIN", "SETNX",
    ];
    one_of(rng, &names)
}

/// A string of version 11, and one with a wrong checksum.
fn dumped(rng: &mut Rng) -> Vec<u8> {
    const ABC: &[u8] = b"\x00\x03abc\x0b\x00\xb0s\x8dN\xbc\xedKk";
    if rng.u8(..5) == 0 { [ABC, b"x"].concat() } else { ABC.to_vec() }
}

fn fleeting(_: &mut Rng) -> Vec<u8> {
    b"k1".to_vec()
}

fn other(_: &mut Rng) -> Vec<u8> {
    b"k2".to_vec()
}

fn third(_: &mut Rng) -> Vec<u8> {
    b"k3".to_vec()
}
