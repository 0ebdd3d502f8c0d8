//! The connection, and what every command has in common: unknown names, wrong arity, COMMAND.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, junk, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "connection",
    words: WORDS,
    rows: &[
        row(3, "PING [value]"),
        row(3, "ECHO value"),
        row(2, "HELLO [protocol]"),
        row(2, "HELLO protocol {AUTH user junk|SETNAME name|junk}"),
        row(2, "HELLO protocol AUTH user value SETNAME name"),
        row(4, "CLIENT SETNAME name"),
        row(4, "CLIENT GETNAME"),
        row(4, "CLIENT SETINFO (LIB-NAME|LIB-VER|junk) name"),
        row(1, "CLIENT ID"),
        row(1, "CLIENT unknown value"),
        row(2, "SELECT db"),
        row(4, "SELECT 0"),
        row(1, "RESET"),
        row(3, "unknown {key|value|junk}"),
        row(3, "name_only [key [value [int [int [key]]]]]"),
        row(2, "OBJECT unknown {key}"),
        row(1, "COMMAND unknown {key}"),
        row(3, "COMMAND INFO table_name+"),
        row(1, "COMMAND INFO unknown table_name"),
        row(
            3,
            "COMMAND GETKEYS (GET key|SET key value|MSET (key value)+|MGET key+|BITOP AND key key+|RENAME key key|COPY key key|LCS key key|OBJECT ENCODING key|ZADD key 1 A|DEL key+|SWAPDB 0 1|PING)",
        ),
        row(2, "COMMAND GETKEYS name_only {key}"),
        row(1, "TIME"),
    ],
    rules: &[
        ("HELLO", Rule::Hello),
        ("CLIENT ID", Rule::Kind),
        ("TIME", Rule::Kind),
        ("COMMAND INFO", Rule::CommandInfo),
    ],
};

const WORDS: &[Word] = &[
    ("protocol", protocol),
    ("user", user),
    ("name", name),
    ("unknown", unknown),
    ("name_only", name_only),
    ("table_name", table_name),
];

fn protocol(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => one_of(rng, &["2", "3"]),
        _ => one_of(rng, &["1", "4", "0", "-1", "", "abc", "3.0", "02", "9223372036854775808"]),
    }
}

fn user(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["default", "default", "bob", "", "DEFAULT"])
}

fn name(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => {
            one_of(rng, &["me", "a-client", "", "x", "with space", "line\nbreak", "\u{e9}", "!~", "1.2.3", "del\u{7f}"])
        }
        _ => junk(rng),
    }
}

fn unknown(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..8) {
        0..6 => one_of(
            rng,
            &[
                "foo",
                "GETT",
                "",
                " ",
                "GET ",
                "get|set",
                "object|encoding",
                "\0",
                "a\r\nb",
                "\u{e9}",
                "$GET",
                "'",
                "%n",
            ],
        ),
        6 => vec![b'F'; rng.usize(100..300)],
        _ => (0..rng.usize(1..20)).map(|_| rng.u8(128..)).collect(),
    }
}

/// Commands whose table entries and arity errors are compared. Commands with subcommands are left out, save one: a
/// server may lack some of the others' subcommands.
fn name_only(rng: &mut Rng) -> Vec<u8> {
    one_of(
        rng,
        &[
            "APPEND",
            "DECR",
            "DECRBY",
            "GET",
            "GETDEL",
            "GETEX",
            "GETRANGE",
            "GETSET",
            "INCR",
            "INCRBY",
            "INCRBYFLOAT",
            "LCS",
            "MGET",
            "MSET",
            "MSETNX",
            "PSETEX",
            "SET",
            "SETEX",
            "SETNX",
            "SETRANGE",
            "STRLEN",
            "SUBSTR",
            "BITCOUNT",
            "BITFIELD",
            "BITFIELD_RO",
            "BITOP",
            "BITPOS",
            "GETBIT",
            "SETBIT",
            "COPY",
            "DEL",
            "EXISTS",
            "EXPIRE",
            "EXPIREAT",
            "EXPIRETIME",
            "MOVE",
            "PERSIST",
            "PEXPIRE",
            "PEXPIREAT",
            "PEXPIRETIME",
            "PTTL",
            "RENAME",
            "RENAMENX",
            "TOUCH",
            "TTL",
            "TYPE",
            "UNLINK",
            "OBJECT",
            "PING",
            "ECHO",
            "SELECT",
            "ZADD",
            "ZREM",
            "ZSCORE",
            "ZCARD",
            "ZRANK",
            "ZRANGE",
            "SWAPDB",
            "get",
            "Set",
        ],
    )
}

/// Commands that are only asked about: without arguments they would answer at random, or end the connection.
fn table_name(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..6) {
        0 => one_of(
            rng,
            &[
                "KEYS",
                "SCAN",
                "RANDOMKEY",
                "DBSIZE",
                "FLUSHDB",
                "FLUSHALL",
                "HELLO",
                "RESET",
                "QUIT",
                "TIME",
                "INFO",
                "object|encoding",
                "OBJECT|FREQ",
            ],
        ),
        _ => name_only(rng),
    }
}
