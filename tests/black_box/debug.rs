//! DEBUG tells of values as they lie in memory.

use crate::harness::{Server, is_peer};

fn client(server: &Server) -> impl FnMut(&str) -> String {
    let mut connection = server.client();
    move |line| {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        for word in words {
            command.arg(word);
        }
        match command.query::<redis::Value>(&mut connection) {
            Ok(redis::Value::SimpleString(text)) => text,
            Ok(redis::Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.detail().unwrap_or_default().to_owned(),
        }
    }
}

#[test]
fn each_subcommand_is_for_its_encoding() {
    if is_peer() {
        // It has other structures.
        return;
    }
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut run = client(&server);
    run("RPUSH l a 7");
    run("SET s hello");
    run("ZADD z 1.5 m");
    assert_eq!(run("DEBUG LISTPACK l"), "Listpack structure printed on stdout");
    assert_eq!(run("DEBUG LISTPACK z"), "Listpack structure printed on stdout");
    assert_eq!(run("DEBUG LISTPACK s"), "Not a listpack encoded object.");
    assert_eq!(run("DEBUG QUICKLIST l"), "Not a quicklist encoded object.");
    assert_eq!(run("DEBUG SDSLEN l"), "Not an sds encoded string.");
    assert_eq!(
        run("DEBUG HTSTATS-KEY l"),
        "The value stored at the specified key is not represented using an hash table"
    );
    for name in ["LISTPACK", "QUICKLIST", "SDSLEN", "HTSTATS-KEY"] {
        assert_eq!(run(&format!("DEBUG {name} none")), "no such key");
    }
    for letter in ["x", "y"] {
        run(&format!("RPUSH big {}", letter.repeat(9000)));
    }
    assert_eq!(run("DEBUG QUICKLIST big 1"), "Quicklist structure printed on stdout");
    let log = server.folder.read("stdout");
    assert!(log.contains("[str] \"a\"") && log.contains("[int] 7") && log.contains("{count: 2} {nodes: 2}"), "{log}");
}

#[test]
fn a_tables_places_are_enough_for_its_entries() {
    if is_peer() {
        // It has other structures.
        return;
    }
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut run = client(&server);
    for number in 0..600 {
        run(&format!("SADD set m{number}"));
        run(&format!("HSET hash f{number} v"));
        run(&format!("ZADD zset {number} m{number}"));
    }
    for name in ["set", "hash", "zset"] {
        let text = run(&format!("DEBUG HTSTATS-KEY {name} full"));
        assert!(text.contains("number of entries: 600"), "{text}");
        let after = |label: &str| -> usize {
            let line = text.lines().rfind(|line| line.starts_with(label)).expect("the field");
            line[label.len()..].parse().expect("a number")
        };
        let places = after(" table size: ");
        assert_eq!(places, after(" top-level buckets: ") * 9);
        assert!((600..6000).contains(&places), "{text}");
    }
}

#[test]
fn lengths_of_strings_are_those_of_their_bytes() {
    if is_peer() {
        // It has other structures.
        return;
    }
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut run = client(&server);
    run("SET quux xyzzy");
    let text = run("DEBUG SDSLEN quux");
    assert_eq!(text, "key_sds_len:4 key_sds_avail:0 obj_alloc:32 val_sds_len:5 val_sds_avail:15 val_alloc:0");
    run(&format!("SET long {}", "x".repeat(5000)));
    assert!(run("DEBUG SDSLEN long").contains("val_sds_len:5000"));
    run("SET n 5");
    assert_eq!(run("DEBUG SDSLEN n"), "Not an sds encoded string.");
    assert!(run("DEBUG STRUCTSIZE").starts_with("bits:64 robj:8 object:24 client:"));
}
