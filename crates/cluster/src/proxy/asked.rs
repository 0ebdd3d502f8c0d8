//! A question that a client waits for, with its parts.

use crate::Millis;
use crate::proxy::owner_links::ProxyLink;
use crate::proxy::question::Question;
use crate::proxy::reply_join::Join;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A client: its worker's token of the connection, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey {
    /// Token, which another client may have later.
    pub token: usize,
    /// Number, which no other client has.
    pub client: u64,
}

/// Answer for a client, whose connection may have ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Client that asked.
    pub to: ClientKey,
    /// Reply.
    pub bytes: Vec<u8>,
    /// Whether no question of this client is open any more.
    pub is_last: bool,
}

/// State of a question's part.
pub(super) enum PartState {
    /// Not sent: this connection is not ready.
    Waiting(ProxyLink),
    /// Sent over this connection.
    Sent(ProxyLink),
    /// Postponed by this reply: the part is sent again.
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
    /// Time at which the question is given up, unless its node works on it.
    pub deadline: Millis,
    /// Whether no part is to be sent any more.
    pub is_withdrawn: bool,
    pub answer: Option<Vec<u8>>,
}

/// Questions of a client that have not been answered.
#[derive(Default)]
pub(super) struct ClientQueue {
    /// Numbers of the questions, in order.
    pub ids: VecDeque<u64>,
    /// Node to which all of them were sent, over one connection and without a redirection; None if they differ.
    pub owner: Option<SocketAddr>,
}

impl ClientQueue {
    /// Adds a question; `owner`: its only node, or None for several.
    pub fn push(&mut self, id: u64, owner: Option<SocketAddr>) {
        if self.ids.is_empty() || self.owner != owner {
            self.owner = owner.filter(|_| self.ids.is_empty());
        }
        self.ids.push_back(id);
    }

    /// Records that a question was sent elsewhere than the others.
    pub fn part_ways(&mut self) {
        self.owner = None;
    }
}

impl Asked {
    /// Joins the replies, which have all arrived, into the answer.
    pub fn conclude(&mut self) {
        let parts = std::mem::take(&mut self.question.parts);
        let mut replies = std::mem::take(&mut self.states).into_iter().map(|state| match state {
            PartState::Replied(reply) => reply,
            PartState::Waiting(_) | PartState::Sent(_) | PartState::PutOff(_) => Vec::new(),
        });
        self.answer = Some(match (&self.question.join, &parts[..]) {
            (Join::One, [_]) => replies.next_back().unwrap_or_default(),
            (join, _) => {
                let from: Vec<SocketAddr> = parts.iter().map(|part| part.to).collect();
                join.answer(replies.collect(), &from)
            }
        });
    }

    /// Returns whether parts of the question may be sent.
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.is_withdrawn
    }

    /// Returns the connection of the question's only part.
    pub fn only_link(&self) -> Option<ProxyLink> {
        match self.states[..] {
            [PartState::Waiting(link) | PartState::Sent(link)] => Some(link),
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
        assert_eq!(queue.owner, None);
        queue.ids.clear();
        queue.push(3, one);
        assert_eq!(queue.owner, one);
    }
}
