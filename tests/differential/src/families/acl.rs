//! Users, their rights, and what is refused for want of them. Every other family's commands are run by these users,
//! too: between two rows that log in as another.

use super::{Family, row};
use crate::compare::Rule;
use crate::words::{Word, one_of};
use fastrand::Rng;

/// All users that rounds make, for a round that begins with none.
pub const CLEAN: [&str; 3] =
    ["ACL DELUSER alice bob carol dave", "ACL LOG RESET", "CONFIG SET acl-pubsub-default resetchannels"];

pub const FAMILY: Family = Family {
    name: "acl",
    words: WORDS,
    rows: &[
        row(12, "RESET ; ACL SETUSER who rule+ ; ACL GETUSER who"),
        row(12, "RESET ; ACL SETUSER who RESET ON first_password rule+ ; AUTH who its_password"),
        row(6, "RESET ; ACL SETUSER who RESET ON NOPASS ALLCOMMANDS ALLKEYS ALLCHANNELS rule rule ; AUTH who password"),
        row(4, "RESET ; ACL DELUSER gone+"),
        row(3, "RESET ; ACL SETUSER other rule+"),
        row(2, "RESET ; CONFIG SET ACL-PUBSUB-DEFAULT (ALLCHANNELS|RESETCHANNELS)"),
        row(4, "AUTH who password"),
        row(2, "AUTH password"),
        row(3, "HELLO protocol AUTH who password"),
        row(4, "RESET"),
        row(4, "RESET ; ACL LIST"),
        row(4, "RESET ; ACL GETUSER anybody"),
        row(2, "ACL USERS"),
        row(4, "ACL WHOAMI"),
        row(1, "ACL CAT"),
        row(1, "ACL CAT nonsense"),
        row(12, "RESET ; ACL DRYRUN anybody GET key"),
        row(
            12,
            "RESET ; ACL DRYRUN anybody (SET key value|SET key value GET|MGET key+|MSET (key value)+|RENAME key key|COPY key key DB db|SELECT db|SORT key BY key|SORT key GET key STORE key|BITOP AND key key key|EVAL script 1 key|PUBLISH channel value|SUBSCRIBE channel+|PSUBSCRIBE channel|SPUBLISH channel value|CONFIG GET value|CONFIG nonsense|nonsense|GET|ACL WHOAMI|PING|AUTH value|MOVE key db|SWAPDB db db|FLUSHALL|XREAD STREAMS key 0|XREADGROUP GROUP G C STREAMS key 0|GEORADIUS key 1 2 3 M STORE key|LMPOP 1 key LEFT|OBJECT ENCODING key|MEMORY USAGE key)",
        ),
        row(8, "RESET ; ACL LOG [10|3|0|-1|value]"),
        row(1, "RESET ; ACL LOG RESET"),
        row(6, "SET key value"),
        row(6, "GET key"),
        row(4, "SET key value GET"),
        row(4, "MGET key+"),
        row(3, "GETEX key PERSIST"),
        row(3, "COPY key key [DB db]"),
        row(2, "MOVE key db"),
        row(2, "SWAPDB db db"),
        row(3, "RENAME key key"),
        row(2, "TOUCH key+"),
        row(2, "OBJECT ENCODING key"),
        row(2, "MEMORY USAGE nokey"),
        row(4, "SORT key {BY key|GET key|GET hash|BY NOSORT|ALPHA|LIMIT 0 1|STORE key}"),
        row(2, "SORT_RO key {BY pattern|GET pattern}"),
        row(3, "PUBLISH channel value"),
        row(3, "SPUBLISH channel value"),
        row(3, "SELECT db"),
        row(3, "CONFIG GET MAXMEMORY"),
        row(1, "CONFIG RESETSTAT"),
        row(4, "EVAL script 1 key"),
        row(4, "EVAL script_free 0"),
        row(3, "EVAL_RO script 1 key"),
        row(4, "MULTI ; SET key value ; GET key ; EXEC"),
        row(2, "MULTI ; EVAL script_free 0 ; EXEC"),
        row(2, "MULTI ; PUBLISH channel value ; SELECT db ; EXEC"),
        row(1, "CLIENT NO-TOUCH OFF"),
        row(1, "FLUSHDB"),
        row(1, "ACL"),
        row(1, "ACL nonsense"),
        row(1, "ACL GENPASS value"),
        row(1, "ACL SETUSER"),
        row(1, "ACL SETUSER who"),
    ],
    rules: &[("ACL LOG", Rule::Denials), ("MEMORY USAGE", Rule::Kind), ("ACL GENPASS", Rule::Kind)],
};

const WORDS: &[Word] = &[
    ("who", who),
    ("gone", gone),
    ("other", |rng| one_of(rng, &["carol", "dave", "carol", "dave", "with space", "a\0b"])),
    ("anybody", anybody),
    ("password", password),
    ("protocol", |rng| one_of(rng, &["2", "3"])),
    ("rule", rule),
    ("first_password", |_| b">p1".to_vec()),
    ("its_password", |_| b"p1".to_vec()),
    ("hash", |_| b"#".to_vec()),
    ("pattern", pattern),
    ("channel", channel),
    ("nokey", |_| b"no such key".to_vec()),
    ("nonsense", |rng| one_of(rng, &["nope", "", "\0", "get|set", "@read", "a b"])),
    ("script", |rng| one_of(rng, SCRIPTS)),
    ("script_free", |rng| one_of(rng, FREE_SCRIPTS)),
];

const SCRIPTS: &[&str] = &[
    "return redis.pcall('get',KEYS[1])",
    "return redis.pcall('set',KEYS[1],'x')",
    "return redis.pcall('del',KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.pcall('get',KEYS[1])",
];

/// Scripts with keys that they do not declare.
const FREE_SCRIPTS: &[&str] = &[
    "return redis.pcall('get','k1')",
    "return redis.pcall('set','k2','x')",
    "return redis.pcall('publish','news','x')",
    "redis.pcall('select',1) return redis.pcall('get','k4')",
    "return {redis.acl_check_cmd('get','k1'),redis.acl_check_cmd('set','k2','x'),redis.acl_check_cmd('publish','news','x')}",
    "return redis.acl_check_cmd('config','set','a','b')",
    "return redis.pcall('sort','k1','by','w*')",
];

/// Returns a user that logs in, and is never deleted: the connection would end.
fn who(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["alice", "bob"])
}

fn gone(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["carol", "dave", "carol", "dave", "nobody", "default", "with space", "a\0b", ""])
}

fn anybody(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["alice", "bob", "alice", "bob", "carol", "dave", "default", "nobody", "Alice"])
}

fn password(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["p1", "p2", "p3", "", "wrong"])
}

fn pattern(rng: &mut Rng) -> Vec<u8> {
    one_of(
        rng,
        &["*", "k*", "k0", "k1", "k[0-3]", "c?", "c*", "key:*", "*0", "", "k\\1", "[", "**", "K*", "weight_*", "k1->*"],
    )
}

fn channel(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["news", "new", "news.*", "*", "sport", "", "n?ws", "NEWS"])
}

const CATEGORIES: &[&str] = &[
    "read",
    "write",
    "keyspace",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "all",
    "nonsense",
    "READ",
    "",
];

const COMMANDS: &[&str] = &[
    "get",
    "set",
    "GET",
    "mget",
    "mset",
    "del",
    "eval",
    "multi",
    "exec",
    "publish",
    "sort",
    "copy",
    "move",
    "select",
    "config",
    "config|get",
    "config|set",
    "CONFIG|resetstat",
    "client",
    "client|setname",
    "acl",
    "acl|whoami",
    "acl|log",
    "acl|dryrun",
    "object",
    "object|encoding",
    "select|0",
    "select|1",
    "get|k1",
    "config|nope",
    "config|get|x",
    "nope",
    "nope|x",
    "",
    "|",
    "get|",
    "memory|usage",
    "xgroup|create",
    "xgroup",
    "function",
    "function|list",
    "spublish",
    "rename",
    "flushall",
    "swapdb",
    "ping",
    "echo",
    "zadd",
    "rpush",
    "sadd",
    "hset",
    "hget",
    "lpop",
    "zrange",
    "keys",
    "scan",
    "sintercardinality",
    "reset",
    "auth",
    "hello",
    "quit",
];

/// Returns a right of a user.
fn right(rng: &mut Rng) -> Vec<u8> {
    let text = |sign: &str, word: &[u8]| [sign.as_bytes(), word].concat();
    match rng.u8(..24) {
        0..4 => text(if rng.u8(..3) == 0 { "-@" } else { "+@" }, &one_of(rng, CATEGORIES)),
        4..8 => text(if rng.u8(..3) == 0 { "-" } else { "+" }, &one_of(rng, COMMANDS)),
        8..12 => text("~", &pattern(rng)),
        12..15 => text(&String::from_utf8_lossy(&one_of(rng, ACCESS)), &pattern(rng)),
        15..17 => text("&", &channel(rng)),
        17 => one_of(rng, &["+@all", "+@all", "-@all", "allcommands", "nocommands", "ALLCOMMANDS"]),
        18 => one_of(rng, &["allkeys", "resetkeys", "allchannels", "resetchannels", "AllKeys", "~*", "&*"]),
        19 => one_of(
            rng,
            &["alldbs", "resetdbs", "db=0", "db=0,1", "db=1,0,2", "db=2", "db=", "db=x", "db=99", "db=0,,1", "db=0,0"],
        ),
        _ => {
            one_of(rng, &["+@read", "+@write", "+@all", "~k*", "~*", "%R~*", "+@scripting", "+@transaction", "+@fast"])
        }
    }
}

const ACCESS: &[&str] = &["%R~", "%W~", "%RW~", "%WR~", "%r~", "%w~", "%~", "%RR~", "%X~", "%R", "%"];

fn rule(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..13 => right(rng),
        13 => one_of(
            rng,
            &[
                "on",
                "on",
                "off",
                "nopass",
                "resetpass",
                "reset",
                "ON",
                "clearselectors",
                "sanitize-payload",
                "skip-sanitize-payload",
            ],
        ),
        14 => [&b">"[..], &password(rng)].concat(),
        15 => [&b"<"[..], &password(rng)].concat(),
        16 => one_of(
            rng,
            &[
                "#2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
                "!2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
                "#2D711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
                "#x",
                "!x",
                "#",
            ],
        ),
        17 => {
            let rights: Vec<Vec<u8>> = (0..rng.usize(1..4)).map(|_| right(rng)).collect();
            [&b"("[..], &rights.join(&b' '), b")"].concat()
        }
        18 => one_of(rng, &["()", "(on)", "(+get", "+get)", "(", ")", "(>p)", "( +get  ~k1 )", "(reset)"]),
        _ => one_of(rng, &["", "nonsense", "~", "&", "+", "-", "+@", "%", "~k 1", "on "]),
    }
}
