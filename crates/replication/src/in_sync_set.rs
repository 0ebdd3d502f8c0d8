//! The in-sync set: servers that count for acknowledgements, and the word by which a primary announces them.
//!
//! ```text
//!   1 of {a, b}              a or b has each acknowledged write, so both together know of it
//!   1 of {a, b}, 1 of {a}    the set changes: enough members of both have each acknowledged write
//!   1 of {a}                 b is out: a alone knows
//! ```
//!
//! The word goes through the stream as the argument of a PING, and is a plain PING for servers without the set. So a
//! server that has the stream up to an offset knows the last set before that offset, and a server that knows a set has
//! every write that was acknowledged before the set.

use crate::in_sync_member::CAPABILITY;
use crate::replid::ReplicationId;
use std::fmt;

/// A server for as long as it remembers: a server that has lost its data continues by another name.
pub type MemberId = ReplicationId;

/// Beginning of the word.
pub const WORD: &[u8] = b"in-sync ";

/// Greatest number of members that are read of a set.
const MEMBERS_MAX: usize = 64;

/// A leader, and the promotion since which it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Number of the promotion: each promotion increases it by one.
    pub number: u64,
    /// Server that was promoted.
    pub leader: MemberId,
}

impl Term {
    /// The term before any server has led.
    pub const NONE: Term = Term { number: 0, leader: MemberId::NONE };

    /// Reads a term from the text that [`fmt::Display`] writes.
    pub fn parse(text: &[u8]) -> Option<Term> {
        let split = text.iter().position(|byte| *byte == b':')?;
        let number = std::str::from_utf8(&text[..split]).ok()?.parse().ok()?;
        Some(Term { number, leader: MemberId::parse(&text[split + 1..])? })
    }

    /// Returns the term that a primary adds to its answer to PSYNC.
    pub fn of_answer(line: &[u8]) -> Option<Term> {
        line.split(|byte| *byte == b' ').find_map(|word| Term::parse(word.strip_prefix(CAPABILITY.as_bytes())?))
    }

    /// Returns whether a server that knows this term may follow a primary of the other one. A server follows the first
    /// term of a number that it has learned of.
    pub fn lets_follow(self, other: Term) -> bool {
        other == self || other.number > self.number
    }

    /// Returns the term of a server that is promoted after this one.
    pub fn next(self, leader: MemberId) -> Term {
        Term { number: self.number.saturating_add(1), leader }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.number, self.leader)
    }
}

/// Servers, and how many of them have each acknowledged write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Number of members that have each acknowledged write.
    pub needed: usize,
    /// All members, ascending.
    pub members: Vec<MemberId>,
}

impl Quorum {
    /// Creates a quorum of these members.
    pub fn new(needed: usize, mut members: Vec<MemberId>) -> Quorum {
        members.sort_unstable();
        members.dedup();
        Quorum { needed: needed.clamp(1, members.len().max(1)), members }
    }

    /// Returns the quorum of a server that knows of no others.
    pub fn alone(id: MemberId) -> Quorum {
        Quorum::new(1, vec![id])
    }

    /// Returns the greatest value that the needed members reach, by each member's value.
    pub fn held<T: Ord + Copy>(&self, has: impl Fn(MemberId) -> T) -> T {
        let mut all: Vec<T> = self.members.iter().map(|id| has(*id)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all[self.needed - 1]
    }

    /// Returns how many members must have acknowledged a new primary: so many include one of any `needed` members.
    pub fn voices(&self) -> usize {
        self.members.len() + 1 - self.needed
    }

    fn parse(text: &[u8]) -> Option<Quorum> {
        let split = text.iter().position(|byte| *byte == b'/')?;
        let needed: usize = std::str::from_utf8(&text[..split]).ok()?.parse().ok()?;
        let ids = text[split + 1..].split(|byte| *byte == b',').take(MEMBERS_MAX + 1).map(MemberId::parse);
        let members: Vec<MemberId> = ids.collect::<Option<_>>()?;
        let is_sound = (1..=members.len()).contains(&needed) && members.len() <= MEMBERS_MAX && members.is_sorted();
        is_sound.then_some(Quorum { needed, members })
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/", self.needed)?;
        for (index, id) in self.members.iter().enumerate() {
            write!(formatter, "{}{id}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSyncSet {
    /// Term of the primary that announced the set.
    pub term: Term,
    /// Number of the set: each change increases it by one.
    pub epoch: u64,
    /// The quorum that counts from now on; while the set changes, [`before`](Self::before) counts, too.
    pub quorum: Quorum,
    /// The quorum before, while the set changes.
    pub before: Option<Quorum>,
}

impl InSyncSet {
    /// Returns all quorums that count.
    pub fn quorums(&self) -> impl Iterator<Item = &Quorum> {
        std::iter::once(&self.quorum).chain(&self.before)
    }

    /// Returns the greatest value that enough members of every quorum reach, by each member's value.
    pub fn held<T: Ord + Copy>(&self, has: impl Fn(MemberId) -> T) -> T {
        let held = self.quorum.held(&has);
        self.before.as_ref().map_or(held, |before| held.min(before.held(&has)))
    }

    /// Returns whether these members are enough to confirm a server that takes over.
    pub fn is_heard(&self, heard: impl Fn(MemberId) -> bool) -> bool {
        self.quorums().all(|quorum| quorum.members.iter().filter(|id| heard(**id)).count() >= quorum.voices())
    }

    /// Returns whether this server is a member.
    pub fn has(&self, id: MemberId) -> bool {
        self.quorum.members.binary_search(&id).is_ok()
    }

    /// Returns whether the other set is later in a history.
    pub fn is_before(&self, other: &InSyncSet) -> bool {
        (self.term.number, self.epoch) < (other.term.number, other.epoch)
    }

    /// Returns the set that a command of the stream announces, or None.
    pub fn of_command(bytes: &[u8]) -> Option<InSyncSet> {
        let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.filter_map(InSyncSet::parse).next()
    }

    /// Reads the set that this word announces; None if the word announces none.
    pub fn parse(word: &[u8]) -> Option<InSyncSet> {
        let mut words = word.strip_prefix(WORD)?.split(|byte| *byte == b' ');
        let term = Term::parse(words.next()?)?;
        let epoch = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let quorum = Quorum::parse(words.next()?)?;
        let before = match words.next() {
            None => None,
            Some(text) => Some(Quorum::parse(text)?),
        };
        // Further words of a later version do not change this.
        Some(InSyncSet { term, epoch, quorum, before })
    }
}

impl fmt::Display for InSyncSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "in-sync {} {} {}", self.term, self.epoch, self.quorum)?;
        self.before.as_ref().map_or(Ok(()), |before| write!(formatter, " {before}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(numbers: impl IntoIterator<Item = u8>) -> Vec<MemberId> {
        numbers.into_iter().map(|n| MemberId::of(n.into(), 0)).collect()
    }

    fn set(quorum: Quorum, before: Option<Quorum>) -> InSyncSet {
        InSyncSet { term: Term::NONE.next(ids([9])[0]), epoch: 3, quorum, before }
    }

    #[test]
    fn a_set_changes_by_way_of_one_in_which_both_count() {
        let [p, a, b] = [1, 2, 3].map(|n| ids([n])[0]);
        let changing = set(Quorum::new(2, vec![a, p]), Some(Quorum::new(2, vec![p, a, b])));
        let has = |id| {
            if id == p {
                100
            } else if id == a {
                7
            } else {
                9
            }
        };
        assert_eq!((changing.held(has), changing.quorum.held(has)), (7, 7));
        assert_eq!(Quorum::new(2, vec![p, a, b]).held(has), 9);
        assert!(!changing.is_heard(|id| id == a), "two of the three must be heard");
        assert!(changing.is_heard(|id| id == a || id == b) && !changing.has(b));
    }

    #[test]
    fn a_word_that_is_none_is_refused() {
        let good = set(Quorum::new(1, ids([1, 2])), Some(Quorum::alone(ids([1])[0]))).to_string();
        assert!(InSyncSet::parse(good.as_bytes()).is_some());
        for (from, to) in [("in-sync ", "in-sink "), ("1:", "x:"), (" 1/", " 3/"), (" 1/", " 0/"), (",", ";")] {
            assert_eq!(InSyncSet::parse(good.replacen(from, to, 1).as_bytes()), None, "{from} {to}");
        }
        assert_eq!(InSyncSet::parse(b"in-sync "), None);
        assert_eq!(InSyncSet::parse(format!("{good} more").as_bytes()), InSyncSet::parse(good.as_bytes()));
    }

    proptest! {
        #[test]
        fn one_of_all_members_that_confirm_has_the_acknowledged_value(
            members in prop::collection::btree_set(any::<u8>(), 1..8), needed in 1..8usize, who in any::<u8>(),
        ) {
            let quorum = Quorum::new(needed, ids(members));
            let is_one = |index: usize| who >> index & 1 == 1;
            let chosen: Vec<_> = quorum.members.iter().enumerate().filter(|(n, _)| is_one(*n)).map(|(_, id)| *id).collect();
            let set = set(quorum.clone(), None);
            let holds = chosen.len() >= quorum.needed;
            prop_assert_eq!(set.held(|id| u8::from(chosen.contains(&id))) == 1, holds);
            // The other members together do not confirm a server where these hold the value.
            prop_assert!(!(holds && set.is_heard(|id| !chosen.contains(&id))));
        }

        #[test]
        fn a_word_comes_back(members in prop::collection::vec(any::<u8>(), 1..8), needed in 1..8usize, epoch: u64, both: bool) {
            let quorum = Quorum::new(needed, ids(members));
            let set = InSyncSet { epoch, ..set(quorum.clone(), both.then_some(quorum)) };
            prop_assert_eq!(InSyncSet::parse(set.to_string().as_bytes()), Some(set));
        }

        #[test]
        fn any_bytes_are_a_set_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = InSyncSet::parse(&[WORD, &bytes].concat());
        }
    }
}
