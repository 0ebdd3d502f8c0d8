//! Idempotency: messages of producers that a stream has already.
//!
//! A message has an id of its producer's (or a digest of its contents), and is remembered with the id of the entry that
//! it became, for some time and while it is among the producer's last. A producer that sends it again gets that entry's
//! id.
//!
//! Asserted by the test: no producer has more messages than `max_messages`, and none is older than `seconds` when it is
//! looked up.

use super::Id;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Identity of a message: an id of its producer's, or a digest of its fields and values.
pub type MessageId = Box<[u8]>;

/// Limits of the remembered messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerMemory {
    /// Seconds for which a message is remembered.
    pub seconds: u32,
    /// Messages of one producer.
    pub max_messages: u32,
}

impl Default for ProducerMemory {
    fn default() -> Self {
        ProducerMemory { seconds: 100, max_messages: 100 }
    }
}

/// The messages of all producers of a stream.
#[derive(Clone, Debug, Default)]
pub struct Idempotency {
    memory: ProducerMemory,
    producers: BTreeMap<Box<[u8]>, Producer>,
    /// Messages that were ever added.
    pub added: u64,
    /// Messages that were sent again.
    pub duplicates: u64,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    entries: HashMap<MessageId, Id>,
    /// Messages with their times, the oldest first; Unix time in milliseconds.
    order: VecDeque<(i64, MessageId)>,
}

impl Producer {
    fn forget_oldest(&mut self) {
        if let Some((_, message)) = self.order.pop_front() {
            self.entries.remove(&message);
        }
    }
}

impl Idempotency {
    /// Returns the limits.
    pub fn memory(&self) -> ProducerMemory {
        self.memory
    }

    /// Sets other limits; messages remembered under the old ones are forgotten.
    pub fn set_memory(&mut self, memory: ProducerMemory) {
        if self.memory != memory {
            self.memory = memory;
            self.producers.clear();
        }
    }

    /// Returns the entry that this message has become, if it is remembered.
    pub fn find(&mut self, producer: &[u8], message: &MessageId, now: i64) -> Option<Id> {
        let oldest = now.saturating_sub(i64::from(self.memory.seconds) * 1000);
        let known = self.producers.get_mut(producer)?;
        while known.order.front().is_some_and(|(at, _)| *at <= oldest) {
            known.forget_oldest();
        }
        if known.order.is_empty() {
            self.producers.remove(producer);
            return None;
        }
        known.entries.get(message).copied()
    }

    /// Records the entry that a new message has become.
    pub fn remember(&mut self, producer: &[u8], message: MessageId, entry: Id, now: i64) {
        // A replay of the log does not call `find` first, and the message may have been there long before.
        self.find(producer, &message, now);
        self.added += 1;
        self.recall(producer, message, entry, now);
    }

    /// Records a message that was counted before; false if it is remembered already.
    pub fn recall(&mut self, producer: &[u8], message: MessageId, entry: Id, now: i64) -> bool {
        let known = self.producers.entry(producer.into()).or_default();
        if known.entries.contains_key(&message) {
            return false;
        }
        while known.order.len() >= self.memory.max_messages as usize {
            known.forget_oldest();
        }
        known.order.push_back((now, message.clone()));
        known.entries.insert(message, entry);
        true
    }

    /// Returns producers with how many of their messages are remembered, and these, the oldest first: identity, time
    /// (Unix time in milliseconds), and the entry that it became.
    pub fn producers(&self) -> impl ExactSizeIterator<Item = (&[u8], usize, impl Iterator<Item = (&[u8], i64, Id)>)> {
        self.producers.iter().map(|(name, producer)| {
            let messages = producer.order.iter();
            let messages =
                messages.filter_map(|(at, message)| Some((&**message, *at, *producer.entries.get(message)?)));
            (&**name, producer.order.len(), messages)
        })
    }

    /// Whether nothing was ever produced or configured here.
    pub fn is_untouched(&self) -> bool {
        self.memory == ProducerMemory::default() && self.producers.is_empty() && self.added == 0 && self.duplicates == 0
    }

    /// Returns the number of producers that are remembered, and of messages of all of them.
    pub fn tracked(&self) -> (usize, usize) {
        (self.producers.len(), self.producers.values().map(|producer| producer.order.len()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &[u8]) -> MessageId {
        text.into()
    }

    #[test]
    fn messages_are_remembered_for_a_time_and_up_to_a_number() {
        let mut idempotency = Idempotency::default();
        idempotency.set_memory(ProducerMemory { seconds: 10, max_messages: 2 });
        for (at, name) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            assert_eq!(idempotency.find(b"p", &given(name), at), None);
            idempotency.remember(b"p", given(name), Id::new(at as u64, 0), at);
        }
        assert_eq!(idempotency.find(b"p", &given(b"a"), 4), None);
        assert_eq!(idempotency.find(b"p", &given(b"b"), 4), Some(Id::new(2, 0)));
        assert_eq!(idempotency.find(b"q", &given(b"b"), 4), None);
        assert_eq!((idempotency.tracked(), idempotency.added), ((1, 2), 3));
        assert_eq!(idempotency.find(b"p", &given(b"b"), 10_002), None);
        assert_eq!(idempotency.find(b"p", &given(b"c"), 10_002), Some(Id::new(3, 0)));
        assert_eq!(idempotency.find(b"p", &given(b"c"), 10_003), None);
        assert_eq!(idempotency.tracked(), (0, 0));
        idempotency.remember(b"p", given(b"d"), Id::new(9, 0), 0);
        idempotency.set_memory(ProducerMemory { seconds: 10, max_messages: 2 });
        assert_eq!(idempotency.find(b"p", &given(b"d"), 1), Some(Id::new(9, 0)));
        idempotency.set_memory(ProducerMemory::default());
        assert_eq!(idempotency.find(b"p", &given(b"d"), 1), None);
    }

    #[test]
    fn a_message_that_was_forgotten_may_come_again() {
        let mut idempotency = Idempotency::default();
        idempotency.set_memory(ProducerMemory { seconds: 1, max_messages: 9 });
        for second in 1..4 {
            idempotency.remember(b"p", given(b"a"), Id::new(second, 0), 1000 * second as i64);
        }
        assert_eq!(idempotency.find(b"p", &given(b"a"), 3_500), Some(Id::new(3, 0)));
        assert_eq!((idempotency.tracked(), idempotency.added), ((1, 1), 3));
    }
}
