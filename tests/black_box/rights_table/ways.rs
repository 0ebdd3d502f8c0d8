//! Ways to read and write: what a client sends before and after its rights change, and what others do meanwhile.

/// How a client's bytes reach the server.
#[derive(Clone, Copy, PartialEq)]
pub enum Door {
    /// Arrays, as libraries send them.
    Resp,
    /// Words and blanks.
    Inline,
    /// An array whose second half follows the change.
    Halves,
    Unix,
    Tls,
    Book,
    /// The console of the admin port.
    Console,
    /// The port of the Sentinel within the server.
    Sentinel,
    /// A client of another server, which moves a key to this one as the user.
    Migrate,
}

pub struct Way {
    pub name: &'static str,
    pub door: Door,
    /// Commands of others ahead of everything.
    pub prepared: &'static str,
    /// Commands that are answered before the change, and the text that the last answer has.
    pub before: &'static str,
    pub answered: &'static str,
    /// Commands of other clients ahead of the held ones.
    pub holds: &'static str,
    /// Commands that are under way during the change.
    pub held: &'static str,
    /// Whether the held command may end by itself.
    pub is_running: bool,
    /// Commands of others after the change.
    pub release: &'static str,
    /// Commands that follow the change.
    pub after: &'static str,
    /// A question of others and a part of its answer, if nothing was written.
    pub unchanged: (&'static str, &'static str),
}

const WAY: Way = Way {
    name: "",
    door: Door::Resp,
    prepared: "",
    before: "",
    answered: "",
    holds: "",
    held: "",
    is_running: false,
    release: "",
    after: "",
    unchanged: ("GET secret", "\"hidden-value\""),
};

/// A command that reads and writes, after the change.
const fn sends(name: &'static str, door: Door, after: &'static str) -> Way {
    Way { name, door, after, ..WAY }
}

/// A script that does not declare the key that it reads and writes.
const ANY_KEY: &str = "EVAL return(redis.call('getset','secret','taken')) 1 {secret}mine";

/// A read of a key that only the data name.
const fn sort(name: &'static str, before: &'static str, answered: &'static str, after: &'static str) -> Way {
    Way { name, prepared: "SET {secret}x hidden-value; RPUSH {secret}mine x", before, answered, after, ..WAY }
}

const fn queues(name: &'static str, queued: &'static str) -> Way {
    Way { name, before: queued, answered: "+QUEUED", after: "EXEC", ..WAY }
}

/// A client that waits for what others add.
const fn waits(name: &'static str, held: &'static str, release: &'static str, unchanged: [&'static str; 2]) -> Way {
    Way { name, held, release, unchanged: (unchanged[0], unchanged[1]), ..WAY }
}

/// A command that CLIENT PAUSE holds back.
const fn paused(name: &'static str, before: &'static str, answered: &'static str, held: &'static str) -> Way {
    Way { name, holds: "CLIENT PAUSE 60000 WRITE", before, answered, held, release: "CLIENT UNPAUSE", ..WAY }
}

/// Returns a client that receives the events of others.
const fn hears(name: &'static str, before: &'static str, answered: &'static str, release: &'static str) -> Way {
    Way { name, before, answered, release, ..WAY }
}

pub const WAYS: &[Way] = &[
    sends("array", Door::Resp, "GETSET secret taken"),
    sends("inline", Door::Inline, "GETSET secret taken"),
    sends("two halves", Door::Halves, "GETSET secret taken"),
    sends("unix socket", Door::Unix, "GETSET secret taken"),
    sends("TLS", Door::Tls, "GETSET secret taken"),
    sends("book", Door::Book, "get secret; del secret"),
    sends("console", Door::Console, "GETSET secret taken"),
    Way {
        name: "migrate",
        door: Door::Migrate,
        before: "first",
        answered: "+OK",
        after: "second",
        unchanged: ("EXISTS second", "0"),
        ..WAY
    },
    Way { before: "HELLO 3", answered: "proto", ..sends("RESP3", Door::Resp, "GETSET secret taken") },
    sends("script", Door::Resp, "EVAL <getset> 1 secret taken"),
    sends("script by sum", Door::Resp, "EVALSHA <sum> 1 secret taken"),
    sends("script, any key", Door::Resp, ANY_KEY),
    sort("SORT", "", "", "SORT {secret}mine BY nosort GET {secret}*"),
    sort("queued SORT", "MULTI; SORT {secret}mine BY nosort GET {secret}*", "+QUEUED", "EXEC"),
    sort(
        "SORT in a script",
        "",
        "",
        "EVAL return(redis.call('sort',KEYS[1],'by','nosort','get','{secret}*')) 1 {secret}mine",
    ),
    sends("script, pcall", Door::Resp, "EVAL return(redis.pcall('getset','secret','taken')) 0"),
    sends("function", Door::Resp, "FCALL take 1 secret taken"),
    queues("queued", "MULTI; GETSET secret taken"),
    queues("queued, watched", "WATCH other; MULTI; GETSET secret taken"),
    queues("queued script", "MULTI; EVAL <getset> 1 secret taken"),
    queues("queued function", "MULTI; FCALL take 1 secret taken"),
    waits("BLPOP", "BLPOP q 0", "RPUSH q hidden-value", ["LLEN q", "1"]),
    waits("BLMOVE", "BLMOVE q d LEFT LEFT 0", "RPUSH q hidden-value", ["EXISTS d", "0"]),
    waits("BLMPOP", "BLMPOP 0 1 q LEFT", "RPUSH q hidden-value", ["LLEN q", "1"]),
    waits("BZPOPMIN", "BZPOPMIN q 0", "ZADD q 1 hidden-value", ["ZCARD q", "1"]),
    waits("BZMPOP", "BZMPOP 0 1 q MIN", "ZADD q 1 hidden-value", ["ZCARD q", "1"]),
    waits("XREAD", "XREAD BLOCK 0 STREAMS q $", "XADD q 1-1 f hidden-value", ["XLEN q", "1"]),
    Way {
        prepared: "XGROUP CREATE q g $ MKSTREAM",
        ..waits(
            "XREADGROUP",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS q >",
            "XADD q 1-1 f hidden-value",
            ["XPENDING q g", "[0, nil, nil, nil]"],
        )
    },
    waits("behind BLPOP", "BLPOP q 0; GETSET secret taken", "RPUSH q x", ["GET secret", "\"hidden-value\""]),
    waits(
        "EXEC after BLPOP",
        "BLPOP q 0; MULTI; GETSET secret taken; EXEC",
        "RPUSH q x",
        ["GET secret", "\"hidden-value\""],
    ),
    paused("paused", "", "", "GETSET secret taken"),
    paused("paused script", "", "", "EVAL <getset> 1 secret taken"),
    paused("paused function", "", "", "FCALL take 1 secret taken"),
    paused("paused EXEC", "MULTI; GETSET secret taken", "+QUEUED", "EXEC"),
    Way { held: "EVAL <until> 1 secret", is_running: true, ..sends("running script", Door::Resp, "") },
    Way { held: "FCALL until 1 secret", is_running: true, ..sends("running function", Door::Resp, "") },
    hears("SUBSCRIBE", "SUBSCRIBE c", "subscribe", "PUBLISH c hidden-value"),
    hears("PSUBSCRIBE", "PSUBSCRIBE c*", "subscribe", "PUBLISH c hidden-value"),
    hears("SSUBSCRIBE", "SSUBSCRIBE c", "subscribe", "SPUBLISH c hidden-value"),
    hears("SUBSCRIBE, RESP3", "HELLO 3; SUBSCRIBE c", "subscribe", "PUBLISH c hidden-value"),
    hears("keyspace events", "PSUBSCRIBE __keyevent@0__:*", "subscribe", "SET hidden-value 1"),
    hears("MONITOR", "MONITOR", "+OK", "SET other hidden-value"),
    hears("tracking", "HELLO 3; CLIENT TRACKING ON; GET hidden-value", "+OK\r\n$1\r\n1", "SET hidden-value 2"),
    hears("tracking, BCAST", "HELLO 3; CLIENT TRACKING ON BCAST", "+OK", "SET hidden-value 2"),
    hears("replica", "PSYNC ? -1", "mark", "SET other hidden-value"),
    Way {
        unchanged: ("SENTINEL PRIMARY hidden-value", "\"quorum\", \"1\""),
        ..sends("Sentinel", Door::Sentinel, "SENTINEL SET hidden-value quorum 2; SENTINEL PRIMARIES")
    },
    Way {
        door: Door::Sentinel,
        unchanged: ("PING", "PONG"),
        ..hears("Sentinel's events", "PSUBSCRIBE *", "mark", "SENTINEL SET hidden-value quorum 2")
    },
];

/// Ways to keys that another node has.
pub const PROXIED: &[Way] = &[
    sends("array", Door::Resp, "GETSET secret taken"),
    sends("two halves", Door::Halves, "GETSET secret taken"),
    sends("script", Door::Resp, "EVAL <getset> 1 secret taken"),
    sends("script by sum", Door::Resp, "EVALSHA <sum> 1 secret taken"),
    sends("function", Door::Resp, "FCALL take 1 secret taken"),
    sends("MGET", Door::Resp, "MGET secret other"),
    sends("script, any key", Door::Resp, ANY_KEY),
    sort("SORT", "", "", "SORT {secret}mine BY nosort GET {secret}*"),
    sort("queued SORT", "MULTI; SORT {secret}mine BY nosort GET {secret}*", "+QUEUED", "EXEC"),
    queues("queued", "MULTI; GETSET secret taken"),
    queues("queued script", "MULTI; EVAL <getset> 1 secret taken"),
    queues("queued, any key", "MULTI; EVAL return(redis.call('getset','secret','taken')) 1 {secret}mine"),
    paused("paused", "", "", "GETSET secret taken"),
    paused("paused script", "", "", "EVAL <getset> 1 secret taken"),
    paused("paused EXEC", "MULTI; GETSET secret taken", "+QUEUED", "EXEC"),
];

pub const SCRIPT: &str = "return redis.call('getset',KEYS[1],ARGV[1])";
/// SHA of [`SCRIPT`].
pub const SUM: &str = "299001b46f41e1513dd3765e5b076cad8cda570b";
/// Works for a while first.
pub const UNTIL: &str = "local began = os.clock()
    while os.clock() < began + 0.1 do end
    return redis.call('getset', KEYS[1], 'taken')";
pub const LIBRARY: &str = "#!lua name=rights
server.register_function('take', function(keys, args) return server.call('getset', keys[1], args[1]) end)
server.register_function('until', function(keys)
    local began = os.clock()
    while os.clock() < began + 0.1 do end
    return server.call('getset', keys[1], 'taken')
end)";
