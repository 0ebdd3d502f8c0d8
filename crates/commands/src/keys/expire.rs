//! The expiry of keys: EXPIRE and its kin set it, TTL and its kin reply it, PERSIST removes it.
//!
//! The change log always gets absolute milliseconds, so that a replay at another time means the same. An expiry in the
//! past removes the key at once, and the log gets the removal.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::propagation::effects::Record;
use engine::time::UnixMs;
use engine::{Error, Word};
use std::ops::Range;

const SETTER: Command = Command {
    group: Group::Generic,
    arity: -3,
    flags: WRITE.and(FAST),
    categories: &["keyspace"],
    keys: &[key(1).rw().update()],
    complexity: "O(1)",
    ..Command::DEFAULT
};

const GETTER: Command = Command {
    group: Group::Generic,
    arity: 2,
    flags: READONLY.and(FAST),
    categories: &["keyspace"],
    keys: &[key(1).ro().access()],
    syntax: "key",
    complexity: "O(1)",
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "expire",
        since: "1.0.0",
        syntax: "key seconds:int [condition: NX | XX | GT | LT]@7.0.0",
        summary: "Sets the expiration time of a key in seconds.",
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: expire,
        ..SETTER
    },
    Command {
        name: "expireat",
        since: "1.2.0",
        syntax: "key unix-time-seconds:time [condition: NX | XX | GT | LT]@7.0.0",
        summary: "Sets the expiration time of a key to a Unix timestamp.",
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: expireat,
        ..SETTER
    },
    Command {
        name: "pexpire",
        since: "2.6.0",
        syntax: "key milliseconds:int [condition: NX | XX | GT | LT]@7.0.0",
        summary: "Sets the expiration time of a key in milliseconds.",
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: pexpire,
        ..SETTER
    },
    Command {
        name: "pexpireat",
        since: "2.6.0",
        syntax: "key unix-time-milliseconds:time [condition: NX | XX | GT | LT]@7.0.0",
        summary: "Sets the expiration time of a key to a Unix milliseconds timestamp.",
        history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
        run: pexpireat,
        ..SETTER
    },
    Command {
        name: "persist",
        since: "2.2.0",
        arity: 2,
        syntax: "key",
        summary: "Removes the expiration time of a key.",
        run: persist,
        ..SETTER
    },
    Command {
        name: "ttl",
        since: "1.0.0",
        summary: "Returns the expiration time in seconds of a key.",
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "Added the -2 reply.")],
        run: ttl,
        ..GETTER
    },
    Command {
        name: "pttl",
        since: "2.6.0",
        summary: "Returns the expiration time in milliseconds of a key.",
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "Added the -2 reply.")],
        run: pttl,
        ..GETTER
    },
    Command {
        name: "expiretime",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix timestamp.",
        run: expiretime,
        ..GETTER
    },
    Command {
        name: "pexpiretime",
        since: "7.0.0",
        summary: "Returns the expiration time of a key as a Unix milliseconds timestamp.",
        run: pexpiretime,
        ..GETTER
    },
];

fn expire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    set_expiry(cx, args, SECOND, now)
}

fn pexpire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    set_expiry(cx, args, MILLISECOND, now)
}

fn expireat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_expiry(cx, args, SECOND, UnixMs(0))
}

fn pexpireat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_expiry(cx, args, MILLISECOND, UnixMs(0))
}

/// Units in milliseconds.
const SECOND: i64 = 1000;
const MILLISECOND: i64 = 1;

/// Conditions on the present expiry; several may be combined.
#[derive(Clone, Copy, Default)]
pub(crate) struct Conditions {
    missing: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    /// Parses the words at these arguments.
    pub(crate) fn parse(args: &Args<'_>, words: Range<usize>) -> Result<Conditions, Error> {
        let mut conditions = Conditions::default();
        for index in words {
            let flag = match args[index].to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.missing,
                b"xx" => &mut conditions.present,
                b"gt" => &mut conditions.later,
                b"lt" => &mut conditions.earlier,
                _ => return Err(Error::UnsupportedOption(Word::up_to_nul(&args[index]))),
            };
            *flag = true;
        }
        if conditions.missing && (conditions.present || conditions.later || conditions.earlier) {
            return Err(Error::ExpireNxConflict);
        }
        if conditions.later && conditions.earlier {
            return Err(Error::ExpireGtLtConflict);
        }
        Ok(conditions)
    }

    /// Returns whether `new` may replace the present expiry; none is later than any.
    pub(crate) fn allow(self, present: Option<UnixMs>, new: UnixMs) -> bool {
        match present {
            Some(at) => !self.missing && (!self.later || new > at) && (!self.earlier || new < at),
            None => !self.present && !self.later,
        }
    }
}

/// Sets an expiry. `base`: the time that the number counts from.
fn set_expiry(cx: &mut Context<'_>, args: &Args<'_>, unit: i64, base: UnixMs) -> Result<(), Error> {
    let conditions = Conditions::parse(args, 3..args.len())?;
    let number = args.int(2)?;
    let expiry = number.checked_mul(unit).and_then(|ms| ms.checked_add(base.0)).map(UnixMs);
    let expiry = expiry.ok_or_else(|| Error::InvalidExpire(cx.command.name))?;
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    if !edit.exists() || !conditions.allow(edit.expiry(), expiry) {
        cx.reply.int(0);
        return Ok(());
    }
    if edit.is_past(expiry) {
        edit.expire_at_once();
    } else {
        edit.set_expiry(Some(expiry));
        edit.log_as(|| vec![absolute(args, expiry)]);
        edit.commit(EventClass::GENERIC, "expire");
    }
    cx.reply.int(1);
    Ok(())
}

fn absolute(args: &Args<'_>, expiry: UnixMs) -> Record {
    let mut record = vec![b"PEXPIREAT".to_vec(), args[1].to_vec(), expiry.0.to_string().into_bytes()];
    record.extend(args.from(3).map(<[u8]>::to_vec));
    record
}

fn persist(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let had_one = edit.expiry().is_some();
    if had_one {
        edit.set_expiry(None);
        edit.commit(EventClass::GENERIC, "persist");
    }
    cx.reply.int(had_one.into());
    Ok(())
}

fn ttl(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    tell_expiry(cx, args, |at| at.since(now).max(0).saturating_add(SECOND / 2) / SECOND)
}

fn pttl(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms();
    tell_expiry(cx, args, |at| at.since(now).max(0))
}

fn expiretime(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    tell_expiry(cx, args, |at| (at.0.max(0) as u64 + 500).div_euclid(1000) as i64)
}

fn pexpiretime(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    tell_expiry(cx, args, |at| at.0)
}

/// Replies the expiry, put in another form; -1 for a key that has none, -2 for no key.
fn tell_expiry(cx: &mut Context<'_>, args: &Args<'_>, form: impl FnOnce(UnixMs) -> i64) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let answer = match cx.keys.lookup_no_touch(key) {
        Some(entry) => entry.expiry().map_or(-1, |at| form(UnixMs(i64::try_from(at).unwrap_or(i64::MAX)))),
        None => -2,
    };
    cx.reply.int(answer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn expiries_are_set_told_and_taken_away() {
        let mut client = Client::new();
        client.is("TTL a", ":-2").is("SET a 1", "+OK").is("TTL a", ":-1").is("PERSIST a", ":0");
        client.is("EXPIRE a 10", ":1").is("TTL a", ":10").is("PTTL a", ":10000");
        client.is("PEXPIREAT a 1700000020400", ":1").is("EXPIRETIME a", ":1700000020").is("TTL a", ":20");
        client.is("PEXPIRETIME a", ":1700000020400").is("PERSIST a", ":1").is("EXPIRETIME a", ":-1");
        client.is("EXPIRE missing 10", ":0").is("PEXPIREAT a 9223372036854775807", ":1");
        client.is("PEXPIRETIME a", ":9223372036854775807");
    }

    #[test]
    fn a_key_is_gone_when_its_time_has_come() {
        let mut client = Client::new();
        client.is("SET a 1", "+OK").is("PEXPIRE a 100", ":1").later(99).is("PTTL a", ":1");
        client.later(1).is("PTTL a", ":-2").is("EXPIRE a 10", ":0").is("PERSIST a", ":0");
    }

    #[test]
    fn conditions_look_at_the_present_expiry() {
        let mut client = Client::new();
        client.is("SET a 1", "+OK");
        client.is("EXPIRE a 10 XX", ":0").is("EXPIRE a 10 GT", ":0").is("EXPIRE a 10 LT", ":1");
        client.is("EXPIRE a 20 NX", ":0").is("EXPIRE a 10 GT", ":0").is("EXPIRE a 10 LT", ":0");
        client.is("EXPIRE a 11 gt xx", ":1").is("EXPIRE a 10 LT XX", ":1").is("TTL a", ":10");
        client.is("PERSIST a", ":1").is("EXPIRE a 5 LT XX", ":0").is("EXPIRE a 5 NX", ":1");
        let nx = "-ERR NX and XX, GT or LT options at the same time are not compatible";
        client.is("EXPIRE a 5 NX XX", nx).is("EXPIRE a 5 LT GT NX", nx);
        client.is("EXPIRE a 5 GT LT", "-ERR GT and LT options at the same time are not compatible");
        client.is("EXPIRE a x NX foo", "-ERR Unsupported option foo");
        client.is("EXPIRE a x fo\0o", "-ERR Unsupported option fo").is("EXPIRE a x \r\n", "-ERR Unsupported option ");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused_before_the_key_is_looked_at() {
        let mut client = Client::new();
        client.is("EXPIRE a x", "-ERR value is not an integer or out of range");
        client.is("EXPIRE a 9223372036854775", "-ERR invalid expire time in 'expire' command");
        client.is("EXPIRE a -9223372036854776", "-ERR invalid expire time in 'expire' command");
        client.is("PEXPIRE a 9223372036854775807", "-ERR invalid expire time in 'pexpire' command");
        client.is("EXPIREAT a 9223372036854776", "-ERR invalid expire time in 'expireat' command");
    }

    #[test]
    fn a_expiry_in_the_past_removes_the_key() {
        let mut client = Client::with_events();
        let log = client.log();
        client.is("SET a 1", "+OK").events();
        client.is("EXPIRE a -1", ":1").is("EXISTS a", ":0");
        assert_eq!(client.events(), ["0 expired a"]);
        client.is("SET a 1", "+OK").is("EXPIREAT a 0", ":1").is("SET a 1", "+OK").is("EXPIRE a 0 NX", ":1");
        assert_eq!(log.take().len(), 6);
        assert_eq!(client.engine().stats().expired, 3);
    }

    #[test]
    fn the_log_gets_absolute_times() {
        let mut client = Client::new();
        let log = client.log();
        client.is("SET a 1", "+OK").is("EXPIRE a 10 NX", ":1").is("EXPIRE a 0", ":1").is("EXPIRE a 10", ":0");
        let words: Vec<String> = log.take().iter().map(|(_, record)| record.join(&b' ')).map(text).collect();
        assert_eq!(words, ["SET a 1", "PEXPIREAT a 1700000010000 NX", "UNLINK a"]);
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("test data is text")
    }
}
