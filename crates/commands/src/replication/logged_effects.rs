//! The words that the change log has of commands, as `engine::propagation::logged_words` asks for them.

use crate::testing::Client;

/// Commands before, the command whose effect is logged, and what the log has of it.
const EFFECTS: &[(&[&str], &str, &[&str])] = &[
    (&["SET k a"], "SET k b IFEQ a", &["SET k b"]),
    (&["SET k a"], "SET k b IFNE x KEEPTTL", &["SET k b KEEPTTL"]),
    (&["SET k test"], "SET k b IFDEQ 9ec9f7918d7dfc40 PX 5", &["SET k b PXAT 1700000000005"]),
    (&[], "SET k b IFDNE 9ec9f7918d7dfc40 PXAT 1700000000005", &["SET k b PXAT 1700000000005"]),
    (&["SET k a"], "SET k b IFNE x EXAT 1", &["UNLINK k"]),
    (&["SET k a"], "DELEX k IFEQ a", &["DEL k"]),
    (&["SET k a"], "DELIFEQ k a", &["DEL k"]),
    (&["SET k 1"], "INCREX k BYINT 5 UBOUND 3 SATURATE", &["SET k 3 KEEPTTL"]),
    (&[], "MSETEX 2 a 1 b 2 NX", &["MSET a 1 b 2"]),
    (&[], "MSETEX 2 a 1 b 2 KEEPTTL", &["MULTI", "SET a 1 KEEPTTL", "SET b 2 KEEPTTL", "EXEC"]),
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
        let digest = client.run("DEBUG DIGEST");
        replica.apply(records).is("DEBUG DIGEST", &digest);
    }
}
