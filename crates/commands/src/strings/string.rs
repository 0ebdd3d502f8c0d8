//! Strings as values: GET, SET and their kin. Commands on a part of a string are in `substring.rs`.

use crate::core::args::{Arg, Args};
use crate::core::command::{Command, DENY_OOM, FAST, Group, KeyFlags, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::keys::expire_option::{ExpireOption, Lifetime, pxat};
use crate::strings::compare::Comparison;
use engine::config::Directive;
use engine::data::event_class::EventClass;
use engine::data::value::{NewString, Str};
use engine::keyspace::edit::{Edit, Ttl};
use engine::keyspace::keys::Key;
use engine::propagation::effects::Record;
use engine::{Engine, Error};
use resp::Reply;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        group: Group::String,
        since: "1.0.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns the string value of a key.",
        complexity: "O(1)",
        run: get,
        ..Command::DEFAULT
    },
    Command {
        name: "getdel",
        group: Group::String,
        since: "6.2.0",
        arity: 2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete()],
        syntax: "key",
        summary: "Returns the string value of a key after deleting the key.",
        complexity: "O(1)",
        run: getdel,
        ..Command::DEFAULT
    },
    Command {
        name: "getex",
        group: Group::String,
        since: "6.2.0",
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().update().notes("RW and UPDATE because it changes the TTL")],
        syntax: "key [expiration: EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | PXAT unix-time-milliseconds:time | PERSIST]",
        summary: "Returns the string value of a key after setting its expiration time.",
        complexity: "O(1)",
        run: getex,
        ..Command::DEFAULT
    },
    Command {
        name: "getset",
        group: Group::String,
        since: "1.0.0",
        arity: 3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        syntax: "key value",
        summary: "Returns the previous string value of a key after setting it to a new value.",
        complexity: "O(1)",
        run: getset,
        ..Command::DEFAULT
    },
    Command {
        name: "psetex",
        group: Group::String,
        since: "2.6.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update()],
        syntax: "key milliseconds:int value",
        summary: "Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.",
        complexity: "O(1)",
        run: psetex,
        ..Command::DEFAULT
    },
    Command {
        name: "set",
        group: Group::String,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().update().variable().notes("RW and ACCESS due to the optional `GET` argument")],
        syntax: "key value [condition: NX@2.6.12 | XX@2.6.12 | IFEQ comparison-value@8.1.0{Sets the key's value only if the current value matches the specified comparison value.}] [GET]@6.2.0 [expiration: EX seconds:int@2.6.12 | PX milliseconds:int@2.6.12 | EXAT unix-time-seconds:time@6.2.0 | PXAT unix-time-milliseconds:time@6.2.0 | KEEPTTL@6.0.0]",
        summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
        complexity: "O(1)",
        history: &[
            ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
            ("6.0.0", "Added the `KEEPTTL` option."),
            ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
            ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
            ("8.1.0", "Added the `IFEQ` option."),
        ],
        keys_of_call: Some(|args, keys| {
            let says = |words: &[&str]| (3..args.len()).any(|at| words.iter().any(|word| args.is(at, word)));
            let change = match () {
                () if says(&["get"]) => return,
                () if says(&["ifne", "ifdeq", "ifdne"]) => KeyFlags::RW,
                () => KeyFlags::OW,
            };
            keys.iter_mut().for_each(|(_, flags)| *flags = KeyFlags(change.0 | KeyFlags::UPDATE.0));
        }),
        run: set,
        ..Command::DEFAULT
    },
    Command {
        name: "setex",
        group: Group::String,
        since: "2.0.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update()],
        syntax: "key seconds:int value",
        summary: "Sets the string value and expiration time of a key. Creates the key if it doesn't exist.",
        complexity: "O(1)",
        run: setex,
        ..Command::DEFAULT
    },
    Command {
        name: "setnx",
        group: Group::String,
        since: "1.0.0",
        arity: 3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).ow().insert()],
        syntax: "key value",
        summary: "Sets the string value of a key only when the key doesn't exist.",
        complexity: "O(1)",
        run: setnx,
        ..Command::DEFAULT
    },
    Command {
        name: "strlen",
        group: Group::String,
        since: "2.2.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the length of a string value.",
        complexity: "O(1)",
        run: strlen,
        ..Command::DEFAULT
    },
];

/// Replies a string or nil.
#[inline]
pub(crate) fn reply_string(reply: &mut Reply, value: Option<Str<'_>>) {
    match value {
        Some(Str::Bytes(bytes)) => reply.bulk(bytes),
        Some(Str::Int(n)) => reply.bulk_int(n),
        None => reply.null(),
    }
}

fn get(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_key(cx, cx.key(args, 1))
}

/// Replies the key's string, or nil. A long one is not copied where the reply goes out as it is.
///
/// # Errors
/// [`Error::WrongType`]; nothing was replied.
#[inline]
pub(super) fn reply_key(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    match cx.keys.string(key)? {
        Some(Str::Bytes(bytes)) if cx.reply.shares(bytes.len()) && may_share(cx.engine, bytes.len()) => {}
        value => {
            reply_string(cx.reply, value);
            return Ok(());
        }
    }
    match cx.keys.edit_stale(key).shared_string() {
        Some(shared) => cx.reply.shared_bulk(shared),
        None => reply_string(cx.reply, cx.keys.string(key)?),
    }
    Ok(())
}

/// Returns whether replies share strings of this length, as the configuration says.
#[inline(never)]
fn may_share(engine: &Engine, len: usize) -> bool {
    let least = engine.config().snapshot().int(Directive::MIN_STRING_SIZE_AVOID_COPY_REPLY);
    least > 0 && usize::try_from(least).is_ok_and(|least| len >= least)
}

fn strlen(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = cx.keys.string(cx.key(args, 1))?;
    cx.reply.int(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

/// The conditions of SET.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Missing,
    Exists,
    /// The value compares so with the argument at this index.
    Compares(Comparison, usize),
}

#[derive(Default)]
struct SetOptions {
    condition: Option<Condition>,
    get: bool,
    lifetime: Lifetime,
}

impl SetOptions {
    fn parse(args: &Args<'_>) -> Result<SetOptions, Error> {
        let mut options = SetOptions::default();
        let mut index = 3;
        while index < args.len() {
            let condition = if args.is(index, "nx") {
                Some(Condition::Missing)
            } else if args.is(index, "xx") {
                Some(Condition::Exists)
            } else {
                let comparison = Comparison::named(args, index).filter(|_| index + 1 < args.len());
                comparison.map(|comparison| Condition::Compares(comparison, index + 1))
            };
            if condition.is_some() {
                if options.condition.is_some() && options.condition != condition {
                    return Err(Error::Syntax);
                }
                options.condition = condition;
                index += if let Some(Condition::Compares(..)) = condition { 2 } else { 1 };
            } else if args.is(index, "get") {
                options.get = true;
                index += 1;
            } else {
                index += options.lifetime.accept(args, index, Lifetime::Keep).ok_or(Error::Syntax)?;
            }
        }
        Ok(options)
    }
}

fn set(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 {
        return set_as_told(cx, args);
    }
    let value = args.take(2);
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    edit.set_string(NewString::encode(value), Ttl::Clear);
    edit.commit(EventClass::STRING, "set");
    cx.reply.ok();
    Ok(())
}

/// Runs SET with options.
#[inline(never)]
fn set_as_told(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = SetOptions::parse(args)?;
    let expiry = options.lifetime.expiry(cx, args)?;
    let value = args.take(2);
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    if options.get {
        edit.count_read();
        reply_string(cx.reply, edit.string()?);
    }
    let holds = condition_holds(options.condition, &edit, args)?;
    if holds {
        let is_known = !options.get && !matches!(options.condition, Some(Condition::Compares(..)));
        if !is_known {
            edit.log_as(|| vec![logged_set(key.name, &value, options.lifetime)]);
        }
        store(edit, key.name, value, options.lifetime.ttl(expiry), options.lifetime.is_absolute_ms() && is_known);
    }
    match (options.get, holds) {
        (true, _) => {}
        (false, true) => cx.reply.ok(),
        (false, false) => cx.reply.null(),
    }
    Ok(())
}

/// Returns SET without its GET and its condition, which held.
fn logged_set(key: &[u8], value: &[u8], lifetime: Lifetime) -> Record {
    let mut record = vec![b"SET".to_vec(), key.to_vec(), value.to_vec()];
    if lifetime == Lifetime::Keep {
        record.push(b"KEEPTTL".to_vec());
    }
    record
}

/// Makes the key this string and commits. An expiry that has passed removes the key instead. `is_as_said`: the command
/// has the log's form already.
fn store(mut edit: Edit<'_>, key: &[u8], value: Arg<'_>, ttl: Ttl, is_as_said: bool) {
    let Ttl::At(at) = ttl else {
        edit.set_string(NewString::encode(value), ttl);
        return edit.commit(EventClass::STRING, "set");
    };
    if edit.is_past(at) {
        return edit.expire_at_once();
    }
    if !is_as_said {
        edit.log_as(|| vec![[logged_set(key, &value, Lifetime::Unsaid), pxat(at).to_vec()].concat()]);
    }
    edit.set_string(NewString::encode(value), ttl);
    edit.event(EventClass::STRING, "set");
    edit.commit(EventClass::GENERIC, "expire");
}

fn logged_del(key: &[u8]) -> Record {
    vec![b"DEL".to_vec(), key.to_vec()]
}

fn condition_holds(condition: Option<Condition>, edit: &Edit<'_>, args: &Args<'_>) -> Result<bool, Error> {
    Ok(match condition {
        None => true,
        Some(Condition::Missing) => !edit.exists(),
        Some(Condition::Exists) => edit.exists(),
        Some(Condition::Compares(comparison, index)) => comparison.holds(edit.string()?, &args[index])?,
    })
}

fn setex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_with_expiry(cx, args, true)
}

fn psetex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_with_expiry(cx, args, false)
}

fn set_with_expiry(cx: &mut Context<'_>, args: &mut Args<'_>, seconds: bool) -> Result<(), Error> {
    let expiry = ExpireOption::relative(seconds, 2).expiry(cx, args)?;
    let value = args.take(3);
    let key = cx.key(args, 1);
    let edit = cx.keys.edit(key);
    store(edit, key.name, value, Ttl::At(expiry), false);
    cx.reply.ok();
    Ok(())
}

fn setnx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = args.take(2);
    let key = cx.key(args, 1);
    let edit = cx.keys.edit(key);
    let missing = !edit.exists();
    if missing {
        store(edit, key.name, value, Ttl::Clear, false);
    }
    cx.reply.int(i64::from(missing));
    Ok(())
}

fn getset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = args.take(2);
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    edit.count_read();
    reply_string(cx.reply, edit.string()?);
    edit.log_as(|| vec![logged_set(key.name, &value, Lifetime::Unsaid)]);
    store(edit, key.name, value, Ttl::Clear, false);
    Ok(())
}

fn getdel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    edit.count_read();
    reply_string(cx.reply, edit.string()?);
    if edit.remove() {
        edit.log_as(|| vec![logged_del(key.name)]);
        edit.commit(EventClass::GENERIC, "del");
    }
    Ok(())
}

fn getex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut lifetime = Lifetime::default();
    let mut index = 2;
    while index < args.len() {
        index += lifetime.accept(args, index, Lifetime::Persist).ok_or(Error::Syntax)?;
    }
    let expiry = lifetime.expiry(cx, args)?;
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    edit.count_read();
    let Some(value) = edit.string()? else {
        cx.reply.null();
        return Ok(());
    };
    reply_string(cx.reply, Some(value));
    match expiry {
        Some(at) if edit.is_past(at) => edit.expire_at_once(),
        Some(at) => {
            edit.set_expiry(Some(at));
            let digits = || at.0.to_string().into_bytes();
            edit.log_as(|| vec![vec![b"PEXPIREAT".to_vec(), key.name.to_vec(), digits()]]);
            edit.commit(EventClass::GENERIC, "expire");
        }
        None if lifetime == Lifetime::Persist && edit.expiry().is_some() => {
            edit.set_expiry(None);
            edit.log_as(|| vec![vec![b"PERSIST".to_vec(), key.name.to_vec()]]);
            edit.commit(EventClass::GENERIC, "persist");
        }
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn replies_share_the_strings_that_the_configuration_says() {
        let client = Client::new();
        let shares = |least: &str| {
            client.configure("min-string-size-avoid-copy-reply", least);
            [20_000, 40_000].map(|len| may_share(client.engine(), len))
        };
        assert_eq!(["0", "16384", "30000"].map(shares), [[false; 2], [true; 2], [false, true]]);
    }

    #[test]
    fn set_options() {
        let mut client = Client::new();
        for (command, reply) in [
            ("SET k 1 NX NX", "+OK"),
            ("SET k 2 NX", "nil"),
            ("SET k 2 NX GET", "1"),
            ("SET k 2 XX XX GET", "1"),
            ("SET none 2 XX GET", "nil"),
            ("SET k 3 IFEQ 1", "nil"),
            ("SET k 3 IFEQ 2", "+OK"),
            ("SET none 3 IFEQ 2", "nil"),
            ("SET none 3 IFDEQ 1", "nil"),
            ("SET k 3 IFNE 3", "nil"),
            ("SET k test IFNE 4", "+OK"),
            ("SET k 3 IFDNE 9ec9f7918d7dfc40", "nil"),
            ("SET k 3 IFDEQ 9ec9f7918d7dfc4", "-ERR must be exactly 16 hexadecimal characters"),
            ("SET k 3 IFDEQ 9EC9F7918D7DFC40 GET", "test"),
            ("SET new 3 IFDNE 1", "+OK"),
            ("SET k 4 NX XX", "-ERR syntax error"),
            ("SET k 4 IFNE 1 IFEQ 1", "-ERR syntax error"),
            ("SET k 4 IFEQ", "-ERR syntax error"),
            ("SET k 4 IFEQ 3 IFEQ 4", "-ERR syntax error"),
            ("SET k 4 EX 10 PX 10", "-ERR syntax error"),
            ("SET k 4 EX 10 KEEPTTL", "-ERR syntax error"),
            ("SET k 4 KEEPTTL EX 10", "-ERR syntax error"),
            ("SET k 4 EX", "-ERR syntax error"),
            ("SET k 4 PERSIST", "-ERR syntax error"),
            ("SET k 4 EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET k 4 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET k 4 PX x", "-ERR value is not an integer or out of range"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX k -1 v", "-ERR invalid expire time in 'psetex' command"),
            ("SET k 4 EX 1 EX 20", "+OK"),
            ("GET k", "4"),
        ] {
            client.is(command, reply);
        }
        client.later(19_999).is("GET k", "4").later(1).is("GET k", "nil");
    }

    #[test]
    fn expiries_in_the_past_remove_the_key() {
        let mut client = Client::with_events();
        client.is("SET k v EXAT 100", "+OK");
        assert!(client.events().is_empty());
        client.is("SET k v", "+OK").is("SET k v EXAT 100", "+OK").is("STRLEN k", ":0");
        assert_eq!(client.events(), ["0 new k", "0 set k", "0 expired k"]);
        client.is("SET k v", "+OK").is("GETEX k EXAT 100", "v").is("GET k", "nil");
    }

    #[test]
    fn getex_sets_and_takes_away_the_expiry() {
        let mut client = Client::with_events();
        client.is("GETEX none EX x", "-ERR value is not an integer or out of range");
        client.is("GETEX none EX 0", "-ERR invalid expire time in 'getex' command");
        client.is("GETEX none EX 1", "nil").is("GETEX none EX", "-ERR syntax error");
        client.is("SET k v", "+OK").is("GETEX k EX 10", "v").is("GETEX k PERSIST", "v").is("GETEX k PERSIST", "v");
        client.is("GETEX k EX 0", "-ERR invalid expire time in 'getex' command");
        client.is("GETEX k KEEPTTL", "-ERR syntax error").is("GETEX k EX 1 PERSIST", "-ERR syntax error");
        assert_eq!(client.events(), ["0 new k", "0 set k", "0 expire k", "0 persist k"]);
    }

    #[test]
    fn the_log_has_absolute_expiries_and_no_questions() {
        let mut client = Client::new();
        let log = client.log();
        for command in [
            "SET k v EX 10",
            "SET k v NX EX 10 GET",
            "SET k v XX GET KEEPTTL",
            "SETEX k 10 v",
            "GETSET k w",
            "GETEX k PX 5",
            "GETEX k PERSIST",
            "GETEX k",
            "GETDEL k",
            "SET k v",
            "SET k v EXAT 1",
            "APPEND k v",
            "DELIFEQ k x",
            "DELIFEQ k v",
        ] {
            assert!(!client.run(command).starts_with('-'), "{command}");
        }
        let text =
            |record: &Record| record.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        let logged: Vec<String> = log.take().iter().map(|(_, record)| text(record)).collect();
        assert_eq!(
            logged,
            [
                "SET k v PXAT 1700000010000",
                "SET k v KEEPTTL",
                "SET k v PXAT 1700000010000",
                "SET k w",
                "PEXPIREAT k 1700000000005",
                "PERSIST k",
                "DEL k",
                "SET k v",
                "UNLINK k",
                "APPEND k v",
                "DEL k",
            ]
        );
    }

    #[test]
    fn replies_of_old_values_count_as_reads() {
        let mut client = Client::new();
        for command in ["GETSET k v", "SET k v GET", "GETEX k", "GETDEL k", "GETDEL k", "SETNX k v", "SET k v"] {
            assert!(!client.run(command).starts_with('-'), "{command}");
        }
        let stats = client.engine().stats();
        assert_eq!((stats.hits, stats.misses), (3, 2));
    }

    #[test]
    fn other_types_are_refused_or_replaced() {
        let mut client = Client::new();
        let wrong = format!("-{}", Error::WrongType);
        client.is("ZADD z 1 m", ":1");
        for command in [
            "GET z",
            "STRLEN z",
            "GETDEL z",
            "GETEX z",
            "GETSET z v",
            "SET z v GET",
            "SET z v IFEQ v",
            "DELIFEQ z v",
            "APPEND z v",
            "SETRANGE z 0 v",
            "SETRANGE z 0 \"\"",
            "GETRANGE z 0 0",
        ] {
            client.is(command, &wrong);
        }
        client.is("SETNX z v", ":0").is("SET z v", "+OK").is("GET z", "v");
    }
}
