//! Words of commands in the change log, as `engine::propagation::logged_words` asks for them.

use crate::testing::Client;

/// Three entries; two groups have read the first two, and need the first of them still.
const ENTRIES: &[&str] = &[
    "XADD s 1-1 a 1",
    "XADD s 1-2 a 2",
    "XADD s 1-3 a 3",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s h 0",
    "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
    "XREADGROUP GROUP h c COUNT 2 STREAMS s >",
    "XACK s g 1-2",
    "XACK s h 1-2",
];

/// Commands before, the command whose effect is logged, and its words in the log.
const EFFECTS: &[(&[&str], &str, &[&str])] = &[
    (&["SET k a"], "SET k b IFEQ a", &["SET k b"]),
    (&["SET k a"], "SET k b IFNE x KEEPTTL", &["SET k b KEEPTTL"]),
    (&["SET k test"], "SET k b IFDEQ 9ec9f7918d7dfc40 PX 5", &["SET k b PXAT 1700000000005"]),
    (&[], "SET k b IFDNE 9ec9f7918d7dfc40 PXAT 1700000000005", &["SET k b PXAT 1700000000005"]),
    (&["SET k a"], "SET k b IFNE x EXAT 1", &["UNLINK k"]),
    (&["SET k a"], "DELEX k IFEQ a", &["DEL k"]),
    (&["SET k a"], "DELIFEQ k a", &["DEL k"]),
    (&["SET k 1"], "INCREX k BYINT 5 UBOUND 3 SATURATE", &["SET k 3 KEEPTTL"]),
    (&["SET a abc", "SET b a", "SET d old EX 100"], "BITOP DIFF d a b", &["SET d \0bc"]),
    (&["SET a abc", "SET b a"], "BITOP DIFF1 d b a", &["SET d \0bc"]),
    (&["SET a ab", "SET b aa"], "BITOP ANDOR d a b", &["SET d a`"]),
    (&["SET a ab"], "BITOP ONE d a", &["SET d ab"]),
    (&["SET d old"], "BITOP ONE d none", &["DEL d"]),
    (&["SET a ab"], "BITOP OR d a", &["BITOP OR d a"]),
    (
        &["ZADD a 1 x 5 y", "ZADD b 3 y"],
        "ZUNIONSTORE d 2 a b WEIGHTS 0.5 inf AGGREGATE COUNT",
        &["MULTI", "DEL d", "ZADD d 0.5 x inf y", "EXEC"],
    ),
    (&["ZADD a 1 x", "ZADD d 1 x"], "ZINTERSTORE d 2 a none AGGREGATE COUNT", &["DEL d"]),
    (&["ZADD a 1 x"], "ZUNIONSTORE d 1 a AGGREGATE MAX", &["ZUNIONSTORE d 1 a AGGREGATE MAX"]),
    (
        &["GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"],
        "GEOSEARCHSTORE d g BYPOLYGON 3 12 37 16 37 14 40",
        &["MULTI", "DEL d", "ZADD d 3479099956230698 Palermo 3479447370796909 Catania", "EXEC"],
    ),
    (&["RPUSH a 1 2 3"], "LMOVEM a b LEFT LEFT COUNT 2 OBO", &["MULTI", "LPUSH b 1 2", "LPOP a 2", "EXEC"]),
    (ENTRIES, "XTRIM s MAXLEN 2 KEEPREF", &["XTRIM s MAXLEN = 2"]),
    (ENTRIES, "XTRIM s MINID 1-3 DELREF", &["MULTI", "XTRIM s MINID = 1-3", "XACK s g 1-1", "XACK s h 1-1", "EXEC"]),
    (ENTRIES, "XTRIM s MAXLEN ~ 2 DELREF", &[]),
    (ENTRIES, "XTRIM s MAXLEN 0 ACKED", &["MULTI", "XTRIM s MINID = 1-1", "XDEL s 1-2", "EXEC"]),
    (&["XADD s 1-1 a 1", "XADD s 1-2 a 2"], "XTRIM s MAXLEN 1 ACKED", &["XTRIM s MAXLEN = 1"]),
    (ENTRIES, "XADD s MAXLEN 0 ACKED 2-* b 1", &["MULTI", "XADD s MINID = 1-1 2-0 b 1", "XDEL s 1-2", "EXEC"]),
    (ENTRIES, "XADD s KEEPREF 2-1 b 1", &["XADD s 2-1 b 1"]),
    (
        ENTRIES,
        "XADD s MAXLEN 1 DELREF NOMKSTREAM 2-1 b 1",
        &["MULTI", "XADD s MAXLEN = 1 2-1 b 1", "XACK s g 1-1", "XACK s h 1-1", "EXEC"],
    ),
    (ENTRIES, "XDELEX s IDS 2 1-1 9-9", &["XDEL s 1-1"]),
    (ENTRIES, "XDELEX s DELREF IDS 2 1-1 1-2", &["MULTI", "XACK s g 1-1", "XACK s h 1-1", "XDEL s 1-1 1-2", "EXEC"]),
    (ENTRIES, "XDELEX s ACKED IDS 3 1-1 1-2 1-3", &["XDEL s 1-2"]),
    (ENTRIES, "XACKDEL s g IDS 2 1-1 9-9", &["MULTI", "XACK s g 1-1", "XDEL s 1-1", "EXEC"]),
    (ENTRIES, "XACKDEL s g ACKED IDS 1 1-1", &["XACK s g 1-1"]),
    (ENTRIES, "XACKDEL s g DELREF IDS 1 1-1", &["MULTI", "XACK s g 1-1", "XACK s h 1-1", "XDEL s 1-1", "EXEC"]),
    (ENTRIES, "XNACK s g FAIL IDS 1 1-1", &["XCLAIM s g  -1 1-1 TIME 0 RETRYCOUNT 1 FORCE JUSTID"]),
    (ENTRIES, "XNACK s g SILENT IDS 1 1-2 FORCE", &["XCLAIM s g  -1 1-2 TIME 0 RETRYCOUNT 0 FORCE JUSTID"]),
    (
        ENTRIES,
        "XNACK s g FATAL IDS 2 9-9 1-1",
        &["XCLAIM s g  -1 1-1 TIME 0 RETRYCOUNT 9223372036854775807 FORCE JUSTID"],
    ),
    (
        &[
            "XADD s 1-1 a 1",
            "XADD s 1-2 a 2",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XNACK s g FAIL IDS 1 1-1",
            "XGROUP CREATECONSUMER s g ",
        ],
        "XGROUP DELCONSUMER s g ",
        &["MULTI", "XGROUP DELCONSUMER s g ", "XCLAIM s g  -1 1-1 TIME 0 RETRYCOUNT 1 FORCE JUSTID", "EXEC"],
    ),
    (ENTRIES, "XCFGSET s IDMP-MAXSIZE 7", &["XACK s \0cinnabar-stream IDMP-DURATION 100 IDMP-MAXSIZE 7"]),
    (
        ENTRIES,
        "XADD s IDMP p m MAXLEN 2 DELREF * b 1",
        &[
            "MULTI",
            "XADD s MAXLEN = 2 1700000000000-0 b 1",
            "XACK s g 1-1",
            "XACK s h 1-1",
            "XACK s \0cinnabar-stream IDMP p m 1700000000000-0",
            "EXEC",
        ],
    ),
    (ENTRIES, "XADD s IDMP p m 5-5 b 1", &["MULTI", "XADD s 5-5 b 1", "XACK s \0cinnabar-stream IDMP p m 5-5", "EXEC"]),
    (
        &[
            "XADD s 1-1 a 1",
            "XADD s 1-2 a 2",
            "XGROUP CREATE s \0cinnabar-stream 0",
            "XREADGROUP GROUP \0cinnabar-stream c STREAMS s >",
        ],
        "XACK s \0cinnabar-stream 1-1 1-2",
        &["XACK s \0cinnabar-stream 1-1 1-2"],
    ),
];

#[test]
fn commands_that_other_servers_do_not_know_are_logged_as_their_effects() {
    for (before, command, expected) in EFFECTS {
        let (mut client, mut replica) = (Client::new(), Client::new());
        let log = client.log();
        before.iter().for_each(|line| _ = client.run(line));
        replica.replay(&log);
        let reply = client.run(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        let records = log.take();
        let lines: Vec<_> =
            records.iter().map(|(_, words)| String::from_utf8_lossy(&words.join(&b' ')).into_owned()).collect();
        assert_eq!(lines, *expected, "{command}");
        let state = ["DEBUG DIGEST", "DUMP s", "XINFO STREAM s FULL"].map(|line| client.run(line));
        replica
            .apply(records)
            .is("DEBUG DIGEST", &state[0])
            .is("DUMP s", &state[1])
            .is("XINFO STREAM s FULL", &state[2]);
    }
}
