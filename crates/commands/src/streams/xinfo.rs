//! XINFO: the structure of a stream, its groups and their consumers.

use crate::core::args::Args;
use crate::core::command::{Command, Group as Family, READONLY, key};
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::core::yielding::Yielding;
use crate::streams::group::no_group;
use crate::streams::range;
use crate::streams::stream::{reply_entry, reply_id};
use engine::data::value::{Collection, Object};
use engine::{Error, Word};
use resp::Reply;
use structures::stream::{Consumer, ConsumerGroup, Id, Stream};

const STREAM: Command = Command { group: Family::Stream, since: "5.0.0", ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[Command {
    name: "xinfo",
    arity: -2,
    summary: "A container for stream introspection commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "stream",
            arity: -3,
            flags: READONLY,
            keys: &[key(2).ro().access()],
            syntax: "key [full-block: FULL [COUNT count:int]]",
            summary: "Returns information about a stream.",
            complexity: "O(1)",
            history: &[
                ("6.0.0", "Added the `FULL` modifier."),
                (
                    "7.0.0",
                    "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag` fields",
                ),
                ("7.2.0", "Added the `active-time` field, and changed the meaning of `seen-time`."),
            ],
            run: stream,
            ..STREAM
        },
        Command {
            name: "groups",
            arity: 3,
            flags: READONLY,
            keys: &[key(2).ro().access()],
            syntax: "key",
            summary: "Returns a list of the consumer groups of a stream.",
            complexity: "O(1)",
            history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
            run: groups,
            ..STREAM
        },
        Command {
            name: "consumers",
            arity: 4,
            flags: READONLY,
            keys: &[key(2).ro().access()],
            syntax: "key group",
            summary: "Returns a list of the consumers in a consumer group.",
            complexity: "O(1)",
            history: &[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")],
            tips: &["nondeterministic_output"],
            run: consumers,
            ..STREAM
        },
        Command { group: Family::Stream, since: "5.0.0", ..HELP },
    ],
    ..STREAM
}];

/// Entries and pending entries that FULL shows by default.
const FULL_COUNT: u64 = 10;

fn stream(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    // A count of 0 shows all.
    let most = if args.len() == 6 { args.int(5).ok().and_then(|count| usize::try_from(count).ok()) } else { None };
    let shown = |len: usize| len.min(most.filter(|most| *most > 0).unwrap_or(usize::MAX));
    let entries = |object: &Object| {
        let pending = |stream: &Stream| stream.groups().map(|(_, group)| shown(group.pending_len())).sum::<usize>();
        Stream::of(object).map_or(0, |stream| shown(stream.len() as usize) + pending(stream))
    };
    let yielding = match most {
        Some(_) => cx.yielding(cx.elements(cx.key(args, 2), entries))?,
        None => Yielding::never(),
    };
    let stream = cx.keys.collection::<Stream>(cx.key(args, 2))?.ok_or(Error::NoSuchKey)?;
    let full = args.len() > 3 && args.is(3, "full");
    let fits = match args.len() {
        3 => true,
        4 => full,
        6 => full && args.is(4, "count"),
        _ => false,
    };
    if !fits {
        let word = Word::of(String::from_utf8_lossy(&args[1]).as_bytes());
        return Err(Error::SubcommandUse(word, "XINFO"));
    }
    let count = match args.len() {
        6 => u64::try_from(args.int(5)?).unwrap_or(FULL_COUNT),
        _ => FULL_COUNT,
    };
    let reply = &mut *cx.reply;
    let producing = if stream.idempotency().is_some() { 6 } else { 0 };
    reply.map(producing + if full { 9 } else { 10 });
    common_fields(reply, stream);
    if let Some(idempotency) = stream.idempotency() {
        let (producers, messages) = idempotency.tracked();
        number(reply, "idmp-duration", idempotency.memory().seconds.into());
        number(reply, "idmp-maxsize", idempotency.memory().max_messages.into());
        number(reply, "pids-tracked", producers as i64);
        number(reply, "iids-tracked", messages as i64);
        number(reply, "iids-added", idempotency.added as i64);
        number(reply, "iids-duplicates", idempotency.duplicates as i64);
    }
    if full {
        reply.bulk(b"entries");
        let shown = if count == 0 { u64::MAX } else { count };
        range::write(reply, stream, Id::MIN, Id::MAX, shown, false, &yielding);
        reply.bulk(b"groups");
        reply.array(stream.groups().len());
        stream.groups().for_each(|(name, group)| full_group(reply, stream, name, group, shown, &yielding));
        return Ok(());
    }
    number(reply, "groups", stream.groups().len() as i64);
    for (field, backwards) in [("first-entry", false), ("last-entry", true)] {
        reply.bulk(field.as_bytes());
        let (first, last) = (Id::MIN, Id::MAX);
        let mut cursor = if backwards { stream.range_back(first, last) } else { stream.range(first, last) };
        match cursor.next() {
            Some(id) => reply_entry(reply, id, &mut cursor),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Returns the approximate number of nodes of the tree that other servers would find the stream's listpacks in: a root,
/// and one for each.
fn tree_nodes(stream: &Stream) -> i64 {
    stream.node_count() as i64 + 1
}

fn common_fields(reply: &mut Reply, stream: &Stream) {
    number(reply, "length", stream.len() as i64);
    number(reply, "radix-tree-keys", stream.node_count() as i64);
    number(reply, "radix-tree-nodes", tree_nodes(stream));
    id(reply, "last-generated-id", stream.last_id);
    id(reply, "max-deleted-entry-id", stream.max_deleted_id);
    number(reply, "entries-added", stream.entries_added as i64);
    id(reply, "recorded-first-entry-id", stream.first_id().unwrap_or_default());
}

fn number(reply: &mut Reply, field: &str, value: i64) {
    reply.bulk(field.as_bytes());
    reply.int(value);
}

fn id(reply: &mut Reply, field: &str, value: Id) {
    reply.bulk(field.as_bytes());
    reply_id(reply, value);
}

fn number_or_null(reply: &mut Reply, field: &str, value: Option<i64>) {
    reply.bulk(field.as_bytes());
    match value {
        Some(value) => reply.int(value),
        None => reply.null(),
    }
}

fn position(reply: &mut Reply, stream: &Stream, group: &ConsumerGroup) {
    id(reply, "last-delivered-id", group.last_id);
    number_or_null(reply, "entries-read", group.entries_read.map(|read| read as i64));
    number_or_null(reply, "lag", stream.lag(group));
}

fn full_group(
    reply: &mut Reply,
    stream: &Stream,
    name: &[u8],
    group: &ConsumerGroup,
    count: u64,
    yielding: &Yielding<'_>,
) {
    let shown = |len: usize| len.min(usize::try_from(count).unwrap_or(usize::MAX));
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(name);
    position(reply, stream, group);
    number(reply, "pel-count", group.pending_len() as i64);
    reply.bulk(b"pending");
    let pending = shown(group.pending_len());
    reply.array(pending);
    for (pending_id, pending) in yielding.over(group.pending_range(Id::MIN, Id::MAX).take(pending)) {
        let owner = pending.consumer.and_then(|at| group.consumer(at));
        reply.array(4);
        reply_id(reply, pending_id);
        reply.bulk(owner.map_or(&[], |consumer| &consumer.name));
        reply.int(pending.delivered_at);
        reply.int(pending.deliveries as i64);
    }
    reply.bulk(b"consumers");
    reply.array(group.consumers_len());
    for (consumer, _) in group.consumers() {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        number(reply, "seen-time", consumer.seen_at);
        number(reply, "active-time", consumer.active_at.unwrap_or(-1));
        number(reply, "pel-count", consumer.pending_len() as i64);
        reply.bulk(b"pending");
        let pending = shown(consumer.pending_len());
        reply.array(pending);
        for pending_id in yielding.over(consumer.pending_from(Id::MIN).take(pending)) {
            let pending = group.pending(pending_id);
            reply.array(3);
            reply_id(reply, pending_id);
            reply.int(pending.map_or(0, |pending| pending.delivered_at));
            reply.int(pending.map_or(0, |pending| pending.deliveries as i64));
        }
    }
}

fn groups(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let stream = cx.keys.collection::<Stream>(cx.key(args, 2))?.ok_or(Error::NoSuchKey)?;
    let reply = &mut *cx.reply;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "consumers", group.consumers_len() as i64);
        number(reply, "pending", group.pending_len() as i64);
        position(reply, stream, group);
    }
    Ok(())
}

fn consumers(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms().0;
    let stream = cx.keys.collection::<Stream>(cx.key(args, 2))?.ok_or(Error::NoSuchKey)?;
    let group = stream.group(&args[3]).ok_or_else(|| no_group(&args[3], &args[2]))?;
    let reply = &mut *cx.reply;
    reply.array(group.consumers_len());
    for (consumer, _) in group.consumers() {
        let Consumer { name, seen_at, active_at, .. } = consumer;
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name);
        number(reply, "pending", consumer.pending_len() as i64);
        number(reply, "idle", now.saturating_sub(*seen_at).max(0));
        number(reply, "inactive", active_at.map_or(-1, |at| now.saturating_sub(at).max(0)));
    }
    Ok(())
}
