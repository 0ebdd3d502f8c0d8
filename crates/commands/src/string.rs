//! Strings: GET, SET and their kin.

use crate::args::Args;
use crate::cx::Cx;
use crate::expire_option::{ExpireOption, pxat};
use crate::row::{Command, DENY_OOM, FAST, Group, READONLY, ROW, WRITE, key};
use engine::Error;
use engine::edit::{Edit, Ttl};
use engine::effects::{EventClass, Record};
use engine::value::{NewString, Str};
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
        ..ROW
    },
    Command {
        name: "set",
        group: Group::String,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().update().variable().notes("RW and ACCESS due to the optional `GET` argument")],
        syntax: "key value [NX | XX | IFEQ comparison-value] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
        summary: "Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.",
        complexity: "O(1)",
        run: set,
        ..ROW
    },
    Command {
        name: "incr",
        group: Group::String,
        since: "1.0.0",
        arity: 2,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        syntax: "key",
        summary: "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.",
        complexity: "O(1)",
        run: incr,
        ..ROW
    },
];

/// Replies a string or nil.
fn reply_string(reply: &mut Reply, value: Option<Str<'_>>) {
    match value {
        Some(Str::Bytes(bytes)) => reply.bulk(bytes),
        Some(Str::Int(n)) => reply.bulk_int(n),
        None => reply.null(),
    }
}

fn get(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = cx.keys.string(cx.key(args, 1))?;
    reply_string(cx.reply, value);
    Ok(())
}

/// What SET may depend on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Missing,
    Exists,
    /// The value equals the argument at this index.
    Equals(usize),
}

#[derive(Default)]
struct SetOptions {
    condition: Option<Condition>,
    get: bool,
    keep_ttl: bool,
    expire: Option<ExpireOption>,
}

impl SetOptions {
    fn parse(args: &Args<'_>) -> Result<SetOptions, Error> {
        let mut options = SetOptions::default();
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "nx") && options.condition.is_none() {
                options.condition = Some(Condition::Missing);
            } else if args.is(index, "xx") && options.condition.is_none() {
                options.condition = Some(Condition::Exists);
            } else if args.is(index, "ifeq") && options.condition.is_none() && index + 1 < args.len() {
                options.condition = Some(Condition::Equals(index + 1));
                index += 1;
            } else if args.is(index, "get") {
                options.get = true;
            } else if args.is(index, "keepttl") && options.expire.is_none() {
                options.keep_ttl = true;
            } else if !options.keep_ttl && options.expire.is_none() {
                options.expire = Some(ExpireOption::parse(args, index).ok_or(Error::SYNTAX)?);
                index += 1;
            } else {
                return Err(Error::SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }
}

fn set(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = SetOptions::parse(args)?;
    let deadline = options.expire.map(|expire| expire.deadline(cx, args)).transpose()?;
    let value = args.take(2);
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let mut old_replied = false;
    if options.get {
        reply_string(cx.reply, edit.string()?);
        old_replied = true;
    }
    if !condition_holds(options.condition, &edit, args)? {
        if !old_replied {
            cx.reply.null();
        }
        return Ok(());
    }
    match deadline {
        Some(at) if at <= cx.now.unix_ms() => {
            if edit.remove() {
                edit.log_as(|| vec![vec![b"DEL".to_vec(), args[1].to_vec()]]);
                edit.commit(EventClass::GENERIC, "del");
            }
        }
        _ => {
            let ttl = match deadline {
                Some(at) => Ttl::At(at),
                None if options.keep_ttl => Ttl::Keep,
                None => Ttl::Clear,
            };
            if let Some(at) = deadline {
                edit.log_as(|| vec![logged_set(&args[1], &value, at)]);
                edit.event(EventClass::GENERIC, "expire");
            }
            edit.set_string(NewString::encode(value), ttl);
            edit.commit(EventClass::STRING, "set");
        }
    }
    if !old_replied {
        cx.reply.ok();
    }
    Ok(())
}

/// `SET key value PXAT deadline`.
fn logged_set(key: &[u8], value: &[u8], deadline: i64) -> Record {
    let mut record = vec![b"SET".to_vec(), key.to_vec(), value.to_vec()];
    record.extend(pxat(deadline));
    record
}

fn condition_holds(condition: Option<Condition>, edit: &Edit<'_>, args: &Args<'_>) -> Result<bool, Error> {
    Ok(match condition {
        None => true,
        Some(Condition::Missing) => !edit.exists(),
        Some(Condition::Exists) => edit.exists(),
        Some(Condition::Equals(index)) => match edit.string()? {
            Some(value) => value.bytes(&mut itoa::Buffer::new()) == &args[index],
            None => false,
        },
    })
}

fn incr(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, 1)
}

/// Adds to the integer that the key holds and replies the sum.
fn add(cx: &mut Cx<'_>, args: &Args<'_>, increment: i64) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let mut edit = cx.keys.edit(key);
    let old = match edit.string()? {
        None => 0,
        Some(Str::Int(n)) => n,
        Some(Str::Bytes(bytes)) => resp::number::parse_i64(bytes).ok_or(Error::NOT_AN_INTEGER)?,
    };
    let sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
    edit.set_string(NewString::Int(sum), Ttl::Keep);
    edit.commit(EventClass::STRING, "incrby");
    cx.reply.int(sum);
    Ok(())
}
