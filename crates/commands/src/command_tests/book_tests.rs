//! [`command::book`] with the commands of the rooms.

use crate::core::admission::Verdict;
use crate::core::args::Args;
use crate::core::command::{Command, READONLY};
use crate::core::command_table::CommandTable;
use crate::core::context::Now;
use crate::core::session::Session;
use command::book::*;
use engine::Engine;
use engine::testing::MemoryLog;
use engine::time::UnixUs;
use engine::{NullHost, Options};
use resp::Protocol;
use resp::Reply;
use resp::book::{BookValue, decode_reply};
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
        crate::install(&[]);
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        let log = MemoryLog::of(&engine);
        Client { engine, session: Session::local(), log }
    }

    /// Runs a request. `""` is an empty argument; other words stand for themselves.
    fn ask(&mut self, request: &str) -> BookValue {
        let words = request.split_whitespace().map(|word| if word == "\"\"" { "" } else { word });
        self.ask_args(&mut words.map(str::as_bytes).collect())
    }

    fn ask_args(&mut self, args: &mut Args<'_>) -> BookValue {
        let mut reply = Reply::new(Vec::new(), Protocol::Book);
        run(&self.engine, &mut self.session, args, NOW, &mut reply);
        let (value, len) = decode_reply(reply.as_slice()).unwrap().unwrap();
        assert_eq!(len, reply.len());
        value
    }

    /// Returns the records that went into the change log since the last call.
    fn logged(&self) -> Vec<String> {
        let text = |record: Vec<Vec<u8>>| String::from_utf8(record.join(&b' ')).unwrap();
        self.log.take().into_iter().map(|(_, record)| text(record)).collect()
    }
}

#[test]
fn a_command_without_a_right_of_its_name_does_not_run() {
    static UNNAMED: Command = Command {
        name: "nosuchcommand",
        arity: 1,
        flags: READONLY,
        run: |cx, _| {
            cx.reply.ok();
            Ok(())
        },
        ..Command::DEFAULT
    };
    let mut client = Client::new();
    let args: Args<'_> = ["nosuchcommand"].iter().map(|word| word.as_bytes()).collect();
    assert_eq!(admit(&client.engine, &mut client.session, &UNNAMED, &args, NOW), None);
    for command in &COMMANDS {
        let words = std::iter::repeat_n(command.name.as_bytes(), command.arity.unsigned_abs() as usize);
        let admitted = admit(&client.engine, &mut client.session, command, &words.collect(), NOW);
        assert_eq!(admitted, Some(Verdict::Run), "{}", command.name);
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
fn every_translated_command_is_there() {
    crate::install(&[]);
    for name in ["get", "del", "pexpire", "pttl", "zadd", "zrem", "zscore"] {
        assert!(CommandTable::get().find(name.as_bytes()).is_some(), "{name}");
    }
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
    let leading_blank = &mut [&b"zadd"[..], b"z", b" 7", b"e"].into_iter().collect();
    assert_eq!(client.ask_args(leading_blank), Int(1));
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
    for request in ["", "GET k", "get", "get k k", "keys *", "set k v x", "zrange z 0 1", "hello"] {
        assert_eq!(client.ask(request), err(1, "Unknown cmd"), "{request}");
    }
    client.session.authenticated = false;
    let users = client.engine.users();
    users.set_default_password(b"secret", crate::core::acl_catalog::rule_context(&client.engine));
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
