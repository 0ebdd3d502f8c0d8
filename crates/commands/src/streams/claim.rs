//! XCLAIM and XAUTOCLAIM: pending entries change hands.
//!
//! The change log gets an XCLAIM for each entry, an XACK for one that is pending but deleted from the stream, and the
//! group's position, if that alone was given.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group as Family, WRITE, key};
use crate::core::context::Context;
use crate::core::yielding::{self, Yielding};
use crate::streams::consume::once_more;
use crate::streams::own_words;
use crate::streams::stream::{parse_bound, parse_id, reply_entry, reply_id};
use crate::streams::stream_records::{acknowledged_record, are_claimed, claim_record, position_record};
use engine::data::event_class::EventClass;
use engine::data::value::{Collection, Object};
use engine::propagation::effects::Record;
use engine::{Error, Word};
use resp::Reply;
use structures::stream::{ConsumerGroup, ConsumerRef, Id, Pending, Stream};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xclaim",
        group: Family::Stream,
        since: "5.0.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key group consumer min-idle-time id... [IDLE ms:int] [TIME unix-time-milliseconds:time] [RETRYCOUNT count:int] [FORCE] [JUSTID] [LASTID lastid]",
        summary: "Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered to a consumer group member.",
        complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
        tips: &["nondeterministic_output"],
        run: xclaim,
        ..Command::DEFAULT
    },
    Command {
        name: "xautoclaim",
        group: Family::Stream,
        since: "6.2.0",
        arity: -6,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        syntax: "key group consumer min-idle-time start [COUNT count:int] [JUSTID]",
        summary: "Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to a consumer group member.",
        complexity: "O(1) if COUNT is small.",
        history: &[(
            "7.0.0",
            "Added an element to the reply array, containing deleted entries the command cleared from the PEL",
        )],
        tips: &["nondeterministic_output"],
        run: xautoclaim,
        ..Command::DEFAULT
    },
];

/// Pending entries that XAUTOCLAIM looks at for each that it may claim.
const ATTEMPTS: u64 = 10;
/// Bytes that it takes to record the ID of one, which must be countable.
const ID_BYTES: u64 = 16;

/// Returns the error of a missing group, in the words of commands that need one.
pub(crate) fn no_key_or_group(key: &[u8], group: &[u8]) -> Error {
    Error::NoKeyOrGroup(Word::up_to_nul(key), Word::up_to_nul(group))
}

/// One consumer that claims.
struct Claimant<'c> {
    stream: &'c Stream,
    group: &'c mut ConsumerGroup,
    key: &'c [u8],
    group_name: &'c [u8],
    consumer: ConsumerRef,
    consumer_name: &'c [u8],
    min_idle: i64,
    now: i64,
    delivered_at: i64,
    deliveries: Option<u64>,
    just_id: bool,
    log: Option<Vec<Record>>,
    changes: u64,
}

impl Claimant<'_> {
    /// Drops a pending entry that is not in the stream any more.
    fn drop_deleted(&mut self, id: Id) {
        if self.group.acknowledge(id) {
            self.changes += 1;
            if let Some(log) = &mut self.log {
                log.push(acknowledged_record(self.key, self.group_name, &[id]));
            }
        }
    }

    /// Moves the group's position to this entry at least; true if it was before.
    fn move_to(&mut self, last_id: Id) -> bool {
        let moves = last_id > self.group.last_id;
        if moves {
            self.group.last_id = last_id;
            self.changes += 1;
        }
        moves
    }

    /// Logs the group's position, if no claimed entry carries it.
    fn log_moved(&mut self, alone: bool) {
        if let Some(log) = self.log.as_mut().filter(|_| alone) {
            log.push(position_record(self.key, self.group_name, self.group));
        }
    }

    fn is_idle(&self, pending: &Pending) -> bool {
        pending.consumer.is_none()
            || self.min_idle == 0
            || self.now.saturating_sub(pending.delivered_at) >= self.min_idle
    }

    /// Makes the entry this consumer's; replies it.
    fn claim(&mut self, id: Id, before: &Pending, reply: &mut Reply) {
        let deliveries = match self.deliveries {
            Some(given) => given,
            None if self.just_id => before.deliveries,
            None => once_more(before.deliveries),
        };
        let pending = Pending { delivered_at: self.delivered_at, deliveries, consumer: Some(self.consumer) };
        self.group.assign(id, pending);
        if let Some(consumer) = self.group.consumer_mut(self.consumer) {
            consumer.active_at = Some(self.now);
        }
        if self.just_id {
            reply_id(reply, id);
        } else {
            let mut cursor = self.stream.range(id, id);
            cursor.next();
            reply_entry(reply, id, &mut cursor);
        }
        self.changes += 1;
        if let Some(log) = &mut self.log {
            let last_id = self.group.last_id;
            log.push(claim_record(self.key, self.group_name, self.consumer_name.to_vec(), id, &pending, last_id));
        }
    }
}

/// Gives `claim` the claimant for the consumer at argument 3, and commits the result.
fn with_claimant<R>(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    min_idle: i64,
    claim: impl FnOnce(&mut Claimant<'_>, &mut Reply) -> R,
) -> Result<R, Error> {
    let key = cx.key(args, 1);
    let (now, has_log, reply) = (cx.now_ms().0, cx.engine.has_log(), &mut *cx.reply);
    let mut edit = cx.keys.edit(key);
    if edit.collection::<Stream>()?.is_none_or(|stream| stream.group(&args[2]).is_none()) {
        return Err(no_key_or_group(&args[1], &args[2]));
    }
    let done = edit.with(|stream: &mut Stream| {
        stream.with_group(&args[2], |stream, group| {
            let (consumer, new_consumer) = group.find_or_add(&args[3], now);
            if let Some(consumer) = group.consumer_mut(consumer) {
                consumer.seen_at = now;
            }
            let mut claimant = Claimant {
                stream,
                group,
                key: &args[1],
                group_name: &args[2],
                consumer,
                consumer_name: &args[3],
                min_idle,
                now,
                delivered_at: now,
                deliveries: None,
                just_id: false,
                log: has_log.then(Vec::new),
                changes: u64::from(new_consumer),
            };
            let result = claim(&mut claimant, reply);
            (result, new_consumer, claimant.changes, claimant.log)
        })
    })?;
    let (result, new_consumer, changes, log) = done.ok_or_else(|| no_key_or_group(&args[1], &args[2]))?;
    if changes == 0 {
        edit.unchanged();
        return Ok(result);
    }
    edit.log_as(|| {
        let mut log = log.unwrap_or_default();
        if new_consumer {
            let words: [&[u8]; 5] = [b"XGROUP", b"CREATECONSUMER", &args[1], &args[2], &args[3]];
            log.insert(0, words.map(<[u8]>::to_vec).to_vec());
        }
        log
    });
    let event = new_consumer.then_some((EventClass::STREAM, "xgroup-createconsumer"));
    edit.commit_beside(changes, event);
    Ok(result)
}

fn min_idle(args: &Args<'_>, command: &'static str) -> Result<i64, Error> {
    let number = resp::number::parse_i64(&args[4]);
    let number = number.ok_or(Error::MinIdleTime(command))?;
    Ok(number.max(0))
}

/// The options of XCLAIM.
#[derive(Default)]
struct Options {
    delivered_at: Option<i64>,
    deliveries: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: Option<Id>,
}

impl Options {
    fn parse(args: &Args<'_>, from: usize, now: i64) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut at = from;
        let number =
            |at: usize, name: &'static str| resp::number::parse_i64(&args[at]).ok_or(Error::XclaimOptionValue(name));
        while at < args.len() {
            let more = at + 1 < args.len();
            if args.is(at, "force") {
                options.force = true;
            } else if args.is(at, "justid") {
                options.just_id = true;
            } else if more && args.is(at, "idle") {
                at += 1;
                options.delivered_at = Some(now.saturating_sub(number(at, "IDLE")?));
            } else if more && args.is(at, "time") {
                at += 1;
                options.delivered_at = Some(number(at, "TIME")?);
            } else if more && args.is(at, "retrycount") {
                at += 1;
                options.deliveries = u64::try_from(number(at, "RETRYCOUNT")?).ok();
            } else if more && args.is(at, "lastid") {
                at += 1;
                options.last_id = Some(parse_id(&args[at], 0)?);
            } else {
                return Err(Error::XclaimOption(Word::up_to_nul(&args[at])));
            }
            at += 1;
        }
        // A time ahead of now, or before all time, is now.
        options.delivered_at = options.delivered_at.map(|at| if (0..=now).contains(&at) { at } else { now });
        Ok(options)
    }
}

fn xclaim(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if are_claimed(args, cx.keys.origin().caller) {
        return own_words::give_back(cx, args);
    }
    let group = cx.keys.collection::<Stream>(cx.key(args, 1))?.map(|stream| stream.group(&args[2]).is_some());
    if group != Some(true) {
        return Err(no_key_or_group(&args[1], &args[2]));
    }
    let min_idle = min_idle(args, "XCLAIM")?;
    let ids: Vec<Id> = args.from(5).map_while(|id| parse_id(id, 0).ok()).collect();
    let options = Options::parse(args, 5 + ids.len(), cx.now_ms().0)?;
    with_claimant(cx, args, min_idle, |claimant, reply| {
        claimant.delivered_at = options.delivered_at.unwrap_or(claimant.now);
        claimant.deliveries = options.deliveries;
        claimant.just_id = options.just_id;
        let moved = options.last_id.is_some_and(|id| claimant.move_to(id));
        let (mark, mut claimed) = (reply.begin_array(), 0);
        for id in ids {
            let before = claimant.group.pending(id).copied();
            if !claimant.stream.contains(id) {
                claimant.drop_deleted(id);
                continue;
            }
            let before = match before {
                Some(before) if !claimant.is_idle(&before) => continue,
                Some(before) => before,
                None if options.force => Pending { delivered_at: claimant.now, deliveries: 1, consumer: None },
                None => continue,
            };
            claimant.claim(id, &before, reply);
            claimed += 1;
        }
        reply.end_array(mark, claimed);
        claimant.log_moved(moved && claimed == 0);
    })
}

fn xautoclaim(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    // The key is looked up before anything is read, as others learn of a miss.
    cx.keys.find(cx.key(args, 1));
    let min_idle = min_idle(args, "XAUTOCLAIM")?;
    let (start, after) = parse_bound(&args[5], 0)?;
    let start = if after { start.next().ok_or(Error::StreamStartId)? } else { start };
    let (mut count, mut just_id) = (100u64, false);
    let mut at = 6;
    while at < args.len() {
        if at + 1 < args.len() && args.is(at, "count") {
            let given = resp::number::parse_i64(&args[at + 1]).and_then(|count| u64::try_from(count).ok());
            let given = given.filter(|count| (1..=i64::MAX as u64 / ID_BYTES).contains(count));
            count = given.ok_or(Error::CountMustBeAboveZero)?;
            at += 2;
        } else if args.is(at, "justid") {
            just_id = true;
            at += 1;
        } else {
            return Err(Error::Syntax);
        }
    }
    let yielding = if count.saturating_mul(ATTEMPTS) > yielding::AT_ONCE as u64 {
        let pending = |object: &Object| Stream::of(object)?.group(&args[2]).map(ConsumerGroup::pending_len);
        cx.yielding(cx.elements(cx.key(args, 1), |object| pending(object).unwrap_or(0)))?
    } else {
        Yielding::never()
    };
    with_claimant(cx, args, min_idle, |claimant, reply| {
        claimant.just_id = just_id;
        let (mut attempts, mut left) = (count * ATTEMPTS, count);
        let mut deleted = Vec::new();
        reply.array(3);
        // The next start stands first, so the claimed entries are written aside.
        let mut entries = Reply::new(Vec::new(), reply.protocol());
        let mut next = Some(start);
        let mut claimed = 0;
        while attempts > 0
            && left > 0
            && let Some(from) = next
        {
            let Some((id, before)) = claimant.group.pending_range(from, Id::MAX).next() else {
                next = None;
                break;
            };
            let before = *before;
            yielding.step();
            attempts -= 1;
            next = id.next();
            if !claimant.stream.contains(id) {
                claimant.drop_deleted(id);
                deleted.push(id);
                left -= 1;
            } else if claimant.is_idle(&before) {
                claimant.claim(id, &before, &mut entries);
                claimed += 1;
                left -= 1;
            }
        }
        let next = next.and_then(|from| claimant.group.pending_range(from, Id::MAX).next());
        reply_id(reply, next.map_or(Id::MIN, |(id, _)| id));
        reply.array(claimed);
        reply.raw(entries.as_slice());
        reply.array(deleted.len());
        deleted.iter().for_each(|id| reply_id(reply, *id));
    })
}
