//! The commands that work on a part of a string, and the definition of a part: APPEND, GETRANGE, SETRANGE.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::config::Directive;
use engine::data::event_class::EventClass;
use engine::data::value::{NewString, Str};
use engine::keyspace::caller::Caller;
use engine::keyspace::edit::Ttl;
use engine::{Engine, Error};
use std::ops::Range;
use structures::long_string::make_room;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "append",
        group: Group::String,
        since: "2.0.0",
        arity: 3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key value",
        summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
        complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by the server will double the free space available on every reallocation.",
        run: append,
        ..Command::DEFAULT
    },
    Command {
        name: "getrange",
        group: Group::String,
        since: "2.4.0",
        arity: 4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key start:int end:int",
        summary: "Returns a substring of the string stored at a key.",
        complexity: PART_COMPLEXITY,
        run: getrange,
        ..Command::DEFAULT
    },
    Command {
        name: "setrange",
        group: Group::String,
        since: "2.2.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().update()],
        syntax: "key offset:int value",
        summary: "Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.",
        complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
        run: setrange,
        ..Command::DEFAULT
    },
    Command {
        name: "substr",
        group: Group::String,
        since: "1.0.0",
        arity: 4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key start:int end:int",
        summary: "Returns a substring from a string value.",
        complexity: PART_COMPLEXITY,
        run: getrange,
        ..Command::DEFAULT
    },
];

const PART_COMPLEXITY: &str = "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.";

/// The least value of `proto-max-bulk-len`: strings up to here need no look at the configuration.
const ALWAYS_ALLOWED: usize = 1 << 20;

/// Length of a string that a primary or the log may still make: the limit was another one when the command was
/// accepted. A number in a file reserves no more than this.
const OBEYED_MAX: usize = 4 << 30;

/// Refuses a string of `len` bytes with `more` after them, when together they exceed [`max_length`].
pub(crate) fn check_length(engine: &Engine, caller: Caller, len: usize, more: usize) -> Result<(), Error> {
    match len.checked_add(more) {
        Some(total) if total <= ALWAYS_ALLOWED || total <= max_length(engine, caller) => Ok(()),
        _ => Err(Error::StringTooLong),
    }
}

/// Returns `proto-max-bulk-len`, or more for commands that were accepted elsewhere or before.
pub(crate) fn max_length(engine: &Engine, caller: Caller) -> usize {
    let limit = usize::try_from(engine.config().snapshot().int(Directive::PROTO_MAX_BULK_LEN)).unwrap_or(0);
    if caller.is_obeyed() { limit.max(OBEYED_MAX) } else { limit }
}

fn append(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let value = args.take(2);
    let (key, caller) = (cx.key(args, 1), cx.keys.origin().caller);
    let mut edit = cx.keys.edit(key);
    let len = match edit.string()? {
        None => {
            let len = value.len();
            edit.set_string(NewString::encode(value), Ttl::Clear);
            len
        }
        Some(old) => {
            let len = old.len();
            check_length(cx.engine, caller, len, value.len())?;
            edit.with_bytes_at(len..len, 0, |bytes| {
                make_room(bytes, value.len());
                bytes.extend_from_slice(&value);
                bytes.len()
            })?
        }
    };
    edit.commit(EventClass::STRING, "append");
    cx.reply.int(len as i64);
    Ok(())
}

fn setrange(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let offset = usize::try_from(args.int(2)?).map_err(|_| Error::OffsetOutOfRange)?;
    let (part, caller) = (&args[3], cx.keys.origin().caller);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let old_len = edit.string()?.map_or(0, Str::len);
    if part.is_empty() {
        cx.reply.int(old_len as i64);
        return Ok(());
    }
    check_length(cx.engine, caller, offset, part.len())?;
    let end = offset + part.len();
    let len = edit.with_bytes_at(offset..end, end, |bytes| {
        bytes[offset..end].copy_from_slice(part);
        bytes.len()
    })?;
    edit.commit(EventClass::STRING, "setrange");
    cx.reply.int(len as i64);
    Ok(())
}

fn getrange(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (start, end) = (args.int(2)?, args.int(3)?);
    let value = cx.keys.string(cx.key(args, 1))?;
    let mut digits = itoa::Buffer::new();
    let bytes = value.map_or(&[][..], |value| value.bytes(&mut digits));
    let part = if is_reversed(start, end) { 0..0 } else { span(start, end, bytes.len()) };
    cx.reply.bulk(&bytes[part]);
    Ok(())
}

/// Returns whether a part ends before it starts however long the string is. Both may lie before the beginning, where
/// [`span`] would take the first byte for them.
pub(crate) fn is_reversed(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// Returns the part of `len` units from `start` to `end`, both included and counted from the end when negative; a
/// position before the beginning is the beginning.
pub(crate) fn span(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_start = |index: i64| match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => len.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let end = from_start(end).saturating_add(1).min(len);
    from_start(start).min(end)..end
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn parts_of_strings() {
        let mut client = Client::new();
        for (command, reply) in [
            ("SET k Hello", "+OK"),
            ("GETRANGE k 1 -2", "ell"),
            ("GETRANGE k -3 -1", "llo"),
            ("GETRANGE k -1 -3", ""),
            ("GETRANGE k 0 -100", "H"),
            ("GETRANGE k 3 100", "lo"),
            ("GETRANGE k 5 5", ""),
            ("GETRANGE k -9223372036854775808 9223372036854775807", "Hello"),
            ("SUBSTR none 0 -1", ""),
            ("GETRANGE none x 1", "-ERR value is not an integer or out of range"),
            ("SETRANGE k 3 p!", ":5"),
            ("SETRANGE k 6 x", ":7"),
            ("GET k", "Help!\0x"),
            ("SETRANGE k -1 x", "-ERR offset is out of range"),
            ("SETRANGE none 10 \"\"", ":0"),
            ("SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            ("SETRANGE n 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            ("SETRANGE n 2 1", ":3"),
            ("APPEND new 12", ":2"),
            ("INCR new", ":13"),
            ("APPEND new \"\"", ":2"),
            ("APPEND new 4", ":3"),
            ("INCR new", ":135"),
            ("STRLEN new", ":3"),
        ] {
            client.is(command, reply);
        }
    }
}
