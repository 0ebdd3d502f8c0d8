//! Hashes, field by field: HSET, HGET and their kin, counters, and HGETDEL.
//!
//! Commands that list a hash are in `hgetall.rs`, those that give fields an expiry in `field_ttl.rs`. Writing to a
//! field removes its expiry, except by a command that adds to the value (HINCRBY, HINCRBYFLOAT). If a replay could find
//! a field expired that was not, or the other way round, the change log gets the resulting value.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::keyspace::edit::Edit;
use engine::propagation::logged_words::record;
use engine::{Error, Word};
use resp::Reply;
use resp::long_double::LongDouble;
use structures::hash::{FieldTtl, Hash, Limits, View, Written};
use structures::listpack::Item;

const HASH: Command = Command { group: Group::Hash, ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[
    Command {
        name: "hdel",
        since: "2.0.0",
        arity: -3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        element: 2,
        syntax: "key field...",
        summary: "Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.",
        complexity: "O(N) where N is the number of fields to be removed.",
        history: &[("2.4.0", "Accepts multiple `field` arguments.")],
        run: hdel,
        ..HASH
    },
    Command {
        name: "hexists",
        since: "2.0.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        element: 2,
        syntax: "key field",
        summary: "Determines whether a field exists in a hash.",
        complexity: "O(1)",
        run: hexists,
        ..HASH
    },
    Command {
        name: "hget",
        since: "2.0.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key field",
        summary: "Returns the value of a field in a hash.",
        complexity: "O(1)",
        run: hget,
        ..HASH
    },
    Command {
        name: "hgetdel",
        since: "9.1.0",
        arity: -5,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Returns the values of one or more fields and deletes them from a hash.",
        complexity: "O(N) where N is the number of fields to be retrieved and deleted.",
        run: hgetdel,
        ..HASH
    },
    Command {
        name: "hincrby",
        since: "2.0.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        element: 2,
        syntax: "key field increment:int",
        summary: "Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist.",
        complexity: "O(1)",
        run: hincrby,
        ..HASH
    },
    Command {
        name: "hincrbyfloat",
        since: "2.6.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        element: 2,
        syntax: "key field increment:double",
        summary: "Increments the floating point value of a field by a number. Uses 0 as initial value if the field doesn't exist.",
        complexity: "O(1)",
        run: hincrbyfloat,
        ..HASH
    },
    Command {
        name: "hlen",
        since: "2.0.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the number of fields in a hash.",
        complexity: "O(1)",
        run: hlen,
        ..HASH
    },
    Command {
        name: "hmget",
        since: "2.0.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key field...",
        summary: "Returns the values of all fields in a hash.",
        complexity: "O(N) where N is the number of fields being requested.",
        run: hmget,
        ..HASH
    },
    Command {
        name: "hmset",
        since: "2.0.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().update()],
        element: 2,
        syntax: "key (data: field value)...",
        summary: "Sets the values of multiple fields.",
        complexity: "O(N) where N is the number of fields being set.",
        run: hmset,
        ..HASH
    },
    Command {
        name: "hset",
        since: "2.0.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().update()],
        element: 2,
        syntax: "key (data: field value)...",
        summary: "Creates or modifies the value of a field in a hash.",
        complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.",
        history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
        run: hset,
        ..HASH
    },
    Command {
        name: "hsetnx",
        since: "2.0.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        element: 2,
        syntax: "key field value",
        summary: "Sets the value of a field in a hash only when the field doesn't exist.",
        complexity: "O(1)",
        run: hsetnx,
        ..HASH
    },
    Command {
        name: "hstrlen",
        since: "3.2.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        element: 2,
        syntax: "key field",
        summary: "Returns the length of the value of a field.",
        complexity: "O(1)",
        run: hstrlen,
        ..HASH
    },
];

/// Returns the time by which fields are expired, in the form of hashes.
pub(crate) fn now(cx: &Context<'_>) -> u64 {
    cx.keys.expiry_now().0.max(0) as u64
}

pub(crate) fn reply_item(reply: &mut Reply, item: Option<Item<'_>>) {
    match item {
        Some(Item::Bytes(bytes)) => reply.bulk(bytes),
        Some(Item::Int(n)) => reply.bulk_int(n),
        None => reply.null(),
    }
}

fn hset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let added = set_pairs(cx, args)?;
    cx.reply.int(added);
    Ok(())
}

fn hmset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_pairs(cx, args)?;
    cx.reply.ok();
    Ok(())
}

/// Sets pairs; returns how many fields were added.
fn set_pairs(cx: &mut Context<'_>, args: &Args<'_>) -> Result<i64, Error> {
    if args.len() % 2 == 1 {
        return Err(Error::WrongArity(Word::of(cx.command.name)));
    }
    let (limits, now, yielding) = (cx.engine.encoding_limits().hash(), now(cx), cx.yielding(args.len())?);
    let (key, pairs) = (cx.key(args, 1), args.len() as u64 / 2 - 1);
    let set = |hash: &mut Hash| {
        reserve(hash, args, 2, limits);
        let mut counts = (0, 0);
        for index in yielding.over((2..args.len()).step_by(2)) {
            let written = hash.set(&args[index], &args[index + 1], FieldTtl::Clear, now, limits);
            counts.0 += i64::from(written != Written::Replaced);
            counts.1 += usize::from(written == Written::AddedOverDue);
        }
        counts
    };
    if let Some((added, _)) = cx.keys.update(key, (EventClass::HASH, "hset"), |hash| Some((pairs, set(hash)))) {
        return Ok(added);
    }
    let mut edit = cx.keys.edit(key);
    let (added, expired) = edit.with(set)?;
    edit.elements_expired(expired);
    edit.commit_many(pairs, EventClass::HASH, "hset");
    Ok(added)
}

/// Prepares the hash for the arguments from `first` on.
pub(crate) fn reserve(hash: &mut Hash, args: &Args<'_>, first: usize, limits: Limits) {
    let (longest, total) =
        args.from(first).fold((0, 0), |(longest, total), arg| (arg.len().max(longest), total + arg.len()));
    hash.reserve((args.len() - first) / 2, longest, total, limits);
}

fn hsetnx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (limits, now) = (cx.engine.encoding_limits().hash(), now(cx));
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let hash = edit.collection::<Hash>()?;
    if hash.is_some_and(|hash| hash.contains(&args[2], now)) {
        cx.reply.int(0);
        return Ok(());
    }
    let volatile = hash.is_some_and(|hash| hash.next_expiry().is_some());
    let written = edit.with(|hash: &mut Hash| {
        reserve(hash, args, 2, limits);
        hash.set(&args[2], &args[3], FieldTtl::Clear, now, limits)
    })?;
    edit.elements_expired((written == Written::AddedOverDue).into());
    if volatile {
        edit.log_as(|| vec![record(&[b"HSET", key.name, &args[2], &args[3]])]);
    }
    edit.commit(EventClass::HASH, "hset");
    cx.reply.int(1);
    Ok(())
}

fn hget(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = now(cx);
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    reply_item(cx.reply, hash.and_then(|hash| hash.get(&args[2], now)));
    Ok(())
}

fn hmget(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (now, yielding) = (now(cx), cx.yielding(args.len())?);
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    cx.reply.array(args.len() - 2);
    for field in yielding.over(args.from(2)) {
        reply_item(cx.reply, hash.and_then(|hash| hash.get(field, now)));
    }
    Ok(())
}

fn hexists(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = now(cx);
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    cx.reply.int(hash.is_some_and(|hash| hash.contains(&args[2], now)).into());
    Ok(())
}

/// Replies the number of fields. Expired fields count until they are removed.
fn hlen(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    cx.reply.int(hash.map_or(0, View::len) as i64);
    Ok(())
}

fn hstrlen(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = now(cx);
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    cx.reply.int(hash.and_then(|hash| hash.get(&args[2], now)).map_or(0, Item::len) as i64);
    Ok(())
}

fn hdel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (now, yielding) = (now(cx), cx.yielding(args.len())?);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let hash = edit.collection::<Hash>()?;
    let mut removed = 0;
    if hash.is_some_and(|hash| args.from(2).any(|field| hash.contains(field, now))) {
        let remove = |hash: &mut Hash| yielding.over(args.from(2)).filter(|field| hash.remove(field, now)).count();
        removed = edit.with(remove)?;
        commit_removal(edit, removed as u64, "hdel");
    }
    cx.reply.int(removed as i64);
    Ok(())
}

/// Ends an edit that removed fields: the key may have gone with them.
pub(crate) fn commit_removal(mut edit: Edit<'_>, changes: u64, event: &'static str) {
    if edit.exists() {
        edit.commit_many(changes, EventClass::HASH, event);
    } else {
        edit.event(EventClass::HASH, event);
        edit.commit_many(changes, EventClass::GENERIC, "del");
    }
}

fn hgetdel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if !args.is(2, "fields") {
        return Err(Error::Syntax);
    }
    if args.int(3)? != args.len() as i64 - 4 || args.len() == 4 {
        return Err(Error::FieldCountMismatch);
    }
    let now = now(cx);
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let hash = edit.collection::<Hash>()?;
    cx.reply.array(args.len() - 4);
    if !hash.is_some_and(|hash| args.from(4).any(|field| hash.contains(field, now))) {
        args.from(4).for_each(|_| cx.reply.null());
        return Ok(());
    }
    let mut removed = vec![b"HDEL".to_vec(), key.name.to_vec()];
    edit.with(|hash: &mut Hash| {
        for field in args.from(4) {
            reply_item(cx.reply, hash.view().get(field, now));
            if hash.remove(field, now) {
                removed.push(field.to_vec());
            }
        }
    })?;
    let changes = removed.len() as u64 - 2;
    edit.log_as(|| vec![removed]);
    commit_removal(edit, changes, "hdel");
    Ok(())
}

fn hincrby(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let increment = args.int(3)?;
    let mut sum = 0;
    add(cx, args, "hincrby", |old| {
        let old = match old {
            None => 0,
            Some(Item::Int(n)) => n,
            Some(Item::Bytes(bytes)) => resp::number::parse_i64(bytes).ok_or(Error::HashValueNotAnInteger)?,
        };
        sum = old.checked_add(increment).ok_or(Error::Overflow)?;
        Ok(sum.to_string())
    })?;
    cx.reply.int(sum);
    Ok(())
}

fn hincrbyfloat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if resp::number::parse_f64(&args[3]).is_some_and(|increment| increment.is_infinite() || increment.is_nan()) {
        return Err(Error::NotFinite);
    }
    let increment = LongDouble::parse(&args[3]).ok_or(Error::NotAFloat)?;
    let sum = add(cx, args, "hincrbyfloat", |old| {
        let old = match old {
            None => LongDouble::from(0),
            Some(item) => LongDouble::parse(item.bytes(&mut itoa::Buffer::new())).ok_or(Error::HashValueNotAFloat)?,
        };
        Ok(old.checked_add(increment).ok_or(Error::NanOrInfinity)?.to_text())
    })?;
    cx.reply.bulk(sum.as_bytes());
    Ok(())
}

/// Writes the `sum` with a field's value. The field retains its expiry.
fn add(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    event: &'static str,
    sum: impl FnOnce(Option<Item<'_>>) -> Result<String, Error>,
) -> Result<String, Error> {
    let (limits, now) = (cx.engine.encoding_limits().hash(), now(cx));
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let hash = edit.collection::<Hash>()?;
    let (value, expiry) = hash.and_then(|hash| hash.find(&args[2], now)).unzip();
    let (expiry, volatile) = (expiry.flatten(), hash.is_some_and(|hash| hash.next_expiry().is_some()));
    let text = sum(value)?;
    let written = edit.with(|hash: &mut Hash| hash.set(&args[2], text.as_bytes(), FieldTtl::Keep, now, limits))?;
    edit.elements_expired((written == Written::AddedOverDue).into());
    // A replay must not depend on the addition of floats, nor on whether the field has expired by then.
    if volatile || event == "hincrbyfloat" {
        edit.log_as(|| {
            vec![match expiry {
                None => record(&[b"HSET", key.name, &args[2], text.as_bytes()]),
                Some(at) => {
                    let at = at.to_string();
                    let words: [&[u8]; 8] =
                        [b"HSETEX", key.name, b"PXAT", at.as_bytes(), b"FIELDS", b"1", &args[2], text.as_bytes()];
                    record(&words)
                }
            }]
        });
    }
    edit.commit(EventClass::HASH, event);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_key_with_the_name_of_an_option_is_logged_as_it_was_given() {
        let mut client = Client::new();
        let log = client.log();
        client.is("HSETEX FIELDS 2 a 1 b 2", ":1").is("HSETEX h KEEPTTL FIELDS 1 a 1", ":1");
        let logged: Vec<_> = log.take().iter().map(|(_, words)| words.join(&b' ')).collect();
        assert_eq!(logged, [&b"HSETEX FIELDS 2 a 1 b 2"[..], b"HSETEX h KEEPTTL FIELDS 1 a 1"]);
    }

    #[test]
    fn a_hash_keeps_what_its_key_has_in_every_form() {
        let mut client = Client::new();
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        let long = "v".repeat(60);
        client
            .is("HSET h a 1", ":1")
            .is("EXPIRE h 1000", ":1")
            .is("TYPE h", "+hash")
            .is("OBJECT ENCODING h", "listpack");
        // The hash outgrows its key's block, and returns into it by a copy only.
        for n in 0..30 {
            client.is(&format!("HSET h f{n} {long}"), ":1").is("TTL h", ":1000").is("HLEN h", &format!(":{}", n + 2));
        }
        client.is("OBJECT ENCODING h", "listpack").is("COPY h g", ":1").is("RENAME h i", "+OK");
        for n in 0..30 {
            client.is(&format!("HGET i f{n}"), &long).is(&format!("HDEL g f{n}"), ":1");
        }
        client
            .is("HGETALL g", "[a 1]")
            .is("TTL g", ":1000")
            .is("COPY g e", ":1")
            .is("SADD e x", wrong)
            .is("GET e", wrong);
        client
            .is("HINCRBY e a 4", ":5")
            .is("HGET g a", "1")
            .is("HEXPIRE e 100 FIELDS 1 a", "[:1]")
            .is("TTL e", ":1000");
        client.is("OBJECT ENCODING e", "hashtable").is("HDEL e a", ":1").is("HDEL g a", ":1").is("EXISTS e g", ":0");
    }

    #[test]
    fn fields_come_and_go() {
        let mut client = Client::new();
        client.is("HSET h a 1 b x", ":2").is("HSET h a 2 c 3", ":1").is("HGET h a", "2").is("HGET h no", "nil");
        client.is("HMGET h a no b", "[2 nil x]").is("HMGET no a b", "[nil nil]").is("HLEN h", ":3");
        client.is("HSETNX h a 9", ":0").is("HSETNX h d 4", ":1").is("HEXISTS h d", ":1").is("HEXISTS h e", ":0");
        client.is("HSTRLEN h b", ":1").is("HSTRLEN h e", ":0").is("HMSET h e 12345", "+OK").is("HSTRLEN h e", ":5");
        client.is("HDEL h a no a", ":1").is("HDEL h b c d e", ":4").is("EXISTS h", ":0").is("HDEL h a", ":0");
        client.is("HSET h a", "-ERR wrong number of arguments for 'hset' command");
        client.is("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command").is("EXISTS h", ":0");
        client.is("SET s v", "+OK");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        ["HSET s a 1", "HGET s a", "HDEL s a", "HLEN s", "HSETNX s a 1", "HINCRBY s a 1", "HGETDEL s FIELDS 1 a"]
            .into_iter()
            .for_each(|line| _ = client.is(line, wrong));
    }

    #[test]
    fn the_encoding_follows_the_directives() {
        let mut client = Client::new();
        client.is("HSET h a 1", ":1").is("OBJECT ENCODING h", "listpack");
        client.run(&format!("HSET h b {}", "x".repeat(65)));
        client.is("OBJECT ENCODING h", "hashtable");
        client.is("CONFIG SET hash-max-listpack-entries 2", "+OK").is("HSET g a 1 b 2", ":2");
        client.is("OBJECT ENCODING g", "listpack").is("HINCRBY g c 1", ":1").is("OBJECT ENCODING g", "hashtable");
        client.is("HSET f a 1 a 2 a 3", ":1").is("OBJECT ENCODING f", "hashtable").is("HLEN f", ":1");
    }

    #[test]
    fn counters() {
        let mut client = Client::new();
        let log = client.log();
        client.is("HINCRBY h n 5", ":5").is("HINCRBY h n -7", ":-2").is("HINCRBYFLOAT h n 0.5", "-1.5");
        client.is("HINCRBY h n 1", "-ERR hash value is not an integer");
        client.is("HSET h n 9223372036854775807 s abc", ":1");
        client.is("HINCRBY h n 1", "-ERR increment or decrement would overflow");
        client.is("HINCRBYFLOAT h s 1", "-ERR hash value is not a float");
        client.is("HINCRBYFLOAT h n x", "-ERR value is not a valid float");
        client.is("HINCRBYFLOAT h n -inf", "-ERR value is NaN or Infinity");
        client.is("HEXPIRE h 10 FIELDS 1 n", "[:1]").is("HINCRBYFLOAT h n 1", "9223372036854775808");
        client.is("HTTL h FIELDS 1 n", "[:10]").is("HINCRBY h m 1", ":1");
        let words: Vec<Vec<u8>> = log.take().iter().map(|(_, record)| record.join(&b' ')).collect();
        let words: Vec<&str> = words.iter().map(|words| std::str::from_utf8(words).expect("text")).collect();
        let expected = [
            "HINCRBY h n 5",
            "HINCRBY h n -7",
            "HSET h n -1.5",
            "HSET h n 9223372036854775807 s abc",
            "HPEXPIREAT h 1700000010000 FIELDS 1 n",
            "HSETEX h PXAT 1700000010000 FIELDS 1 n 9223372036854775808",
            "HSET h m 1",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn getdel_takes_fields_away() {
        let mut client = Client::with_events();
        client.is("HSET h a 1 b 2", ":2").is("HGETDEL h FIELDS 3 a no a", "[1 nil nil]");
        client.is("HGETDEL h FIELDS 1 no", "[nil]").is("HGETDEL h FIELDS 1 b", "[2]").is("EXISTS h", ":0");
        assert_eq!(client.events(), ["0 new h", "0 hset h", "0 hdel h", "0 hdel h", "0 del h"]);
        let count = "-ERR numfields should be greater than 0 and match the provided number of fields";
        client.is("HGETDEL h FIELDS 0 a", count).is("HGETDEL h FIELDS -1 a", count).is("HGETDEL h FIELDS 2 a", count);
        client.is("HGETDEL h FOO 1 a", "-ERR syntax error");
        client.is("HGETDEL h FIELDS x a", "-ERR value is not an integer or out of range");
    }
}
