//! A server's memory of the in-sync set: the last set and term that it knows, and the part of its data that may hold
//! acknowledged writes.
//!
//! A member's acknowledgement is a promise: the member knows a term before it acknowledges anything of that term, and
//! follows no primary of an earlier term afterwards, nor another one with the same number. The promise is on the disk
//! ([`MemberRecord`](crate::member_record::MemberRecord)) before the acknowledgement goes.
//!
//! Every process has a name of its own. A process that ended with all of its data on the disk has an heir: the next
//! process with that data, which answers for the name. A process that ended otherwise is gone, and its successor
//! announces that: no set has to wait for the name any more.

use crate::in_sync_set::{InSyncSet, MemberId, Term};
use crate::link_event::Position;
use crate::replid::{History, ReplicationId};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Server's name in sets.
    pub id: MemberId,
    /// Latest term that the server knows.
    pub term: Term,
    /// Last set in the server's data; None: the server has read none since it got the data.
    pub set: Option<InSyncSet>,
    /// Place up to which the server may hold acknowledged writes, if that is not all of its data: the server was
    /// promoted, and has written since, but was never sure to have all that was acknowledged before.
    pub claim: Option<Position>,
    /// Names of ended processes whose data the server has.
    pub heir_of: Vec<MemberId>,
    /// Names of ended processes whose data is lost.
    pub gone: Vec<MemberId>,
    /// Whether the set comes from the disk, and no primary has repeated or replaced it since.
    pub is_restored: bool,
    /// Whether the server led with all acknowledged writes, gave up its lead, and has read no other leader's set since.
    pub gave_up: bool,
    /// Last term in which the server announced the set of a hand-over, if it was never confirmed in that term: nothing
    /// was acknowledged by that set. A process says so of its own terms only.
    pub unused: Option<Term>,
    /// Process before this one in its directory, if that process ended without an heir.
    pub ended: Option<Ended>,
}

/// A process that ended without an heir, and the terms in which it may have let a primary acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Name of the process.
    pub id: MemberId,
    /// Latest term that the process knew.
    pub term: Term,
    /// Whether the process led in that term, by a hand-over, and was never confirmed.
    pub is_unused: bool,
}

impl Ended {
    /// Returns whether the process let no primary acknowledge after this set: the process knew no later term, or only
    /// the next one, which it did not use.
    pub fn let_none_acknowledge_after(&self, set: &InSyncSet) -> bool {
        let led_next = self.is_unused && self.term == set.term.next(self.id);
        self.term == set.term || led_next
    }
}

/// Greatest number of ended processes that a member names; the oldest are left out.
pub const PAST_MAX: usize = 16;

/// Adds names of ended processes.
pub(crate) fn add_names(names: &mut Vec<MemberId>, more: impl IntoIterator<Item = MemberId>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.drain(..names.len().saturating_sub(PAST_MAX));
}

/// Error: the primary is of an earlier term, and is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierTerm;

impl Membership {
    /// Creates the memory of a server that knows nothing yet.
    pub fn new(id: MemberId) -> Membership {
        let (heir_of, gone) = (Vec::new(), Vec::new());
        let (is_restored, gave_up) = (false, false);
        Membership {
            id,
            term: Term::NONE,
            set: None,
            claim: None,
            heir_of,
            gone,
            is_restored,
            gave_up,
            unused: None,
            ended: None,
        }
    }

    /// Takes a set from the stream of a primary that was [met](Self::meet). A replica that was behind at that primary's
    /// promotion reads sets of earlier primaries first: they belong to the history that both have.
    ///
    /// # Errors
    /// Returns [`EarlierTerm`] if the set's primary was replaced.
    pub fn take(&mut self, set: InSyncSet) -> Result<(), EarlierTerm> {
        let is_past = set.term.number < self.term.number && self.set.as_ref().is_none_or(|known| !set.is_before(known));
        if !is_past {
            self.meet(Some(set.term))?;
        }
        self.set = Some(set);
        if !is_past {
            // Its primary counts on the acknowledgement of all data from here on.
            self.claim = None;
        }
        (self.is_restored, self.gave_up) = (false, false);
        Ok(())
    }

    /// Takes the latest term that a primary knows, before its stream or its snapshot arrives.
    ///
    /// # Errors
    /// Returns [`EarlierTerm`] if the primary was replaced, or knows no terms.
    pub fn meet(&mut self, term: Option<Term>) -> Result<(), EarlierTerm> {
        let term = term.unwrap_or(Term::NONE);
        if !self.term.lets_follow(term) {
            return Err(EarlierTerm);
        }
        self.term = term;
        Ok(())
    }

    /// Replaces the data by another server's, from a moment after the last set that this server knows.
    pub fn replace(&mut self) {
        (self.set, self.claim) = (None, None);
        (self.is_restored, self.gave_up) = (false, false);
    }

    /// Forgets the data, which is lost.
    pub fn forget(&mut self, id: MemberId) {
        let mut gone = std::mem::take(&mut self.gone);
        if self.term != Term::NONE {
            add_names(&mut gone, self.heir_of.drain(..).chain([self.id]));
        }
        let ended = Ended { id: self.id, term: self.term, is_unused: self.unused == Some(self.term) };
        let ended = (self.term != Term::NONE).then_some(ended);
        *self = Membership { term: self.term, gone, ended, ..Membership::new(id) };
    }

    /// Makes the next process with the same data the heir, by another name.
    pub fn inherit(&mut self, id: MemberId) {
        if self.term != Term::NONE {
            add_names(&mut self.heir_of, [self.id]);
        }
        (self.id, self.is_restored, self.gave_up) = (id, self.set.is_some(), false);
        (self.unused, self.ended) = (None, None);
    }

    /// Returns whether this server is a member of the set, or the heir of one.
    pub fn is_member_of(&self, set: &InSyncSet) -> bool {
        set.has(self.id) || self.heir_of.iter().any(|id| set.has(*id))
    }

    /// Returns whether the server is a member, or there are no members: only such a server is to be promoted. A server
    /// that gave up its lead has all acknowledged writes, until it meets a later leader.
    pub fn is_in_sync(&self) -> bool {
        let is_former_leader = |set: &InSyncSet| self.gave_up && set.term == self.term;
        self.term == Term::NONE || self.set.as_ref().is_some_and(|set| self.is_member_of(set) || is_former_leader(set))
    }
}

/// A replica's description of its memory when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Replica's name in sets.
    pub id: MemberId,
    /// Latest term that the replica knows.
    pub term: Term,
    /// Place up to which the replica may hold acknowledged writes; None: it holds none.
    pub claim: Option<Position>,
    /// Replica's knowledge of processes before it.
    pub past: Past,
}

/// A member's knowledge of earlier processes, and its age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Number of the term and epoch of the last set that the member knows; zero: it knows none.
    pub known: (u64, u64),
    /// Names of ended processes whose data the member has.
    pub heir_of: Vec<MemberId>,
    /// Names of ended processes whose data is lost.
    pub gone: Vec<MemberId>,
    /// See [`Membership::gave_up`].
    pub gave_up: bool,
    /// See [`Membership::unused`].
    pub unused: Option<Term>,
    /// See [`Membership::ended`].
    pub ended: Option<Ended>,
}

/// Beginning of the word among a replica's capabilities; servers that do not know it ignore it.
pub const CAPABILITY: &str = "in-sync:";
/// Beginning of the word for a member's past.
const PAST: &str = "in-sync-past:";
/// Part of that word, if the server gave up its lead. The term of an unused hand-over may follow, and then the process
/// before, with its term, and [UNUSED] if it did not use that.
const GAVE_UP: &str = "gave-up";
const UNUSED: &str = "unused";

impl Introduction {
    /// Creates the introduction of a server with this memory, and with data up to `position`.
    pub fn of(known: &Membership, position: Option<Position>) -> Introduction {
        // At the beginning of a history there is no write of it. A server that restarts without its data, and leads
        // until it is replaced, has a history that no other server knows.
        let claim = known.claim.or(position).filter(|claim| claim.offset > 0);
        Introduction { id: known.id, term: known.term, claim, past: Past::of(known) }
    }

    /// Returns whether the claim is within a server's history, which goes up to `end`. `asked`: the history that the
    /// replica wants to continue. If the replica has led since its claim, that is a later history, which begins with
    /// the claim's.
    pub fn is_within(&self, history: &History, end: u64, asked: Option<ReplicationId>) -> bool {
        self.claim.is_none_or(|Position { id, offset }| {
            let has = |next| history.has(id, next) || asked.is_some_and(|asked| history.has(asked, next));
            i64::try_from(offset).is_ok_and(|offset| has(offset + 1)) && offset <= end
        })
    }

    /// Returns the introduction as a word.
    pub fn to_word(&self) -> String {
        let Introduction { id, term, claim, .. } = self;
        let claim = claim.map(|Position { id, offset }| format!(":{id}:{offset}")).unwrap_or_default();
        format!("{CAPABILITY}{id}:{term}{claim}")
    }

    /// Reads an introduction; None if the word is none.
    pub fn parse(word: &[u8]) -> Option<Introduction> {
        let mut parts = word.strip_prefix(CAPABILITY.as_bytes())?.splitn(4, |byte| *byte == b':');
        let id = MemberId::parse(parts.next()?)?;
        let term = Term { number: number(parts.next()?)?, leader: MemberId::parse(parts.next()?)? };
        let claim = match parts.next() {
            None => None,
            Some(text) => {
                let split = text.iter().position(|byte| *byte == b':')?;
                Some(Position { id: MemberId::parse(&text[..split])?, offset: number(&text[split + 1..])? })
            }
        };
        Some(Introduction { id, term, claim, past: Past::default() })
    }
}

impl Past {
    /// Creates the past of a server with this memory.
    pub fn of(known: &Membership) -> Past {
        let last = known.set.as_ref().map_or((0, 0), |set| (set.term.number, set.epoch));
        let Membership { heir_of, gone, gave_up, unused, ended, .. } = known.clone();
        Past { known: last, heir_of, gone, gave_up, unused, ended }
    }

    /// Returns the past as a word.
    pub fn to_word(&self) -> String {
        let names = |names: &[MemberId]| names.iter().map(MemberId::as_str).collect::<Vec<_>>().join(",");
        let (number, epoch) = self.known;
        let gave_up = if self.gave_up { GAVE_UP } else { "" };
        let unused = self.unused.map_or_else(|| ":".to_owned(), |term| term.to_string());
        let ended = self.ended.map_or_else(String::new, |Ended { id, term, is_unused }| {
            format!(":{id}:{term}:{}", if is_unused { UNUSED } else { "" })
        });
        let (heirs, gone) = (names(&self.heir_of), names(&self.gone));
        let word = format!("{PAST}{number}:{epoch}:{heirs}:{gone}:{gave_up}:{unused}{ended}");
        let parts_min = format!("{PAST}{number}:{epoch}:{heirs}:{gone}").len();
        // Empty parts at the end are left out.
        word[..word.trim_end_matches(':').len().max(parts_min)].to_owned()
    }

    /// Reads a past; None if the word is none.
    pub fn parse(word: &[u8]) -> Option<Past> {
        let mut parts = word.strip_prefix(PAST.as_bytes())?.split(|byte| *byte == b':');
        let known = (number(parts.next()?)?, number(parts.next()?)?);
        let names = |text: &[u8]| {
            let names = text.split(|byte| *byte == b',').filter(|name| !name.is_empty());
            names.take(PAST_MAX).map(MemberId::parse).collect::<Option<Vec<_>>>()
        };
        let (heir_of, gone) = (names(parts.next()?)?, names(parts.next()?)?);
        let gave_up = parts.next() == Some(GAVE_UP.as_bytes());
        let unused = match (parts.next(), parts.next()) {
            (Some(term), Some(leader)) if !term.is_empty() => Some(term_of(term, leader)?),
            _ => None,
        };
        let ended = match (parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(term), Some(leader)) => {
                let is_unused = parts.next() == Some(UNUSED.as_bytes());
                Some(Ended { id: MemberId::parse(id)?, term: term_of(term, leader)?, is_unused })
            }
            _ => None,
        };
        Some(Past { known, heir_of, gone, gave_up, unused, ended })
    }
}

fn term_of(term: &[u8], leader: &[u8]) -> Option<Term> {
    Some(Term { number: number(term)?, leader: MemberId::parse(leader)? })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
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
    fn no_primary_of_an_earlier_term_is_followed() {
        let mut member = Membership::new(id(1));
        assert!(member.is_in_sync(), "there is no set");
        member.take(set(2, 7, &[1, 7])).unwrap();
        assert!(member.is_in_sync());
        assert_eq!([6, 8].map(|leader| member.take(set(2, leader, &[1]))), [Err(EarlierTerm); 2]);
        assert_eq!(member.meet(None), Err(EarlierTerm));
        assert_eq!(member.meet(Some(set(2, 7, &[7]).term)), Ok(()));
        member.meet(Some(set(3, 5, &[5]).term)).unwrap();
        assert_eq!(member.take(set(1, 7, &[7])), Err(EarlierTerm));
        assert!(member.is_in_sync(), "it holds what it held");
    }

    #[test]
    fn a_replica_that_is_behind_reads_the_sets_of_earlier_primaries_first() {
        let mut member = Membership::new(id(1));
        member.take(set(2, 7, &[1, 7])).unwrap();
        member.meet(Some(set(4, 5, &[5]).term)).unwrap();
        for (number, leader, members, is_in_sync) in [(2, 7, [1, 7], true), (3, 8, [7, 8], false), (4, 5, [1, 5], true)]
        {
            member.take(set(number, leader, &members)).unwrap();
            assert_eq!((member.term.number, member.is_in_sync()), (4, is_in_sync));
        }
        assert_eq!(member.take(set(3, 8, &[7, 8])), Err(EarlierTerm), "its data is of a later time");
    }

    #[test]
    fn a_server_that_led_in_vain_claims_all_of_its_data_when_it_follows_a_later_leader() {
        let claim = Some(Position { id: id(9), offset: 77 });
        let mut member = Membership { term: set(2, 1, &[1, 7]).term, claim, ..Membership::new(id(1)) };
        member.meet(Some(set(4, 5, &[5]).term)).unwrap();
        member.take(set(3, 8, &[7, 8])).unwrap();
        assert_eq!(member.claim, claim, "no primary counts on it yet");
        member.take(set(4, 5, &[1, 5])).unwrap();
        assert_eq!(member.claim, None);
    }

    #[test]
    fn a_member_with_other_data_is_out_of_sync_until_the_next_set_that_has_it() {
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
            let said = Introduction { id: id(1), term, claim, past: Past::default() };
            assert_eq!(Introduction::parse(said.to_word().as_bytes()), Some(said));
        }
        assert_eq!(Introduction::parse(b"in-sync:x"), None);
        assert_eq!(Introduction::parse(b"in-sync"), None);
    }

    #[test]
    fn a_past_comes_back() {
        let term = Term { number: 3, leader: id(4) };
        let ended = |is_unused| Some(Ended { id: id(5), term, is_unused });
        for (heir_of, gone) in [(vec![], vec![]), (vec![id(1)], vec![]), (vec![], vec![id(1), id(2)])] {
            for unused in [None, Some(term)] {
                for ended in [None, ended(false), ended(true)] {
                    let (heir_of, gone) = (heir_of.clone(), gone.clone());
                    let past = Past { known: (7, 9), gave_up: gone.is_empty(), heir_of, gone, unused, ended };
                    assert_eq!(Past::parse(past.to_word().as_bytes()), Some(past));
                }
            }
        }
        let none = Past::default();
        assert_eq!(none.to_word(), "in-sync-past:0:0::");
        assert_eq!(Past::parse(b"in-sync-past:7:9:x:"), None);
        assert_eq!(Past::parse(b"in-sync-past:7"), None);
    }

    #[test]
    fn a_server_that_gave_up_its_lead_says_so_until_it_hears_another_leader() {
        let led = |gave_up| Membership { term: set(2, 1, &[7]).term, gave_up, ..Membership::new(id(1)) };
        assert!(Past::of(&led(true)).gave_up && !Past::of(&led(false)).gave_up);
        let ends: [fn(&mut Membership); 4] = [
            |member| member.take(set(3, 7, &[1])).unwrap(),
            Membership::replace,
            |member| member.inherit(id(2)),
            |member| member.forget(id(2)),
        ];
        for end in ends {
            let mut member = led(true);
            member.meet(Some(set(3, 7, &[1]).term)).unwrap();
            assert!(member.gave_up, "it has heard nothing but the term");
            end(&mut member);
            assert!(!member.gave_up);
        }
    }

    #[test]
    fn a_server_that_gave_up_its_lead_is_in_sync_until_it_meets_a_later_leader() {
        let last = set(2, 1, &[7]);
        let mut member = Membership { term: last.term, set: Some(last), gave_up: true, ..Membership::new(id(1)) };
        assert!(member.is_in_sync(), "no other server has led since");
        member.meet(Some(set(3, 7, &[1]).term)).unwrap();
        assert!(!member.is_in_sync());
    }

    #[test]
    fn an_heir_is_the_member_again_and_a_server_that_lost_its_data_names_the_member_as_gone() {
        let mut member = Membership::new(id(1));
        member.take(set(2, 7, &[1, 7])).unwrap();
        member.inherit(id(2));
        assert!(member.is_in_sync() && member.is_restored && member.heir_of == [id(1)]);
        member.take(set(2, 7, &[2, 7])).unwrap();
        assert!(member.is_in_sync() && !member.is_restored);
        member.forget(id(3));
        assert!(!member.is_in_sync() && member.gone == [id(1), id(2)] && member.heir_of.is_empty());
        add_names(&mut member.gone, (10..40).map(id));
        assert_eq!((member.gone.len(), member.gone.last()), (PAST_MAX, Some(&id(39))));
    }

    /// The server has restarted without its data, and led until it was replaced: no other server knows its history.
    #[test]
    fn a_server_that_is_at_the_beginning_of_its_history_claims_nothing_of_it() {
        let beginning = Some(Position { id: id(7), offset: 0 });
        let led = Membership { claim: beginning, ..Membership::new(id(9)) };
        for introduction in [
            Introduction::of(&led, Some(Position { id: id(7), offset: 56 })),
            Introduction::of(&Membership::new(id(9)), beginning),
        ] {
            assert_eq!(introduction.claim, None);
            assert!(introduction.is_within(&History::new(id(1)), 100, Some(id(7))));
        }
    }

    /// The replica led in vain from its claim on, another one followed it, and leads now: the history has later names.
    #[test]
    fn a_claim_is_within_a_history_that_goes_on_from_a_later_name() {
        let (first, own, third) = (id(1), id(2), id(3));
        let introduction = Introduction::of(&Membership::new(id(9)), Some(Position { id: first, offset: 100 }));
        let mut history = History::new(first);
        assert!(introduction.is_within(&history, 100, Some(own)) && !introduction.is_within(&history, 99, None));
        history.shift(own, 100);
        history.shift(id(4), 140);
        history.shift(third, 150);
        assert!(!introduction.is_within(&history, 160, None), "the name is not known any more");
        assert!(introduction.is_within(&history, 160, Some(own)));
        let mut other = History::new(own);
        other.shift(third, 90);
        assert!(!introduction.is_within(&other, 160, Some(own)), "it went on before the claim");
    }
}
