//! Messages that wait until links take them. Publishers wait while there are many.

use super::message_batch::{MessageBatch, Published};
use std::collections::VecDeque;

/// Bytes at which publishers begin to wait.
const MUCH: usize = 4 << 20;
/// Bytes at which scripts wait, too.
const TOO_MUCH: usize = 4 * MUCH;
/// Bytes at which messages are given to links by themselves: a link has no more than so many at once, or one message,
/// above its bound.
const BATCH: usize = 256 << 10;
/// Bytes at which the messages are sent before their publisher has ended its turn.
const URGENT: usize = 512 << 10;

/// Amount of messages that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueLevel {
    /// No publisher waits.
    Little,
    /// Publishers wait, scripts do not.
    Much,
    /// Scripts wait, too.
    TooMuch,
}

/// Messages that publishers have left for links.
#[derive(Debug, Default)]
pub struct MessageQueue {
    /// Batches, of which each but the last one has [`BATCH`] bytes or more.
    batches: VecDeque<MessageBatch>,
    bytes: usize,
    published: Published,
}

impl MessageQueue {
    /// Adds a message. Returns whether the queue has become so long that it is to be sent at once.
    pub fn push(&mut self, channel: &[u8], message: &[u8], is_sharded: bool) -> bool {
        if self.batches.back().is_none_or(|last| last.len() >= BATCH) {
            self.batches.push_back(MessageBatch::default());
        }
        let before = self.bytes;
        if let Some(batch) = self.batches.back_mut() {
            let len = batch.push(channel, message, is_sharded);
            self.bytes += len;
            self.published.add(is_sharded, len);
        }
        before < URGENT && self.bytes >= URGENT
    }

    /// Takes the next messages.
    pub fn take(&mut self) -> MessageBatch {
        let batch = self.batches.pop_front().unwrap_or_default();
        self.bytes -= batch.len();
        batch
    }

    /// Returns the bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the messages published since the start.
    pub fn published(&self) -> Published {
        self.published
    }

    /// Returns which publishers have to wait.
    pub fn level(&self) -> QueueLevel {
        match self.bytes {
            ..MUCH => QueueLevel::Little,
            MUCH..TOO_MUCH => QueueLevel::Much,
            _ => QueueLevel::TooMuch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_wait_until_messages_are_taken() {
        let mut queue = MessageQueue::default();
        let push = |queue: &mut MessageQueue, len: usize| queue.push(b"news", &vec![0; len], false);
        assert!(!push(&mut queue, 1) && push(&mut queue, URGENT) && !push(&mut queue, 1));
        assert_eq!(queue.level(), QueueLevel::Little);
        push(&mut queue, MUCH);
        assert_eq!(queue.level(), QueueLevel::Much);
        push(&mut queue, TOO_MUCH);
        assert_eq!(queue.level(), QueueLevel::TooMuch);
        let whole = queue.bytes();
        let mut taken = Vec::new();
        while queue.bytes() > 0 {
            taken.push(queue.take().len());
        }
        assert!(whole > MUCH + TOO_MUCH && taken.iter().sum::<usize>() == whole && taken.len() == 3, "{taken:?}");
        assert!(queue.take().is_empty());
        assert_eq!(queue.published().messages, [5, 0]);
        assert_eq!(queue.level(), QueueLevel::Little);
    }
}
