//! The toy type behind sockets: a server that has it does with its values all that it does with others.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../black_box/dialogue.rs"]
#[allow(dead_code, reason = "all of its functions are for others")]
mod dialogue;
#[path = "../../black_box/harness.rs"]
#[allow(dead_code, reason = "all of its functions are for others")]
mod harness;

use dialogue::{ask, ask_integer, dialogue};
use harness::{Server, eventually, expect_bytes, free_port, send};

/// The server under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_toy-server");

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn keys_of_the_type_are_keys_like_others() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    dialogue(
        &mut client,
        &[
            ("TOY.SET t a b", "OK"),
            ("TOY.ADD t a", "3"),
            ("TOY.GET t", r#"["a", "b", "a"]"#),
            ("TOY.GET none", "nil"),
            ("TOY.COUNT t a", "2"),
            ("TYPE t", "toy"),
            ("OBJECT ENCODING t", r#""toyvec""#),
            ("SET s text", "OK"),
            ("GET t", WRONG_TYPE),
            ("LPUSH t x", WRONG_TYPE),
            ("TOY.ADD s x", WRONG_TYPE),
            ("SCAN 0 TYPE toy", r#"["0", ["t"]]"#),
            ("COPY t copy", "1"),
            ("RENAME copy renamed", "OK"),
            ("MOVE renamed 1", "1"),
            ("SELECT 1", "OK"),
            ("TOY.GET renamed", r#"["a", "b", "a"]"#),
            ("UNLINK renamed", "1"),
            ("SELECT 0", "OK"),
            ("TOY.GET t", r#"["a", "b", "a"]"#),
            ("EXPIRE t 1000", "1"),
            ("PERSIST t", "1"),
            ("MULTI", "OK"),
            ("TOY.ADD t c", "QUEUED"),
            ("TOY.COUNT t c", "QUEUED"),
            ("EXEC", "[4, 1]"),
            ("EVAL return{redis.call('TOY.COUNT',KEYS[1],'a')} 1 t", "[2]"),
            ("TOY.CLEAR t", "1"),
            ("EXISTS t", "0"),
            ("TOY.CLEAR t", "0"),
            ("TOY.SET s x", "OK"),
            ("TYPE s", "toy"),
        ],
    );
    assert!(ask_integer(&mut client, "MEMORY USAGE s") > 24);
    assert!(ask(&mut client, "INFO keysizes").contains("db0_distrib_toys_items:1=1"));
    assert!(server.stop().success());
}

#[test]
fn the_table_is_shown_to_clients() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert!(ask(&mut client, "ACL CAT").contains(r#""toy""#));
    assert!(ask(&mut client, "ACL CAT toy").contains(r#""toy.get""#));
    assert!(ask(&mut client, "MODULE LIST").contains(r#""toy""#));
    assert!(ask(&mut client, "COMMAND DOCS toy.get").contains(r#""group", "toy""#));
    dialogue(
        &mut client,
        &[
            ("COMMAND LIST FILTERBY MODULE toy", &ask(&mut server.client(), "COMMAND LIST FILTERBY ACLCAT toy")[..]),
            ("COMMAND GETKEYS TOY.SET k a", r#"["k"]"#),
            ("ACL SETUSER u on nopass ~t* -@all +@toy", "OK"),
            ("AUTH u any", "OK"),
            ("TOY.SET t a", "OK"),
            ("TOY.SET other a", "-NOPERM No permissions to access a key"),
        ],
    );
    assert!(ask(&mut client, "GET t").starts_with("-NOPERM"));
    assert!(server.stop().success());
}

#[test]
fn changes_are_events() {
    let server = Server::start(&["--notify-keyspace-events", "Edg"]);
    let (mut client, mut listener) = (server.client(), server.socket());
    send(&mut listener, b"PSUBSCRIBE __keyevent@0__:*\r\n");
    expect_bytes(&mut listener, b"*3\r\n$10\r\npsubscribe\r\n$16\r\n__keyevent@0__:*\r\n:1\r\n");
    dialogue(&mut client, &[("TOY.SET t a", "OK"), ("TOY.CLEAR t", "1")]);
    for event in ["toy.set", "toy.clear"] {
        let (pattern, channel) = ("__keyevent@0__:*", format!("__keyevent@0__:{event}"));
        let message =
            format!("*4\r\n$8\r\npmessage\r\n$16\r\n{pattern}\r\n${}\r\n{channel}\r\n$1\r\nt\r\n", channel.len());
        expect_bytes(&mut listener, message.as_bytes());
    }
    drop(listener);
    assert!(server.stop().success());
}

#[test]
fn values_are_there_after_a_save() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    dialogue(&mut client, &[("TOY.SET t a b", "OK"), ("SAVE", "OK")]);
    server.crash();
    dialogue(&mut server.client(), &[("TOY.GET t", r#"["a", "b"]"#), ("TYPE t", "toy")]);
    assert!(server.stop().success());
}

#[test]
fn values_are_there_after_a_rewrite_of_the_log() {
    for preamble in ["yes", "no"] {
        let options = ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble];
        let mut server = Server::start(&options);
        let mut client = server.client();
        dialogue(&mut client, &[("TOY.SET t a b", "OK"), ("TOY.SET other x", "OK"), ("EXPIRE other 1000", "1")]);
        assert!(ask(&mut client, "BGREWRITEAOF").contains("started"));
        assert!(eventually(|| ask(&mut client, "INFO persistence").contains("aof_rewrites:1")));
        assert!(eventually(|| ask(&mut client, "INFO persistence").contains("aof_rewrite_in_progress:0")));
        dialogue(&mut client, &[("TOY.ADD t c", "3")]);
        server.crash();
        let mut client = server.client();
        dialogue(&mut client, &[("TOY.GET t", r#"["a", "b", "c"]"#), ("TOY.GET other", r#"["x"]"#)]);
        assert!(ask_integer(&mut client, "TTL other") > 0, "{preamble}");
        assert!(server.stop().success());
    }
}

#[test]
fn a_replica_has_the_values() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut client = primary.client();
    dialogue(&mut client, &[("TOY.SET before a b", "OK")]);
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let mut reader = replica.client();
    assert!(eventually(|| ask(&mut reader, "TOY.GET before") == r#"["a", "b"]"#));
    dialogue(&mut client, &[("TOY.ADD before c", "3"), ("TOY.SET after x", "OK")]);
    assert!(eventually(|| ask(&mut reader, "TOY.GET after") == r#"["x"]"#));
    assert_eq!(ask(&mut reader, "TOY.GET before"), r#"["a", "b", "c"]"#);
    assert!(replica.stop().success() && primary.stop().success());
}

#[test]
fn values_move_to_another_server() {
    let (source, target) = (Server::start(&[]), Server::start(&[]));
    let mut client = source.client();
    dialogue(&mut client, &[("TOY.SET t a b", "OK")]);
    assert_eq!(ask(&mut client, &format!("MIGRATE 127.0.0.1 {} t 0 10000", target.port)), "OK");
    dialogue(&mut client, &[("EXISTS t", "0")]);
    dialogue(&mut target.client(), &[("TOY.GET t", r#"["a", "b"]"#)]);
    assert!(source.stop().success() && target.stop().success());
}

#[test]
fn values_move_with_their_slots() {
    let node = || {
        let bus = free_port();
        (Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]), bus)
    };
    let ((owner, bus), (target, _)) = (node(), node());
    let (mut client, mut admin) = (owner.client(), target.client());
    assert_eq!(ask(&mut client, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    assert_eq!(ask(&mut admin, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", owner.port)), "OK");
    assert!(eventually(|| ask(&mut admin, "CLUSTER NODES").contains(" 0-16383")));
    assert!(eventually(|| ask(&mut client, "CLUSTER INFO").contains("cluster_state:ok")));
    dialogue(&mut client, &[("TOY.SET t a b", "OK")]);
    let id = ask(&mut admin, "CLUSTER MYID").trim_matches('"').to_owned();
    let order = format!("CLUSTER MIGRATESLOTS SLOTSRANGE 0 16383 NODE {id}");
    assert!(eventually(|| ask(&mut client, &order) == "OK"));
    assert!(eventually(|| ask(&mut admin, "TOY.GET t") == r#"["a", "b"]"#));
    assert!(owner.stop().success() && target.stop().success());
}
