//! XGROUP: creates and removes consumer groups and consumers. XACK: acknowledges entries.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group as Family, WRITE, key};
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::streams::own_words;
use crate::streams::stream::parse_id;
use crate::streams::stream_records::are_acknowledged;
use engine::data::event_class::EventClass;
use engine::keyspace::edit::Edit;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::given_back;
use engine::{Error, Word};
use structures::stream::{ConsumerGroup, Id, Stream};

const STREAM: Command = Command { group: Family::Stream, since: "5.0.0", ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xgroup",
        arity: -2,
        summary: "A container for consumer groups commands.",
        complexity: "Depends on subcommand.",
        subcommands: &[
            Command {
                name: "create",
                arity: -5,
                flags: WRITE.and(DENY_OOM),
                keys: &[key(2).rw().insert()],
                syntax: "key group (id-selector: id | \"$\"=new-id) [MKSTREAM] [ENTRIESREAD entriesread:int=entries-read]",
                summary: "Creates a consumer group.",
                complexity: "O(1)",
                history: &[("7.0.0", "Added the `entries_read` named argument.")],
                run: create,
                ..STREAM
            },
            Command {
                name: "setid",
                arity: -5,
                flags: WRITE,
                keys: &[key(2).rw().update()],
                syntax: "key group (id-selector: id | \"$\"=new-id) [ENTRIESREAD entriesread:int=entries-read]",
                summary: "Sets the last-delivered ID of a consumer group.",
                complexity: "O(1)",
                history: &[("7.0.0", "Added the optional `entries_read` argument.")],
                run: set_id,
                ..STREAM
            },
            Command {
                name: "destroy",
                arity: 4,
                flags: WRITE,
                keys: &[key(2).rw().delete()],
                syntax: "key group",
                summary: "Destroys a consumer group.",
                complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
                run: destroy,
                ..STREAM
            },
            Command {
                name: "createconsumer",
                since: "6.2.0",
                arity: 5,
                flags: WRITE.and(DENY_OOM),
                keys: &[key(2).rw().insert()],
                syntax: "key group consumer",
                summary: "Creates a consumer in a consumer group.",
                complexity: "O(1)",
                run: create_consumer,
                ..STREAM
            },
            Command {
                name: "delconsumer",
                arity: 5,
                flags: WRITE,
                keys: &[key(2).rw().delete()],
                syntax: "key group consumer",
                summary: "Deletes a consumer from a consumer group.",
                complexity: "O(1)",
                run: delete_consumer,
                ..STREAM
            },
            Command { group: Family::Stream, since: "5.0.0", ..HELP },
        ],
        ..STREAM
    },
    Command {
        name: "xack",
        arity: -4,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key group id...",
        summary: "Returns the number of messages that were successfully acknowledged by the consumer group member of a stream.",
        complexity: "O(1) for each message ID processed.",
        run: xack,
        ..STREAM
    },
];

/// Returns the error of a missing group, in the words of XGROUP and XINFO.
pub(crate) fn no_group(group: &[u8], key: &[u8]) -> Error {
    Error::NoGroup(Word::up_to_nul(group), Word::up_to_nul(key))
}

/// Returns the stream, and the group in it.
fn stream_of<'e>(edit: &'e Edit<'_>) -> Result<&'e Stream, Error> {
    edit.collection::<Stream>()?.ok_or(Error::XgroupNoKey)
}

fn group_of<'e>(edit: &'e Edit<'_>, args: &Args<'_>) -> Result<&'e ConsumerGroup, Error> {
    stream_of(edit)?.group(&args[3]).ok_or_else(|| no_group(&args[3], &args[2]))
}

/// Parses an id, or `$` for the last one.
fn id_or_last(text: &[u8], stream: Option<&Stream>) -> Result<Id, Error> {
    match text {
        b"$" => Ok(stream.map_or(Id::MIN, |stream| stream.last_id)),
        id => parse_id(id, 0),
    }
}

fn bad_subcommand(args: &Args<'_>) -> Error {
    Error::SubcommandUse(Word::up_to_nul(&args[1]), "XGROUP")
}

struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

fn options(args: &Args<'_>, creating: bool) -> Result<Options, Error> {
    let mut options = Options { make_stream: false, entries_read: None };
    let mut at = 5;
    while at < args.len() {
        if creating && args.is(at, "mkstream") {
            options.make_stream = true;
            at += 1;
        } else if at + 1 < args.len() && args.is(at, "entriesread") {
            options.entries_read = match args.int(at + 1)? {
                -1 => None,
                read => {
                    let read = u64::try_from(read);
                    Some(read.map_err(|_| Error::EntriesRead)?)
                }
            };
            at += 2;
        } else {
            return Err(bad_subcommand(args));
        }
    }
    Ok(options)
}

fn create(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = options(args, true)?;
    let mut edit = cx.keys.edit(cx.key(args, 2));
    let stream = edit.collection::<Stream>()?;
    if stream.is_none() && !options.make_stream {
        return Err(Error::XgroupNoKey);
    }
    // One of the options was given twice.
    if args.len() > 8 {
        return Err(bad_subcommand(args));
    }
    let id = id_or_last(&args[4], stream)?;
    if stream.is_some_and(|stream| stream.group(&args[3]).is_some()) {
        return Err(Error::GroupExists);
    }
    edit.with(|stream: &mut Stream| stream.add_group(&args[3], ConsumerGroup::new(id, options.entries_read)))?;
    if args[4] == *b"$" {
        let read = options.entries_read.map(|read| vec![b"ENTRIESREAD".to_vec(), read.to_string().into_bytes()]);
        edit.log_as(|| {
            let mut record: Vec<Vec<u8>> = args.iter().take(5).map(<[u8]>::to_vec).collect();
            record[4] = id.to_vec();
            record.push(b"MKSTREAM".to_vec());
            record.extend(read.into_iter().flatten());
            vec![record]
        });
    }
    edit.commit_beside(1, Some((EventClass::STREAM, "xgroup-create")));
    cx.reply.ok();
    Ok(())
}

fn set_id(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = options(args, false)?;
    let mut edit = cx.keys.edit(cx.key(args, 2));
    group_of(&edit, args)?;
    if args.len() > 7 {
        return Err(bad_subcommand(args));
    }
    let id = match &args[4] {
        b"-" => Id::MIN,
        b"+" => Id::MAX,
        id => id_or_last(id, edit.collection::<Stream>()?)?,
    };
    edit.with(|stream: &mut Stream| {
        if let Some(group) = stream.group_mut(&args[3]) {
            group.last_id = id;
            group.entries_read = options.entries_read;
        }
    })?;
    edit.commit_beside(1, Some((EventClass::STREAM, "xgroup-setid")));
    cx.reply.ok();
    Ok(())
}

fn destroy(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 2));
    if stream_of(&edit)?.group(&args[3]).is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    edit.with(|stream: &mut Stream| stream.remove_group(&args[3]))?;
    edit.commit_beside(1, Some((EventClass::STREAM, "xgroup-destroy")));
    cx.reply.int(1);
    Ok(())
}

fn create_consumer(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let now = cx.now_ms().0;
    let mut edit = cx.keys.edit(cx.key(args, 2));
    let exists = group_of(&edit, args)?.find(&args[4]).is_some();
    if !exists {
        edit.with(|stream: &mut Stream| {
            if let Some(group) = stream.group_mut(&args[3]) {
                group.find_or_add(&args[4], now);
            }
        })?;
        edit.commit_beside(1, Some((EventClass::STREAM, "xgroup-createconsumer")));
    }
    cx.reply.int((!exists).into());
    Ok(())
}

fn delete_consumer(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 2));
    if group_of(&edit, args)?.find(&args[4]).is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    let pending = edit.with(|stream: &mut Stream| stream.group_mut(&args[3])?.remove(&args[4]))?;
    if args[4].is_empty() && cx.engine.has_log() {
        let again = given_back_again(group_of(&edit, args)?, args);
        if !again.is_empty() {
            edit.log_as(|| [vec![args.iter().map(<[u8]>::to_vec).collect()], again].concat());
        }
    }
    edit.commit_beside(1, Some((EventClass::STREAM, "xgroup-delconsumer")));
    cx.reply.int(pending.unwrap_or(0) as i64);
    Ok(())
}

/// Returns records that give pending entries without a consumer back to the group once more: other servers store these
/// with the consumer without a name, and lose them with that one.
fn given_back_again(group: &ConsumerGroup, args: &Args<'_>) -> Vec<Record> {
    let nobodys = group.pending_range(Id::MIN, Id::MAX).filter(|(_, pending)| pending.consumer.is_none());
    nobodys.map(|(id, pending)| given_back(&args[2], &args[3], &id.to_vec(), pending.deliveries)).collect()
}

fn xack(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if are_acknowledged(args, cx.keys.origin().caller) {
        return own_words::take(cx, args);
    }
    let yielding = cx.yielding(args.len())?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    edit.count_read();
    if edit.collection::<Stream>()?.is_none_or(|stream| stream.group(&args[2]).is_none()) {
        cx.reply.int(0);
        return Ok(());
    }
    // All ids are read before any change.
    args.from(3).try_for_each(|id| parse_id(id, 0).map(drop))?;
    let done = edit.with(|stream: &mut Stream| {
        let Some(group) = stream.group_mut(&args[2]) else { return 0 };
        let ids = yielding.over(args.from(3)).flat_map(|id| parse_id(id, 0));
        ids.filter(|id| group.acknowledge(*id)).count()
    })?;
    if done > 0 {
        edit.commit_beside(done as u64, None);
    } else {
        edit.unchanged();
    }
    cx.reply.int(done as i64);
    Ok(())
}
