//! Hashes: fields that expire by themselves, and replies too long to be written at once.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{Server, eventually, expect_bytes, on_each_thread_count, send};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

#[test]
fn fields_expire() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        dialogue(
            &mut client,
            &[
                ("HSET h a 1 b 2", "2"),
                ("HPEXPIRE h 60 FIELDS 2 a no", "[1, -2]"),
                ("HSETEX h PX 60 FIELDS 1 c 3", "1"),
                ("HTTL h FIELDS 2 b no", "[-1, -2]"),
                ("HSETEX gone PX 60 FIELDS 2 a 1 b 2", "1"),
                ("OBJECT ENCODING h", "\"hashtable\""),
            ],
        );
        assert!(ask(&mut client, "INFO keyspace").contains("keys=2,expires=0,avg_ttl=0,keys_with_volatile_items=2"));
        assert!(eventually(|| ask(&mut client, "HLEN h") == "1"), "the background removes fields that nobody looks at");
        assert!(eventually(|| ask(&mut client, "EXISTS gone") == "0"));
        dialogue(&mut client, &[("HGETALL h", "[\"b\", \"2\"]"), ("HGET h a", "nil"), ("DBSIZE", "1")]);
        let info = ask(&mut client, "INFO");
        assert!(info.contains("expired_fields:4\\r\\n") && info.contains("keys_with_volatile_items=0"), "{info}");
    });
}

#[test]
fn a_field_is_not_seen_even_when_nothing_removes_it() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    dialogue(&mut client, &[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("HSETEX h PX 1 FIELDS 2 a 1 b 2", "1")]);
    assert!(eventually(|| ask(&mut client, "HEXISTS h a") == "0"));
    dialogue(
        &mut client,
        &[
            ("HLEN h", "2"),
            ("HGETALL h", "[]"),
            ("HMGET h a b", "[nil, nil]"),
            ("HRANDFIELD h", "nil"),
            ("HSCAN h 0", "[\"0\", []]"),
            ("HDEL h a", "0"),
            ("HINCRBY h a 5", "5"),
            ("HTTL h FIELDS 1 a", "[-1]"),
            ("EXISTS h", "1"),
        ],
    );
}

#[test]
fn resp3_has_its_own_forms() {
    let server = Server::start(&[]);
    let mut client = server.client_speaking("3");
    dialogue(
        &mut client,
        &[
            ("HSET h a 1 b 2", "2"),
            ("HGETALL h", "{\"a\": \"1\", \"b\": \"2\"}"),
            ("HGETALL none", "{}"),
            ("HKEYS h", "[\"a\", \"b\"]"),
            ("HRANDFIELD h 5 WITHVALUES", "[[\"a\", \"1\"], [\"b\", \"2\"]]"),
            ("HSCAN h 0", "[\"0\", [\"a\", \"1\", \"b\", \"2\"]]"),
            ("HGETDEL h FIELDS 2 a no", "[\"1\", nil]"),
        ],
    );
}

const FIELDS: usize = 40_000;

fn fill(server: &Server) {
    let mut client = server.client();
    for first in (0..FIELDS).step_by(1000) {
        let pairs: Vec<String> = (first..first + 1000).map(|n| format!("field:{n} {n:0100}")).collect();
        assert_eq!(ask_integer(&mut client, &format!("HSET h {}", pairs.join(" "))), 1000);
    }
}

/// Reads the reply to HGETALL.
fn read_pairs(stream: &mut TcpStream) -> BTreeMap<String, String> {
    let mut reader = BufReader::new(stream);
    let length = |reader: &mut BufReader<&mut TcpStream>, sign: char| {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        line.trim_end().strip_prefix(sign).and_then(|digits| digits.parse::<usize>().ok()).expect("a length")
    };
    let items = length(&mut reader, '*');
    let mut pairs = BTreeMap::new();
    for _ in 0..items / 2 {
        let [name, value] = std::array::from_fn(|_| {
            let mut bytes = vec![0; length(&mut reader, '$') + 2];
            reader.read_exact(&mut bytes).expect("a string");
            bytes.truncate(bytes.len() - 2);
            String::from_utf8(bytes).expect("text")
        });
        pairs.insert(name, value);
    }
    pairs
}

fn belong_together(name: &str, value: &str) -> bool {
    value.len() == 100
        && name
            .strip_prefix("field:")
            .is_some_and(|number| value.trim_start_matches('0') == number.trim_start_matches('0'))
}

#[test]
fn a_long_reply_is_of_one_moment_whatever_others_do_meanwhile() {
    on_each_thread_count(&[], |server| {
        for writes in [
            &["HSET h field:7 x new y", "HDEL h field:1 field:2"][..],
            &["DEL h", "SET h string"],
            &["RENAME h g"],
            &["FLUSHALL"],
        ] {
            fill(server);
            // The reply is more than sockets and buffers take, so that most is still to be written when the others
            // arrive.
            let mut listing = server.socket();
            send(&mut listing, b"*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n*1\r\n$4\r\nPING\r\n");
            let mut byte = [0; 1];
            listing.peek(&mut byte).expect("the reply has begun");
            let mut writer = server.client();
            writes.iter().for_each(|write| _ = ask(&mut writer, write));
            let pairs = read_pairs(&mut listing.try_clone().expect("a second handle"));
            assert_eq!(pairs.len(), FIELDS, "{writes:?}");
            assert!(pairs.iter().all(|(name, value)| belong_together(name, value)), "{writes:?}");
            ask(&mut writer, "FLUSHALL");
        }
    });
}

#[test]
fn commands_behind_a_long_reply_wait_for_it() {
    let server = Server::start(&[]);
    fill(&server);
    let mut socket = server.socket();
    send(&mut socket, b"*2\r\n$5\r\nHKEYS\r\n$1\r\nh\r\n*1\r\n$4\r\nPING\r\n");
    expect_bytes(&mut socket, format!("*{FIELDS}\r\n").as_bytes());
    let mut rest = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    while !rest.ends_with(b"+PONG\r\n") {
        let read = socket.read(&mut chunk).expect("the rest of the reply");
        rest.extend_from_slice(&chunk[..read]);
    }
    assert_eq!(rest.iter().filter(|byte| **byte == b'$').count(), FIELDS);
}
