//! A question that a client waits for, with its parts.

use crate::Millis;
use crate::proxy::proxy::ClientKey;
use crate::proxy::question::Question;

/// A part of a question.
pub(super) enum PartState {
    /// Not sent: its connection is not ready.
    Waiting,
    Sent,
    /// With this reply: it is asked anew.
    PutOff(Vec<u8>),
    Replied(Vec<u8>),
}

/// A question that is open.
pub(super) struct Asked {
    pub by: ClientKey,
    pub question: Question,
    pub states: Vec<PartState>,
    pub hops: Vec<u8>,
    /// Parts without a reply.
    pub left: usize,
    pub deadline: Millis,
    /// Nothing of it is sent any more.
    pub is_withdrawn: bool,
    pub answer: Option<Vec<u8>>,
}

impl Asked {
    /// Whether parts of it may be sent.
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.is_withdrawn
    }
}
