//! The word that says who listens to changes of keys.
//!
//! A commit compares one word: the bits of the whole keyspace, the bit of its database's clients, and the class of its
//! event. Most databases have no listener, and a write to them goes on at once.

use crate::data::event_class::EventClass;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bits of the classes and targets of keyspace events.
const EVENTS: u32 = (1 << 24) - 1;
/// Clients hold copies of keys, or are told of all changes of some.
const TRACKING: u32 = 1 << 24;
/// Observers work on changes.
const OBSERVERS: u32 = 1 << 25;
/// Clients watch keys of a database in a shard, or wait for some.
pub(super) const CLIENTS: u32 = 1 << 26;

/// Listeners to the whole keyspace, as bits of one word.
#[derive(Debug, Default)]
pub struct Listeners(CachePadded<AtomicU32>);

impl Listeners {
    /// Whether a change with an event of this class concerns a listener to all keys or a client of the
    /// database, whose word is given.
    #[inline(always)]
    pub(crate) fn concerns(&self, clients: u32, class: EventClass) -> bool {
        (self.0.load(Relaxed) | clients) & (class.0 | TRACKING | OBSERVERS | CLIENTS) != 0
    }

    /// Whether events of this class are published.
    #[inline]
    pub fn wants_event(&self, class: EventClass) -> bool {
        self.0.load(Relaxed) & class.0 & EVENTS != 0
    }

    /// Returns the classes and targets of keyspace events.
    pub fn event_mask(&self) -> u32 {
        self.0.load(Relaxed) & EVENTS
    }

    /// Selects the classes and targets of keyspace events.
    pub(crate) fn set_event_mask(&self, mask: u32) {
        self.0.fetch_or(mask & EVENTS, Relaxed);
        self.0.fetch_and(mask | !EVENTS, Relaxed);
    }

    /// Whether a client tracks keys.
    #[inline]
    pub(crate) fn has_tracking(&self) -> bool {
        self.0.load(Relaxed) & TRACKING != 0
    }

    /// Sets whether a client tracks keys.
    pub(crate) fn set_tracking(&self, on: bool) {
        self.set(TRACKING, on);
    }

    /// Whether observers work on changes.
    #[inline]
    pub(crate) fn has_observers(&self) -> bool {
        self.0.load(Relaxed) & OBSERVERS != 0
    }

    /// Marks that observers work on changes.
    pub(crate) fn set_observers(&self) {
        self.set(OBSERVERS, true);
    }

    fn set(&self, bit: u32, on: bool) {
        match on {
            true => self.0.fetch_or(bit, Relaxed),
            false => self.0.fetch_and(!bit, Relaxed),
        };
    }
}
