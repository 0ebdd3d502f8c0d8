//! Replies that wait until the log is durable up to where it was when their commands had run.
//!
//! ```text
//!   queue    tick 7: offset 4200, replies of clients 1, 5, 9     tick 8: offset 4410, replies of 2, 5
//!   durable up to 4300: those of tick 7 go                       the log cannot be written: those of readers go
//! ```

use std::collections::VecDeque;
use std::ops::Range;

/// A reply that waits.
pub struct HeldReply {
    /// Another connection may have the token when the reply goes: the client's number tells.
    pub token: usize,
    pub client: u64,
    bytes: Range<usize>,
    /// How long the log was after the client's own last write.
    logged_at: u64,
}

impl HeldReply {
    /// What it counts as.
    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of::<HeldReply>()
    }
}

/// Replies of a tick.
#[derive(Default)]
pub struct HeldReplies {
    /// How long the log was after it.
    offset: u64,
    bytes: Vec<u8>,
    replies: Vec<HeldReply>,
}

impl HeldReplies {
    /// Replies whose bytes are parts of `bytes`.
    pub fn new(offset: u64, bytes: Vec<u8>) -> HeldReplies {
        HeldReplies { offset, bytes, replies: Vec::new() }
    }

    /// Adds the reply that lies at `bytes`; returns what it counts as.
    pub fn push(&mut self, token: usize, client: u64, bytes: Range<usize>, logged_at: u64) -> usize {
        let reply = HeldReply { token, client, bytes, logged_at };
        let memory = reply.memory();
        self.replies.push(reply);
        memory
    }

    /// How many replies there are.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Each reply, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&HeldReply, &[u8])> {
        self.replies.iter().map(|reply| (reply, &self.bytes[reply.bytes.clone()]))
    }

    /// Takes the replies out of clients that wait for no write of their own.
    fn split_readers(mut self, released: u64) -> (HeldReplies, HeldReplies) {
        let mut writers = HeldReplies { offset: self.offset, ..HeldReplies::default() };
        for reply in self.replies.extract_if(.., |reply| reply.logged_at > released) {
            let start = writers.bytes.len();
            writers.bytes.extend_from_slice(&self.bytes[reply.bytes.clone()]);
            writers.replies.push(HeldReply { bytes: start..writers.bytes.len(), ..reply });
        }
        (self, writers)
    }
}

/// A worker's replies that wait, in order.
#[derive(Default)]
pub struct DurableReplies {
    queue: VecDeque<HeldReplies>,
}

impl DurableReplies {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a tick's, if it has any.
    pub fn push(&mut self, held: HeldReplies) {
        if held.len() > 0 {
            self.queue.push_back(held);
        }
    }

    /// The next that may go: the log is durable up to `released`.
    pub fn pop(&mut self, released: u64) -> Option<HeldReplies> {
        self.queue.pop_front_if(|held| held.offset <= released)
    }

    /// The log cannot be written: takes all but those of clients whose own writes wait.
    pub fn take_readers(&mut self, released: u64) -> Vec<HeldReplies> {
        let mut readers = Vec::new();
        for held in std::mem::take(&mut self.queue) {
            let (readable, writers) = held.split_readers(released);
            readers.push(readable);
            self.push(writers);
        }
        readers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(held: &HeldReplies) -> Vec<(usize, &[u8])> {
        held.iter().map(|(reply, bytes)| (reply.token, bytes)).collect()
    }

    #[test]
    fn replies_go_when_the_log_is_durable_up_to_their_tick() {
        let mut waiting = DurableReplies::default();
        waiting.push(HeldReplies::new(5, Vec::new()));
        assert!(waiting.is_empty(), "a tick without replies holds nothing up");
        for offset in [10, 20] {
            let mut held = HeldReplies::new(offset, b"+A+B".to_vec());
            assert_eq!(held.push(1, 100, 0..2, offset), 2 + size_of::<HeldReply>());
            held.push(2, 200, 2..4, 0);
            waiting.push(held);
        }
        assert!(waiting.pop(9).is_none());
        assert_eq!(texts(&waiting.pop(10).unwrap()), [(1, &b"+A"[..]), (2, b"+B")]);
        assert!(waiting.pop(19).is_none() && !waiting.is_empty());
        assert!(waiting.pop(20).is_some() && waiting.is_empty());
    }

    #[test]
    fn readers_do_not_wait_for_a_log_that_cannot_be_written() {
        let mut waiting = DurableReplies::default();
        let mut held = HeldReplies::new(10, b"+A+B+C".to_vec());
        (0..3).for_each(|n| _ = held.push(n, 0, 2 * n..2 * n + 2, [0, 10, 3][n]));
        waiting.push(held);
        let readers = waiting.take_readers(5);
        assert_eq!(texts(&readers[0]), [(0, &b"+A"[..]), (2, b"+C")]);
        assert!(waiting.pop(9).is_none());
        assert_eq!(texts(&waiting.pop(10).unwrap()), [(1, &b"+B"[..])]);
    }
}
