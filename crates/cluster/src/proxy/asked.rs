//! A question that a client waits for, with its parts.

use crate::Millis;
use crate::proxy::owner_links::ProxyLink;
use crate::proxy::question::Question;

/// A client: what its worker knows the connection by, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// Another client's may be the same later.
    pub token: usize,
    /// No other client has it.
    pub client: u64,
}

/// An answer for a client, who may be gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The client that asked.
    pub to: ClientKey,
    /// The reply.
    pub bytes: Vec<u8>,
    /// No question of this client is open any more.
    pub is_last: bool,
}

/// A part of a question.
pub(super) enum PartState {
    /// Not sent: this connection is not ready.
    Waiting(ProxyLink),
    /// Sent over this connection.
    Sent(ProxyLink),
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
    /// When it is given up, unless its node works on it.
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
    /// Returns the connection that its only part goes over.
    pub fn only_link(&self) -> Option<ProxyLink> {
        match self.states[..] {
            [PartState::Waiting(link) | PartState::Sent(link)] => Some(link),
            _ => None,
        }
    }
}
