//! The book protocol's commands, beside the commands that RESP clients have.
//!
//! A request is a name and a fixed number of arguments. A command with the same meaning in both protocols runs the same
//! handler; left to this file are the texts of errors, the looser notation of numbers (C's `strtod` and `strtoll`), and
//! the few commands with another meaning:
//!
//! | request | command |
//! | --- | --- |
//! | `get`, `del`, `pttl`, `zrem`, `zscore` | the command of that name |
//! | `zadd`, `pexpire` | the same, the number rewritten; a negative TTL is PERSIST, but replies as PEXPIRE |
//! | `set` | SET KEEPTTL that refuses other types |
//! | `keys` | as much of KEYS as fits a reply |
//! | `zquery` | no such command; it needs the right for ZRANGEBYSCORE |
//!
//! An entry has the rights and the statistics of the command whose name it has. The change log gets RESP commands.

use crate::connection::book::reply_frames::{ARGUMENT, TYPE};
use commands::core::acl_catalog::Catalog;
use commands::core::command::{Command, CommandEntry, DENY_OOM, Handler, KeySpec, READONLY, WRITE, key};
use commands::core::command_table::CommandTable;
use commands::{Args, Context};
use engine::data::event_class::EventClass;
use engine::data::value::NewString;
use engine::data::value_type::STRING;
use engine::keyspace::caller::is_due;
use engine::keyspace::edit::Ttl;
use engine::propagation::effects::Logged;
use engine::{Error, Word};
use resp::book::REPLY_MAX;
use resp::format_double;
use resp::number::{parse_f64_c, parse_i64_c};
use std::sync::OnceLock;
use structures::sorted_set::SortedSet;

const KEY: &[KeySpec] = &[key(1)];

/// Creates a command: name, number of arguments with the name, handler.
const fn command(name: &'static str, arity: i32, write: bool, run: Handler) -> Command {
    let flags = if write { WRITE } else { READONLY };
    Command { name, arity, flags, keys: KEY, run, ..Command::DEFAULT }
}

/// Commands of the protocol.
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
    command(RANGE, 6, false, zquery),
];

/// The command whose right `zquery` needs.
const RANGE: &str = "zrangebyscore";
const NOT_A_SORTED_SET: &str = "expect zset";

/// Entries of the commands that exist, built once.
static ENTRIES: OnceLock<Vec<CommandEntry>> = OnceLock::new();

fn entries() -> &'static [CommandEntry] {
    ENTRIES.get_or_init(|| COMMANDS.iter().filter_map(|command| Catalog::get().entry_beside(command)).collect())
}

/// Returns the entry of a request, unless there is none of its name with so many arguments.
pub fn find(args: &Args<'_>) -> Option<&'static CommandEntry> {
    let name = match args.get(0)? {
        b"zquery" => RANGE.as_bytes(),
        name if name == RANGE.as_bytes() => return None,
        name => name,
    };
    let is_it = |entry: &&CommandEntry| entry.command.name.as_bytes() == name && entry.accepts(args.len());
    entries().iter().find(is_it)
}

/// Runs the RESP command of the same name.
fn same(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match CommandTable::get().find(cx.command.name.as_bytes()) {
        Some(entry) => (entry.command.run)(cx, args),
        None => Err(Error::UnknownCommand(Word::of(cx.command.name), Word::of(""))),
    }
}

/// Runs the RESP command of the same name, with another text for a key of the wrong type.
fn translated(cx: &mut Context<'_>, args: &mut Args<'_>, wrong_type: &str) -> Result<(), Error> {
    match same(cx, args) {
        Err(Error::WrongType) => fail(cx, TYPE, wrong_type),
        result => result,
    }
}

fn fail(cx: &mut Context<'_>, code: &str, text: &str) -> Result<(), Error> {
    cx.reply.error(format!("{code} {text}"));
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
        return fail(cx, TYPE, "a non-string value exists");
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
    let mark = reply.begin_array();
    // Bytes of the frame: a string has its kind and length before it.
    let (mut count, mut bytes) = (0, 0);
    for index in 0..cx.engine.locks().len() {
        if bytes > REPLY_MAX {
            break;
        }
        cx.keys.with_shard(index, |shard, _| {
            for entry in shard.dbs[db].table.iter() {
                if entry.expiry().is_some_and(|expiry| is_due(expiry, now)) {
                    continue;
                }
                reply.bulk(entry.key());
                count += 1;
                bytes += 5 + entry.key().len();
                if bytes > REPLY_MAX {
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
        return fail(cx, ARGUMENT, "expect int64");
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
        return fail(cx, ARGUMENT, "expect float");
    };
    args.own(2, format_double(score).to_vec());
    log(cx, &[b"ZADD", &args[1], &args[2], &args[3]]);
    translated(cx, args, NOT_A_SORTED_SET)
}

/// `zquery key score name offset limit`: pairs from the first one on that is not less than (score, name),
/// moved by `offset`. `limit` counts names and scores.
fn zquery(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(score) = parse_f64_c(&args[2]).filter(|score| !score.is_nan()) else {
        return fail(cx, ARGUMENT, "expect fp number");
    };
    let (Some(offset), Some(limit)) = (parse_i64_c(&args[4]), parse_i64_c(&args[5])) else {
        return fail(cx, ARGUMENT, "expect int");
    };
    let set = match cx.keys.collection::<SortedSet>(cx.key(args, 1)) {
        Ok(set) => set,
        Err(_) => return fail(cx, TYPE, NOT_A_SORTED_SET),
    };
    let Some((set, rank)) = set.and_then(|set| Some((set, offset_rank(set, score, &args[3], offset)?))) else {
        cx.reply.array(0);
        return Ok(());
    };
    // Two items to a member, rounded up; more members than bytes in a reply need not be listed.
    let members = usize::try_from(limit).unwrap_or(0).div_ceil(2).min(set.len() - rank).min(REPLY_MAX);
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
