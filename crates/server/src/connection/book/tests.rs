//! Requests of the book protocol, from their words to the frames of their replies.

use crate::connection::book::book_requests::request;
use crate::connection::book::reply_frames::ReplyFrames;
use commands::core::dispatch;
use commands::{Flow, Now, Session};
use engine::testing::MemoryLog;
use engine::time::UnixUs;
use engine::{Engine, NullHost, Options};
use resp::book::{BookValue, decode_reply, encode_request, parse_request};
use resp::{Protocol, Reply};
use std::sync::Arc;

use BookValue::{Arr, Dbl, Err, Int, Nil};

const NOW: Now = Now { unix_us: UnixUs(5_000_000) };

struct Client {
    engine: Engine,
    session: Session,
    log: MemoryLog,
}

impl Client {
    fn new() -> Client {
        commands::install(&[]);
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        let log = MemoryLog::of(&engine);
        Client { engine, session: Session::local(), log }
    }

    /// Runs a request. `""` is an empty argument; other words stand for themselves.
    fn ask(&mut self, request: &str) -> BookValue {
        let words = request.split_whitespace().map(|word| if word == "\"\"" { "" } else { word });
        self.ask_words(&words.map(str::as_bytes).collect::<Vec<_>>())
    }

    fn ask_words(&mut self, words: &[&[u8]]) -> BookValue {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        encode_request(&mut bytes, words).unwrap();
        assert_eq!(parse_request(&bytes, &mut spans), Ok(Some(bytes.len())));
        let mut request = request(&bytes, &spans);
        let prepared = match request.entry {
            Some(entry) => dispatch::prepare_entry(&self.engine, Some(entry), &request.args),
            None => dispatch::prepare(&self.engine, &request.args),
        };
        let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
        let flow = dispatch::run(&self.engine, &mut self.session, &prepared, &mut request.args, NOW, &mut reply);
        assert!(matches!(flow, Flow::Next));
        let value = frames(reply.as_slice());
        assert_eq!(value.len(), 1);
        value.into_iter().next().unwrap()
    }

    /// Returns the records that went into the change log since the last call.
    fn logged(&self) -> Vec<String> {
        let text = |record: Vec<Vec<u8>>| String::from_utf8(record.join(&b' ')).unwrap();
        self.log.take().into_iter().map(|(_, record)| text(record)).collect()
    }
}

fn str(text: &str) -> BookValue {
    BookValue::Str(text.into())
}

fn err(code: i32, text: &str) -> BookValue {
    Err(code, text.into())
}

fn pairs(pairs: &[(&str, f64)]) -> BookValue {
    Arr(pairs.iter().flat_map(|(name, score)| [str(name), Dbl(*score)]).collect())
}

#[test]
fn keys_and_their_ttls() {
    let mut client = Client::new();
    for (request, reply) in [
        ("get k", Nil),
        ("keys", Arr(vec![])),
        ("set k v", Nil),
        ("get k", str("v")),
        ("keys", Arr(vec![str("k")])),
        ("pttl k", Int(-1)),
        ("pttl nokey", Int(-2)),
        ("pexpire k 50000", Int(1)),
        ("pttl k", Int(50000)),
        ("set k 10", Nil),
        ("get k", str("10")),
        ("pttl k", Int(50000)),
        ("pexpire k x", err(4, "expect int64")),
        ("pexpire nokey x", err(4, "expect int64")),
        ("pexpire nokey 1", Int(0)),
        ("pexpire nokey -1", Int(0)),
        ("pexpire k -1", Int(1)),
        ("pttl k", Int(-1)),
        ("pexpire k -1", Int(1)),
        ("pexpire k 9223372036854775807", Int(1)),
        ("pexpire k 99999999999999999999", Int(1)),
        ("del k", Int(1)),
        ("del k", Int(0)),
    ] {
        assert_eq!(client.ask(request), reply, "{request}");
    }
}

#[test]
fn sorted_sets() {
    let mut client = Client::new();
    for (request, reply) in [
        ("zadd z 1 a", Int(1)),
        ("zadd z +2 b", Int(1)),
        ("zadd z 0x2 c", Int(1)),
        ("zadd z .35e1 d", Int(1)),
        ("zadd z 3.5 d", Int(0)),
        ("zadd z abc n", err(4, "expect float")),
        ("zadd z nan n", err(4, "expect float")),
        ("zscore z d", Dbl(3.5)),
        ("zscore z nope", Nil),
        ("zscore nokey nope", Nil),
        ("zquery z 2 c 0 100", pairs(&[("c", 2.0), ("d", 3.5)])),
        ("zquery z 1 \"\" 0 0", Arr(vec![])),
        ("zquery z 1 \"\" 0 -1", Arr(vec![])),
        ("zquery z 1 \"\" 0 1", pairs(&[("a", 1.0)])),
        ("zquery z 1 \"\" 0 2", pairs(&[("a", 1.0)])),
        ("zquery z 1 \"\" 0 3", pairs(&[("a", 1.0), ("b", 2.0)])),
        ("zquery z 1 \"\" 3 9", pairs(&[("d", 3.5)])),
        ("zquery z 1 \"\" 4 9", Arr(vec![])),
        ("zquery z 2 bb -2 2", pairs(&[("a", 1.0)])),
        ("zquery z 2 bb -3 2", Arr(vec![])),
        ("zquery z 9 \"\" -1 2", Arr(vec![])),
        ("zquery z 1 \"\" 9223372036854775807 9223372036854775807", Arr(vec![])),
        ("zquery nokey 1 \"\" 0 10", Arr(vec![])),
        ("zquery z x \"\" x 10", err(4, "expect fp number")),
        ("zquery z 1 \"\" x 10", err(4, "expect int")),
        ("zquery z 1 \"\" 0 1.5", err(4, "expect int")),
        ("zrem z a", Int(1)),
        ("zrem z a", Int(0)),
        ("zrem nokey a", Int(0)),
    ] {
        assert_eq!(client.ask(request), reply, "{request}");
    }
    assert_eq!(client.ask_words(&[b"zadd", b"z", b" 7", b"e"]), Int(1));
    assert_eq!(client.ask("zscore z e"), Dbl(7.0));
}

#[test]
fn types_are_not_mixed() {
    let mut client = Client::new();
    client.ask("set s v");
    client.ask("zadd z 1 n");
    for (request, reply) in [
        ("get z", err(3, "not a string value")),
        ("set z v", err(3, "a non-string value exists")),
        ("zadd s 1 n", err(3, "expect zset")),
        ("zadd s x n", err(4, "expect float")),
        ("zrem s n", err(3, "expect zset")),
        ("zscore s n", err(3, "expect zset")),
        ("zquery s 1 \"\" 0 10", err(3, "expect zset")),
        ("zquery s 1 \"\" x 10", err(4, "expect int")),
    ] {
        assert_eq!(client.ask(request), reply, "{request}");
    }
}

#[test]
fn names_and_numbers_of_arguments_match_exactly() {
    let mut client = Client::new();
    for request in [
        "",
        "GET k",
        "get",
        "get k k",
        "keys *",
        "set k v x",
        "zrange z 0 1",
        "hello",
        "zrangebyscore z 1 n 0 1",
        "config get x",
    ] {
        assert_eq!(client.ask(request), err(1, "Unknown cmd"), "{request}");
    }
    client.session.authenticated = false;
    let users = client.engine.users();
    users.set_default_password(b"secret", commands::core::acl_catalog::rule_context(&client.engine));
    for request in ["get k", "nope"] {
        assert_eq!(client.ask(request), err(1, "authentication required"), "{request}");
    }
}

#[test]
fn the_log_gets_commands_of_the_other_protocol() {
    let mut client = Client::new();
    for (request, records) in [
        ("set k v", &["SET k v KEEPTTL"][..]),
        ("pexpire k 1000", &["PEXPIREAT k 6000"]),
        ("pexpire k -5", &["PERSIST k"]),
        ("pexpire k -5", &[]),
        ("zadd z 0x10 n", &["ZADD z 16 n"]),
        ("zadd z 16 n", &[]),
        ("zadd k 1 n", &[]),
        ("zrem z n", &["zrem z n"]),
        ("del k", &["del k"]),
    ] {
        client.ask(request);
        assert_eq!(client.logged(), records, "{request}");
    }
}

#[test]
fn a_response_that_does_not_fit_is_an_error() {
    let mut client = Client::new();
    let too_big = err(2, "response is too big");
    for n in 0..400 {
        client.ask(&format!("set key:{n} v"));
        client.ask(&format!("zadd z {n} n{n}"));
    }
    assert_eq!(client.ask("keys"), too_big);
    assert_eq!(client.ask("zquery z 0 \"\" 0 9223372036854775807"), too_big);
    assert!(matches!(client.ask("zquery z 0 \"\" 0 100"), Arr(items) if items.len() == 100));
}

/// Returns the values of the frames that replies in RESP3 become, the same however they are cut.
fn frames(bytes: &[u8]) -> Vec<BookValue> {
    let translated = |step: usize| {
        let (mut frames, mut out) = (ReplyFrames::default(), Vec::new());
        bytes.chunks(step).for_each(|piece| frames.translate(piece, &mut out));
        assert_eq!(frames.memory(), 0);
        out
    };
    let out = translated(bytes.len().max(1));
    assert_eq!(out, translated(1));
    let (mut values, mut rest) = (Vec::new(), &out[..]);
    while !rest.is_empty() {
        let (value, len) = decode_reply(rest).unwrap().expect("a whole frame");
        values.push(value);
        rest = &rest[len..];
    }
    values
}

#[test]
fn every_reply_has_a_frame() {
    let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
    reply.ok();
    reply.simple("PONG");
    for text in ["WRONGTYPE x", "NOAUTH x", "NOPERM x", "ERR x", "BOOKTYPE x y", "BOOKARGUMENT x", "OTHER"] {
        reply.error(text);
    }
    reply.int(-7);
    reply.boolean(true);
    reply.bulk(b"");
    reply.bulk(b"a\r\nb");
    reply.null();
    reply.null_array();
    reply.double(0.1 + 0.2);
    reply.double(f64::NEG_INFINITY);
    reply.big_number("123");
    reply.map(1);
    reply.bulk(b"k");
    reply.array(2);
    reply.int(1);
    reply.array(0);
    reply.set(0);
    let nested = Arr(vec![str("k"), Arr(vec![Int(1), Arr(vec![])])]);
    let errors =
        [(3, "WRONGTYPE x"), (1, "authentication required"), (1, "NOPERM x"), (4, "ERR x"), (3, "x y"), (4, "x")];
    let mut expected = vec![Nil, Nil];
    expected.extend(errors.map(|(code, text)| err(code, text)));
    expected.extend([err(4, "OTHER"), Int(-7), Int(1), str(""), str("a\r\nb"), Nil, Nil, Dbl(0.1 + 0.2)]);
    expected.extend([Dbl(f64::NEG_INFINITY), str("123"), nested, Arr(vec![])]);
    assert_eq!(frames(reply.as_slice()), expected);
    assert_eq!(frames(b"+OK\r\n-ERR Protocol error: invalid multibulk length\r\n"), [Nil]);
}

#[test]
fn a_frame_over_the_limit_is_an_error() {
    let value = |len: usize| {
        let mut reply = Reply::default();
        reply.bulk(&vec![b'x'; len]);
        reply.int(1);
        let [value, Int(1)] = &frames(reply.as_slice())[..] else { panic!("two frames") };
        value.clone()
    };
    assert_eq!(value(resp::book::REPLY_MAX - 5), str(&"x".repeat(resp::book::REPLY_MAX - 5)));
    assert_eq!(value(resp::book::REPLY_MAX - 4), err(2, "response is too big"));
    assert_eq!(value(1 << 20), err(2, "response is too big"));
}

#[test]
fn every_finite_score_arrives_bit_by_bit() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..10_000 {
        let score = f64::from_bits(random.u64(..));
        if score.is_finite() {
            let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
            reply.double(score);
            let [Dbl(value)] = frames(reply.as_slice())[..] else { panic!("one double") };
            assert_eq!(value.to_bits(), score.to_bits());
        }
    }
}
