//! Idempotency: which messages of which producers a stream has got already.
//!
//! A message has an id of its producer's (or one made from what it says), and is remembered with the id of the entry
//! that it became, for some time and while it is among the producer's last. Who sends it again gets that entry's id.
//!
//! Asserted by the test: no producer has more messages than `max_messages`, and none is older than `seconds` when it is
//! looked up.

use super::Id;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a message is known by: an id of its producer's, or a digest of its fields and values.
pub type MessageId = Box<[u8]>;

/// How long and how many messages are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerMemory {
    /// For how long a message is remembered.
    pub seconds: u32,
    /// Of one producer.
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
    /// Messages that were ever added, and that were sent again.
    pub added: u64,
    /// Messages that were sent again.
    pub duplicates: u64,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    entries: HashMap<MessageId, Id>,
    /// When they came, the oldest first; Unix time in milliseconds.
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
    /// How long and how many messages are remembered.
    pub fn memory(&self) -> ProducerMemory {
        self.memory
    }

    /// Other limits; what is remembered under the old ones is forgotten.
    pub fn set_memory(&mut self, memory: ProducerMemory) {
        if self.memory != memory {
            self.memory = memory;
            self.producers.clear();
        }
    }

    /// The entry that this message has become, if it is remembered.
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

    /// A message that is not known has become an entry.
    pub fn remember(&mut self, producer: &[u8], message: MessageId, entry: Id, now: i64) {
        // What reads a log does not ask first, and the message may have been there long before.
        self.find(producer, &message, now);
        self.added += 1;
        self.recall(producer, message, entry, now);
    }

    /// The same of a message that was counted before; false if it is remembered already.
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

    /// Producers with how many of their messages are remembered, and these, the oldest first: what it is known by, when
    /// it came (Unix time in milliseconds), the entry that it became.
    pub fn producers(&self) -> impl ExactSizeIterator<Item = (&[u8], usize, impl Iterator<Item = (&[u8], i64, Id)>)> {
        self.producers.iter().map(|(name, producer)| {
            let messages = producer.order.iter();
            let messages =
                messages.filter_map(|(at, message)| Some((&**message, *at, *producer.entries.get(message)?)));
            (&**name, producer.order.len(), messages)
        })
    }

    /// Whether nothing was ever produced here or said of it.
    pub fn is_untouched(&self) -> bool {
        self.memory == ProducerMemory::default() && self.producers.is_empty() && self.added == 0 && self.duplicates == 0
    }

    /// Producers that are remembered, and messages of all of them.
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
