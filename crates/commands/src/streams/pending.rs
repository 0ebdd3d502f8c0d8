//! XPENDING: the entries that consumers of a group have received and not acknowledged.

use crate::core::args::Args;
use crate::core::command::{Command, Group as Family, READONLY, key};
use crate::core::context::Context;
use crate::core::yielding::{self, Yielding};
use crate::streams::claim::no_key_or_group;
use crate::streams::stream::{parse_range, reply_id};
use engine::Error;
use engine::data::value::{Collection, Object};
use resp::Reply;
use structures::stream::{ConsumerGroup, ConsumerRef, Id, Stream};

pub const COMMANDS: &[Command] = &[Command {
    name: "xpending",
    group: Family::Stream,
    since: "5.0.0",
    arity: -3,
    flags: READONLY,
    keys: &[key(1).ro().access()],
    syntax: "key group [filters: [IDLE min-idle-time:int]@6.2.0 start end count:int [consumer]]",
    summary: "Returns the information and entries from a stream consumer group's pending entries list.",
    complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) time for iterating every consumer.",
    history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
    tips: &["nondeterministic_output"],
    run: xpending,
    ..Command::DEFAULT
}];

/// The requested entries.
struct Filter<'a> {
    min_idle: i64,
    start: Id,
    end: Id,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(args: &'a Args<'_>) -> Result<Option<Filter<'a>>, Error> {
        if args.len() == 3 {
            return Ok(None);
        }
        if args.len() < 6 || args.len() > 9 {
            return Err(Error::Syntax);
        }
        let with_idle = args.is(3, "idle");
        let min_idle = if with_idle { args.int(4)? } else { 0 };
        let at = if with_idle { 5 } else { 3 };
        if args.len() < at + 3 {
            return Err(Error::Syntax);
        }
        let count = u64::try_from(args.int(at + 2)?).unwrap_or(0);
        let (start, end) = parse_range(&args[at], &args[at + 1])?;
        Ok(Some(Filter { min_idle, start, end, count, consumer: args.get(at + 3) }))
    }
}

fn xpending(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let filter = Filter::parse(args)?;
    let now = cx.now_ms().0;
    let yielding = match &filter {
        // Entries that are not idle for long enough are looked at, too.
        Some(filter) if filter.count > yielding::AT_ONCE as u64 || filter.min_idle > 0 => {
            let pending = |object: &Object| Stream::of(object)?.group(&args[2]).map(ConsumerGroup::pending_len);
            cx.yielding(cx.elements(cx.key(args, 1), |object| pending(object).unwrap_or(0)))?
        }
        _ => Yielding::never(),
    };
    let stream = cx.keys.collection::<Stream>(cx.key(args, 1))?;
    let group = stream.and_then(|stream| stream.group(&args[2]));
    let group = group.ok_or_else(|| no_key_or_group(&args[1], &args[2]))?;
    match filter {
        None => summary(cx.reply, group),
        Some(filter) => entries(cx.reply, group, &filter, now, &yielding),
    }
    Ok(())
}

fn summary(reply: &mut Reply, group: &ConsumerGroup) {
    reply.array(4);
    reply.int(group.pending_len() as i64);
    let mut pending = group.pending_range(Id::MIN, Id::MAX);
    let Some((first, _)) = pending.next() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    let last = pending.next_back().map_or(first, |(id, _)| id);
    reply_id(reply, first);
    reply_id(reply, last);
    let with_some = || group.consumers().filter(|(consumer, _)| consumer.pending_len() > 0);
    reply.array(with_some().count());
    for (consumer, _) in with_some() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_int(consumer.pending_len() as i64);
    }
}

fn entries(reply: &mut Reply, group: &ConsumerGroup, filter: &Filter<'_>, now: i64, yielding: &Yielding<'_>) {
    let consumer = filter.consumer.map(|name| group.find(name));
    if consumer == Some(None) {
        return reply.array(0);
    }
    let idle = |id: Id| group.pending(id).map_or(0, |pending| now.saturating_sub(pending.delivered_at).max(0));
    let wanted = |id: &Id| filter.min_idle == 0 || idle(*id) >= filter.min_idle;
    let count = usize::try_from(filter.count).unwrap_or(usize::MAX);
    let found: Vec<Id> = match consumer.flatten().and_then(|at: ConsumerRef| group.consumer(at)) {
        Some(consumer) => {
            let own = consumer.pending_from(filter.start).take_while(|id| *id <= filter.end);
            yielding.over(own).filter(wanted).take(count).collect()
        }
        None => {
            let all = group.pending_range(filter.start, filter.end).map(|(id, _)| id);
            yielding.over(all).filter(wanted).take(count).collect()
        }
    };
    reply.array(found.len());
    for id in yielding.over(found.into_iter()) {
        let pending = group.pending(id);
        let owner = pending.and_then(|pending| group.consumer(pending.consumer?));
        reply.array(4);
        reply_id(reply, id);
        reply.bulk(owner.map_or(&[], |consumer| &consumer.name));
        // No consumer has it.
        reply.int(if owner.is_some() { idle(id) } else { -1 });
        reply.int(pending.map_or(0, |pending| pending.deliveries as i64));
    }
}
