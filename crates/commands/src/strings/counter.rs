//! Strings as numbers: INCR and its kin.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, WRITE, key};
use crate::core::context::Context;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value::{NewString, Str};
use engine::keyspace::edit::Ttl;
use engine::keyspace::keys::{Key, Keys};
use resp::long_double::LongDouble;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "decr",
        arity: 2,
        syntax: "key",
        summary: "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        run: decr,
        ..COUNTER
    },
    Command {
        name: "decrby",
        arity: 3,
        syntax: "key decrement:int",
        summary: "Decrements the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        run: decrby,
        ..COUNTER
    },
    Command {
        name: "incr",
        arity: 2,
        syntax: "key",
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        run: incr,
        ..COUNTER
    },
    Command {
        name: "incrby",
        arity: 3,
        syntax: "key increment:int",
        summary: "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        run: incrby,
        ..COUNTER
    },
    Command {
        name: "incrbyfloat",
        since: "2.6.0",
        arity: 3,
        syntax: "key increment:double",
        summary: "Increments the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.",
        run: incrbyfloat,
        ..COUNTER
    },
];

/// The common parts of this family's entries.
const COUNTER: Command = Command {
    group: Group::String,
    since: "1.0.0",
    flags: WRITE.and(DENY_OOM).and(FAST),
    keys: &[key(1).rw().access().update()],
    complexity: "O(1)",
    ..Command::DEFAULT
};

fn incr(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, 1)
}

fn decr(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, -1)
}

fn incrby(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let increment = args.int(2)?;
    add(cx, args, increment)
}

fn decrby(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let increment = args.int(2)?.checked_neg().ok_or(Error::DecrementOverflow)?;
    add(cx, args, increment)
}

/// Adds to the integer that the key holds and replies the sum.
fn add(cx: &mut Context<'_>, args: &Args<'_>, increment: i64) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let plus = |old: i64| old.checked_add(increment).ok_or(Error::Overflow);
    let sum = match cx.keys.update_int(key, (EventClass::STRING, "incrby"), plus) {
        Some(sum) => sum?,
        None => add_to_any(&mut cx.keys, key, plus)?,
    };
    cx.reply.int(sum);
    Ok(())
}

/// Adds to the integer of a key in any state, and replies the sum.
#[inline(never)]
fn add_to_any(keys: &mut Keys<'_>, key: Key<'_>, plus: impl Fn(i64) -> Result<i64, Error>) -> Result<i64, Error> {
    let mut edit = keys.edit(key);
    let sum = plus(match edit.string()? {
        None => 0,
        Some(Str::Int(n)) => n,
        Some(Str::Bytes(bytes)) => resp::number::parse_i64(bytes).ok_or(Error::NotAnInteger)?,
    })?;
    edit.set_string(NewString::Int(sum), Ttl::Keep);
    edit.commit(EventClass::STRING, "incrby");
    Ok(sum)
}

fn incrbyfloat(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let parse = |text: &[u8]| LongDouble::parse(text).ok_or(Error::NotAFloat);
    let old = match edit.string()? {
        None => LongDouble::from(0),
        Some(value) => parse(value.bytes(&mut itoa::Buffer::new()))?,
    };
    let sum = old.checked_add(parse(&args[2])?).ok_or(Error::NanOrInfinity)?.to_text();
    // A replay must not depend on how a float is added and printed where the log is read.
    edit.log_as(|| vec![vec![b"SET".to_vec(), key.name.to_vec(), sum.clone().into_bytes(), b"KEEPTTL".to_vec()]]);
    edit.set_string(NewString::Bytes(sum.as_bytes()), Ttl::Keep);
    edit.commit(EventClass::STRING, "incrbyfloat");
    cx.reply.bulk(sum.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn integers() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("INCR k", ":1"),
            ("DECRBY k 10", ":-9"),
            ("INCRBY k -9223372036854775799", ":-9223372036854775808"),
            ("DECR k", "-ERR increment or decrement would overflow"),
            ("DECRBY k -9223372036854775808", "-ERR decrement would overflow"),
            ("INCRBY k 01", "-ERR value is not an integer or out of range"),
            ("SET k 01", "+OK"),
            ("INCR k", "-ERR value is not an integer or out of range"),
            ("ZADD z 1 m", ":1"),
            ("INCRBY z x", "-ERR value is not an integer or out of range"),
        ] {
            client.is(command, reply);
        }
        client.is("INCR z", &format!("-{}", Error::WrongType));
        client.is("INCRBYFLOAT z x", &format!("-{}", Error::WrongType));
        assert_eq!(client.events()[..3], ["0 new k", "0 incrby k", "0 incrby k"]);
    }

    #[test]
    fn integers_keep_the_expiry_and_begin_anew_after_it() {
        let mut client = Client::new();
        client.is("SET k 7 PX 100", "+OK").is("INCR k", ":8").later(99).is("DECRBY k 3", ":5");
        client.is("PTTL k", ":1").later(1).is("INCR k", ":1").is("PTTL k", ":-1");
        client.is("SET k 9223372036854775806", "+OK").is("INCR k", ":9223372036854775807");
        client.is("INCR k", "-ERR increment or decrement would overflow").is("GET k", "9223372036854775807");
    }

    #[test]
    fn integers_that_are_added_to_are_logged_and_counted() {
        let mut client = Client::new();
        let log = client.log();
        client.is("SET k 7", "+OK").is("INCR k", ":8").is("DECRBY k 3", ":5");
        let logged: Vec<_> = log.take().into_iter().map(|(_, words)| words.concat()).collect();
        assert_eq!(logged, [&b"SETk7"[..], b"INCRk", b"DECRBYk3"]);
        assert_eq!(client.engine().stats().dirty, 3);
    }

    #[test]
    fn floats_keep_the_expiry_and_are_logged_as_sums() {
        let mut client = Client::new();
        let log = client.log();
        client.is("SET k 3 PX 100", "+OK").is("INCRBYFLOAT k 0.1", "3.1").is("INCRBYFLOAT k -0.1", "3");
        client.is("INCRBYFLOAT k inf", "-ERR increment would produce NaN or Infinity");
        client.is("INCRBYFLOAT k x", "-ERR value is not a valid float").is("INCR k", ":4");
        client.is("SET s x", "+OK").is("INCRBYFLOAT s 1", "-ERR value is not a valid float");
        client.later(100).is("GET k", "nil");
        let words = ["SET", "k", "3.1", "KEEPTTL"].map(|word| word.as_bytes().to_vec()).to_vec();
        assert_eq!(log.take()[1], (0, words));
    }
}
