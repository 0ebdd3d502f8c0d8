//! Many strings at once: MGET, MSET and their kin.

use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::keys::expire_option::{Lifetime, pxat};
use crate::strings::string::reply_key;
use engine::data::event_class::EventClass;
use engine::data::value::NewString;
use engine::keyspace::edit::Ttl;
use engine::keyspace::keys::Key;
use engine::propagation::effects::{Logged, Record};
use engine::time::UnixMs;
use engine::{Error, Word};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "mget",
        group: Group::String,
        since: "1.0.0",
        arity: -2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access().to(-1, 1)],
        syntax: "key...",
        summary: "Atomically returns the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to retrieve.",
        tips: &["request_policy:multi_shard"],
        routing: Routing::EachKey { words: 1, merge: Merge::Elements },
        run: mget,
        ..Command::DEFAULT
    },
    Command {
        name: "mset",
        group: Group::String,
        since: "1.0.1",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update().to(-1, 2)],
        syntax: "(data: key value)...",
        summary: "Atomically creates or modifies the string values of one or more keys.",
        complexity: "O(N) where N is the number of keys to set.",
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        routing: Routing::EachKey { words: 2, merge: Merge::AllOk },
        run: mset,
        ..Command::DEFAULT
    },
    Command {
        name: "msetex",
        group: Group::String,
        since: "9.1.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update().counted(0, 1, 2)],
        syntax: "numkeys:int (data: key value)... [condition: NX | XX] [expiration: EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | PXAT unix-time-milliseconds:time | KEEPTTL]",
        summary: "Atomically creates or modifies the string values of one or more keys, and optionally set their expiration.",
        complexity: "O(N) where N is the number of keys to set.",
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        run: msetex,
        ..Command::DEFAULT
    },
    Command {
        name: "msetnx",
        group: Group::String,
        since: "1.0.1",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().insert().to(-1, 2)],
        syntax: "(data: key value)...",
        summary: "Atomically modifies the string values of one or more keys only when all keys don't exist.",
        complexity: "O(N) where N is the number of keys to set.",
        run: msetnx,
        ..Command::DEFAULT
    },
];

/// Returns the command's `n`-th key, which is at argument `index`.
#[inline]
fn nth_key<'a>(cx: &Context<'_>, args: &'a Args<'_>, n: usize, index: usize) -> Key<'a> {
    match cx.key_args.get(n) {
        Some(&(at, hash)) if at == index => Key { name: &args[index], hash },
        _ => cx.key(args, index),
    }
}

fn mget(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.array(args.len() - 1);
    for index in 1..args.len() {
        let key = nth_key(cx, args, index - 1, index);
        // Other types are nil here, not an error.
        if reply_key(cx, key).is_err() {
            cx.reply.null();
        }
    }
    Ok(())
}

fn mset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    whole_pairs(cx, args)?;
    set_all(cx, args, 1, args.len(), Ttl::Clear);
    cx.reply.ok();
    Ok(())
}

fn msetnx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    whole_pairs(cx, args)?;
    let all_missing = all_are(cx, args, 1, args.len(), false);
    if all_missing {
        set_all(cx, args, 1, args.len(), Ttl::Clear);
    }
    cx.reply.int(i64::from(all_missing));
    Ok(())
}

/// Checks that the pairs are complete: the arity only ensures one.
fn whole_pairs(cx: &Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    if args.len() % 2 == 1 { Ok(()) } else { Err(Error::WrongArity(Word::of(cx.command.name))) }
}

/// Returns whether all keys of the pairs from `first` up to `end` exist, or all are missing. The first that does not
/// fit decides.
fn all_are(cx: &mut Context<'_>, args: &Args<'_>, first: usize, end: usize, existing: bool) -> bool {
    (first..end).step_by(2).enumerate().all(|(n, index)| {
        let key = nth_key(cx, args, n, index);
        cx.keys.edit(key).exists() == existing
    })
}

/// Sets the pairs from `first` up to `end`.
fn set_all(cx: &mut Context<'_>, args: &mut Args<'_>, first: usize, end: usize, ttl: Ttl) {
    for (n, index) in (first..end).step_by(2).enumerate() {
        let value = args.take(index + 1);
        let key = nth_key(cx, args, n, index);
        let mut edit = cx.keys.edit(key);
        edit.set_string(NewString::encode(value), ttl);
        if let Ttl::At(_) = ttl {
            edit.event(EventClass::STRING, "set");
            edit.commit(EventClass::GENERIC, "expire");
        } else {
            edit.commit(EventClass::STRING, "set");
        }
    }
}

/// The conditions of MSETEX.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    AllMissing,
    AllExist,
}

fn msetex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let pairs = args.int(1).ok().and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0).ok_or(Error::InvalidNumkeys)?;
    let pairs = pairs as usize;
    let end = pairs.checked_mul(2).and_then(|words| words.checked_add(2)).filter(|end| *end <= args.len());
    let end = end.ok_or(Error::Syntax)?;
    let (mut condition, mut lifetime) = (None, Lifetime::default());
    let mut index = end;
    while index < args.len() {
        let given = match () {
            () if args.is(index, "nx") => Some(Condition::AllMissing),
            () if args.is(index, "xx") => Some(Condition::AllExist),
            () => None,
        };
        if given.is_some() {
            if condition.is_some() && condition != given {
                return Err(Error::Syntax);
            }
            condition = given;
            index += 1;
        } else {
            index += lifetime.accept(args, index, Lifetime::Keep).ok_or(Error::Syntax)?;
        }
    }
    let expiry = lifetime.expiry(cx, args)?;
    let holds = match condition {
        None => true,
        Some(Condition::AllMissing) => all_are(cx, args, 2, end, false),
        Some(Condition::AllExist) => all_are(cx, args, 2, end, true),
    };
    if holds {
        if let Some(at) = expiry.filter(|_| !lifetime.is_absolute_ms() && cx.engine.has_log()) {
            cx.keys.effects.rare().logged = Logged::As(vec![logged_msetex(args, end, at)]);
        }
        set_all(cx, args, 2, end, lifetime.ttl(expiry));
    }
    cx.reply.int(i64::from(holds));
    Ok(())
}

/// Returns MSETEX with an absolute expiry and without its condition, which held.
fn logged_msetex(args: &Args<'_>, end: usize, expiry: UnixMs) -> Record {
    let mut record: Record = args.iter().take(end).map(<[u8]>::to_vec).collect();
    record.extend(pxat(expiry));
    record
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn many_keys() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("MSET a 1 b 2 a 3", "+OK"),
            ("MGET a none b a", "[3 nil 2 3]"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
            ("MSETNX c 1 b 2", ":0"),
            ("MSETNX c 1 c 2", ":1"),
            ("ZADD z 1 m", ":1"),
            ("MGET z c", "[nil 2]"),
        ] {
            client.is(command, reply);
        }
        assert_eq!(client.events()[..5], ["0 new a", "0 set a", "0 new b", "0 set b", "0 set a"]);
    }

    #[test]
    fn msetex() {
        let mut client = Client::new();
        let log = client.log();
        for (command, reply) in [
            ("MSETEX 0 a b", "-ERR invalid numkeys value or out of range"),
            ("MSETEX x a b", "-ERR invalid numkeys value or out of range"),
            ("MSETEX 2147483648 a b", "-ERR invalid numkeys value or out of range"),
            ("MSETEX 2147483647 a b", "-ERR syntax error"),
            ("MSETEX 2 a b", "-ERR syntax error"),
            ("MSETEX 1 a b c", "-ERR syntax error"),
            ("MSETEX 1 a b NX XX", "-ERR syntax error"),
            ("MSETEX 1 a b EX 1 KEEPTTL", "-ERR syntax error"),
            ("MSETEX 1 a b EX 0", "-ERR invalid expire time in 'msetex' command"),
            ("MSETEX 2 a 1 b 2 XX", ":0"),
            ("MSETEX 2 a 1 b 2 NX EX 1", ":1"),
            ("MSETEX 2 b 1 c 2 NX", ":0"),
            ("MSETEX 2 b 3 c 4 XX", ":0"),
            ("MSETEX 1 a 3 KEEPTTL", ":1"),
            ("MSETEX 1 b 3", ":1"),
            ("MGET a b c", "[3 3 nil]"),
        ] {
            client.is(command, reply);
        }
        client.later(1000).is("MGET a b", "[nil 3]");
        let first = log.take().swap_remove(0).1.join(&b' ');
        assert_eq!(String::from_utf8_lossy(&first), "MSETEX 2 a 1 b 2 PXAT 1700000001000");
    }
}
