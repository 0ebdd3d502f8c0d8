//! Who waits for which key, in the order of arrival.
//!
//! A blocking command that finds nothing leaves a ticket at each of its keys, in the key's shard. Whoever
//! makes a key ready takes the waiters from the front, under the shard's lock. A ticket that waits at
//! several keys can be claimed only once: claiming is one atomic step, so two pushers in two shards never
//! serve the same client, and a timeout that comes at the same moment either wins or finds it served.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// One blocked command of one client.
#[derive(Debug)]
pub struct Ticket {
    /// Who waits.
    pub client: u64,
    /// The worker that owns the client's connection.
    pub worker: usize,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;

impl Ticket {
    pub fn new(client: u64, worker: usize) -> Self {
        Ticket { client, worker, state: AtomicU8::new(WAITING) }
    }

    /// True for exactly one caller: the pusher that serves the client, or its timeout, or its end.
    pub fn claim(&self) -> bool {
        self.state.compare_exchange(WAITING, CLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }
}

/// The waiting clients of one database in one shard.
#[derive(Default)]
pub struct Blocked {
    by_key: HashMap<Box<[u8]>, VecDeque<Arc<Ticket>>>,
}

impl Blocked {
    pub fn wait(&mut self, key: &[u8], ticket: &Arc<Ticket>) {
        let queue = self.by_key.entry(key.into()).or_default();
        if !queue.iter().any(|known| Arc::ptr_eq(known, ticket)) {
            queue.push_back(Arc::clone(ticket));
        }
    }

    /// The ticket is gone from this key, whatever became of it.
    pub fn leave(&mut self, key: &[u8], ticket: &Arc<Ticket>) {
        if let Some(queue) = self.by_key.get_mut(key) {
            queue.retain(|known| !Arc::ptr_eq(known, ticket));
            if queue.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// The longest waiting ticket of a key that nobody has claimed; claimed ones before it are dropped.
    pub fn first(&mut self, key: &[u8]) -> Option<Arc<Ticket>> {
        let queue = self.by_key.get_mut(key)?;
        while let Some(ticket) = queue.front() {
            if ticket.is_waiting() {
                return Some(Arc::clone(ticket));
            }
            queue.pop_front();
        }
        self.by_key.remove(key);
        None
    }

    #[inline]
    pub fn is_waited_for(&self, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(key)
    }

    /// The keys that somebody waits for.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|key| &**key)
    }

    /// Keys with waiters.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served() {
        let mut blocked = Blocked::default();
        let tickets: Vec<_> = (0..3).map(|client| Arc::new(Ticket::new(client, 0))).collect();
        for ticket in &tickets {
            blocked.wait(b"k", ticket);
            blocked.wait(b"k", ticket);
        }
        assert!(tickets[0].claim() && !tickets[0].claim());
        assert_eq!(blocked.first(b"k").map(|ticket| ticket.client), Some(1));
        blocked.leave(b"k", &tickets[1]);
        assert_eq!(blocked.first(b"k").map(|ticket| ticket.client), Some(2));
        assert!(blocked.first(b"k").unwrap().claim());
        assert!(blocked.is_waited_for(b"k"));
        assert!(blocked.first(b"k").is_none());
        assert!(blocked.is_empty());
    }

    #[test]
    fn a_ticket_at_two_keys_is_served_once() {
        let (mut here, mut there) = (Blocked::default(), Blocked::default());
        let ticket = Arc::new(Ticket::new(1, 0));
        here.wait(b"a", &ticket);
        there.wait(b"b", &ticket);
        assert!(here.first(b"a").unwrap().claim());
        assert!(there.first(b"b").is_none());
    }
}
