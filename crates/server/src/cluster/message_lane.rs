//! Messages of clients that wait for the thread of the bus, which takes them when no node that works has too much
//! waiting already. Publishers wait while there are many.
//!
//! ```text
//!   worker: PUBLISH -> lane, bounded -> thread of the bus -> links, bounded -> sockets
//!                        | full: publishers are retried later
//! ```

use cluster::packet::{MessageBatch, Published};
use engine::clients::pubsub::{Backlog, PubSub};
use engine::locks::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes at which publishers begin to wait.
const MUCH: usize = 4 << 20;
/// Bytes at which scripts wait, too.
const TOO_MUCH: usize = 4 * MUCH;
/// Bytes at which messages are given to links by themselves: a link has no more than so many at once, or one message,
/// above its bound.
const BATCH: usize = 256 << 10;
/// Bytes at which the thread is woken before the publisher's worker has ended its turn.
const URGENT: usize = 512 << 10;

/// Messages that workers have left for the thread.
#[derive(Default)]
struct Left {
    /// Batches, of which each but the last one has [`BATCH`] bytes or more.
    batches: VecDeque<MessageBatch>,
    bytes: usize,
    /// Messages published since the start.
    published: Published,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct MessageLane {
    left: Mutex<Left>,
    waiting: AtomicUsize,
}

impl MessageLane {
    /// Adds a message. Returns whether the thread is to be woken at once.
    pub fn push(&self, pubsub: &PubSub, channel: &[u8], message: &[u8], is_sharded: bool) -> bool {
        let mut left = self.left.lock();
        if left.batches.back().is_none_or(|last| last.len() >= BATCH) {
            left.batches.push_back(MessageBatch::default());
        }
        let before = left.bytes;
        if let Some(batch) = left.batches.back_mut() {
            let len = batch.push(channel, message, is_sharded);
            left.bytes += len;
            left.published.add(is_sharded, len);
        }
        self.settle(pubsub, left.bytes, before);
        before < URGENT && left.bytes >= URGENT
    }

    /// Takes the next messages.
    pub fn take(&self, pubsub: &PubSub) -> MessageBatch {
        let mut left = self.left.lock();
        let batch = left.batches.pop_front().unwrap_or_default();
        let before = left.bytes;
        left.bytes -= batch.len();
        self.settle(pubsub, left.bytes, before);
        batch
    }

    /// Returns the messages published since the start.
    pub fn published(&self) -> Published {
        self.left.lock().published
    }

    /// Returns the bytes of messages that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Sets the backlog; the lock is held, so that the last call has the present state.
    fn settle(&self, pubsub: &PubSub, now: usize, before: usize) {
        let backlog = |bytes: usize| match bytes {
            ..MUCH => Backlog::Little,
            MUCH..TOO_MUCH => Backlog::Much,
            _ => Backlog::TooMuch,
        };
        self.waiting.store(now, Relaxed);
        if backlog(before) != backlog(now) {
            pubsub.set_backlog(backlog(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_wait_until_messages_are_taken() {
        let (lane, pubsub) = (MessageLane::default(), PubSub::new(1));
        let push = |len: usize| lane.push(&pubsub, b"news", &vec![0; len], false);
        assert!(!push(1) && push(URGENT) && !push(1));
        assert_eq!(pubsub.backlog(), Backlog::Little);
        push(MUCH);
        assert_eq!(pubsub.backlog(), Backlog::Much);
        push(TOO_MUCH);
        assert_eq!(pubsub.backlog(), Backlog::TooMuch);
        let whole = lane.waiting();
        let mut taken = Vec::new();
        while lane.waiting() > 0 {
            taken.push(lane.take(&pubsub).len());
        }
        assert!(whole > MUCH + TOO_MUCH && taken.iter().sum::<usize>() == whole && taken.len() == 3, "{taken:?}");
        assert!(lane.take(&pubsub).is_empty());
        assert_eq!(lane.published().messages, [5, 0]);
        assert_eq!(pubsub.backlog(), Backlog::Little);
    }
}
