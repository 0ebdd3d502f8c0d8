//! Consumer groups: clients that read a stream together, and the entries that each of them has not acknowledged yet.
//!
//! ```text
//! Group   last delivered id, entries read
//!         pending:    id -> time, deliveries, consumer          in the order of ids
//!         names:      name -> consumer                          in the order of names
//! Consumer            its pending ids, when it was seen, when it was given something
//! ```
//!
//! Asserted by the property test: an entry is pending for a consumer exactly when the group's list says that it is its.

use super::Id;
use std::collections::{BTreeMap, BTreeSet};

/// A consumer's place in its group. It is good until the consumer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRef(u32);

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Unix time in milliseconds.
    pub delivered_at: i64,
    /// How often it was delivered.
    pub deliveries: u64,
    /// None: the entry was given back.
    pub consumer: Option<ConsumerRef>,
}

/// A client that reads for a group.
#[derive(Clone, Debug, Default)]
pub struct Consumer {
    /// The consumer's name.
    pub name: Box<[u8]>,
    /// Unix time in milliseconds of its last attempt to read.
    pub seen_at: i64,
    /// Unix time in milliseconds of the last attempt that gave it something.
    pub active_at: Option<i64>,
    pending: BTreeSet<Id>,
}

impl Consumer {
    /// Returns its unacknowledged entries from an id on.
    pub fn pending_from(&self, start: Id) -> impl Iterator<Item = Id> + '_ {
        self.pending.range(start..).copied()
    }

    /// Returns how many entries it has not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

/// A group of consumers.
#[derive(Clone, Debug, Default)]
pub struct ConsumerGroup {
    /// The last entry that was delivered to one of its consumers.
    pub last_id: Id,
    /// How many entries of the stream lie up to `last_id`, if that is known.
    pub entries_read: Option<u64>,
    pending: BTreeMap<Id, Pending>,
    names: BTreeMap<Box<[u8]>, ConsumerRef>,
    consumers: Vec<Option<Consumer>>,
    free: Vec<u32>,
}

impl ConsumerGroup {
    /// Makes a group without consumers that continues after `last_id`.
    pub fn new(last_id: Id, entries_read: Option<u64>) -> Self {
        ConsumerGroup { last_id, entries_read, ..ConsumerGroup::default() }
    }

    /// Returns the consumer of this name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerRef> {
        self.names.get(name).copied()
    }

    /// Returns the consumer of this name, a new one if there is none, and whether it is new.
    pub fn find_or_add(&mut self, name: &[u8], now: i64) -> (ConsumerRef, bool) {
        if let Some(found) = self.find(name) {
            return (found, false);
        }
        let consumer = Consumer { name: name.into(), seen_at: now, active_at: None, pending: BTreeSet::new() };
        let at = self.free.pop().unwrap_or(self.consumers.len() as u32);
        match self.consumers.get_mut(at as usize) {
            Some(slot) => *slot = Some(consumer),
            None => self.consumers.push(Some(consumer)),
        }
        self.names.insert(name.into(), ConsumerRef(at));
        (ConsumerRef(at), true)
    }

    /// Removes a consumer with its unacknowledged entries; returns how many these were.
    pub fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let at = self.names.remove(name)?;
        let consumer = self.consumers.get_mut(at.0 as usize)?.take()?;
        if at.0 as usize + 1 == self.consumers.len() {
            self.consumers.pop();
        } else {
            self.free.push(at.0);
        }
        consumer.pending.iter().for_each(|id| {
            self.pending.remove(id);
        });
        Some(consumer.pending.len())
    }

    /// Returns the consumer at a place.
    pub fn consumer(&self, at: ConsumerRef) -> Option<&Consumer> {
        self.consumers.get(at.0 as usize)?.as_ref()
    }

    /// Returns the consumer at a place, to be changed.
    pub fn consumer_mut(&mut self, at: ConsumerRef) -> Option<&mut Consumer> {
        self.consumers.get_mut(at.0 as usize)?.as_mut()
    }

    /// Returns the consumers by name.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = (&Consumer, ConsumerRef)> {
        self.names.values().map(|at| (self.consumer(*at).expect("names are those of consumers"), *at))
    }

    /// Returns the number of consumers.
    pub fn consumers_len(&self) -> usize {
        self.names.len()
    }

    /// Returns how many entries are not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the delivery of an entry that is not acknowledged.
    pub fn pending(&self, id: Id) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Returns the pending entries between two ids, both included.
    pub fn pending_range(&self, start: Id, end: Id) -> impl DoubleEndedIterator<Item = (Id, &Pending)> {
        let range = if start > end { Id::MAX..=Id::MAX } else { start..=end };
        self.pending.range(range).filter(move |_| start <= end).map(|(id, pending)| (*id, pending))
    }

    /// Gives the entry to this consumer, whichever had it before.
    pub fn assign(&mut self, id: Id, pending: Pending) {
        let before = self.pending.insert(id, pending).and_then(|before| before.consumer);
        if before == pending.consumer && before.is_some() {
            return;
        }
        if let Some(consumer) = before.and_then(|at| self.consumer_mut(at)) {
            consumer.pending.remove(&id);
        }
        if let Some(consumer) = pending.consumer.and_then(|at| self.consumer_mut(at)) {
            consumer.pending.insert(id);
        }
    }

    /// Acknowledges the entry; returns whether it was pending.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = pending.consumer.and_then(|at| self.consumer_mut(at)) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Acknowledges all entries below an id; returns the ones that were pending.
    pub fn acknowledge_below(&mut self, end: Id) -> Vec<Id> {
        let kept = self.pending.split_off(&end);
        let gone = std::mem::replace(&mut self.pending, kept);
        for (id, pending) in &gone {
            if let Some(consumer) = pending.consumer.and_then(|at| self.consumer_mut(at)) {
                consumer.pending.remove(id);
            }
        }
        gone.into_keys().collect()
    }

    /// Whether the entry may still be delivered, or has been and is not acknowledged.
    pub fn needs(&self, id: Id) -> bool {
        id > self.last_id || self.pending.contains_key(&id)
    }

    /// Returns the bytes on the heap, about.
    pub fn memory_usage(&self) -> usize {
        let names: usize = self.names.keys().map(|name| 2 * name.len() + 24 + size_of::<Consumer>()).sum();
        names + self.pending.len() * (size_of::<(Id, Pending)>() + size_of::<Id>()) * 3 / 2
    }
}
