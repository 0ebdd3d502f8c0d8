//! Messages of clients that wait for the thread of the bus, which takes them when no node that works has too much
//! waiting already. Publishers wait while there are many.
//!
//! ```text
//!   worker: PUBLISH -> lane, bounded -> thread of the bus -> links, bounded -> sockets
//!                        | full: publishers are tried again later
//! ```

use cluster::packet::{MessageBatch, Published};
use engine::clients::pubsub::{Backlog, PubSub};
use engine::locks::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes from which on publishers wait.
const MUCH: usize = 4 << 20;
/// Bytes from which on scripts wait, too.
const TOO_MUCH: usize = 4 * MUCH;
/// Bytes from which on the thread is woken before the publisher's worker has ended its turn.
const URGENT: usize = 512 << 10;

/// What workers have left.
#[derive(Default)]
struct Left {
    batch: MessageBatch,
    /// How much was taken before.
    taken: Published,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct MessageLane {
    left: Mutex<Left>,
    waiting: AtomicUsize,
}

impl MessageLane {
    /// Leaves a message. Returns whether the thread should know of it at once.
    pub fn push(&self, pubsub: &PubSub, channel: &[u8], message: &[u8], is_sharded: bool) -> bool {
        let batch = &mut self.left.lock().batch;
        let before = batch.len();
        batch.push(channel, message, is_sharded);
        self.settle(pubsub, batch, before);
        before < URGENT && batch.len() >= URGENT
    }

    /// All messages.
    pub fn take(&self, pubsub: &PubSub) -> MessageBatch {
        let mut left = self.left.lock();
        let batch = std::mem::take(&mut left.batch);
        left.taken = left.taken.plus(batch.published());
        self.settle(pubsub, &left.batch, batch.len());
        batch
    }

    /// How much was left since the start.
    pub fn published(&self) -> Published {
        let left = self.left.lock();
        left.taken.plus(left.batch.published())
    }

    /// Bytes of messages that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The lock is held: what is said last is how it is.
    fn settle(&self, pubsub: &PubSub, batch: &MessageBatch, before: usize) {
        let backlog = |bytes: usize| match bytes {
            ..MUCH => Backlog::Little,
            MUCH..TOO_MUCH => Backlog::Much,
            _ => Backlog::TooMuch,
        };
        self.waiting.store(batch.len(), Relaxed);
        if backlog(before) != backlog(batch.len()) {
            pubsub.set_backlog(backlog(batch.len()));
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
        let taken = lane.take(&pubsub).len();
        assert!(taken > MUCH + TOO_MUCH && lane.waiting() == 0);
        assert_eq!(lane.published().messages, [5, 0]);
        assert_eq!(pubsub.backlog(), Backlog::Little);
    }
}
