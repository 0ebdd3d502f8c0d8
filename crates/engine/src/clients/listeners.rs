//! The word that says who listens to changes of keys, and the clients that listen to one database of a shard.
//!
//! A commit compares one word: the bits of the whole keyspace, the bit of its database's clients, and the class of its
//! event. Most databases have no listener, and a write to them goes on at once.

use crate::clients::waiters::{Ticket, WaitQueues};
use crate::clients::watch::{Presence, WatchFlag, Watchers};
use crate::data::event_class::EventClass;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bits of the classes and targets of keyspace events.
const EVENTS: u32 = (1 << 24) - 1;
/// Clients hold copies of keys, or are told of all changes of some.
const TRACKING: u32 = 1 << 24;
/// Observers work on changes.
const OBSERVERS: u32 = 1 << 25;
/// Clients watch keys of a database in a shard, or wait for some.
const CLIENTS: u32 = 1 << 26;

/// Listeners to the whole keyspace, as bits of one word.
#[derive(Debug, Default)]
pub struct Listeners(CachePadded<AtomicU32>);

impl Listeners {
    /// Whether a change with an event of this class concerns a listener to all keys or a client of the database.
    #[inline(always)]
    pub(crate) fn concerns(&self, clients: &KeyClients, class: EventClass) -> bool {
        (self.0.load(Relaxed) | clients.word) & (class.0 | TRACKING | OBSERVERS | CLIENTS) != 0
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

    fn set(&self, bit: u32, on: bool) {
        match on {
            true => self.0.fetch_or(bit, Relaxed),
            false => self.0.fetch_and(!bit, Relaxed),
        };
    }
}

/// Clients that watch keys of one database in one shard, or wait for some.
#[derive(Default)]
pub struct KeyClients {
    watchers: Watchers,
    wait_queues: WaitQueues,
    /// [`CLIENTS`], if there is one.
    word: u32,
}

impl KeyClients {
    /// Returns the clients that watch keys.
    pub fn watchers(&self) -> &Watchers {
        &self.watchers
    }

    /// Returns the clients that wait for keys.
    pub fn wait_queues(&self) -> &WaitQueues {
        &self.wait_queues
    }

    /// See [`Watchers::watch`].
    pub fn watch(&mut self, key: &[u8], flag: &Arc<WatchFlag>, stale: bool) -> bool {
        let is_new = self.watchers.watch(key, flag, stale);
        self.count();
        is_new
    }

    /// See [`Watchers::unwatch`].
    pub fn unwatch(&mut self, key: &[u8], flag: &Arc<WatchFlag>) {
        self.watchers.unwatch(key, flag);
        self.count();
    }

    /// See [`WaitQueues::wait`].
    pub fn wait(&mut self, key: &[u8], ticket: &Arc<Ticket>) {
        self.wait_queues.wait(key, ticket);
        self.count();
    }

    /// See [`WaitQueues::remove`].
    pub fn end_wait(&mut self, key: &[u8], arrival: u64) {
        self.wait_queues.remove(key, arrival);
        self.count();
    }

    /// See [`Watchers::touch`].
    pub(crate) fn touch(&mut self, key: &[u8], exists: bool) {
        self.watchers.touch(key, exists);
    }

    /// See [`Watchers::touch_all`].
    pub fn touch_all(&mut self, change: impl FnMut(&[u8]) -> (Presence, Presence)) {
        self.watchers.touch_all(change);
    }

    fn count(&mut self) {
        let is_any = !self.watchers.is_empty() || !self.wait_queues.is_empty();
        self.word = if is_any { CLIENTS } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_has_all_listeners() {
        let (listeners, mut clients) = (Listeners::default(), KeyClients::default());
        let concerns = |clients: &KeyClients| listeners.concerns(clients, EventClass::SET);
        assert!(!concerns(&clients));
        listeners.set_event_mask(!EventClass::SET.0);
        assert!(!concerns(&clients) && !listeners.has_tracking(), "the mask has bits of events only");
        listeners.set_event_mask(EventClass::SET.0);
        assert!(concerns(&clients) && !listeners.wants_event(EventClass::LIST));
        listeners.set_event_mask(0);
        listeners.set_tracking(true);
        listeners.set_event_mask(0);
        assert!(concerns(&clients) && listeners.event_mask() == 0);
        listeners.set_tracking(false);
        let flag = Arc::default();
        clients.watch(b"k", &flag, false);
        assert!(concerns(&clients));
        clients.unwatch(b"k", &flag);
        assert!(!concerns(&clients));
    }
}
