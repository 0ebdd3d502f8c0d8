//! Streams: the parts that their commands share, and the short commands. Adding is in `stream_add`, trimming in
//! `stream_trim`, reading ranges in `stream_range`, reading on from an id in `stream_read`.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::streams::stream_records;
use engine::Error;
use engine::before_nul;
use engine::data::event_class::EventClass;
use resp::Reply;
use structures::listpack::Item;
use structures::stream::{Cursor, Id, ProducerMemory, Stream};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xlen",
        group: Group::Stream,
        since: "5.0.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the number of messages in a stream.",
        complexity: "O(1)",
        run: xlen,
        ..Command::DEFAULT
    },
    Command {
        name: "xdel",
        group: Group::Stream,
        since: "5.0.0",
        arity: -3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        syntax: "key id...",
        summary: "Returns the number of messages after removing them from a stream.",
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        run: xdel,
        ..Command::DEFAULT
    },
    Command {
        name: "xsetid",
        group: Group::Stream,
        since: "5.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key last-id [ENTRIESADDED entries-added:int]@7.0.0 [MAXDELETEDID max-deleted-id]@7.0.0",
        summary: "An internal command for replicating stream values.",
        complexity: "O(1)",
        history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
        run: xsetid,
        ..Command::DEFAULT
    },
    Command {
        name: "xcfgset",
        group: Group::Stream,
        since: "8.6.0",
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key [IDMP-DURATION idmp-duration:int] [IDMP-MAXSIZE idmp-maxsize:int]",
        summary: "Sets the IDMP configuration parameters for a stream.",
        complexity: "O(1)",
        run: xcfgset,
        ..Command::DEFAULT
    },
];

/// Bounds of XCFGSET's values.
const MAX_SECONDS: u32 = 86_400;
const MAX_MESSAGES: u32 = 10_000;

/// Texts of ids are shorter than this.
const ID_TEXT_MAX: usize = 128;

/// An id whose second number may be left to the server (`5-*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenId {
    Whole(Id),
    Time(u64),
}

impl GivenId {
    pub fn parse(text: &[u8]) -> Result<GivenId, Error> {
        match before_nul(text).strip_suffix(b"-*") {
            Some(ms) if !ms.contains(&b'-') => number(ms).map(GivenId::Time).ok_or(Error::StreamId),
            _ => parse_id(text, 0).map(GivenId::Whole),
        }
    }
}

/// Parses a number as C's strtoull does: after white space and a sign, which may negate it; but not in the plain form
/// of a negative integer.
fn number(text: &[u8]) -> Option<u64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let rest = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    if resp::number::parse_i64(text).is_some_and(|number| number < 0) {
        return None;
    }
    Some(if negative { number.wrapping_neg() } else { number })
}

/// Parses `ms-seq`, or `ms` alone.
pub(crate) fn parse_id(text: &[u8], missing_seq: u64) -> Result<Id, Error> {
    let parse = || {
        if text.len() >= ID_TEXT_MAX {
            return None;
        }
        let text = before_nul(text);
        match text.iter().position(|byte| *byte == b'-') {
            Some(dash) => Some(Id::new(number(&text[..dash])?, number(&text[dash + 1..])?)),
            None => Some(Id::new(number(text)?, missing_seq)),
        }
    };
    parse().ok_or(Error::StreamId)
}

/// Parses an end of a range: `-`, `+`, an id, or one that is itself left out (`(id`). True in that case.
pub(crate) fn parse_bound(text: &[u8], missing_seq: u64) -> Result<(Id, bool), Error> {
    match text {
        b"-" => Ok((Id::MIN, false)),
        b"+" => Ok((Id::MAX, false)),
        [b'(', id @ ..] if !id.is_empty() => Ok((parse_id(id, missing_seq)?, true)),
        id => Ok((parse_id(id, missing_seq)?, false)),
    }
}

/// Returns the ids from `start` to `end`, as XRANGE takes them.
pub(crate) fn parse_range(start: &[u8], end: &[u8]) -> Result<(Id, Id), Error> {
    let (mut first, after) = parse_bound(start, 0)?;
    if after {
        first = first.next().ok_or(Error::StreamStartId)?;
    }
    let (mut last, before) = parse_bound(end, u64::MAX)?;
    if before {
        last = last.prev().ok_or(Error::StreamEndId)?;
    }
    Ok((first, last))
}

#[inline]
pub(crate) fn reply_id(reply: &mut Reply, id: Id) {
    reply.bulk(id.digits(&mut [0; 41]));
}

#[inline]
fn reply_item(reply: &mut Reply, item: Item<'_>) {
    match item {
        Item::Bytes(bytes) => reply.bulk(bytes),
        Item::Int(n) => reply.bulk_int(n),
    }
}

/// Writes the cursor's entry.
#[inline]
pub(crate) fn reply_entry(reply: &mut Reply, id: Id, cursor: &mut Cursor<'_>) {
    reply.array(2);
    reply_fields(reply, id, cursor);
}

/// Writes the two elements of an entry: its id, and an array of names and values.
#[inline]
pub(crate) fn reply_fields(reply: &mut Reply, id: Id, cursor: &mut Cursor<'_>) {
    reply_id(reply, id);
    reply.array(2 * cursor.width());
    while let Some((name, value)) = cursor.field() {
        reply_item(reply, name);
        reply_item(reply, value);
    }
}

fn xlen(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let len = cx.keys.collection::<Stream>(cx.key(args, 1))?.map_or(0, Stream::len);
    cx.reply.int(len as i64);
    Ok(())
}

fn xdel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let yielding = cx.yielding(args.len())?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Stream>()?.is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    let ids = args.from(2).map(|id| parse_id(id, 0)).collect::<Result<Vec<Id>, Error>>()?;
    let delete = |stream: &mut Stream| yielding.over(ids.iter()).filter(|id| stream.delete(**id)).count();
    let deleted = edit.with(delete)?;
    if deleted > 0 {
        edit.commit_many(deleted as u64, EventClass::STREAM, "xdel");
    } else {
        edit.unchanged();
    }
    cx.reply.int(deleted as i64);
    Ok(())
}

fn xsetid(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let id = parse_id(&args[2], 0)?;
    let (mut entries_added, mut max_deleted) = (None, None);
    let mut at = 3;
    while at < args.len() {
        if at + 1 < args.len() && args.is(at, "entriesadded") {
            let added = u64::try_from(args.int(at + 1)?);
            entries_added = Some(added.map_err(|_| Error::XsetidAddedNegative)?);
        } else if at + 1 < args.len() && args.is(at, "maxdeletedid") {
            let deleted = parse_id(&args[at + 1], 0)?;
            if id < deleted {
                return Err(Error::XsetidBelowGivenDeleted);
            }
            max_deleted = Some(deleted).filter(|id| *id != Id::MIN);
        } else {
            return Err(Error::Syntax);
        }
        at += 2;
    }
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let stream = edit.collection::<Stream>()?.ok_or(Error::NoSuchKey)?;
    if id < stream.max_deleted_id {
        return Err(Error::XsetidBelowDeleted);
    }
    if let Some(last) = stream.last_live_id() {
        if id < last {
            return Err(Error::XsetidBelowTop);
        }
        if entries_added.is_some_and(|added| added < stream.len()) {
            return Err(Error::XsetidAddedBelowLength);
        }
    }
    edit.with(|stream: &mut Stream| {
        stream.last_id = id;
        stream.entries_added = entries_added.unwrap_or(stream.entries_added);
        stream.max_deleted_id = max_deleted.unwrap_or(stream.max_deleted_id);
    })?;
    edit.commit_beside(1, Some((EventClass::STREAM, "xsetid")));
    cx.reply.ok();
    Ok(())
}

fn xcfgset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (mut seconds, mut messages) = (None, None);
    if args.len() < 4 {
        return Err(Error::Syntax);
    }
    let bounded = |at: usize, max: u32, error: Error| {
        let number = resp::number::parse_i64(&args[at]).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (1..=max).contains(number)).ok_or(error)
    };
    for at in (2..args.len()).step_by(2) {
        if at + 1 < args.len() && args.is(at, "idmp-duration") {
            seconds = Some(bounded(at + 1, MAX_SECONDS, Error::IdempotencyDuration)?);
        } else if at + 1 < args.len() && args.is(at, "idmp-maxsize") {
            messages = Some(bounded(at + 1, MAX_MESSAGES, Error::IdempotencyMaxsize)?);
        } else {
            return Err(Error::Syntax);
        }
    }
    let mut edit = cx.keys.edit(cx.key(args, 1));
    edit.collection::<Stream>()?.ok_or(Error::NoSuchKey)?;
    let memory = edit.with(|stream: &mut Stream| {
        let idempotency = stream.idempotency_mut();
        let now = idempotency.memory();
        let memory = ProducerMemory {
            seconds: seconds.unwrap_or(now.seconds),
            max_messages: messages.unwrap_or(now.max_messages),
        };
        idempotency.set_memory(memory);
        memory
    })?;
    edit.log_as(|| vec![stream_records::memory(&args[1], memory)]);
    edit.commit_silently(1);
    cx.reply.ok();
    Ok(())
}
