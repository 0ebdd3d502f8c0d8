//! DEBUG describes values as they lie in memory.

use crate::harness::{Server, eventually, is_peer};

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

#[test]
fn a_restart_saves_and_a_crash_does_not() {
    let server = Server::start(&["--enable-debug-command", "yes", "--save", "3600 1"]);
    let again = |line: &str, value: &str| {
        let began = ask_once(&server, "INFO", "run_id:");
        let _: redis::RedisResult<()> = redis::cmd("DEBUG").arg(line).query(&mut server.client());
        let goes_on = eventually(|| {
            let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).expect("an address");
            let connection = client.get_connection();
            let id = connection.and_then(|mut it| redis::cmd("INFO").query::<String>(&mut it));
            id.is_ok_and(|info| !info.contains(&began) && info.contains("\nloading:0"))
        });
        assert!(goes_on, "after {line}: {}", server.folder.read("stdout"));
        assert_eq!(client(&server)("GET k"), value, "after {line}");
    };
    client(&server)("SET k saved");
    again("RESTART", "saved");
    client(&server)("SET k lost");
    again("CRASH-AND-RECOVER", "saved");
    assert!(server.stop().success());
}

/// Returns the line of a reply that begins with `field`.
fn ask_once(server: &Server, command: &str, field: &str) -> String {
    let text = client(server)(command);
    text.lines().find(|line| line.starts_with(field)).expect("the field").to_owned()
}

#[test]
fn the_history_of_the_data_gets_another_name() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let before = ask_once(&server, "INFO", "master_replid:");
    assert_eq!(client(&server)("DEBUG CHANGE-REPL-ID"), "ok");
    let after = ask_once(&server, "INFO", "master_replid:");
    assert!(before != after && before.len() == after.len(), "{before}, {after}");
}

#[test]
fn clients_are_counted_by_their_size() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut run = client(&server);
    assert_eq!(run("DEBUG CLIENT-EVICTION"), "maxmemory-clients is disabled.");
    run("CONFIG SET maxmemory-clients 100mb");
    let text = run("DEBUG CLIENT-EVICTION");
    assert_eq!(text.lines().count(), 19, "{text}");
    assert!(text.contains("bucket      32768 -      65535: tot-mem:          0, clients: 0\n"), "{text}");
    assert!(text.lines().next().is_some_and(|line| line.starts_with("bucket          0 -      32767: tot-mem:")));
    assert!(text.ends_with("bucket 4294967296+            : tot-mem:          0, clients: 0\n"), "{text}");
}

#[test]
fn flushed_keys_are_not_found_at_the_next_start() {
    let mut server = Server::start(&["--save", "3600 1"]);
    client(&server)("SET k v");
    assert_eq!(client(&server)("SAVE"), "ok");
    assert_eq!(client(&server)("FLUSHALL"), "ok");
    server.crash();
    assert_eq!(client(&server)("DBSIZE"), "int(0)");
}

#[test]
fn objects_are_told_of_as_far_as_is_wanted() {
    let server = Server::start(&["--enable-debug-command", "yes", "--maxmemory-policy", "allkeys-lfu"]);
    let mut run = client(&server);
    for _ in 0..3 {
        run(&format!("RPUSH l {}", "x".repeat(8000)));
    }
    let (whole, fast) = (run("DEBUG OBJECT l"), run("DEBUG OBJECT l FAST"));
    for always in [" lfu_freq:", " lfu_access_time_minutes:", " ql_nodes:3 "] {
        assert!(whole.contains(always) && fast.contains(always), "{whole}; {fast}");
    }
    for slow in [" serializedlength:", " ql_uncompressed_size:"] {
        assert!(whole.contains(slow) && !fast.contains(slow), "{whole}; {fast}");
    }
}

/// Every build has these settings of the allocator, and the operator who starts the server may set others.
#[test]
fn the_allocators_settings_lie_in_the_program() {
    if is_peer() {
        // It has other settings.
        return;
    }
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut run = client(&server);
    let expected = [
        ("opt.background_thread", "int(1)"),
        ("opt.dirty_decay_ms", "int(500)"),
        ("opt.muzzy_decay_ms", "int(0)"),
        // 512 objects of 128 bytes, and 8 of 8 KiB.
        ("arenas.bin.8.size", "int(128)"),
        ("arenas.bin.8.slab_size", "int(65536)"),
        ("arenas.bin.32.size", "int(8192)"),
        ("arenas.bin.32.slab_size", "int(65536)"),
    ];
    for (name, value) in expected {
        assert_eq!(run(&format!("DEBUG MALLCTL {name}")), value, "{name}");
    }
    let stats = run("MEMORY MALLOC-STATS");
    assert!(stats.contains("Environment variable MALLOC_CONF"), "{stats}");
}
