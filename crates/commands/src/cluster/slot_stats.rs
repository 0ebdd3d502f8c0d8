//! CLUSTER SLOT-STATS: the number of keys in each slot of this node, and the resources that its commands use.

use super::keys_in_slot::slot_at;
use super::node_access::must_be_clustered;
use crate::core::args::Args;
use crate::core::context::{Context, Flow, Resumable};
use engine::data::slot::SLOTS;
use engine::stats::slot_traffic::SlotUse;
use engine::{Engine, Error, Word};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

/// Metric of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    KeyCount,
    Cpu,
    BytesIn,
    BytesOut,
}

/// The first is always there.
const METRICS: [(Metric, &str); 4] = [
    (Metric::KeyCount, "key-count"),
    (Metric::Cpu, "cpu-usec"),
    (Metric::BytesIn, "network-bytes-in"),
    (Metric::BytesOut, "network-bytes-out"),
];

impl Metric {
    fn named(args: &Args<'_>, index: usize) -> Option<Metric> {
        METRICS.into_iter().find(|(_, name)| args.is(index, name)).map(|(metric, _)| metric)
    }

    fn of(self, keys: u64, done: SlotUse) -> u64 {
        match self {
            Metric::KeyCount => keys,
            Metric::Cpu => done.nanos / 1000,
            Metric::BytesIn => done.received,
            Metric::BytesOut => done.sent,
        }
    }
}

/// Order of the reported slots, and their number.
struct SlotOrder {
    /// Metric of the order. None: by their numbers.
    by: Option<Metric>,
    descends: bool,
    limit: usize,
}

/// Counts the keys of slots, in all databases.
struct KeyCounts {
    slots: RangeInclusive<u16>,
    order: SlotOrder,
    counts: Vec<u64>,
    /// Slot that is counted next.
    next: usize,
    /// Set when replicas were sent all earlier writes, whose bytes count, too.
    framed: Arc<OnceLock<u64>>,
}

impl KeyCounts {
    /// Counts one shard after the other.
    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        if self.framed.get().is_none() {
            return Ok(false);
        }
        let engine = cx.engine;
        while self.next <= usize::from(*self.slots.end()) {
            let shard = engine.hasher().shard_of(self.next as u16);
            let slots = self.next..engine.hasher().slots_of(shard).end;
            let counted = cx.keys.with_shard(shard, |_, _| engine.slot_counts().in_all(slots.clone()))?;
            self.counts[slots.clone()].iter_mut().zip(counted).for_each(|(count, keys)| *count = keys as u64);
            self.next = slots.end;
        }
        self.reply(cx);
        Ok(true)
    }

    fn reply(&self, cx: &mut Context<'_>) {
        let map = cx.engine.cluster().map();
        let traffic = cx.engine.slot_traffic();
        let with_use = |slot: u16| (slot, self.counts[usize::from(slot)], traffic.of(slot));
        let mut slots: Vec<(u16, u64, SlotUse)> =
            self.slots.clone().filter(|slot| map.is_own(*slot)).map(with_use).collect();
        if let Some(metric) = self.order.by {
            slots.sort_by_key(|(slot, keys, done)| {
                let value = metric.of(*keys, *done);
                (if self.order.descends { u64::MAX - value } else { value }, *slot)
            });
        }
        slots.truncate(self.order.limit);
        let shown = if traffic.is_on() { &METRICS[..] } else { &METRICS[..1] };
        cx.reply.array(slots.len());
        for (slot, keys, done) in slots {
            cx.reply.array(2);
            cx.reply.int(i64::from(slot));
            cx.reply.map(shown.len());
            for (metric, name) in shown {
                cx.reply.bulk(name.as_bytes());
                cx.reply.int(metric.of(keys, done) as i64);
            }
        }
    }
}

impl Resumable for KeyCounts {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

pub(super) fn slot_stats(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let (slots, order) = match () {
        () if args.len() == 5 && args.is(2, "slotsrange") => {
            let (start, end) = (slot_at(args, 3)?, slot_at(args, 4)?);
            if start > end {
                return Err(Error::SlotStatsRange(Word::of(start.to_string()), Word::of(end.to_string())));
            }
            (start..=end, SlotOrder { by: None, descends: false, limit: SLOTS })
        }
        () if args.len() >= 4 && args.is(2, "orderby") => (0..=(SLOTS - 1) as u16, order(cx.engine, args)?),
        () => return Err(Error::SubcommandUse(Word::of(&args[1]), "CLUSTER")),
    };
    let framed = Arc::default();
    match cx.engine.slot_traffic().is_on() && !cx.engine.replication().replicas().is_empty() {
        true => cx.engine.host().frame_changes(&framed),
        false => _ = framed.set(0),
    }
    let next = usize::from(*slots.start());
    cx.flow = Flow::more(KeyCounts { slots, order, counts: vec![0; SLOTS], next, framed });
    Ok(())
}

/// Returns the order of the words after ORDERBY.
fn order(engine: &Engine, args: &Args<'_>) -> Result<SlotOrder, Error> {
    let is_counted = |metric: &Metric| *metric == Metric::KeyCount || engine.slot_traffic().is_on();
    let by = Metric::named(args, 3).filter(is_counted).ok_or(Error::SlotStatsMetric)?;
    let (mut limit, mut descends, mut at) = (None, None, 4);
    while at < args.len() {
        if args.is(at, "limit") && at + 1 < args.len() {
            let wanted = args.int(at + 1).ok().and_then(|wanted| usize::try_from(wanted).ok());
            let wanted = wanted.filter(|wanted| (1..=SLOTS).contains(wanted)).ok_or(Error::SlotStatsLimit)?;
            if limit.replace(wanted).is_some() {
                return Err(Error::SlotStatsTwice);
            }
            at += 1;
        } else if args.is(at, "asc") || args.is(at, "desc") {
            if descends.replace(args.is(at, "desc")).is_some() {
                return Err(Error::SlotStatsTwice);
            }
        } else {
            return Err(Error::Syntax);
        }
        at += 1;
    }
    Ok(SlotOrder { by: Some(by), descends: descends.unwrap_or(true), limit: limit.unwrap_or(SLOTS) })
}
