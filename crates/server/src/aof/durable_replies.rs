//! Replies that wait until the log is kept up to its length when their commands had run: by the disk, by replicas, or
//! by both.
//!
//! ```text
//!   queue    tick 7: replies of clients 1 (disk), 5 (2 replicas), 9 (disk)     tick 8: 2 (disk), 5 (2 replicas)
//!   the kept log grows: replies go that waited for no more                     a tick has waited for too long: its
//!                                                                              clients get errors, the outcome is open
//! ```

use engine::status::acknowledgement::AckNeed;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// A reply that waits.
#[derive(Clone)]
pub struct HeldReply {
    /// Token of the connection; another one may have it when the reply goes, so the client's number is compared.
    pub token: usize,
    pub client: u64,
    bytes: Range<usize>,
    /// The log's length after the client's own last write.
    pub logged_at: u64,
    /// The log's length after the last change that the reply can show.
    pub seen_to: u64,
    /// Acknowledgement that the reply waits for.
    pub need: AckNeed,
    /// Whether the reply waits for replicas only as it comes behind others.
    pub is_behind: bool,
}

impl HeldReply {
    /// Creates a reply with these bytes of its tick's.
    pub fn new(token: usize, client: u64, bytes: Range<usize>) -> HeldReply {
        HeldReply { token, client, bytes, logged_at: 0, seen_to: 0, need: AckNeed::default(), is_behind: false }
    }

    /// Returns the bytes that it counts as.
    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of::<HeldReply>()
    }
}

/// Held replies of a tick.
#[derive(Default)]
pub struct HeldReplies {
    /// Time in milliseconds at which they began to wait, and number of changes of the server's primary until then.
    pub since: u64,
    pub generation: u64,
    /// How often the node's slot map had not held any more when their commands began to run.
    pub lapses: u64,
    bytes: Vec<u8>,
    replies: Vec<HeldReply>,
}

impl HeldReplies {
    /// Creates replies whose bytes are parts of `bytes`.
    pub fn new(bytes: Vec<u8>, since: u64, generation: u64) -> HeldReplies {
        HeldReplies { since, generation, lapses: 0, bytes, replies: Vec::new() }
    }

    /// Adds a reply; returns the bytes that it counts as.
    pub fn push(&mut self, reply: HeldReply) -> usize {
        let memory = reply.memory();
        self.replies.push(reply);
        memory
    }

    /// Returns the number of replies.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Iterates over the replies, each with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&HeldReply, &[u8])> {
        self.replies.iter().map(|reply| (reply, &self.bytes[reply.bytes.clone()]))
    }

    /// Splits off the replies that go, by one flag for each; the others are second.
    fn split(mut self, goes: &[bool]) -> (HeldReplies, HeldReplies) {
        let mut others =
            HeldReplies { lapses: self.lapses, ..HeldReplies::new(Vec::new(), self.since, self.generation) };
        let mut goes = goes.iter();
        for reply in self.replies.extract_if(.., |_| goes.next() == Some(&false)) {
            let start = others.bytes.len();
            others.bytes.extend_from_slice(&self.bytes[reply.bytes.clone()]);
            others.replies.push(HeldReply { bytes: start..others.bytes.len(), ..reply });
        }
        (self, others)
    }
}

/// A worker's held replies, in order.
#[derive(Default)]
pub struct DurableReplies {
    queue: VecDeque<HeldReplies>,
}

impl DurableReplies {
    /// Returns whether no reply waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a tick's replies, if it has any.
    pub fn push(&mut self, held: HeldReplies) {
        if held.len() > 0 {
            self.queue.push_back(held);
        }
    }

    /// Takes the replies that may go, in order. The first of two replies to one client goes first: a later one waits
    /// for at least as much.
    pub fn take(&mut self, may_go: impl Fn(&HeldReply) -> bool) -> Vec<HeldReplies> {
        self.take_of(|_, reply| may_go(reply))
    }

    /// Takes the replies of overdue ticks that wait for replicas. A reply that only comes behind others is an answer
    /// and not an error: it goes when it is `kept` by the disk. None passes an earlier reply to its client.
    pub fn take_overdue(
        &mut self,
        is_over: impl Fn(&HeldReplies) -> bool,
        kept: impl Fn(&HeldReply) -> bool,
    ) -> Vec<HeldReplies> {
        let mut wait_on = HashSet::new();
        self.take_of(|held, reply| {
            let is_due = is_over(held) && reply.need.replicas > 0 && (!reply.is_behind || kept(reply));
            let goes = is_due && !wait_on.contains(&reply.client);
            if !goes {
                wait_on.insert(reply.client);
            }
            goes
        })
    }

    /// Takes those that wait for the disk alone, of ticks in which the slot map had lapsed less often than by now.
    /// Replicas that answer for a reply have what it tells of.
    pub fn take_lapsed(&mut self, lapses: u64) -> Vec<HeldReplies> {
        self.take_of(|held, reply| held.lapses != lapses && reply.need.replicas == 0)
    }

    /// Takes the replies for which `goes` is true; it is called for each reply once, in order.
    fn take_of(&mut self, mut goes: impl FnMut(&HeldReplies, &HeldReply) -> bool) -> Vec<HeldReplies> {
        let (mut taken, mut verdicts) = (Vec::new(), Vec::new());
        self.queue.retain_mut(|held| {
            verdicts.clear();
            verdicts.extend(held.replies.iter().map(|reply| goes(held, reply)));
            if verdicts.contains(&true) {
                let (going, others) = std::mem::take(held).split(&verdicts);
                taken.push(going);
                *held = others;
            }
            held.len() > 0
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(taken: &[HeldReplies]) -> Vec<(usize, &[u8])> {
        taken.iter().flat_map(|held| held.iter().map(|(reply, bytes)| (reply.token, bytes))).collect()
    }

    /// Returns a reply of two bytes that waits for the log up to here.
    fn reply(token: usize, seen_to: u64) -> HeldReply {
        HeldReply { seen_to, ..HeldReply::new(token, token as u64, 2 * token..2 * token + 2) }
    }

    #[test]
    fn replies_go_when_what_they_wait_for_is_kept() {
        let mut waiting = DurableReplies::default();
        waiting.push(HeldReplies::new(Vec::new(), 0, 0));
        assert!(waiting.is_empty(), "a tick without replies holds nothing up");
        for offset in [10, 20] {
            let mut held = HeldReplies::new(b"+A+B".to_vec(), offset, 0);
            assert_eq!(held.push(reply(0, offset)), 2 + size_of::<HeldReply>());
            held.push(reply(1, offset + 5));
            waiting.push(held);
        }
        let take = |waiting: &mut DurableReplies, kept: u64| waiting.take(|reply| reply.seen_to <= kept);
        assert!(take(&mut waiting, 9).is_empty());
        assert_eq!(texts(&take(&mut waiting, 10)), [(0, &b"+A"[..])]);
        assert_eq!(texts(&take(&mut waiting, 20)), [(1, &b"+B"[..]), (0, b"+A")]);
        assert!(!waiting.is_empty());
        assert_eq!(texts(&take(&mut waiting, 25)), [(1, &b"+B"[..])]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_reply_waits_for_replicas_for_a_while() {
        let mut waiting = DurableReplies::default();
        for since in [100, 200] {
            let mut held = HeldReplies::new(b"+A+B".to_vec(), since, 0);
            held.push(HeldReply { need: AckNeed { replicas: 1, durable: false }, ..reply(0, 10) });
            held.push(reply(1, 10));
            waiting.push(held);
        }
        let overdue = waiting.take_overdue(|held| held.since < 200, |_| true);
        assert_eq!(texts(&overdue), [(0, &b"+A"[..])]);
        assert_eq!(texts(&waiting.take(|_| true)), [(1, &b"+B"[..]), (0, b"+A"), (1, b"+B")]);
    }

    #[test]
    fn replies_that_wait_for_a_disk_go_to_nobody_once_the_node_may_be_replaced() {
        let mut waiting = DurableReplies::default();
        for lapses in [0, 1] {
            let mut held = HeldReplies { lapses, ..HeldReplies::new(b"+A+B".to_vec(), 0, 0) };
            held.push(HeldReply { need: AckNeed { replicas: 1, durable: false }, ..reply(0, 10) });
            held.push(reply(1, 10));
            waiting.push(held);
        }
        assert_eq!(texts(&waiting.take_lapsed(1)), [(1, &b"+B"[..])]);
        assert_eq!(texts(&waiting.take(|_| true)), [(0, &b"+A"[..]), (0, b"+A"), (1, b"+B")]);
    }

    #[test]
    fn an_overdue_reply_passes_nothing_that_the_disk_lacks() {
        let mut waiting = DurableReplies::default();
        let need = AckNeed { replicas: 1, durable: false };
        let queue = [
            reply(0, 10),
            HeldReply { need, ..reply(0, 20) },
            HeldReply { need, ..reply(1, 20) },
            HeldReply { need, is_behind: true, ..reply(1, 30) },
        ];
        for one in queue {
            let mut held = HeldReplies::new(b"+A+B".to_vec(), 100, 0);
            held.push(one);
            waiting.push(held);
        }
        let overdue = |waiting: &mut DurableReplies, kept: u64| {
            texts(&waiting.take_overdue(|_| true, |reply| reply.seen_to <= kept)).len()
        };
        assert_eq!(overdue(&mut waiting, 0), 1, "an error goes whatever the disk has, an answer waits for the disk");
        assert_eq!(texts(&waiting.take(|reply| reply.seen_to <= 10)), [(0, &b"+A"[..])]);
        assert_eq!(overdue(&mut waiting, 10), 1, "the first client's earlier reply has gone");
        assert_eq!(overdue(&mut waiting, 30), 1);
        assert!(waiting.is_empty());
    }
}
