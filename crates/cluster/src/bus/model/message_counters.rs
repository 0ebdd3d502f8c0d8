//! Counters of messages and bytes, sent and received.

use crate::packet::{MESSAGE_TYPES, MessageType};

/// Messages and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages by type number.
    pub messages: [u64; MESSAGE_TYPES],
    /// All bytes.
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

/// Traffic since the start, or since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent, counted when they are passed to a link.
    pub sent: Traffic,
    /// Messages received.
    pub received: Traffic,
    /// Links that were closed because too many bytes waited.
    pub links_over_limit: u64,
}
