//! What a server remembers of the in-sync set: which it knows last, whom it follows no more, and what it may hold
//! that was acknowledged.
//!
//! A member's acknowledgement is a promise: it has heard of a term before it acknowledges anything of it, and follows
//! nobody of an earlier term afterwards, nor of another one with the same number. All of it is memory. A server that
//! has lost its data forgets, and is another member from then on.

use crate::arrived::Position;
use crate::in_sync_set::{InSyncSet, MemberId, Term};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The server's name in sets.
    pub id: MemberId,
    /// The latest that it has heard of.
    pub term: Term,
    /// The last one in the data that it has; None: it has not heard since it got the data.
    pub set: Option<InSyncSet>,
    /// Up to where it may hold what was acknowledged, if that is not all it has: it was promoted, and has written
    /// since, but was never sure that it has all that was acknowledged before.
    pub claim: Option<Position>,
}

/// A primary that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierTerm;

impl Membership {
    /// One that knows of nothing.
    pub fn new(id: MemberId) -> Membership {
        Membership { id, term: Term::NONE, set: None, claim: None }
    }

    /// A set was in the stream.
    ///
    /// # Errors
    /// It is of a primary that was replaced.
    pub fn take(&mut self, set: InSyncSet) -> Result<(), EarlierTerm> {
        if !self.term.lets_follow(set.term) {
            return Err(EarlierTerm);
        }
        self.term = set.term;
        self.set = Some(set);
        Ok(())
    }

    /// A primary tells the latest term that it has heard of, before its stream or its snapshot comes.
    ///
    /// # Errors
    /// It was replaced, or does not know that there are terms.
    pub fn meet(&mut self, term: Option<Term>) -> Result<(), EarlierTerm> {
        let term = term.unwrap_or(Term::NONE);
        if !self.term.lets_follow(term) {
            return Err(EarlierTerm);
        }
        self.term = term;
        Ok(())
    }

    /// The data is another's from now on, which is of a moment after the last set that this server has heard of.
    pub fn replace(&mut self) {
        (self.set, self.claim) = (None, None);
    }

    /// The data is lost.
    pub fn forget(&mut self, id: MemberId) {
        *self = Membership { term: self.term, ..Membership::new(id) };
    }

    /// Whether it is a member, or there are none: only such a server is to be promoted.
    pub fn is_in_sync(&self) -> bool {
        self.term == Term::NONE || self.set.as_ref().is_some_and(|set| set.has(self.id))
    }
}

/// What a replica tells of this when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Its name in sets.
    pub id: MemberId,
    /// The latest term that it has heard of.
    pub term: Term,
    /// Up to where it may hold what was acknowledged; None: nothing.
    pub claim: Option<Position>,
}

/// What the word begins with, among the capabilities that a replica tells; those who do not know it pass over it.
pub const CAPABILITY: &str = "in-sync:";

impl Introduction {
    /// The word.
    pub fn to_word(&self) -> String {
        let Introduction { id, term, claim } = self;
        let claim = claim.map(|Position { id, offset }| format!(":{id}:{offset}")).unwrap_or_default();
        format!("{CAPABILITY}{id}:{term}{claim}")
    }

    /// What the word says; None if it is none.
    pub fn parse(word: &[u8]) -> Option<Introduction> {
        let mut parts = word.strip_prefix(CAPABILITY.as_bytes())?.splitn(4, |byte| *byte == b':');
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let id = MemberId::parse(parts.next()?)?;
        let term = Term { number: number(parts.next()?)?, leader: MemberId::parse(parts.next()?)? };
        let claim = match parts.next() {
            None => None,
            Some(text) => {
                let split = text.iter().position(|byte| *byte == b':')?;
                Some(Position { id: MemberId::parse(&text[..split])?, offset: number(&text[split + 1..])? })
            }
        };
        Some(Introduction { id, term, claim })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_sync_set::Quorum;

    fn id(n: u128) -> MemberId {
        MemberId::of(n, 0)
    }

    fn set(number: u64, leader: u128, members: &[u128]) -> InSyncSet {
        let quorum = Quorum::new(1, members.iter().map(|n| id(*n)).collect());
        InSyncSet { term: Term { number, leader: id(leader) }, epoch: 1, quorum, before: None }
    }

    #[test]
    fn nobody_of_an_earlier_term_is_followed() {
        let mut member = Membership::new(id(1));
        assert!(member.is_in_sync(), "there is no set");
        member.take(set(2, 7, &[1, 7])).unwrap();
        assert!(member.is_in_sync());
        assert_eq!([6, 8].map(|leader| member.take(set(2, leader, &[1]))), [Err(EarlierTerm); 2]);
        assert_eq!(member.meet(None), Err(EarlierTerm));
        assert_eq!(member.meet(Some(set(2, 7, &[7]).term)), Ok(()));
        member.meet(Some(set(3, 5, &[5]).term)).unwrap();
        assert_eq!(member.take(set(2, 7, &[1])), Err(EarlierTerm));
        assert!(member.is_in_sync(), "it holds what it held");
    }

    #[test]
    fn who_has_other_data_does_not_know_the_set_before_it_is_told() {
        let mut member = Membership::new(id(1));
        member.take(set(2, 7, &[1, 7])).unwrap();
        member.replace();
        assert!(!member.is_in_sync());
        member.take(set(2, 7, &[7])).unwrap();
        assert!(!member.is_in_sync());
        member.take(set(2, 7, &[1, 7])).unwrap();
        member.forget(id(2));
        assert!(!member.is_in_sync() && member.id == id(2) && member.term.number == 2);
    }

    #[test]
    fn an_introduction_comes_back() {
        let term = Term { number: 5, leader: id(3) };
        for claim in [None, Some(Position { id: id(9), offset: 77 })] {
            let said = Introduction { id: id(1), term, claim };
            assert_eq!(Introduction::parse(said.to_word().as_bytes()), Some(said));
        }
        assert_eq!(Introduction::parse(b"in-sync:x"), None);
        assert_eq!(Introduction::parse(b"in-sync"), None);
    }
}
