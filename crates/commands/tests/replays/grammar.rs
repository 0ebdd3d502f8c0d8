//! Lines that become commands: `(a|b)` is one of these, `{s}` the name of a string, and so on (see [`word`]).

use fastrand::Rng;

/// Every command that writes, with the words that matter to expiries. Alternatives that stand more than once in a word
/// are drawn more often.
pub const TEMPLATES: &[&str] = &[
    "SET {s} {n} (|{life}|{life}|{life}) (|||NX|XX|GET|NX GET)",
    "SET {s} {n} {life}",
    "SET {s} {n} IFEQ {n} {life}",
    "SET {s} {n} (IFNE {n}|IFDNE 0123456789abcdef) {life}",
    "SETEX {s} {sec} {n}",
    "PSETEX {s} {ms} {n}",
    "SETNX {s} {n}",
    "GETSET {s} {n}",
    "GETEX {s} (|{life}|{life}|PERSIST)",
    "GETDEL {s}",
    "DELIFEQ {s} {n}",
    "DELEX {s} (|IFEQ {n}|IFNE {n}|IFDNE 0123456789abcdef)",
    "MSET {s} {n} {s} {n}",
    "MSETNX {s} {n} {s} {n}",
    "MSETEX 2 {s} {n} {s} {n} (|NX|XX) (|{life}|{life})",
    "APPEND {s} {n}",
    "SETRANGE {s} {n} {n}",
    "SETBIT {s} {n} (0|1)",
    "BITFIELD {s} INCRBY u8 {n} {n}",
    "BITOP (AND|OR|XOR|NOT) {s} {s}",
    "BITOP (AND|OR|XOR) {s} {s} {s}",
    "INCR {s}",
    "DECR {s}",
    "INCRBY {s} {n}",
    "DECRBY {s} {n}",
    "INCRBYFLOAT {s} 0.5",
    "INCREX {s} (|NX|XX) (|BYINT {n}|BYFLOAT 0.5) (|UBOUND 9|UBOUND 9 SATURATE) (|PERSIST|{life}|{life} ENX)",
    "PFADD {p} {n}",
    "PFMERGE {p} {p} {p}",
    "PFDEBUG TODENSE {p}",
    "PFCOUNT {p} {p}",
    "(EXPIRE|EXPIRE|EXPIRE) {any} {sec} (||NX|XX|GT|LT|XX GT|XX LT)",
    "PEXPIRE {any} {ms} (||NX|XX|GT|LT)",
    "EXPIREAT {any} {at} (||NX|XX|GT|LT)",
    "PEXPIREAT {any} {atms} (||NX|XX|GT|LT)",
    "PERSIST {any}",
    "DEL {any} {any}",
    "UNLINK {any}",
    "DELPREFIX {any}",
    "DELPATTERN ({s}|{h}|*0|l*)",
    "RENAME {any} {any}",
    "RENAMENX {any} {any}",
    "RENAME {h} {h}",
    "COPY {any} {any} (|REPLACE|DB 1|DB 1 REPLACE)",
    "COPY {h} {h} (|REPLACE|DB 1|DB 1 REPLACE)",
    "MOVE {any} (0|1)",
    "SWAPDB 0 1",
    "FLUSHDB",
    "FLUSHALL",
    "RESTORE {any} (0|{ms}) {dump} (|REPLACE)",
    "RESTORE {any} {atms} {dump} ABSTTL (|REPLACE)",
    "RESTORE-ASKING {any} (0|{ms}) {dump} REPLACE",
    "SORT {l} ALPHA (|DESC) STORE {any}",
    "SORT {t} ALPHA BY {s} GET # STORE {l}",
    "SORT {z} BY nosort STORE {l}",
    "LPUSH {l} {n}",
    "RPUSH {l} {n} {n}",
    "LPUSHX {l} {n}",
    "RPUSHX {l} {n}",
    "LPOP {l} (|2)",
    "RPOP {l} (|2)",
    "LINSERT {l} BEFORE {n} {n}",
    "LSET {l} 0 {n}",
    "LREM {l} 0 {n}",
    "LTRIM {l} 0 2",
    "LMOVE {l} {l} LEFT RIGHT",
    "LMOVEM {l} {l} (LEFT|RIGHT) (LEFT|RIGHT) (|COUNT 2 OBO|EXACTLY 2 BULK)",
    "RPOPLPUSH {l} {l}",
    "LMPOP 2 {l} {l} LEFT",
    "SADD {t} {n} {n}",
    "SREM {t} {n}",
    "SPOP {t} (|2)",
    "SMOVE {t} {t} {n}",
    "SINTERSTORE {any} {t} {t}",
    "SUNIONSTORE {any} {t} {t}",
    "SDIFFSTORE {any} {t} {t}",
    "ZADD {z} (||NX|XX|GT|LT) {n} {f}",
    "ZADD {z} INCR {n} {f}",
    "ZINCRBY {z} {n} {f}",
    "ZREM {z} {f}",
    "ZPOPMIN {z}",
    "ZPOPMAX {z} 2",
    "ZMPOP 2 {z} {z} MIN",
    "ZREMRANGEBYRANK {z} 0 0",
    "ZREMRANGEBYSCORE {z} 1 3",
    "ZREMRANGEBYLEX {z} - [b",
    "ZRANGESTORE {z} {z} 0 1",
    "ZINTERSTORE {z} 2 {z} {t}",
    "ZUNIONSTORE {z} 2 {z} {z}",
    "ZDIFFSTORE {z} 2 {z} {z}",
    "GEOADD {z} {n} {n} {f}",
    "GEOSEARCHSTORE {z} {z} FROMLONLAT 1 1 BYRADIUS 1000 km",
    "GEORADIUS {z} 1 1 1000 km STORE {z}",
    "GEORADIUSBYMEMBER {z} {f} 1000 km STOREDIST {z}",
    "HSET {h} {f} {n}",
    "HSET {h} {f} {n} {f} {n}",
    "HMSET {h} {f} {n}",
    "HSETNX {h} {f} {n}",
    "HINCRBY {h} {f} {n}",
    "HINCRBYFLOAT {h} {f} 0.5",
    "HDEL {h} {f}",
    "HDEL {h} {f} {f}",
    "HGETDEL {h} FIELDS 2 {f} {f}",
    "HEXPIRE {h} {sec} (||NX|XX|GT|LT) FIELDS 1 {f}",
    "HEXPIRE {h} {sec} (||NX|XX|GT|LT) FIELDS 2 {f} {f}",
    "HPEXPIRE {h} {ms} (||NX|XX|GT|LT) FIELDS 2 {f} {f}",
    "HEXPIREAT {h} {at} (||NX|XX|GT|LT) FIELDS 1 {f}",
    "HPEXPIREAT {h} {atms} (||NX|XX|GT|LT) FIELDS 2 {f} {f}",
    "HPERSIST {h} FIELDS 2 {f} {f}",
    "HSETEX {h} (|NX|XX) (||FNX|FXX) (|{life}|{life}|{life}) FIELDS 1 {f} {n}",
    "HSETEX {h} (||FNX|FXX) (KEEPTTL|{life}|{life}) FIELDS 2 {f} {n} {f} {n}",
    "HGETEX {h} (|PERSIST|{life}|{life}) FIELDS 2 {f} {f}",
    "XADD {x} * {f} {n}",
    "XADD {x} MAXLEN 3 * {f} {n}",
    "XADD {x} NOMKSTREAM * {f} {n}",
    "XDEL {x} 0-1",
    "XTRIM {x} MAXLEN 2",
    "XSETID {x} 9999999999999-1",
    "XGROUP CREATE {x} g 0 (|MKSTREAM)",
    "XGROUP CREATECONSUMER {x} g c",
    "XGROUP DELCONSUMER {x} g c",
    "XGROUP SETID {x} g 0",
    "XGROUP DESTROY {x} g",
    "XREADGROUP GROUP g c COUNT 2 STREAMS {x} >",
    "XREADGROUP GROUP g c COUNT 2 NOACK STREAMS {x} >",
    "XCLAIM {x} g d 0 0-1",
    "XAUTOCLAIM {x} g d 0 0",
    "XACK {x} g 0-1",
    // Commands that would wait, in a transaction or a script.
    "BLPOP {l} {l} 1",
    "BRPOP {l} 1",
    "BLMOVE {l} {l} LEFT RIGHT 1",
    "BLMOVEM {l} {l} LEFT RIGHT 1 (|COUNT 2 BULK|EXACTLY 2 OBO)",
    "BRPOPLPUSH {l} {l} 1",
    "BLMPOP 1 2 {l} {l} LEFT",
    "BZPOPMIN {z} {z} 1",
    "BZPOPMAX {z} 1",
    "BZMPOP 1 2 {z} {z} MIN",
    // Reading removes expired keys.
    "GET {s}",
    "MGET {s} {s}",
    "EXISTS {any} {any}",
    "TOUCH {any}",
    "TYPE {any}",
    "TTL {any}",
    "HGETALL {h}",
    "HRANDFIELD {h} 2",
    "SCAN 0 COUNT 100",
    "RANDOMKEY",
];

/// Returns the words of some line of these; `now` in milliseconds.
pub fn line(random: &mut Rng, now: i64) -> Vec<String> {
    let template = TEMPLATES[random.usize(..TEMPLATES.len())];
    // A life brings further words to choose.
    let text = chosen(random, template).replace("{life}", LIFE);
    let text = chosen(random, &text);
    let text = named(random, &text, now);
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

const LIFE: &str = "(EX {sec}|PX {ms}|EXAT {at}|PXAT {atms}|KEEPTTL)";

fn chosen(random: &mut Rng, text: &str) -> String {
    let Some((before, rest)) = text.split_once('(') else { return text.to_owned() };
    let (inner, after) = rest.split_once(')').expect("a template is well formed");
    let choices: Vec<&str> = inner.split('|').collect();
    let choice = choices[random.usize(..choices.len())];
    format!("{before}{choice}{}", chosen(random, after))
}

fn named(random: &mut Rng, text: &str, now: i64) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (name, after) = rest.split_once('}').expect("a template is well formed");
    format!("{before}{}{}", word(random, name, now), named(random, after, now))
}

/// Names of keys by type, as in templates.
const KEYS: [&str; 7] = ["s", "h", "l", "t", "z", "x", "p"];

fn word(random: &mut Rng, name: &str, now: i64) -> String {
    let from = |random: &mut Rng, words: &[i64]| words[random.usize(..words.len())];
    const SECONDS: [i64; 9] = [0, 1, 1, 2, 5, 10, 60, 3600, 1_000_000];
    match name {
        "n" => random.u32(..6).to_string(),
        "f" => ["a", "b", "c"][random.usize(..3)].to_owned(),
        "any" => {
            let kind = KEYS[random.usize(..KEYS.len())];
            word(random, kind, now)
        }
        "sec" => from(random, &SECONDS).to_string(),
        "ms" => from(random, &[1, 100, 999, 1500, 10_000, 61_000, 3_600_000]).to_string(),
        "at" => (now / 1000 + from(random, &SECONDS) - 1).to_string(),
        "atms" => (now + from(random, &SECONDS) * 1000 - 1).to_string(),
        "dump" => format!("{{dump}}{}", word(random, "any", now)),
        // Usually the type is the command's.
        _ if random.u32(..30) == 0 => word(random, "any", now),
        _ => format!("{name}{}", random.u32(..2)),
    }
}
