//! XDELEX, XACKDEL and XNACK: deleting entries with or without the references of groups to them, and giving pending
//! entries back.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group as Family, WRITE, key};
use crate::core::context::Context;
use crate::streams::claim::no_key_or_group;
use crate::streams::stream::parse_id;
use crate::streams::stream_records::{acknowledged_record, deleted_record};
use crate::streams::trim::references;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::given_back;
use std::collections::BTreeMap;
use structures::stream::{Deletion, Id, Pending, References, Stream};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xdelex",
        group: Family::Stream,
        since: "8.2.0",
        arity: -5,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        syntax: "key [condition: KEEPREF | DELREF | ACKED] (IDS ids: numids:int id...)",
        summary: "Deletes one or multiple entries from the stream.",
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        run: xdelex,
        ..Command::DEFAULT
    },
    Command {
        name: "xackdel",
        group: Family::Stream,
        since: "8.2.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update().delete()],
        syntax: "key group [condition: KEEPREF | DELREF | ACKED] (IDS ids: numids:int id...)",
        summary: "Acknowledges and conditionally deletes one or multiple entries for a stream consumer group.",
        complexity: "O(1) for each entry ID processed.",
        run: xackdel,
        ..Command::DEFAULT
    },
    Command {
        name: "xnack",
        group: Family::Stream,
        since: "8.8.0",
        arity: -7,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key group (mode: SILENT | FAIL | FATAL) (IDS ids: numids:int id...) [RETRYCOUNT count:int] [FORCE]",
        summary: "Releases pending messages back to the group's PEL without acknowledging them, making them available for re-delivery.",
        complexity: "O(1) for each message ID processed.",
        run: xnack,
        ..Command::DEFAULT
    },
];

/// Reads the ids of an IDS block whose first word is at `at`, and returns the index after it, too.
fn ids(args: &Args<'_>, at: usize) -> Result<(Vec<Id>, usize), Error> {
    let count = args.get(at + 1).and_then(resp::number::parse_i64).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(Error::StreamIdCount)?;
    let end = (at + 2).checked_add(count).filter(|end| *end <= args.len());
    let end = end.ok_or(Error::StreamIdCountMismatch)?;
    let ids = (at + 2..end).map(|index| parse_id(&args[index], 0)).collect::<Result<Vec<Id>, Error>>()?;
    Ok((ids, end))
}

/// Reads the options from an argument on: the references to delete, and the ids.
fn options(args: &Args<'_>, from: usize) -> Result<(References, Vec<Id>), Error> {
    let (mut condition, mut found, mut at) = (None, None, from);
    while at < args.len() {
        if let Some(given) = references(&args[at]).filter(|_| condition.is_none()) {
            condition = Some(given);
            at += 1;
        } else if args.is(at, "ids") && found.is_none() {
            let (ids, end) = ids(args, at)?;
            found = Some(ids);
            at = end;
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok((condition.unwrap_or_default(), found.ok_or(Error::Syntax)?))
}

fn xdelex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (references, ids) = options(args, 2)?;
    delete(cx, args, references, &ids, None)
}

fn xackdel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (references, ids) = options(args, 3)?;
    delete(cx, args, references, &ids, Some(2))
}

/// A deletion, in the change log's form.
#[derive(Default)]
struct LoggedDeletion {
    deleted: Vec<Id>,
    /// Entries that are not pending any more, by group.
    acknowledged: BTreeMap<Vec<u8>, Vec<Id>>,
}

impl LoggedDeletion {
    fn acknowledge(&mut self, group: &[u8], id: Id) {
        self.acknowledged.entry(group.to_vec()).or_default().push(id);
    }

    fn records(&self, key: &[u8]) -> Vec<Record> {
        let acknowledged = self.acknowledged.iter().map(|(group, ids)| acknowledged_record(key, group, ids));
        let deleted = Some(&self.deleted).filter(|ids| !ids.is_empty()).map(|ids| deleted_record(key, ids));
        acknowledged.chain(deleted).collect()
    }
}

/// Deletes entries; with a group, only those that are pending in it, and acknowledges them.
fn delete(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    references: References,
    ids: &[Id],
    group_at: Option<usize>,
) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let known =
        edit.collection::<Stream>()?.is_some_and(|stream| group_at.is_none_or(|at| stream.group(&args[at]).is_some()));
    cx.reply.array(ids.len());
    if !known {
        ids.iter().for_each(|_| cx.reply.int(-1));
        return Ok(());
    }
    let (mut log, mut changes) = (LoggedDeletion::default(), 0);
    edit.with(|stream: &mut Stream| {
        for id in ids {
            if let Some(at) = group_at {
                let acknowledged = stream.group_mut(&args[at]).is_some_and(|group| group.acknowledge(*id));
                if !acknowledged {
                    cx.reply.int(-1);
                    continue;
                }
                log.acknowledge(&args[at], *id);
                changes += 1;
            }
            let pending = references == References::Delete && stream.pending_in_groups(*id);
            if pending {
                let holders = stream.groups().filter(|(_, group)| group.pending(*id).is_some());
                holders.for_each(|(name, _)| log.acknowledge(name, *id));
            }
            let deletion = stream.delete_with(*id, references);
            let done = deletion == Deletion::Done;
            log.deleted.extend(Some(*id).filter(|_| done));
            changes += u64::from(done || pending);
            cx.reply.int(match deletion {
                Deletion::Done => 1,
                Deletion::Needed => 2,
                // The entry was acknowledged, and there is nothing left to delete.
                Deletion::Missing if group_at.is_some() => 1,
                Deletion::Missing => -1,
            });
        }
    })?;
    if changes == 0 {
        edit.unchanged();
        return Ok(());
    }
    edit.log_as(|| log.records(&args[1]));
    match log.deleted.len() {
        0 => edit.commit_silently(changes),
        _ => edit.commit_many(changes, EventClass::STREAM, "xdel"),
    }
    Ok(())
}

/// The new number of deliveries of an entry that is given back.
#[derive(Clone, Copy)]
enum Deliveries {
    TakenBack,
    Kept,
    Given(u64),
}

fn xnack(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut deliveries = match () {
        () if args.is(3, "silent") => Deliveries::TakenBack,
        () if args.is(3, "fail") => Deliveries::Kept,
        () if args.is(3, "fatal") => Deliveries::Given(i64::MAX as u64),
        () => return Err(Error::Syntax),
    };
    if !args.is(4, "ids") {
        return Err(Error::Syntax);
    }
    let (ids, mut at) = ids(args, 4)?;
    let mut force = false;
    while at < args.len() {
        if args.is(at, "force") {
            force = true;
            at += 1;
        } else if at + 1 < args.len() && args.is(at, "retrycount") {
            let count = u64::try_from(args.int(at + 1)?).map_err(|_| Error::NotPositive)?;
            deliveries = Deliveries::Given(count);
            at += 2;
        } else {
            return Err(Error::Syntax);
        }
    }
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Stream>()?.is_none_or(|stream| stream.group(&args[2]).is_none()) {
        return Err(no_key_or_group(&args[1], &args[2]));
    }
    let released = edit.with(|stream: &mut Stream| {
        stream.with_group(&args[2], |stream, group| {
            let mut released = Vec::new();
            for id in ids {
                let before = match group.pending(id) {
                    Some(pending) => pending.deliveries,
                    None if force && stream.contains(id) => 0,
                    None => continue,
                };
                let deliveries = match deliveries {
                    Deliveries::TakenBack => before.saturating_sub(1),
                    Deliveries::Kept => before,
                    Deliveries::Given(count) => count,
                };
                group.assign(id, Pending { delivered_at: 0, deliveries, consumer: None });
                released.push((id, deliveries));
            }
            released
        })
    })?;
    let released = released.unwrap_or_default();
    if released.is_empty() {
        edit.unchanged();
    } else {
        let record = |(id, deliveries): &(Id, u64)| given_back(&args[1], &args[2], &id.to_vec(), *deliveries);
        edit.log_as(|| released.iter().map(record).collect());
        edit.commit_silently(released.len() as u64);
    }
    cx.reply.int(released.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    fn with_two_groups() -> Client {
        let mut client = Client::new();
        for seq in 1..=4 {
            client.is(&format!("XADD s 1-{seq} a {seq}"), &format!("1-{seq}"));
        }
        client.is("XGROUP CREATE s g 0", "+OK").is("XGROUP CREATE s h 0", "+OK");
        client.run("XREADGROUP GROUP g c STREAMS s >");
        client.run("XREADGROUP GROUP h c COUNT 3 STREAMS s >");
        client
    }

    #[test]
    fn entries_are_deleted_with_their_references_or_when_nobody_needs_them() {
        let mut client = with_two_groups();
        client.is("XDELEX s IDS 2 1-1 9-9", "[:1 :-1]").is("XPENDING s g - + 1", "[[1-1 c :0 :1]]");
        client.is("XDELEX s DELREF IDS 1 1-1", "[:-1]").is("XPENDING s g - + 1", "[[1-2 c :0 :1]]");
        client.is("XDELEX s ACKED IDS 2 1-2 1-4", "[:2 :2]").is("XACK s g 1-2 1-4", ":2");
        client.is("XACK s h 1-2", ":1").is("XDELEX s IDS 2 1-2 1-4 ACKED", "[:1 :2]").is("XLEN s", ":2");
        client
            .is("XDELEX none IDS 1 1-1", "[:-1]")
            .is("XDELEX s KEEPREF IDS 2 1-1", "-ERR The `numids` parameter must match the number of arguments");
        client
            .is("XDELEX s IDS 0 1-1", "-ERR Number of IDs must be a positive integer")
            .is("XDELEX s ACKED DELREF 1", "-ERR syntax error");
    }

    #[test]
    fn entries_are_acknowledged_and_deleted() {
        let mut client = with_two_groups();
        client.is("XACKDEL s g ACKED IDS 2 1-1 9-9", "[:2 :-1]").is("XACKDEL s h ACKED IDS 1 1-1", "[:1]");
        client.is("XACKDEL s g DELREF IDS 1 1-2", "[:1]").is("XPENDING s h - + 9", "[[1-3 c :0 :1]]");
        client.is("XACKDEL s none IDS 1 1-3", "[:-1]").is("XLEN s", ":2");
    }

    #[test]
    fn trimming_minds_references() {
        let mut client = with_two_groups();
        client.is("XACK s g 1-2", ":1").is("XACK s h 1-2", ":1").is("XTRIM s MAXLEN 0 ACKED", ":1").is("XLEN s", ":3");
        client.is("XTRIM s MINID 1-4 DELREF", ":2").is("XPENDING s h", "[:0 nil nil nil]");
        client
            .is("XRANGE s - +", "[[1-4 [a 4]]]")
            .is("XTRIM s MAXLEN 0 KEEPREF", ":1")
            .is("XPENDING s g - + 9", "[[1-4 c :0 :1]]");
    }

    #[test]
    fn entries_given_back_are_claimed_at_once() {
        let mut client = with_two_groups();
        client.is("XNACK s g FAIL IDS 2 1-1 9-9", ":1").is("XPENDING s g - + 1", "[[1-1  :-1 :1]]");
        client.is("XNACK s g SILENT IDS 1 1-2", ":1").is("XNACK s g FATAL IDS 1 1-3 RETRYCOUNT 7", ":1");
        client.later(50).is(
            "XREADGROUP GROUP g d COUNT 2 CLAIM 40 STREAMS s >",
            "[[s [[1-1 [a 1] :1700000000050 :1] [1-2 [a 2] :1700000000050 :0]]]]",
        );
        client.is("XADD s 2-1 b 1", "2-1").is(
            "XREADGROUP GROUP g d CLAIM 50 STREAMS s >",
            "[[s [[1-3 [a 3] :1700000000050 :7] [1-4 [a 4] :50 :1] [2-1 [b 1] :0 :0]]]]",
        );
        client.is("XNACK s none FAIL IDS 1 1-1", "-NOGROUP No such key 's' or consumer group 'none'");
        client
            .is("XACK s g 1-1", ":1")
            .is("XNACK s g FAIL IDS 1 1-1 FORCE", ":1")
            .is("XNACK s g BAD IDS 1 1-1", "-ERR syntax error");
    }
}
