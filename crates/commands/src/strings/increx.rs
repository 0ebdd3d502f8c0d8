//! INCREX: a counter that stays within bounds, and the expiry that it has from the same moment on.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, WRITE, key};
use crate::core::context::Context;
use crate::keys::expire_option::{Lifetime, pxat};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value::{NewString, Str};
use engine::keyspace::edit::{Edit, Ttl};
use engine::propagation::effects::Record;
use engine::time::UnixMs;
use resp::Reply;
use resp::long_double::LongDouble;
use std::cmp::Ordering;

pub const COMMANDS: &[Command] = &[Command {
    name: "increx",
    group: Group::String,
    since: "8.8.0",
    arity: -2,
    flags: WRITE.and(DENY_OOM).and(FAST),
    keys: &[key(1).rw().access().update()],
    syntax: "key [condition: NX | XX] [increment: BYFLOAT float:double | BYINT integer:int] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [expiration: EX seconds:int | PX milliseconds:int | EXAT unix-time-seconds:time | PXAT unix-time-milliseconds:time | PERSIST] [ENX]",
    summary: "Increments the numeric value of a key by a number and sets its expiration time. Uses 0 as initial value if the key doesn't exist.",
    complexity: "O(1)",
    run: increx,
    ..Command::DEFAULT
}];

/// The parsed arguments, and the indices of numbers.
#[derive(Default)]
struct Options {
    /// The key must exist, or must not.
    exists: Option<bool>,
    /// The argument with the increment, and whether it is a float.
    increment: Option<(usize, bool)>,
    lower: Option<usize>,
    upper: Option<usize>,
    saturate: bool,
    lifetime: Lifetime,
    /// An existing expiry stays.
    only_without_expiry: bool,
}

/// Sets an option that may be given once.
fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Error> {
    if place.replace(value).is_some() { Err(Error::Syntax) } else { Ok(()) }
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        let (mut saturate, mut only_without_expiry) = (None, None);
        let mut at = 2;
        while at < args.len() {
            let is = |word: &str| args.is(at, word);
            let with_number = at + 1 < args.len();
            let mut words = 2;
            match () {
                () if is("byint") && with_number => once(&mut options.increment, (at + 1, false))?,
                () if is("byfloat") && with_number => once(&mut options.increment, (at + 1, true))?,
                () if is("lbound") && with_number => once(&mut options.lower, at + 1)?,
                () if is("ubound") && with_number => once(&mut options.upper, at + 1)?,
                () => {
                    words = 1;
                    match () {
                        () if is("nx") => once(&mut options.exists, false)?,
                        () if is("xx") => once(&mut options.exists, true)?,
                        () if is("saturate") => once(&mut saturate, ())?,
                        () if is("enx") => once(&mut only_without_expiry, ())?,
                        () if options.lifetime != Lifetime::Unsaid => return Err(Error::Syntax),
                        () => words = options.lifetime.accept(args, at, Lifetime::Persist).ok_or(Error::Syntax)?,
                    }
                }
            }
            at += words;
        }
        options.saturate = saturate.is_some();
        options.only_without_expiry = only_without_expiry.is_some();
        match options.lifetime {
            Lifetime::Persist if options.only_without_expiry => Err(Error::Syntax),
            _ => Ok(options),
        }
    }

    /// Returns the increment and the bounds, all integers or all floats.
    fn step(&self, args: &Args<'_>) -> Result<Step, Error> {
        let bound = |at: Option<usize>, what: &'static str| at.map(|at| (at, what));
        let (lower, upper) = (bound(self.lower, "LBOUND"), bound(self.upper, "UBOUND"));
        let increment = self.increment.map(|(at, _)| (at, "Increment"));
        if self.increment.is_none_or(|(_, float)| !float) {
            let number = |named: Option<(usize, &'static str)>, default: i64| match named {
                Some((at, what)) => resp::number::parse_i64(&args[at]).ok_or(Error::NamedNotAnInteger(what)),
                None => Ok(default),
            };
            let by = number(increment, 1)?;
            let (lower, upper) = (number(lower, i64::MIN)?, number(upper, i64::MAX)?);
            return if lower > upper { Err(Error::IncrexBounds) } else { Ok(Step::Int { by, lower, upper }) };
        }
        let number = |named: Option<(usize, &'static str)>, default: LongDouble| match named {
            Some((at, what)) => LongDouble::parse(&args[at]).ok_or(Error::NamedNotAFloat(what)),
            None => Ok(default),
        };
        let by = number(increment, LongDouble::from(1))?;
        if by.is_infinite() {
            return Err(Error::IncrexInfiniteIncrement);
        }
        let (lower, upper) = (number(lower, LongDouble::extreme(true))?, number(upper, LongDouble::extreme(false))?);
        if lower.compare(upper) == Ordering::Greater {
            return Err(Error::IncrexBounds);
        }
        Ok(Step::Float { by, lower, upper })
    }
}

/// The change of a number.
#[derive(Clone, Copy)]
enum Step {
    Int { by: i64, lower: i64, upper: i64 },
    Float { by: LongDouble, lower: LongDouble, upper: LongDouble },
}

#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(LongDouble),
}

impl Number {
    fn reply(self, reply: &mut Reply) {
        match self {
            Number::Int(n) => reply.int(n),
            Number::Float(float) => reply.decimal(&float.to_text()),
        }
    }

    fn text(self) -> String {
        match self {
            Number::Int(n) => n.to_string(),
            Number::Float(float) => float.to_text(),
        }
    }
}

impl Step {
    /// Returns zero, in the numbers that this step counts in.
    fn zero(self) -> Number {
        match self {
            Step::Int { .. } => Number::Int(0),
            Step::Float { .. } => Number::Float(LongDouble::from(0)),
        }
    }

    /// Returns the number that the key holds: 0 if there is no key.
    fn old(self, value: Option<Str<'_>>) -> Result<Number, Error> {
        match (self, value) {
            (_, None) => Ok(self.zero()),
            (Step::Int { .. }, Some(Str::Int(n))) => Ok(Number::Int(n)),
            (Step::Int { .. }, Some(Str::Bytes(bytes))) => {
                resp::number::parse_i64(bytes).map(Number::Int).ok_or(Error::NotAnInteger)
            }
            (Step::Float { .. }, Some(value)) => {
                let float = LongDouble::parse(value.bytes(&mut itoa::Buffer::new())).ok_or(Error::NotAFloat)?;
                if float.is_infinite() { Err(Error::IncrexInfiniteValue) } else { Ok(Number::Float(float)) }
            }
        }
    }

    /// Returns the new number, and the difference from the old. None: it would leave the bounds, and is not to stop at
    /// them.
    fn take(self, old: Number, saturate: bool) -> Result<Option<(Number, Number)>, Error> {
        match (self, old) {
            (Step::Int { by, lower, upper }, Number::Int(old)) => {
                let sum = i128::from(old) + i128::from(by);
                let new = sum.clamp(i128::from(lower), i128::from(upper)) as i64;
                if !saturate && i128::from(new) != sum {
                    return Ok(None);
                }
                let applied = new.checked_sub(old).ok_or(Error::IncrexOverflow)?;
                Ok(Some((Number::Int(new), Number::Int(applied))))
            }
            (Step::Float { by, lower, upper }, Number::Float(old)) => {
                let sum = old.checked_add(by);
                let is_within = |sum: LongDouble| sum.compare(lower).is_ge() && sum.compare(upper).is_le();
                let new = match sum.filter(|sum| is_within(*sum)) {
                    Some(sum) => sum,
                    None if !saturate => return Ok(None),
                    None => {
                        // A sum beyond all numbers is on the side of the increment's sign.
                        let sum = sum.unwrap_or(LongDouble::extreme(by.is_negative()));
                        if sum.compare(lower).is_lt() {
                            lower
                        } else if sum.compare(upper).is_gt() {
                            upper
                        } else {
                            sum
                        }
                    }
                };
                let applied = new.checked_sub(old).ok_or(Error::IncrexInfinite)?;
                Ok(Some((Number::Float(new), Number::Float(applied))))
            }
            // The old number was read for this step.
            _ => Ok(None),
        }
    }
}

fn increx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let step = options.step(args)?;
    let expiry = options.lifetime.expiry(cx, args)?;
    if options.only_without_expiry && expiry.is_none() {
        return Err(Error::EnxAlone);
    }
    let edit = cx.keys.edit(cx.key(args, 1));
    let old = step.old(edit.string()?)?;
    let is_met = options.exists.is_none_or(|exists| exists == edit.exists());
    let taken = if is_met { step.take(old, options.saturate)? } else { None };
    let (new, applied) = taken.unwrap_or((old, step.zero()));
    if taken.is_some() {
        store(edit, &args[1], new, &options, expiry);
    }
    cx.reply.array(2);
    new.reply(cx.reply);
    applied.reply(cx.reply);
    Ok(())
}

/// Makes the key this number, with the expiry of the options. An expiry that has passed removes the key instead.
fn store(mut edit: Edit<'_>, key: &[u8], number: Number, options: &Options, expiry: Option<UnixMs>) {
    let had_expiry = edit.expiry().is_some();
    let ttl = match (options.lifetime, expiry) {
        (_, Some(_)) if options.only_without_expiry && had_expiry => Ttl::Keep,
        (_, Some(at)) if edit.is_past(at) => return edit.expire_at_once(),
        (_, Some(at)) => Ttl::At(at),
        (Lifetime::Persist, None) => Ttl::Clear,
        _ => Ttl::Keep,
    };
    edit.log_as(|| vec![logged(key, number, ttl)]);
    let event = match number {
        Number::Int(n) => {
            edit.set_string(NewString::Int(n), ttl);
            "incrby"
        }
        Number::Float(float) => {
            edit.set_string(NewString::Bytes(float.to_text().as_bytes()), ttl);
            "incrbyfloat"
        }
    };
    let second = match ttl {
        Ttl::At(_) => "expire",
        Ttl::Clear if had_expiry => "persist",
        _ => return edit.commit(EventClass::STRING, event),
    };
    edit.event(EventClass::STRING, event);
    edit.commit(EventClass::GENERIC, second);
}

/// Returns the SET that has the same result whenever it is read.
fn logged(key: &[u8], number: Number, ttl: Ttl) -> Record {
    let mut record = vec![b"SET".to_vec(), key.to_vec(), number.text().into_bytes()];
    match ttl {
        Ttl::Keep => record.push(b"KEEPTTL".to_vec()),
        Ttl::Clear => {}
        Ttl::At(at) => record.extend(pxat(at)),
    }
    record
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    const INT_MAX: &str = "9223372036854775807";

    #[test]
    fn integers_keep_within_bounds() {
        let mut client = Client::new();
        for (command, reply) in [
            ("INCREX k", "[:1 :1]"),
            ("INCREX k BYINT 9", "[:10 :9]"),
            ("INCREX k BYINT 5 UBOUND 12", "[:10 :0]"),
            ("INCREX k LBOUND 0 BYINT 5 UBOUND 12 SATURATE", "[:12 :2]"),
            ("INCREX k BYINT 5 UBOUND 5 SATURATE", "[:5 :-7]"),
            ("INCREX k BYINT -5 LBOUND 20", "[:5 :0]"),
            ("INCREX k BYINT -5 LBOUND 20 SATURATE", "[:20 :15]"),
            ("INCREX k BYINT -9 UBOUND 15", "[:11 :-9]"),
            ("INCREX k NX", "[:11 :0]"),
            ("INCREX none XX", "[:0 :0]"),
            ("INCREX none UBOUND 0", "[:0 :0]"),
            ("EXISTS none", ":0"),
            ("INCREX none LBOUND 5 SATURATE", "[:5 :5]"),
            ("SET k 9223372036854775800", "+OK"),
            ("INCREX k BYINT 9", "[:9223372036854775800 :0]"),
            ("INCREX k BYINT 9 SATURATE", "[:9223372036854775807 :7]"),
            ("INCREX k UBOUND -9223372036854775808 SATURATE", "-ERR applied increment would overflow"),
        ] {
            client.is(command, reply);
        }
        client.is("GET k", INT_MAX).is("INCR none", ":6");
    }

    #[test]
    fn floats_keep_within_bounds() {
        let mut client = Client::new();
        let top = "1.18973149535723176502e4932";
        for (command, reply) in [
            ("INCREX k BYFLOAT 2.5", "[2.5 2.5]"),
            ("INCREX k BYFLOAT 0.1", "[2.6 0.1]"),
            ("INCREX k BYFLOAT 5.5 UBOUND 3", "[2.6 0]"),
            ("INCREX k BYFLOAT 5.5 UBOUND 3 SATURATE", "[3 0.4]"),
            ("INCREX k BYFLOAT -1 UBOUND inf LBOUND -inf", "[2 -1]"),
            ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf", "[2 0]"),
            ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", "-ERR applied increment would be Infinity"),
            ("INCREX k BYFLOAT 1 LBOUND inf", "-ERR LBOUND can't be greater than UBOUND"),
            ("INCREX k NX BYFLOAT 1", "[2 0]"),
            ("INCREX k", "[:3 :1]"),
            ("SET i inf", "+OK"),
            ("INCREX i BYFLOAT 1", "-ERR value cannot be Infinity"),
            ("INCREX i BYFLOAT inf", "-ERR BYFLOAT increment cannot be Infinity"),
            ("INCREX i BYFLOAT x", "-ERR Increment is not a valid float"),
        ] {
            client.is(command, reply);
        }
        client.is(&format!("SET b {top}"), "+OK");
        assert!(client.run(&format!("INCREX b BYFLOAT {top}")).ends_with(" 0]"));
        assert!(client.run(&format!("INCREX b BYFLOAT {top} UBOUND inf SATURATE")).len() > 4932);
        client.is(&format!("INCREX k BYFLOAT -{top} LBOUND -7 SATURATE"), "[-7 -10]");
    }

    #[test]
    fn malformed_options_are_refused_and_change_nothing() {
        let mut client = Client::new();
        client.is("SET k 10 EX 100", "+OK").is("ZADD z 1 m", ":1").is("SET s x", "+OK");
        let syntax = "-ERR syntax error";
        for (command, reply) in [
            ("INCREX k FOO", syntax),
            ("INCREX k BYINT", syntax),
            ("INCREX k BYINT 1 BYFLOAT 1", syntax),
            ("INCREX k UBOUND 1 UBOUND 1", syntax),
            ("INCREX k SATURATE SATURATE", syntax),
            ("INCREX k NX XX", syntax),
            ("INCREX k EX 1 EX 1", syntax),
            ("INCREX k EX 1 PERSIST", syntax),
            ("INCREX k PERSIST ENX", syntax),
            ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
            ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
            ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
            ("INCREX k UBOUND inf", "-ERR UBOUND is not an integer or out of range"),
            ("INCREX k BYFLOAT 1 LBOUND x", "-ERR LBOUND is not a valid float"),
            ("INCREX k LBOUND 2 UBOUND 1", "-ERR LBOUND can't be greater than UBOUND"),
            ("INCREX s", "-ERR value is not an integer or out of range"),
            ("INCREX s BYFLOAT 1", "-ERR value is not a valid float"),
            ("GET k", "10"),
            ("TTL k", ":100"),
        ] {
            client.is(command, reply);
        }
        client.is("INCREX z EXAT 1", &format!("-{}", engine::Error::WrongType));
    }

    #[test]
    fn expiries_are_set_kept_and_taken_away() {
        let mut client = Client::with_events();
        let log = client.log();
        for (command, reply) in [
            ("INCREX k EX 100 ENX", "[:1 :1]"),
            ("INCREX k EX 10 ENX", "[:2 :1]"),
            ("INCREX k UBOUND 2 EX 10", "[:2 :0]"),
            ("TTL k", ":100"),
            ("INCREX k BYFLOAT 0.5", "[2.5 0.5]"),
            ("INCREX k BYFLOAT 0.5 PERSIST", "[3 0.5]"),
            ("TTL k", ":-1"),
            ("INCREX k PERSIST", "[:4 :1]"),
            ("INCREX k EXAT 1", "[:5 :1]"),
            ("INCREX k PXAT 1", "[:1 :1]"),
            ("EXISTS k", ":0"),
        ] {
            client.is(command, reply);
        }
        let logged: Vec<_> = log.take().into_iter().map(|(_, words)| words.join(&b' ')).collect();
        let logged: Vec<_> = logged.iter().map(|line| String::from_utf8_lossy(line)).collect();
        let at = "SET k 1 PXAT 1700000100000";
        assert_eq!(logged, [at, "SET k 2 KEEPTTL", "SET k 2.5 KEEPTTL", "SET k 3", "SET k 4", "UNLINK k"]);
        let events =
            ["new", "incrby", "expire", "incrby", "incrbyfloat", "incrbyfloat", "persist", "incrby", "expired"];
        assert_eq!(client.events(), events.map(|event| format!("0 {event} k")));
    }
}
