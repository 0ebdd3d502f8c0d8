//! Time and bytes of commands about each slot of a cluster, while CLUSTER SLOT-STATS counts them.
//!
//! While it is off no command looks at anything here: it is one of the reasons for which a command's end is looked at
//! more closely at all.

use crate::data::slot::SLOTS;
use crate::per_worker::PerWorker;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Time and bytes of commands about a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// Time that they ran, in nanoseconds.
    pub nanos: u64,
    /// Bytes of requests.
    pub received: u64,
    /// Bytes of replies, of messages to subscribers, and of the stream to replicas.
    pub sent: u64,
}

#[derive(Debug, Default)]
struct Counters {
    nanos: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
}

/// Counters of each worker's commands by slot, made when they are first wanted.
#[derive(Debug)]
pub struct SlotTraffic {
    on: AtomicBool,
    workers: PerWorker<OnceLock<Box<[Counters]>>>,
}

impl SlotTraffic {
    /// Makes the state of so many workers at the start.
    pub fn new(workers: usize) -> SlotTraffic {
        SlotTraffic { on: AtomicBool::new(false), workers: PerWorker::new(workers) }
    }

    /// Whether commands are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Begins to count commands, or stops that. Counts stay.
    pub(crate) fn set_on(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    /// Counts a worker's command about the slot.
    pub fn add(&self, worker: usize, slot: u16, done: SlotUse) {
        let counters =
            self.workers[worker].get_or_init(|| std::iter::repeat_with(Counters::default).take(SLOTS).collect());
        let Some(slot) = counters.get(usize::from(slot)) else { return };
        slot.nanos.fetch_add(done.nanos, Relaxed);
        slot.received.fetch_add(done.received, Relaxed);
        slot.sent.fetch_add(done.sent, Relaxed);
    }

    /// Returns the counts of a slot.
    pub fn of(&self, slot: u16) -> SlotUse {
        let counters = self.workers.iter().filter_map(|worker| worker.get()?.get(usize::from(slot)));
        counters.fold(SlotUse::default(), |sum, counters| SlotUse {
            nanos: sum.nanos.saturating_add(counters.nanos.load(Relaxed)),
            received: sum.received.saturating_add(counters.received.load(Relaxed)),
            sent: sum.sent.saturating_add(counters.sent.load(Relaxed)),
        })
    }

    /// Resets the counts of these slots.
    pub fn reset(&self, slots: impl Fn(u16) -> bool) {
        for counters in self.workers.iter().filter_map(OnceLock::get) {
            for (_, counters) in (0..).zip(counters).filter(|(slot, _)| slots(*slot)) {
                counters.nanos.store(0, Relaxed);
                counters.received.store(0, Relaxed);
                counters.sent.store(0, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_apart_and_are_summed() {
        let traffic = SlotTraffic::new(1);
        assert_eq!(traffic.of(5), SlotUse::default());
        let done = SlotUse { nanos: 1, received: 2, sent: 3 };
        traffic.add(0, 5, done);
        traffic.add(7, 5, done);
        traffic.add(0, 6, done);
        assert_eq!(traffic.of(5), SlotUse { nanos: 2, received: 4, sent: 6 });
        traffic.reset(|slot| slot == 5);
        assert_eq!((traffic.of(5), traffic.of(6)), (SlotUse::default(), done));
    }
}
