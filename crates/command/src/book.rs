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

/// Commands of the protocol.
pub static COMMANDS: [Command; 10] = [
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
pub fn admit(
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
