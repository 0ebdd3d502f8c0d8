//! How much was said and heard.

use crate::packet::{MESSAGE_TYPES, MessageType};

/// How much of what went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages by the numbers of their types.
    pub messages: [u64; MESSAGE_TYPES],
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of messages for subscribers.
    pub publish_bytes: u64,
    /// Bytes of modules' messages.
    pub module_bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, of: MessageType, bytes: usize) {
        self.count_all(of, 1, bytes);
    }

    pub(crate) fn count_all(&mut self, of: MessageType, messages: u64, bytes: usize) {
        self.messages[of as usize] += messages;
        self.bytes += bytes as u64;
        if of.is_publish() {
            self.publish_bytes += bytes as u64;
        }
        if of == MessageType::Module {
            self.module_bytes += bytes as u64;
        }
    }
}

/// How much was said and heard since the start, or since it was set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What was said. Counted when it is given to a link.
    pub sent: Traffic,
    /// What was heard.
    pub received: Traffic,
    /// Links that were closed because too much waited.
    pub links_over_limit: u64,
}
