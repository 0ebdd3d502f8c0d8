//! The book protocol's commands: a translation onto the commands that RESP clients have.
//!
//! A request is a name and a fixed number of arguments. A command with the same meaning in both protocols runs the same
//! handler, and the reply sink speaks the book protocol; left to this file are the texts of errors, the looser notation
//! of numbers (C's `strtod` and `strtoll`), and the few commands with another meaning:
//!
//! | request | there |
//! | --- | --- |
//! | `get`, `del`, `pttl`, `zrem`, `zscore` | the command of that name |
//! | `zadd`, `pexpire` | the same, the number rewritten; a negative TTL is PERSIST, but replies as PEXPIRE |
//! | `set` | SET KEEPTTL that refuses other types |
//! | `keys` | as much of KEYS as fits a reply |
//! | `zquery` | no such command |
//!
//! The change log gets RESP commands, whichever protocol the request came in.

use crate::core::admission::{self, AdmissionRequest, Verdict};
use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::command::{Command, DENY_OOM, Handler, KeySpec, READONLY, WRITE, key};
use crate::core::command_table::CommandTable;
use crate::core::context::{Context, Flow, KeyArgs, Now};
use crate::core::rights::Call;
use crate::core::session::Session;
use engine::data::event_class::EventClass;
use engine::data::value::NewString;
use engine::data::value_type::STRING;
use engine::keyspace::edit::Ttl;
use engine::keyspace::origin::is_due;
use engine::propagation::effects::Logged;
use engine::{Engine, Error};
use resp::number::{parse_f64_c, parse_i64_c};
use resp::reply::{BOOK_REPLY_MAX, BookCode};
use resp::{Reply, format_double};
use structures::sorted_set::SortedSet;

const KEY: &[KeySpec] = &[key(1)];

/// Creates a command: name, number of arguments with the name, handler.
const fn command(name: &'static str, arity: i32, write: bool, run: Handler) -> Command {
    let flags = if write { WRITE } else { READONLY };
    Command { name, arity, flags, keys: KEY, run, ..Command::DEFAULT }
}

static COMMANDS: [Command; 10] = [
    command("get", 2, false, |cx, args| translated(cx, args, "not a string value")),
    Command { flags: WRITE.and(DENY_OOM), ..command("set", 3, true, set) },
    command("del", 2, true, same),
    Command { keys: &[], ..command("keys", 1, false, keys) },
    command("pexpire", 3, true, pexpire),
    command("pttl", 2, false, same),
    Command { flags: WRITE.and(DENY_OOM), ..command("zadd", 4, true, zadd) },
    command("zrem", 3, true, |cx, args| translated(cx, args, NOT_A_SORTED_SET)),
    command("zscore", 3, false, |cx, args| translated(cx, args, NOT_A_SORTED_SET)),
    command("zquery", 6, false, zquery),
];

const UNKNOWN: &str = "Unknown cmd";
const NOT_A_SORTED_SET: &str = "expect zset";

/// Runs one request and replies in a frame. [`Flow::NotNow`] and [`Flow::Postponed`]: the request is to be run again
/// later, and has replied nothing.
pub fn run(engine: &Engine, session: &mut Session, args: &mut Args<'_>, now: Now, reply: &mut Reply) -> Flow {
    reply.begin_frame();
    let found = find(args).and_then(|command| Some((command, admit(engine, session, command, args, now)?)));
    let flow = match found {
        Some((command, Verdict::Run)) => execute(engine, session, command, args, now, reply),
        Some((_, Verdict::Wait)) => Flow::Postponed,
        Some((_, Verdict::End)) => Flow::Close,
        Some((_, Verdict::Refuse(error))) => refuse(engine, reply, &error),
        // A request of this protocol is not sent to other nodes.
        Some((_, Verdict::Forward(_))) => refuse(engine, reply, &Error::ClusterDown),
        None if !admission::needs_password(engine, session) => {
            reply.book_error(BookCode::Unknown, UNKNOWN);
            Flow::Next
        }
        None => refuse(engine, reply, &Error::NoAuth),
    };
    match flow {
        Flow::NotNow | Flow::Postponed | Flow::Close => reply.drop_frame(),
        _ => reply.end_frame(),
    }
    flow
}

/// Admits a request whose client may run the RESP command. None: there is no such command, so no right to run it.
fn admit(
    engine: &Engine,
    session: &mut Session,
    command: &'static Command,
    args: &Args<'_>,
    now: Now,
) -> Option<Verdict> {
    let name = if command.name == "zquery" { "zrangebyscore" } else { command.name };
    let call = Call::named(name, command, args, session.db)?;
    Some(admission::admit(engine, session, &AdmissionRequest::of_command(command, args, call), now))
}

fn refuse(engine: &Engine, reply: &mut Reply, error: &Error) -> Flow {
    match *error == Error::NoAuth {
        true => reply.book_error(BookCode::Unknown, "authentication required"),
        false => reply.error(busy_script::text(engine, error)),
    }
    Flow::Next
}

fn find(args: &Args<'_>) -> Option<&'static Command> {
    let name = args.get(0)?;
    COMMANDS.iter().find(|command| command.name.as_bytes() == name && command.accepts_arity(args.len()))
}

fn execute<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> Flow {
    let mut key_args = KeyArgs::new();
    if !command.keys.is_empty() {
        key_args.push((1, engine.hasher().hash(&args[1])));
    }
    let start = reply.len();
    let (flow, _) = crate::core::dispatch::call_command(engine, session, command, &key_args, args, now, reply);
    if !matches!(flow, Flow::NotNow) {
        return Flow::Next;
    }
    if !engine.scripts().is_busy() {
        return Flow::NotNow;
    }
    reply.truncate(start);
    reply.error(busy_script::text(engine, &Error::WouldBlock));
    Flow::Next
}

/// Runs the RESP command of the same name.
fn same(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match CommandTable::get().find(cx.command.name.as_bytes()) {
        Some(entry) => (entry.command.run)(cx, args),
        None => fail(cx, BookCode::Unknown, UNKNOWN),
    }
}

/// Runs the RESP command of the same name, with another text for a key of the wrong type.
fn translated(cx: &mut Context<'_>, args: &mut Args<'_>, wrong_type: &str) -> Result<(), Error> {
    match same(cx, args) {
        Err(Error::WrongType) => fail(cx, BookCode::Type, wrong_type),
        result => result,
    }
}

fn fail(cx: &mut Context<'_>, code: BookCode, text: &str) -> Result<(), Error> {
    cx.reply.book_error(code, text);
    Ok(())
}

/// Logs this command instead of the request.
fn log(cx: &mut Context<'_>, command: &[&[u8]]) {
    if cx.engine.has_log() {
        let record = command.iter().map(|word| word.to_vec()).collect();
        cx.keys.effects.rare().logged = Logged::As(vec![record]);
    }
}

fn set(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    log(cx, &[b"SET", &args[1], &args[2], b"KEEPTTL"]);
    let value = args.take(2);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.value_type().is_some_and(|kind| *kind != STRING) {
        drop(edit);
        return fail(cx, BookCode::Type, "a non-string value exists");
    }
    edit.set_string(NewString::encode(value), Ttl::Keep);
    edit.commit(EventClass::STRING, "set");
    cx.reply.ok();
    Ok(())
}

/// Replies all keys, or an error once it is known that they do not fit into a reply.
fn keys(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let (now, db) = (cx.keys.expiry_now(), cx.keys.db_index());
    let reply = &mut *cx.reply;
    let most = reply.len() + BOOK_REPLY_MAX;
    let mark = reply.begin_array();
    let mut count = 0;
    for index in 0..cx.engine.locks().len() {
        if reply.len() > most {
            break;
        }
        cx.keys.with_shard(index, |shard, _| {
            for entry in shard.dbs[db].table.iter() {
                if entry.expiry().is_some_and(|expiry| is_due(expiry, now)) {
                    continue;
                }
                reply.bulk(entry.key());
                count += 1;
                if reply.len() > most {
                    break;
                }
            }
        })?;
    }
    reply.end_array(mark, count);
    Ok(())
}

fn pexpire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(milliseconds) = parse_i64_c(&args[2]) else {
        return fail(cx, BookCode::Argument, "expect int64");
    };
    if milliseconds < 0 {
        return persist(cx, args);
    }
    // A time beyond the end of time is that end.
    let milliseconds = milliseconds.min(i64::MAX - cx.now_ms().0);
    args.own(2, milliseconds.to_string().into_bytes());
    same(cx, args)
}

/// Removes a TTL; replies whether the key is there, not whether it had one.
fn persist(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    log(cx, &[b"PERSIST", &args[1]]);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let exists = edit.exists();
    if edit.expiry().is_some() {
        edit.set_expiry(None);
        edit.commit(EventClass::GENERIC, "persist");
    }
    cx.reply.int(i64::from(exists));
    Ok(())
}

fn zadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(score) = parse_f64_c(&args[2]).filter(|score| !score.is_nan()) else {
        return fail(cx, BookCode::Argument, "expect float");
    };
    args.own(2, format_double(score).to_vec());
    log(cx, &[b"ZADD", &args[1], &args[2], &args[3]]);
    translated(cx, args, NOT_A_SORTED_SET)
}

/// `zquery key score name offset limit`: pairs from the first one on that is not less than (score, name),
/// moved by `offset`. `limit` counts names and scores.
fn zquery(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(score) = parse_f64_c(&args[2]).filter(|score| !score.is_nan()) else {
        return fail(cx, BookCode::Argument, "expect fp number");
    };
    let (Some(offset), Some(limit)) = (parse_i64_c(&args[4]), parse_i64_c(&args[5])) else {
        return fail(cx, BookCode::Argument, "expect int");
    };
    let set = match cx.keys.collection::<SortedSet>(cx.key(args, 1)) {
        Ok(set) => set,
        Err(_) => {
            cx.reply.book_error(BookCode::Type, NOT_A_SORTED_SET);
            return Ok(());
        }
    };
    let Some((set, rank)) = set.and_then(|set| Some((set, offset_rank(set, score, &args[3], offset)?))) else {
        cx.reply.array(0);
        return Ok(());
    };
    // Two items to a member, rounded up; more members than bytes in a reply need not be listed.
    let members = usize::try_from(limit).unwrap_or(0).div_ceil(2).min(set.len() - rank).min(BOOK_REPLY_MAX);
    cx.reply.array(members * 2);
    for (member, score) in set.range(rank..rank + members) {
        cx.reply.bulk(member);
        cx.reply.double(score);
    }
    Ok(())
}

/// Returns the rank of the first pair not less than (score, name), moved by `offset`; None off either end.
fn offset_rank(set: &SortedSet, score: f64, name: &[u8], offset: i64) -> Option<usize> {
    let from = set.rank_of_bound(score, name);
    if from >= set.len() {
        return None;
    }
    let rank = usize::try_from((from as i64).checked_add(offset)?).ok()?;
    (rank < set.len()).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::testing::MemoryLog;
    use engine::time::UnixUs;
    use engine::{NullHost, Options};
    use resp::Protocol;
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
        static UNNAMED: Command = command("nosuchcommand", 1, false, |cx, _| {
            cx.reply.ok();
            Ok(())
        });
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
    fn what_does_not_fit_is_an_error() {
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
}
