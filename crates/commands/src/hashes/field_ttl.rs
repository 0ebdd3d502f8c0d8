//! The expiry of fields: HEXPIRE and its kin set it, HTTL and its kin reply it, HPERSIST removes it; HSETEX and HGETEX
//! do so while they write and read.
//!
//! An expiry in the past removes the field at once, as if it had expired by then. The change log gets absolute
//! milliseconds and removals, so that a replay at another time means the same. The expiry of fields by themselves is in
//! `crates/engine/src/expiry/`.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::hashes::hash::{commit_removal, now, reply_item, reserve};
use crate::keys::expire::Conditions;
use crate::keys::expire_option::Lifetime;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::propagation::effects::Record;
use engine::time::UnixMs;
use structures::hash::{FieldTtl, Hash, Written};

const HASH: Command = Command { group: Group::Hash, ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[
    Command {
        name: "hexpire",
        since: "9.0.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key seconds:int [condition: NX | XX | GT | LT] (FIELDS fields: numfields:int field...)",
        summary: "Sets expiry time on hash fields.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hexpire,
        ..HASH
    },
    Command {
        name: "hexpireat",
        since: "9.0.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key unix-time-seconds:int [condition: NX | XX | GT | LT]@9.0.0 (FIELDS fields: numfields:int0 field...)",
        summary: "Sets expiry time on hash fields.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hexpireat,
        ..HASH
    },
    Command {
        name: "hexpiretime",
        since: "9.0.0",
        arity: -5,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Returns Unix timestamps in seconds since the epoch at which the given key's field(s) will expire.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hexpiretime,
        ..HASH
    },
    Command {
        name: "hpersist",
        since: "9.0.0",
        arity: -5,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Remove the existing expiration on a hash key's field(s).",
        complexity: "O(N) where N is the number of specified fields.",
        run: hpersist,
        ..HASH
    },
    Command {
        name: "hpexpire",
        since: "9.0.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key milliseconds:int [condition: NX | XX | GT | LT]@9.0.0 (FIELDS fields: numfields:int0 field...)",
        summary: "Sets expiry time on hash object.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hpexpire,
        ..HASH
    },
    Command {
        name: "hpexpireat",
        since: "9.0.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key unix-time-milliseconds:int [condition: NX | XX | GT | LT]@9.0.0 (FIELDS fields: numfields:int0 field...)",
        summary: "Sets expiration time on hash field.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hpexpireat,
        ..HASH
    },
    Command {
        name: "hpexpiretime",
        since: "9.0.0",
        arity: -5,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Returns the Unix timestamp in milliseconds since Unix epoch at which the given key's field(s) will expire.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hpexpiretime,
        ..HASH
    },
    Command {
        name: "hpttl",
        since: "9.0.0",
        arity: -5,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Returns the remaining time to live in milliseconds of a hash key's field(s) that have an associated expiration.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hpttl,
        ..HASH
    },
    Command {
        name: "httl",
        since: "9.0.0",
        arity: -5,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key (FIELDS fields: numfields:int0 field...)",
        summary: "Returns the remaining time to live (in seconds) of a hash key's field(s) that have an associated expiration.",
        complexity: "O(N) where N is the number of specified fields.",
        run: httl,
        ..HASH
    },
    Command {
        name: "hgetex",
        since: "9.0.0",
        arity: -5,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().update()],
        syntax: "key [expiration: EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | PXAT unix-time-milliseconds:time | PERSIST] (FIELDS fields: numfields:int0 field...)",
        summary: "Gets the value of one or more fields of a given hash key, and optionally sets their expiration time or time-to-live (TTL).",
        complexity: "O(N) where N is the number of specified fields.",
        run: hgetex,
        ..HASH
    },
    Command {
        name: "hsetex",
        since: "9.0.0",
        arity: -6,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key [key-condition: NX | XX] [fields-condition: FNX | FXX] [expiration: EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | PXAT unix-time-milliseconds:time | KEEPTTL] (FIELDS fields: numfields:int0 (data: field value)...)",
        summary: "Sets the value of one or more fields of a given hash key, and optionally sets their expiration time.",
        complexity: "O(N) where N is the number of specified fields.",
        run: hsetex,
        ..HASH
    },
];

const SECOND: i64 = 1000;
const MILLISECOND: i64 = 1;

/// Replies for a field whose expiry was to be changed.
const MISSING: i64 = -2;
const HAS_NONE: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// Returns the index of the word FIELDS, from `from` on, if an argument follows it.
fn fields_word(args: &Args<'_>, from: usize) -> Option<usize> {
    (from..args.len().saturating_sub(1)).find(|index| args.is(*index, "fields"))
}

/// Returns the index of the first field: `numfields` stands at `index` and states how many groups of `size` arguments
/// follow.
fn first_field(args: &Args<'_>, index: usize, size: usize) -> Result<usize, Error> {
    let (told, given) = (args.int(index)?, args.len() - index - 1);
    let right = given > 0 && usize::try_from(told).is_ok_and(|told| told.checked_mul(size) == Some(given));
    if right { Ok(index + 1) } else { Err(Error::FieldCountMismatch) }
}

fn hexpire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    set_expiries(cx, args, SECOND, now)
}

fn hpexpire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    set_expiries(cx, args, MILLISECOND, now)
}

fn hexpireat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_expiries(cx, args, SECOND, UnixMs(0))
}

fn hpexpireat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_expiries(cx, args, MILLISECOND, UnixMs(0))
}

/// Sets expiries. `base`: the time that the number counts from.
fn set_expiries(cx: &mut Context<'_>, args: &Args<'_>, unit: i64, base: UnixMs) -> Result<(), Error> {
    let word = fields_word(args, 3).ok_or(Error::FieldCountMismatch)?;
    let conditions = Conditions::parse(args, 3..word)?;
    let first = first_field(args, word + 1, 1)?;
    let invalid = || Error::InvalidExpire(cx.command.name);
    let number = args.int(2)?;
    let expiry = number.checked_mul(unit).and_then(|ms| ms.checked_add(base.0)).map(UnixMs).ok_or_else(invalid)?;
    if number < 0 {
        return Err(invalid());
    }
    let (key, now, over) = (cx.key(args, 1), now(cx), cx.keys.is_over(expiry));
    let mut edit = cx.keys.edit(key);
    let missing = edit.collection::<Hash>()?.is_none();
    cx.reply.array(args.len() - first);
    if missing {
        args.from(first).for_each(|_| cx.reply.int(MISSING));
        return Ok(());
    }
    let mut changed: Vec<&[u8]> = Vec::new();
    edit.with(|hash: &mut Hash| {
        for field in args.from(first) {
            let result = match hash.view().find(field, now) {
                None => MISSING,
                Some((_, present)) if !conditions.allow(present.map(|at| UnixMs(at as i64)), expiry) => REFUSED,
                Some(_) if over => {
                    hash.remove(field, now);
                    REMOVED
                }
                Some(_) => {
                    hash.set_expiry(field, Some(expiry.0.max(0) as u64));
                    DONE
                }
            };
            if result > REFUSED {
                changed.push(field);
            }
            cx.reply.int(result);
        }
    })?;
    if changed.is_empty() {
        edit.unchanged();
    } else if over {
        edit.count_expired_elements(changed.len());
        edit.log_as(|| vec![removal(key.name, &changed)]);
        commit_removal(edit, changed.len() as u64, "hexpired");
    } else {
        // A reader of the log hides no field that has expired here, so only the changed fields are named.
        edit.log_as(|| vec![with_fields(&[b"HPEXPIREAT", key.name, expiry.0.to_string().as_bytes()], &changed)]);
        edit.commit_many(changed.len() as u64, EventClass::HASH, "hexpire");
    }
    Ok(())
}

fn removal(key: &[u8], fields: &[&[u8]]) -> Record {
    [b"HDEL", key].into_iter().chain(fields.iter().copied()).map(<[u8]>::to_vec).collect()
}

/// Returns `words... FIELDS n field...`.
fn with_fields(words: &[&[u8]], fields: &[&[u8]]) -> Record {
    let count = fields.len().to_string();
    let words = words.iter().copied().chain([&b"FIELDS"[..], count.as_bytes()]);
    words.chain(fields.iter().copied()).map(<[u8]>::to_vec).collect()
}

fn httl(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms().0;
    tell_expiries(cx, args, |at| (at.saturating_sub(now).max(0).saturating_add(SECOND / 2)) / SECOND)
}

fn hpttl(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms().0;
    tell_expiries(cx, args, |at| at.saturating_sub(now).max(0))
}

fn hexpiretime(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    tell_expiries(cx, args, |at| at.saturating_add(SECOND / 2) / SECOND)
}

fn hpexpiretime(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    tell_expiries(cx, args, |at| at)
}

/// Replies each field's expiry, put in another form.
fn tell_expiries(cx: &mut Context<'_>, args: &Args<'_>, form: impl Fn(i64) -> i64) -> Result<(), Error> {
    let now = now(cx);
    if !args.is(2, "fields") {
        return Err(Error::Syntax);
    }
    let first = first_field(args, 3, 1)
        .map_err(|error| if error == Error::FieldCountMismatch { Error::Syntax } else { error })?;
    let hash = cx.keys.collection::<Hash>(cx.key(args, 1))?;
    cx.reply.array(args.len() - first);
    for field in args.from(first) {
        cx.reply.int(match hash.and_then(|hash| hash.find(field, now)) {
            None => MISSING,
            Some((_, None)) => HAS_NONE,
            Some((_, Some(at))) => form(i64::try_from(at).unwrap_or(i64::MAX)),
        });
    }
    Ok(())
}

fn hpersist(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if !args.is(2, "fields") {
        return Err(Error::Syntax);
    }
    let (first, now, key) = (first_field(args, 3, 1)?, now(cx), cx.key(args, 1));
    let mut edit = cx.keys.edit(key);
    let missing = edit.collection::<Hash>()?.is_none();
    cx.reply.array(args.len() - first);
    if missing {
        args.from(first).for_each(|_| cx.reply.int(MISSING));
        return Ok(());
    }
    let mut changed: Vec<&[u8]> = Vec::new();
    edit.with(|hash: &mut Hash| {
        for field in args.from(first) {
            cx.reply.int(match hash.view().find(field, now) {
                None => MISSING,
                Some((_, None)) => HAS_NONE,
                Some((_, Some(_))) => {
                    hash.set_expiry(field, None);
                    changed.push(field);
                    DONE
                }
            });
        }
    })?;
    if changed.is_empty() {
        edit.unchanged();
    } else {
        edit.log_as(|| vec![with_fields(&[b"HPERSIST", key.name], &changed)]);
        edit.commit_many(changed.len() as u64, EventClass::HASH, "hpersist");
    }
    Ok(())
}

/// The options of HSETEX and HGETEX before FIELDS.
#[derive(Default)]
struct Options {
    lifetime: Lifetime,
    /// Only if the key is there, or is not.
    key_present: Option<bool>,
    /// Only if all fields are there, or none is.
    fields_present: Option<bool>,
}

impl Options {
    /// Parses the options up to the word FIELDS at `end`.
    fn parse(args: &Args<'_>, end: usize, extra: Lifetime) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut index = 2;
        while index < end {
            let writes = extra == Lifetime::Keep;
            let condition = match args[index].to_ascii_lowercase().as_slice() {
                b"nx" if writes => Some((&mut options.key_present, false)),
                b"xx" if writes => Some((&mut options.key_present, true)),
                b"fnx" if writes => Some((&mut options.fields_present, false)),
                b"fxx" if writes => Some((&mut options.fields_present, true)),
                _ => None,
            };
            index += match condition {
                Some((said, wanted)) if said.is_none_or(|before| before == wanted) => {
                    *said = Some(wanted);
                    1
                }
                Some(_) => return Err(Error::Syntax),
                None => options.lifetime.accept(args, index, extra).ok_or(Error::Syntax)?,
            };
        }
        // The key itself may have that name, and then there are no options.
        if index > end.max(2) { Err(Error::Syntax) } else { Ok(options) }
    }
}

fn hsetex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let word = fields_word(args, 1).ok_or(Error::FieldCountMismatch)?;
    let options = Options::parse(args, word, Lifetime::Keep)?;
    let first = first_field(args, word + 1, 2)?;
    let (limits, now, key) = (cx.engine.encoding_limits().hash(), now(cx), cx.key(args, 1));
    let present = cx.keys.edit(key).collection::<Hash>()?.is_some();
    if options.key_present.is_some_and(|wanted| wanted != present) {
        cx.reply.int(REFUSED);
        return Ok(());
    }
    let expiry = options.lifetime.expiry_or_past(cx, args)?;
    let fields = || (first..args.len()).step_by(2).map(|index| &args[index]);
    let mut edit = cx.keys.edit(key);
    let hash = edit.collection::<Hash>()?;
    let there = |field: &[u8]| hash.is_some_and(|hash| hash.contains(field, now));
    if options.fields_present.is_some_and(|wanted| fields().any(|field| there(field) != wanted)) {
        cx.reply.int(REFUSED);
        return Ok(());
    }
    cx.reply.int(DONE);
    if expiry.is_some_and(|at| edit.is_past(at)) {
        // The pairs have expired before they are written, and the fields' old values are removed.
        let removed: Vec<&[u8]> = if present {
            edit.with(|hash: &mut Hash| fields().filter(|field| hash.remove(field, 0)).collect())?
        } else {
            Vec::new()
        };
        edit.count_expired_elements((args.len() - first) / 2);
        ["hset", "hexpire"].into_iter().for_each(|event| edit.event(EventClass::HASH, event));
        edit.log_as(|| vec![removal(key.name, &removed)]);
        commit_removal(edit, removed.len() as u64, "hexpired");
        return Ok(());
    }
    let ttl = match (options.lifetime, expiry) {
        (_, Some(at)) => FieldTtl::At(at.0.max(0) as u64),
        (Lifetime::Keep, None) => FieldTtl::Keep,
        _ => FieldTtl::Clear,
    };
    let mut overdue: Vec<&[u8]> = Vec::new();
    edit.with(|hash: &mut Hash| {
        reserve(hash, args, first, limits);
        for index in (first..args.len()).step_by(2) {
            if hash.set(&args[index], &args[index + 1], ttl, now, limits) == Written::AddedOverDue {
                overdue.push(&args[index]);
            }
        }
    })?;
    edit.elements_expired(overdue.len());
    edit.log_as(|| {
        // A key named FIELDS is that word, too, which is not repeated.
        let mut words: Vec<&[u8]> = [&b"HSETEX"[..], key.name].into_iter().take(word.min(2)).collect();
        let at = expiry.map(|at| at.0.to_string());
        match &at {
            Some(at) => words.extend([b"PXAT", at.as_bytes()]),
            None if ttl == FieldTtl::Keep => words.push(b"KEEPTTL"),
            None => {}
        }
        let written = words.into_iter().chain(args.from(word)).map(<[u8]>::to_vec).collect();
        // The log's reader must not retain an expiry that has passed here.
        let stale = (ttl == FieldTtl::Keep && !overdue.is_empty()).then(|| removal(key.name, &overdue));
        stale.into_iter().chain([written]).collect()
    });
    let changes = (args.len() - first) as u64 / 2;
    if expiry.is_some() {
        edit.event(EventClass::HASH, "hset");
    }
    edit.commit_many(changes, EventClass::HASH, if expiry.is_some() { "hexpire" } else { "hset" });
    Ok(())
}

fn hgetex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let word = fields_word(args, 1).ok_or(Error::FieldCountMismatch)?;
    let options = Options::parse(args, word, Lifetime::Persist)?;
    let first = first_field(args, word + 1, 1)?;
    let (now, key) = (now(cx), cx.key(args, 1));
    let hash = cx.keys.collection::<Hash>(key)?;
    let missing = hash.is_none();
    if options.lifetime == Lifetime::Unsaid {
        cx.reply.array(args.len() - first);
        for field in args.from(first) {
            reply_item(cx.reply, hash.and_then(|hash| hash.get(field, now)));
        }
        return Ok(());
    }
    let expiry = options.lifetime.expiry_or_past(cx, args)?;
    cx.reply.array(args.len() - first);
    if missing {
        args.from(first).for_each(|_| cx.reply.null());
        return Ok(());
    }
    let over = expiry.is_some_and(|at| cx.keys.is_over(at));
    let mut edit = cx.keys.edit(key);
    let mut changed: Vec<&[u8]> = Vec::new();
    edit.with(|hash: &mut Hash| {
        for field in args.from(first) {
            let found = hash.view().find(field, now);
            reply_item(cx.reply, found.map(|(value, _)| value));
            let Some(present) = found.map(|(_, expiry)| expiry) else { continue };
            match expiry {
                Some(_) if over => _ = hash.remove(field, now),
                Some(at) => hash.set_expiry(field, Some(at.0.max(0) as u64)),
                None if present.is_some() => hash.set_expiry(field, None),
                None => continue,
            }
            changed.push(field);
        }
    })?;
    let changes = changed.len() as u64;
    match expiry {
        _ if changed.is_empty() => edit.unchanged(),
        Some(_) if over => {
            edit.count_expired_elements(changed.len());
            edit.log_as(|| vec![removal(key.name, &changed)]);
            commit_removal(edit, changes, "hexpired");
        }
        Some(at) => {
            edit.log_as(|| vec![with_fields(&[b"HPEXPIREAT", key.name, at.0.to_string().as_bytes()], &changed)]);
            edit.commit_many(changes, EventClass::HASH, "hexpire");
        }
        None => {
            edit.log_as(|| vec![with_fields(&[b"HPERSIST", key.name], &changed)]);
            edit.commit_many(changes, EventClass::HASH, "hpersist");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    fn log_of(client: &Client) -> impl Fn() -> Vec<String> + use<> {
        let log = client.log();
        move || {
            let text = |record: &Vec<Vec<u8>>| String::from_utf8(record.join(&b' ')).expect("test data is text");
            log.take().iter().map(|(_, record)| text(record)).collect()
        }
    }

    fn sweep(client: &Client) {
        let server = engine::host::threads::Server { worker: 0, now_us: client.now().unix_us };
        while client.engine().expire_due(0..client.engine().locks().len(), server, 1000) {}
    }

    #[test]
    fn a_field_is_not_seen_when_its_time_has_come() {
        let mut client = Client::new();
        client.is("HSET h a 1 b 2 c 3", ":3").is("HPEXPIRE h 100 FIELDS 2 a b", "[:1 :1]").later(99);
        client.is("HPTTL h FIELDS 3 a c d", "[:1 :-1 :-2]").is("HGET h a", "1").later(1);
        client.is("HGET h a", "nil").is("HMGET h a b c", "[nil nil 3]").is("HEXISTS h a", ":0").is("HSTRLEN h a", ":0");
        client.is("HGETALL h", "[c 3]").is("HKEYS h", "[c]").is("HVALS h", "[3]").is("HSCAN h 0", "[0 [c 3]]");
        client.is("HRANDFIELD h 5", "[c]").is("HRANDFIELD h", "c").is("HTTL h FIELDS 1 a", "[:-2]");
        client.is("HDEL h a", ":0").is("HPERSIST h FIELDS 1 a", "[:-2]").is("HEXPIRE h 5 FIELDS 1 a", "[:-2]");
        client.is("HLEN h", ":3");
        sweep(&client);
        client.is("HLEN h", ":1").is("HINCRBY h a 4", ":4").is("HTTL h FIELDS 1 a", "[:-1]");
    }

    #[test]
    fn the_background_removes_fields_and_the_key_with_the_last() {
        let mut client = Client::with_events();
        let log = log_of(&client);
        client.is("HSET h a 1 b 2", ":2").is("HPEXPIRE h 10 FIELDS 1 a", "[:1]").is("HPEXPIRE h 20 FIELDS 1 b", "[:1]");
        client.is("INFO keyspace", "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0,keys_with_volatile_items=1\r\n");
        client.events();
        client.later(10);
        sweep(&client);
        assert_eq!(client.events(), ["0 hexpired h"]);
        client.is("HLEN h", ":1").later(10);
        sweep(&client);
        assert_eq!(client.events(), ["0 hexpired h", "0 del h"]);
        client.is("EXISTS h", ":0").is("DBSIZE", ":0");
        assert_eq!(client.engine().stats().expired_elements, 2);
        assert_eq!(log()[3..], ["HDEL h a", "HDEL h b"]);
    }

    #[test]
    fn many_fields_go_in_bounded_steps() {
        let mut client = Client::new();
        for n in 0..500 {
            client.is(&format!("HSETEX h PX 10 FIELDS 2 f{n} v g{n} v"), ":1");
        }
        client.is("HSET h stays v", ":1").later(10);
        let server = engine::host::threads::Server { worker: 0, now_us: client.now().unix_us };
        assert!(client.engine().expire_due(0..8, server, 100), "more is due than the budget");
        client.is("HLEN h", ":901").is("HGETALL h", "[stays v]");
        sweep(&client);
        client.is("HLEN h", ":1");
    }

    #[test]
    fn the_index_follows_the_key() {
        let mut client = Client::new();
        let volatile = |client: &Client, db: u32| client.engine().summary(db, client.now_ms()).volatile;
        client.is("HSETEX h PX 100 FIELDS 1 a 1", ":1").is("HSET h b 2", ":1").is("RENAME h g", "+OK");
        client.is("COPY g f", ":1").is("MOVE f 1", ":1").is("EXPIRE g 1000", ":1");
        assert_eq!((volatile(&client, 0), volatile(&client, 1)), (1, 1));
        client.is("SWAPDB 0 2", "+OK").select(2).later(100);
        assert_eq!((volatile(&client, 0), volatile(&client, 2)), (0, 1));
        client.is("HGETALL g", "[b 2]");
        sweep(&client);
        client.is("HLEN g", ":1").select(1).is("HLEN f", ":1");
        assert_eq!((volatile(&client, 1), volatile(&client, 2)), (0, 0));
        for end in ["DEL h", "SET h v", "HDEL h a", "HPERSIST h FIELDS 1 a", "HSET h a 2", "FLUSHALL", "RENAME x h"] {
            client.select(0).run("DEL h");
            client.run("HSET x y z");
            client.run("HSETEX h PX 100 FIELDS 1 a 1");
            assert_eq!(volatile(&client, 0), 1);
            client.run(end);
            assert_eq!(volatile(&client, 0), 0, "{end}");
        }
    }

    #[test]
    fn a_log_that_is_read_later_brings_the_same_fields() {
        let mut client = Client::new();
        let log = client.log();
        client.is("HSET h a 1 b 1 c 1", ":3").is("HEXPIRE h 10 FIELDS 2 a b", "[:1 :1]");
        client.later(5000).is("HEXPIRE h 3600 FIELDS 1 a", "[:1]").is("HPERSIST h FIELDS 1 b", "[:1]");
        client.is("HSETEX g PX 10000 FIELDS 1 f 1", ":1").later(5000);
        client.is("HSETEX g KEEPTTL FIELDS 1 f 2", ":1").is("HGETEX h EX 100 FIELDS 1 c", "[1]");
        let mut restarted = Client::new();
        restarted.later(60_000).replay(&log);
        restarted.is("HTTL h FIELDS 3 a b c", "[:3545 :-1 :50]").is("HGETALL h", "[a 1 b 1 c 1]");
        restarted.is("HGET g f", "nil");
        sweep(&restarted);
        restarted.is("EXISTS g h", ":1");
    }

    #[test]
    fn the_source_of_an_import_decides_what_has_expired() {
        let mut client = Client::new();
        client.is("HSETEX h PX 100 FIELDS 2 a 1 b 1", ":1").later(200);
        client.engine().set_importing(true);
        client.is("HGET h a", "nil").session().import_source = true;
        client.is("HGET h a", "1").is("HPEXPIREAT h 1700000000100 FIELDS 1 a", "[:1]").is("HGET h a", "1");
        client.is("HSETEX h KEEPTTL FIELDS 1 b 2", ":1").is("HPEXPIRETIME h FIELDS 1 b", "[:1700000000100]");
        client.session().import_source = false;
        client.is("HMGET h a b", "[nil nil]");
    }

    #[test]
    fn expiries_have_conditions() {
        let mut client = Client::new();
        client.is("HSET h a 1", ":1").is("HEXPIRE h 10 XX FIELDS 1 a", "[:0]").is("HEXPIRE h 10 GT FIELDS 1 a", "[:0]");
        client.is("OBJECT ENCODING h", "listpack").is("HEXPIRE h 10 LT FIELDS 2 a b", "[:1 :-2]");
        client.is("OBJECT ENCODING h", "hashtable").is("HEXPIRE h 20 NX FIELDS 1 a", "[:0]");
        client.is("HEXPIRE h 20 GT FIELDS 1 a", "[:1]").is("HEXPIRE h 5 XX LT FIELDS 1 a", "[:1]");
        client.is("HEXPIRETIME h FIELDS 1 a", "[:1700000005]").is("HPEXPIRETIME h FIELDS 1 a", "[:1700000005000]");
        client.is("HEXPIREAT h 1700000009 FIELDS 1 a", "[:1]").is("HPEXPIREAT h 1700000008600 FIELDS 1 a", "[:1]");
        client
            .is("HTTL h FIELDS 1 a", "[:9]")
            .is("HPERSIST h FIELDS 2 a a", "[:1 :-1]")
            .is("HTTL h FIELDS 1 a", "[:-1]");
        client.is("HEXPIRE no 1 FIELDS 2 a b", "[:-2 :-2]").is("HPERSIST no FIELDS 1 a", "[:-2]");
        let count = "-ERR numfields should be greater than 0 and match the provided number of fields";
        client.is("HEXPIRE h 1 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command");
        client.is("HPEXPIRE h 1 NX FIELDS 2 a", count).is("HPEXPIRE h 1 FOO 1 a b", count);
        client.is("HPEXPIRE h 1 FOO FIELDS 1 a", "-ERR Unsupported option FOO");
        client.is("HPEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time in 'hpexpire' command");
        client.is("HEXPIRE h 9223372036854775 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command");
        client.is("HTTL h FIELDS 2 a", "-ERR syntax error").is("HTTL h FOO 1 a", "-ERR syntax error");
    }

    #[test]
    fn a_expiry_in_the_past_removes_the_field() {
        let mut client = Client::with_events();
        let log = log_of(&client);
        client.is("HSET h a 1 b 2 c 3", ":3").is("HPEXPIRE h 0 FIELDS 2 a no", "[:2 :-2]");
        client
            .is("HSETEX h PXAT 1 FIELDS 2 b 9 x 9", ":1")
            .is("HGETEX h EXAT 1 FIELDS 1 c", "[3]")
            .is("EXISTS h", ":0");
        client.is("HSETEX h PXAT 1 FIELDS 1 a 1", ":1").is("EXISTS h", ":0");
        assert_eq!(log()[1..], ["HDEL h a", "HDEL h b", "HDEL h c"]);
        let events = client.events();
        let expected = "hset hexpired hset hexpire hexpired hexpired del hset hexpire hexpired del";
        let words: Vec<_> = events.iter().filter_map(|event| event.split(' ').nth(1)).skip(1).collect();
        assert_eq!(words.join(" "), expected);
        assert_eq!(client.engine().stats().expired_elements, 5);
    }

    #[test]
    fn setex_writes_under_conditions() {
        let mut client = Client::new();
        let log = log_of(&client);
        client.is("HSETEX h XX FIELDS 1 a 1", ":0").is("HSETEX h FXX FIELDS 1 a 1", ":0");
        client.is("HSETEX h NX FNX EX 10 FIELDS 2 a 1 b 2", ":1").is("HSETEX h NX FIELDS 1 c 1", ":0");
        client.is("HSETEX h FNX FIELDS 2 c 1 a 1", ":0").is("HSETEX h FXX KEEPTTL FIELDS 1 a 5", ":1");
        client.is("HTTL h FIELDS 3 a b c", "[:10 :10 :-2]").is("HSETEX h FIELDS 1 a 6", ":1");
        client.is("HTTL h FIELDS 1 a", "[:-1]").later(10_000);
        client.is("HSETEX h KEEPTTL FIELDS 1 b 7", ":1").is("HTTL h FIELDS 1 b", "[:-1]");
        let expected = [
            "HSETEX h PXAT 1700000010000 FIELDS 2 a 1 b 2",
            "HSETEX h KEEPTTL FIELDS 1 a 5",
            "HSETEX h FIELDS 1 a 6",
            "MULTI",
            "HDEL h b",
            "HSETEX h KEEPTTL FIELDS 1 b 7",
            "EXEC",
        ];
        assert_eq!(log(), expected);
        for line in ["NX XX", "FNX FXX", "EX 1 PX 1", "KEEPTTL EX 1", "EX", "PERSIST", "foo"] {
            client.is(&format!("HSETEX h {line} FIELDS 1 a 1"), "-ERR syntax error");
        }
        client.is("HSETEX h EX -1 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command");
        let count = "-ERR numfields should be greater than 0 and match the provided number of fields";
        client.is("HSETEX fields 1 a 1 b", count).is("HSETEX fields 2 a 1 b 2", ":1").is("HGET fields a", "1");
        client.is("HSETEX h EX 10 FIELDS 2 a 1", count).is("HSETEX h a b c d", count);
    }

    #[test]
    fn getex_changes_expiries_of_what_it_reads() {
        let mut client = Client::with_events();
        let log = log_of(&client);
        client.is("HSET h a 1 b 2", ":2").is("HGETEX h FIELDS 2 a no", "[1 nil]").is("HTTL h FIELDS 1 a", "[:-1]");
        client.is("HGETEX h EX 10 FIELDS 2 a no", "[1 nil]").is("HTTL h FIELDS 1 a", "[:10]");
        client.is("HGETEX h PERSIST FIELDS 2 a b", "[1 2]").is("HTTL h FIELDS 1 a", "[:-1]");
        client.is("HGETEX h PERSIST FIELDS 1 a", "[1]").is("HGETEX no EX 5 FIELDS 1 a", "[nil]");
        assert_eq!(log()[1..], ["HPEXPIREAT h 1700000010000 FIELDS 1 a", "HPERSIST h FIELDS 1 a"]);
        assert_eq!(client.events()[2..], ["0 hexpire h", "0 hpersist h"]);
        client.is("HGETEX h KEEPTTL FIELDS 1 a", "-ERR syntax error");
        client.is("HGETEX h PERSIST EX 1 FIELDS 1 a", "-ERR syntax error");
    }
}
