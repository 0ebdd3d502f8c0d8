//! Messages of clients that wait for the thread of the bus, which takes them when no node that works has too much
//! waiting already. Publishers wait while there are many.
//!
//! ```text
//!   worker: PUBLISH -> lane, bounded -> thread of the bus -> links, bounded -> sockets
//!                        | full: publishers are retried later
//! ```

use cluster::packet::{MessageBatch, MessageQueue, Published, QueueLevel};
use engine::clients::pubsub::{Backlog, PubSub};
use engine::locks::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct MessageLane {
    left: Mutex<MessageQueue>,
    waiting: AtomicUsize,
}

impl MessageLane {
    /// Adds a message. Returns whether the thread is to be woken at once.
    pub fn push(&self, pubsub: &PubSub, channel: &[u8], message: &[u8], is_sharded: bool) -> bool {
        let mut left = self.left.lock();
        let before = left.level();
        let is_urgent = left.push(channel, message, is_sharded);
        self.settle(pubsub, &left, before);
        is_urgent
    }

    /// Takes the next messages.
    pub fn take(&self, pubsub: &PubSub) -> MessageBatch {
        let mut left = self.left.lock();
        let before = left.level();
        let batch = left.take();
        self.settle(pubsub, &left, before);
        batch
    }

    /// Returns the messages published since the start.
    pub fn published(&self) -> Published {
        self.left.lock().published()
    }

    /// Returns the bytes of messages that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Sets the backlog; the lock is held, so that the last call has the present state.
    fn settle(&self, pubsub: &PubSub, left: &MessageQueue, before: QueueLevel) {
        self.waiting.store(left.bytes(), Relaxed);
        if before != left.level() {
            pubsub.set_backlog(match left.level() {
                QueueLevel::Little => Backlog::Little,
                QueueLevel::Much => Backlog::Much,
                QueueLevel::TooMuch => Backlog::TooMuch,
            });
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
        push(1);
        assert_eq!(pubsub.backlog(), Backlog::Little);
        push(4 << 20);
        assert_eq!(pubsub.backlog(), Backlog::Much);
        push(16 << 20);
        assert_eq!(pubsub.backlog(), Backlog::TooMuch);
        while lane.waiting() > 0 {
            lane.take(&pubsub);
        }
        assert_eq!(pubsub.backlog(), Backlog::Little);
    }
}
