//! XREADGROUP: entries for one consumer of a group; either those that no consumer of the group has received yet (`>`),
//! or once more those that this consumer has received and not acknowledged.
//!
//! The change log gets the changes of the group: an XCLAIM for each delivered entry, for the first time or again, and
//! the group's position.

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, Group as Family, WRITE};
use crate::core::context::Context;
use crate::core::yielding::Yielding;
use crate::streams::stream::{parse_id, reply_fields, reply_id};
use crate::streams::stream_records::{acknowledged_record, claim_record, position_record};
use crate::streams::xread::{Budget, ReadOptions, StreamAnswers, stream_keys};
use engine::data::event_class::EventClass;
use engine::data::value_type::STREAM;
use engine::propagation::effects::Record;
use engine::{Error, Word};
use resp::Reply;
use structures::stream::{ConsumerGroup, ConsumerRef, Id, Pending, Stream};

pub const COMMANDS: &[Command] = &[Command {
    name: "xreadgroup",
    group: Family::Stream,
    since: "5.0.0",
    arity: -7,
    flags: WRITE.and(BLOCKING),
    keys: &[stream_keys(4)],
    syntax: "(GROUP group-block: group consumer) [COUNT count:int] [BLOCK milliseconds:int] [NOACK] (STREAMS streams: key... id...)",
    summary: "Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise.",
    complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data.",
    run: xreadgroup,
    ..Command::DEFAULT
}];

/// A consumer's request for one stream.
#[derive(Clone, Copy, Debug)]
enum From {
    New,
    /// Its own pending entries after this id.
    History(Id),
}

fn xreadgroup(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = ReadOptions::parse(cx, args, true)?;
    let group_at = options.group_at.unwrap_or(0);
    let yielding = options.yielding(cx, args, |stream, id| match stream.group(&args[group_at]) {
        Some(group) if id == b">" => group.last_id.next(),
        Some(_) => parse_id(id, 0).ok(),
        None => None,
    })?;
    let mut wanted = Vec::with_capacity(options.streams);
    for index in options.key_indices() {
        let stream = cx.keys.collection::<Stream>(cx.key(args, index))?;
        if stream.is_none_or(|stream| stream.group(&args[group_at]).is_none()) {
            return Err(Error::XreadgroupNoKeyOrGroup(Word::up_to_nul(&args[index]), Word::up_to_nul(&args[group_at])));
        }
        wanted.push(match &args[options.id_at(index)] {
            b">" => From::New,
            b"$" => return Err(Error::XreadgroupDollar),
            b"+" => return Err(Error::XreadgroupPlus),
            id => match parse_id(id, 0)? {
                // The last of all ids is another name of the new ones.
                Id::MAX => From::New,
                after => From::History(after),
            },
        });
    }
    let mut told = Told { answers: StreamAnswers::default(), budget: options.budget(cx.reply), yielding };
    let mut log = cx.engine.has_log().then(Vec::new);
    for (index, from) in options.key_indices().zip(wanted) {
        if told.budget.limit() > 0 {
            read_one(cx, args, &options, index, from, &mut told, &mut log)?;
        }
    }
    if told.answers.end(cx.reply) {
        return Ok(());
    }
    match options.block.clone() {
        None => cx.reply.null_array(),
        Some(wait) => {
            let wait = Wait { kind: Some(&STREAM), on_missing: true, ..wait };
            cx.wait(args, options.key_indices(), wait);
        }
    }
    Ok(())
}

/// The results of the streams before.
struct Told<'c> {
    answers: StreamAnswers,
    budget: Budget,
    yielding: Yielding<'c>,
}

/// The result of reading one stream.
#[derive(Default)]
struct Outcome {
    new_consumer: bool,
    answered: bool,
    /// Pending entries that were dropped.
    dropped: u64,
}

fn read_one(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    options: &ReadOptions,
    index: usize,
    from: From,
    told: &mut Told<'_>,
    log: &mut Option<Vec<Record>>,
) -> Result<(), Error> {
    let group_at = options.group_at.unwrap_or(0);
    let key = cx.key(args, index);
    let (now, reply) = (cx.now_ms().0, &mut *cx.reply);
    let mut edit = cx.keys.edit(key);
    // The group was looked up before: that was another reading.
    edit.count_read();
    let outcome = edit.with(|stream: &mut Stream| {
        stream.with_group(&args[group_at], |stream, group| {
            let (consumer, new_consumer) = group.find_or_add(&args[group_at + 1], now);
            if let Some(consumer) = group.consumer_mut(consumer) {
                consumer.seen_at = now;
            }
            let Told { answers, budget, yielding } = told;
            let left = budget.limit();
            let mut reader =
                Reader { stream, group, consumer, now, left, budget, yielding, dropped: 0, log: log.as_mut() };
            let begins = reply.len();
            let (any, given) = reader.read(from, answers, reply, key.name, options, &args[group_at]);
            let answered = any && (given > 0 || !reader.budget.is_spent());
            if any && !answered {
                answers.take_back(reply, begins);
            }
            // Delivered entries create the consumer in the log.
            if new_consumer && (options.no_ack || given == 0) {
                reader.log(
                    |group, name| {
                        vec![b"XGROUP".to_vec(), b"CREATECONSUMER".to_vec(), key.name.to_vec(), group.to_vec(), name]
                    },
                    &args[group_at],
                );
            }
            Outcome { new_consumer, answered, dropped: reader.dropped }
        })
    })?;
    let outcome = outcome.unwrap_or_default();
    let changes = u64::from(outcome.answered) + u64::from(outcome.new_consumer) + outcome.dropped;
    if changes == 0 {
        edit.unchanged();
        return Ok(());
    }
    if let Some(records) = log {
        edit.log_as(|| records.clone());
    }
    let event = outcome.new_consumer.then_some((EventClass::STREAM, "xgroup-createconsumer"));
    edit.commit_beside(changes, event);
    Ok(())
}

/// One consumer at one stream.
struct Reader<'r> {
    stream: &'r Stream,
    group: &'r mut ConsumerGroup,
    consumer: ConsumerRef,
    now: i64,
    /// Entries that it may still receive.
    left: u64,
    budget: &'r mut Budget,
    yielding: &'r Yielding<'r>,
    /// Pending entries that turned out to be deleted from the stream.
    dropped: u64,
    log: Option<&'r mut Vec<Record>>,
}

impl Reader<'_> {
    fn log(&mut self, record: impl FnOnce(&[u8], Vec<u8>) -> Record, group: &[u8]) {
        if let Some(log) = &mut self.log {
            let name = self.group.consumer(self.consumer).map(|consumer| consumer.name.to_vec());
            log.push(record(group, name.unwrap_or_default()));
        }
    }

    /// Replies the consumer's entries of the stream; returns whether the stream is in the reply at all, and how many
    /// entries.
    fn read(
        &mut self,
        from: From,
        answers: &mut StreamAnswers,
        reply: &mut Reply,
        key: &[u8],
        options: &ReadOptions,
        group: &[u8],
    ) -> (bool, usize) {
        if let From::History(after) = from {
            answers.begin(reply, key);
            return (true, self.history(after, reply, key, group));
        }
        let idle = options.claim.map(|min_idle| self.idle(min_idle, key, group)).unwrap_or_default();
        if idle.is_empty() && !self.any_new() {
            return (false, 0);
        }
        answers.begin(reply, key);
        let mark = reply.begin_array();
        let mut given = self.claim(&idle, reply, key, group);
        given += self.new_entries(reply, options, key, group);
        reply.end_array(mark, given);
        (true, given)
    }

    fn any_new(&self) -> bool {
        let Some(start) = self.group.last_id.next() else { return false };
        // The end is near, while `start` may be in the middle of a node.
        self.stream.last_id >= start && self.stream.last_live_id().is_some_and(|last| last >= start)
    }

    /// Returns entries that have been pending for as long with any consumer, the longest first. An entry that is not in
    /// the stream any more is no longer pending.
    fn idle(&mut self, min_idle: i64, key: &[u8], group: &[u8]) -> Vec<(Id, Pending)> {
        let is_idle =
            |pending: &Pending| pending.consumer.is_none() || self.now.saturating_sub(pending.delivered_at) >= min_idle;
        let all = self.group.pending_range(Id::MIN, Id::MAX).map(|(id, pending)| (id, *pending));
        let mut idle: Vec<(Id, Pending)> = all.filter(|(_, pending)| is_idle(pending)).collect();
        idle.sort_by_key(|(id, pending)| (pending.delivered_at, *id));
        idle.retain(|(id, _)| {
            let there = self.stream.contains(*id);
            if !there && self.group.acknowledge(*id) {
                self.dropped += 1;
                if let Some(log) = &mut self.log {
                    log.push(acknowledged_record(key, group, &[*id]));
                }
            }
            there
        });
        idle.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        idle
    }

    /// Replies pending entries, which are this consumer's from now on, and their former state; returns how many.
    fn claim(&mut self, idle: &[(Id, Pending)], reply: &mut Reply, key: &[u8], group: &[u8]) -> usize {
        let mut given = 0;
        for (id, before) in idle {
            let begins = reply.len();
            let mut cursor = self.stream.range(*id, *id);
            cursor.next();
            reply.array(4);
            reply_fields(reply, *id, &mut cursor);
            reply.int(self.now.saturating_sub(before.delivered_at));
            reply.int(before.deliveries as i64);
            if !self.budget.takes(reply, begins) {
                break;
            }
            given += 1;
            let deliveries = once_more(before.deliveries);
            let pending = Pending { delivered_at: self.now, deliveries, consumer: Some(self.consumer) };
            self.group.assign(*id, pending);
            let last_id = self.group.last_id;
            self.log(|group, name| claim_record(key, group, name, *id, &pending, last_id), group);
        }
        self.left -= given as u64;
        self.given(given > 0);
        given
    }

    /// Replies the entries that no consumer of the group has received yet; returns how many.
    fn new_entries(&mut self, reply: &mut Reply, options: &ReadOptions, key: &[u8], group: &[u8]) -> usize {
        let Some(start) = self.group.last_id.next().filter(|start| *start <= self.stream.last_id) else { return 0 };
        let mut cursor = self.stream.range(start, Id::MAX);
        let mut given = 0;
        while given < self.left
            && let Some(id) = cursor.next()
        {
            let begins = reply.len();
            reply.array(if options.claim.is_some() { 4 } else { 2 });
            reply_fields(reply, id, &mut cursor);
            if options.claim.is_some() {
                reply.int(0);
                reply.int(0);
            }
            if !self.budget.takes(reply, begins) {
                break;
            }
            self.stream.count_read(self.group, id);
            self.yielding.step();
            given += 1;
            if options.no_ack {
                continue;
            }
            let pending = Pending { delivered_at: self.now, deliveries: 1, consumer: Some(self.consumer) };
            self.group.assign(id, pending);
            let last_id = self.group.last_id;
            self.log(|group, name| claim_record(key, group, name, id, &pending, last_id), group);
        }
        self.given(given > 0 && !options.no_ack);
        if let Some(log) = self.log.as_mut().filter(|_| given > 0) {
            log.push(position_record(key, group, self.group));
        }
        given as usize
    }

    /// Records whether the consumer has received an entry.
    fn given(&mut self, something: bool) {
        if something && let Some(consumer) = self.group.consumer_mut(self.consumer) {
            consumer.active_at = Some(self.now);
        }
    }

    /// Replies the entries that are pending with this consumer, once more; returns how many.
    fn history(&mut self, after: Id, reply: &mut Reply, key: &[u8], group: &[u8]) -> usize {
        let (mark, mut given) = (reply.begin_array(), 0);
        let mut next = after.next();
        while given < self.left
            && let Some(start) = next
        {
            let own = self.group.consumer(self.consumer).and_then(|consumer| consumer.pending_from(start).next());
            let Some(id) = own else { break };
            self.yielding.step();
            let begins = reply.len();
            let mut cursor = self.stream.range(id, id);
            let is_there = cursor.next().is_some();
            reply.array(2);
            if is_there {
                reply_fields(reply, id, &mut cursor);
            } else {
                reply_id(reply, id);
                reply.null_array();
            }
            if !self.budget.takes(reply, begins) {
                break;
            }
            if is_there && let Some(pending) = self.group.pending(id).copied() {
                let deliveries = once_more(pending.deliveries);
                let pending = Pending { delivered_at: self.now, deliveries, ..pending };
                self.group.assign(id, pending);
                let last_id = self.group.last_id;
                self.log(|group, name| claim_record(key, group, name, id, &pending, last_id), group);
            }
            given += 1;
            next = id.next();
        }
        reply.end_array(mark, given as usize);
        given as usize
    }
}

/// Returns the number of deliveries after one more, capped at the largest that commands accept.
pub(crate) fn once_more(deliveries: u64) -> u64 {
    deliveries.saturating_add(1).min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn each_entry_goes_to_one_consumer() {
        let mut client = Client::with_events();
        let log = client.log();
        client.is("XADD s 1-1 a 1", "1-1").is("XADD s 1-2 a 2", "1-2").is("XGROUP CREATE s g 0", "+OK");
        client.is("XREADGROUP GROUP g c COUNT 1 STREAMS s >", "[[s [[1-1 [a 1]]]]]");
        client.is("XREADGROUP GROUP g d STREAMS s >", "[[s [[1-2 [a 2]]]]]");
        client
            .is("XREADGROUP GROUP g d STREAMS s >", "nil")
            .is("XREADGROUP GROUP g c STREAMS s 0", "[[s [[1-1 [a 1]]]]]");
        client.is("XDEL s 1-1", ":1").is("XREADGROUP GROUP g c STREAMS s 0", "[[s [[1-1 nil]]]]");
        client.is("XACK s g 1-1", ":1").is("XREADGROUP GROUP g c STREAMS s 0", "[[s []]]");
        client.is("XREADGROUP GROUP g e NOACK STREAMS s >", "nil").is("XREADGROUP GROUP g f STREAMS s >", "nil");
        assert!(client.events().contains(&"0 xgroup-createconsumer s".to_owned()));
        let logged: Vec<_> =
            log.take().iter().map(|(_, words)| String::from_utf8(words.join(&b' ')).unwrap()).collect();
        let expected = [
            "XADD s 1-1 a 1",
            "XADD s 1-2 a 2",
            "XGROUP CREATE s g 0",
            "MULTI",
            "XCLAIM s g c 0 1-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1",
            "XGROUP SETID s g 1-1 ENTRIESREAD 1",
            "EXEC",
            "MULTI",
            "XCLAIM s g d 0 1-2 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-2",
            "XGROUP SETID s g 1-2 ENTRIESREAD 2",
            "EXEC",
            "XCLAIM s g c 0 1-1 TIME 1700000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 1-2",
            "XDEL s 1-1",
            "XACK s g 1-1",
            "XGROUP CREATECONSUMER s g e",
            "XGROUP CREATECONSUMER s g f",
        ];
        assert_eq!(logged, expected);
    }

    #[test]
    fn claiming_moves_entries_and_drops_what_is_deleted() {
        let mut client = Client::new();
        let log = client.log();
        client.is("XADD s 1-1 a 1", "1-1").is("XADD s 1-2 a 2", "1-2").is("XGROUP CREATE s g 0", "+OK");
        client.run("XREADGROUP GROUP g c STREAMS s >");
        client
            .later(10)
            .is("XCLAIM s g d 20 1-1", "[]")
            .is("XCLAIM s g d 10 1-1", "[[1-1 [a 1]]]")
            .is("XDEL s 1-2", ":1");
        log.take();
        client
            .is("XAUTOCLAIM s g d 0 - COUNT 1", "[1-2 [[1-1 [a 1]]] []]")
            .is("XAUTOCLAIM s g d 0 1-2", "[0-0 [] [1-2]]");
        client.is("XPENDING s g", "[:1 1-1 1-1 [[d 1]]]").is("XPENDING s g - + 9 d", "[[1-1 d :0 :3]]");
        let logged: Vec<_> =
            log.take().iter().map(|(_, words)| String::from_utf8(words.join(&b' ')).unwrap()).collect();
        let expected = ["XCLAIM s g d 0 1-1 TIME 1700000000010 RETRYCOUNT 3 FORCE JUSTID LASTID 1-2", "XACK s g 1-2"];
        assert_eq!(logged, expected);
    }

    #[test]
    fn a_group_that_moves_without_a_claim_is_logged() {
        let mut client = Client::new();
        let log = client.log();
        client.is("XADD s 1-1 a 1", "1-1").is("XGROUP CREATE s g 0", "+OK").is("XGROUP CREATECONSUMER s g c", ":1");
        log.take();
        client.is("XCLAIM s g c 0 1-1 LASTID 7-7", "[]").is("XCLAIM s g c 0 1-1 LASTID 7-6", "[]");
        client.is("XCLAIM s g d 0 9-9 LASTID 8-8", "[]").is("XCLAIM s g c 0 1-1 FORCE LASTID 9-9", "[[1-1 [a 1]]]");
        let logged: Vec<_> =
            log.take().iter().map(|(_, words)| String::from_utf8(words.join(&b' ')).unwrap()).collect();
        let expected = [
            "XGROUP SETID s g 7-7 ENTRIESREAD -1",
            "MULTI",
            "XGROUP CREATECONSUMER s g d",
            "XGROUP SETID s g 8-8 ENTRIESREAD -1",
            "EXEC",
            "XCLAIM s g c 0 1-1 TIME 1700000000000 RETRYCOUNT 2 FORCE JUSTID LASTID 9-9",
        ];
        assert_eq!(logged, expected);
    }

    #[test]
    fn pending_entries_that_were_deleted_are_logged_as_they_go() {
        let mut client = Client::new();
        let log = client.log();
        client.is("XADD s 1-1 a 1", "1-1").is("XADD s 1-2 a 2", "1-2").is("XGROUP CREATE s g 0", "+OK");
        client.run("XREADGROUP GROUP g c STREAMS s >");
        client.is("XDEL s 1-1 1-2", ":2");
        log.take();
        client.is("XREADGROUP GROUP g d CLAIM 0 STREAMS s >", "nil").is("XPENDING s g", "[:0 nil nil nil]");
        let logged: Vec<_> =
            log.take().iter().map(|(_, words)| String::from_utf8(words.join(&b' ')).unwrap()).collect();
        let expected = ["MULTI", "XACK s g 1-1", "XACK s g 1-2", "XGROUP CREATECONSUMER s g d", "EXEC"];
        assert_eq!(logged, expected);
    }

    #[test]
    fn deliveries_stay_a_number_that_the_log_can_say() {
        let mut client = Client::new();
        client.is("XADD s 1-1 a 1", "1-1").is("XGROUP CREATE s g 0", "+OK");
        client.run(&format!("XCLAIM s g c 0 1-1 FORCE JUSTID RETRYCOUNT {}", i64::MAX));
        client.run("XCLAIM s g c 0 1-1");
        client.is("XPENDING s g - + 9", &format!("[[1-1 c :0 :{}]]", i64::MAX));
    }

    #[test]
    fn each_of_several_streams_is_logged_once() {
        let mut client = Client::with_events();
        let log = client.log();
        for key in ["s", "t"] {
            client.is(&format!("XADD {key} 1-1 a 1"), "1-1").is(&format!("XGROUP CREATE {key} g 0"), "+OK");
        }
        log.take();
        client.is("XREADGROUP GROUP g c STREAMS s t > >", "[[s [[1-1 [a 1]]]] [t [[1-1 [a 1]]]]]");
        let names: Vec<_> = log
            .take()
            .iter()
            .map(|(_, words)| {
                let word =
                    |index: usize| words.get(index).map_or_else(String::new, |w| String::from_utf8(w.clone()).unwrap());
                let key = if word(0) == "XCLAIM" { word(1) } else { word(2) };
                format!("{} {key}", word(0))
            })
            .collect();
        assert_eq!(names, ["MULTI ", "XCLAIM s", "XGROUP s", "XCLAIM t", "XGROUP t", "EXEC "]);
    }

    #[test]
    fn entries_change_hands_in_a_transaction() {
        let mut client = Client::new();
        client.is("XADD s 1-1 a 1", "1-1").is("XADD s 1-2 a 2", "1-2").is("XGROUP CREATE s g 0", "+OK");
        client.is("XREADGROUP GROUP g c STREAMS s >", "[[s [[1-1 [a 1]] [1-2 [a 2]]]]]");
        client.is("MULTI", "+OK").is("XCLAIM s g d 0 1-1 JUSTID", "+QUEUED");
        client.is("XAUTOCLAIM s g e 0 1-2 JUSTID", "+QUEUED");
        client.is("EXEC", "[[1-1] [0-0 [1-2] []]]");
    }
}
