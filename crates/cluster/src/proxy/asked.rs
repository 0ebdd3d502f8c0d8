//! A question that a client waits for, with its parts.

use crate::Millis;
use crate::proxy::owner_links::ProxyLink;
use crate::proxy::proxy_request::{Context, Part};
use crate::proxy::reply_join::Join;
use smallvec::SmallVec;
use std::net::SocketAddr;

/// A client: its worker's token of the connection, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// Token, which another client may have later.
    pub token: usize,
    /// Number, which no other client has.
    pub client: u64,
}

/// State of a question's part.
pub(super) enum PartState {
    /// Not sent: this connection is not ready.
    Waiting(ProxyLink),
    /// Sent over this connection, which has the part's bytes.
    Sent(ProxyLink),
    /// Postponed by this reply: the part is sent again.
    PutOff(Vec<u8>),
    Replied(Vec<u8>),
}

/// A part of an open question.
pub(super) struct AskedPart {
    /// Its bytes are here unless they are sent.
    pub part: Part,
    pub state: PartState,
    pub hops: u8,
}

impl AskedPart {
    pub fn new(part: Part) -> AskedPart {
        AskedPart { part, state: PartState::Waiting(ProxyLink(0)), hops: 0 }
    }
}

/// A question that is open.
pub(super) struct Asked {
    pub by: ClientKey,
    pub context: Context,
    pub join: Join,
    pub writes: bool,
    pub rights_since: u64,
    pub parts: SmallVec<[AskedPart; 1]>,
    /// Parts without a reply.
    pub left: usize,
    /// Time at which the question is given up, unless its node works on it.
    pub deadline: Millis,
    /// Whether no part is to be sent any more.
    pub is_withdrawn: bool,
    /// Answer that waits for those of earlier questions.
    pub answer: Option<Vec<u8>>,
    /// Number of the client's next question, if there is one.
    pub next: u64,
}

/// Questions of a client that have not been answered; each names the [next](Asked::next).
#[derive(Clone, Copy, Default)]
pub(super) struct ClientQueue {
    /// Numbers of the first and the last one.
    pub first: u64,
    pub last: u64,
    pub len: usize,
    /// Number of those that have their answers, which wait for earlier ones.
    pub answered: usize,
    /// Node to which all of them were sent, over one connection and without a redirection; None if they differ.
    pub owner: Option<SocketAddr>,
    /// That connection.
    pub link: Option<ProxyLink>,
}

impl ClientQueue {
    /// Adds a question; `owner`: its only node, or None for several.
    pub fn push(&mut self, id: u64, owner: Option<SocketAddr>) {
        if self.len == 0 || self.owner != owner {
            self.owner = owner.filter(|_| self.len == 0);
        }
        if self.len == 0 {
            self.first = id;
        }
        self.last = id;
        self.len += 1;
    }

    /// Records that a question was sent elsewhere than the others.
    pub fn part_ways(&mut self) {
        self.owner = None;
    }
}

impl Asked {
    /// Returns whether the reply of its only part is the answer.
    pub fn is_plain(&self) -> bool {
        self.parts.len() == 1 && self.join == Join::One
    }

    /// Joins the replies, which have all arrived, into the answer.
    pub fn joined(&mut self) -> Vec<u8> {
        let (mut replies, mut from) = (Vec::new(), Vec::new());
        for AskedPart { part, state, .. } in std::mem::take(&mut self.parts) {
            from.push(part.to);
            replies.push(match state {
                PartState::Replied(reply) => reply,
                PartState::Waiting(_) | PartState::Sent(_) | PartState::PutOff(_) => Vec::new(),
            });
        }
        self.join.answer(replies, &from)
    }

    /// Returns whether parts of the question may be sent.
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.is_withdrawn
    }

    /// Returns the connection of the question's only part.
    pub fn only_link(&self) -> Option<ProxyLink> {
        match self.parts[..] {
            [AskedPart { state: PartState::Waiting(link) | PartState::Sent(link), .. }] => Some(link),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_goes_one_way_until_a_question_leaves_it_or_is_for_others() {
        let [one, other] = ["10.0.0.1:1", "10.0.0.2:1"].map(|text| Some(text.parse().expect("an address")));
        let owner_of = |asked: &[Option<SocketAddr>]| {
            let mut queue = ClientQueue::default();
            asked.iter().zip(1..).for_each(|(owner, id)| queue.push(id, *owner));
            queue.owner
        };
        assert_eq!([owner_of(&[one]), owner_of(&[one, one]), owner_of(&[None])], [one, one, None]);
        assert_eq!([owner_of(&[one, other]), owner_of(&[None, one]), owner_of(&[one, None])], [None; 3]);
        assert_eq!(owner_of(&[one, other, one]), None, "the second is between them");
        let mut queue = ClientQueue::default();
        queue.push(1, one);
        queue.part_ways();
        queue.push(2, one);
        assert_eq!((queue.owner, queue.first, queue.last, queue.len), (None, 1, 2, 2));
    }
}
