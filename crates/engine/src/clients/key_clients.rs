//! The clients that listen to changes in one shard: they watch keys, wait for some, or hold copies of them.

use crate::clients::listeners::CLIENTS;
use crate::clients::tracking::Tracked;
use crate::clients::waiters::{Ticket, WaitQueues};
use crate::clients::watch::{Presence, WatchFlag, Watchers};
use std::sync::Arc;

/// A shard's listeners in all databases.
#[derive(Default)]
pub struct ShardListeners {
    /// Clients that hold copies of its keys.
    pub tracked: Tracked,
    /// Number of changes that were noted for observers.
    version: u64,
}

impl ShardListeners {
    /// Returns the version of the shard's keys: it grows with each change that observers work on.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the version after one more change.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
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
    /// Returns the database's part of the [listeners'](crate::clients::listeners::Listeners) word.
    #[inline(always)]
    pub(crate) fn word(&self) -> u32 {
        self.word
    }

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
    pub(crate) fn touch_all(&mut self, change: impl FnMut(&[u8]) -> (Presence, Presence)) {
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
    use crate::clients::listeners::Listeners;
    use crate::data::event_class::EventClass;

    #[test]
    fn one_word_has_all_listeners() {
        let (listeners, mut clients) = (Listeners::default(), KeyClients::default());
        let concerns = |clients: &KeyClients| listeners.concerns(clients.word(), EventClass::SET);
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
