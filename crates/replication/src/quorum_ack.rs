//! A primary that acknowledges writes: replicas in sync, the offset up to which they hold the stream, and whether the
//! primary may still answer.
//!
//! ```text
//!   promoted -> its known set, in a term of its own -> enough members acknowledge it -> a lease later it acknowledges
//!                                                                           the set follows the online replicas
//! ```
//!
//! The caller appends [`next_word`](AcknowledgingPrimary::next_word) to the stream and confirms that with
//! [`appended`](AcknowledgingPrimary::appended). Times are milliseconds of a clock that does not go back.

use crate::ack_gate::{AckSettings, Gate, Missing, StrikeError};
use crate::in_sync_follower::Follower;
use crate::in_sync_member::{Introduction, Membership, Past};
use crate::in_sync_set::{InSyncSet, MemberId, Quorum, Term};
use crate::link_event::Position;
use crate::replica_handshake::Acks;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Greatest difference between clocks: one part in so many.
const DRIFT: u64 = 10;
/// Lengths of the stream whose time is remembered.
const SENT_MAX: usize = 256;

/// Lead that the primary's predecessor has handed over.
#[derive(Debug)]
struct HandOver {
    /// Name of the predecessor.
    by: MemberId,
    /// Set with which the predecessor led.
    quorum: Quorum,
    /// That set with the predecessor in the server's place.
    joint: Quorum,
    /// Members of the predecessor's set that have acknowledged nothing yet: they are to learn whom to follow.
    untold: Vec<MemberId>,
    /// Last time at which the predecessor was waited for; None: not recorded yet.
    asked: Option<u64>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct AcknowledgingPrimary {
    id: MemberId,
    set: InSyncSet,
    /// Length of the stream behind the set; None: the set is to be appended.
    set_at: Option<u64>,
    /// Length of the stream behind the term's first set; None: that set is to be appended.
    term_at: Option<u64>,
    gate: Gate,
    /// Whether the server began without a set, and no other server was a member so far.
    is_new: bool,
    /// Place up to which the server may hold acknowledged writes, as long as it is not sure to hold all of them.
    claim: Option<Position>,
    followers: BTreeMap<MemberId, Follower>,
    /// Members that have ended, and the processes that have their data.
    heirs: BTreeMap<MemberId, MemberId>,
    /// Members that will never return.
    gone: BTreeSet<MemberId>,
    /// Members that ended without an heir, and let no primary acknowledge after the set that the server knew.
    idle: BTreeSet<MemberId>,
    /// Server's memory before it led.
    known: Membership,
    /// Whether a member may know the term.
    is_heard_of: bool,
    /// Lengths of the stream, and times before their last bytes were sent.
    sent: VecDeque<(u64, u64)>,
    /// Whether a replica needs the set again.
    repeats: bool,
    /// Whether the server led before with all acknowledged writes, and has read no other leader's set since.
    gave_up: bool,
    /// Hand-over by which the server is to lead.
    hand_over: Option<HandOver>,
    /// See [`Membership::unused`].
    unused: Option<Term>,
}

impl AcknowledgingPrimary {
    /// Creates a primary that takes over with its memory, and with data up to here.
    pub fn new(known: &Membership, position: Position) -> AcknowledgingPrimary {
        let id = known.id;
        let is_first = known.term == Term::NONE;
        // No member can confirm a set that the server does not know.
        let unknown = || (0, Quorum::alone(MemberId::NONE), None);
        let (epoch, quorum, before) = match &known.set {
            _ if is_first => (0, Quorum::alone(id), None),
            Some(set) => (set.epoch, set.quorum.clone(), set.before.clone()),
            None => unknown(),
        };
        AcknowledgingPrimary {
            id,
            set: InSyncSet { term: known.term.next(id), epoch: epoch + 1, quorum, before },
            set_at: None,
            term_at: None,
            gate: if is_first { Gate::Open } else { Gate::Unconfirmed },
            is_new: is_first,
            claim: (!is_first).then_some(known.claim.unwrap_or(position)),
            followers: BTreeMap::new(),
            heirs: known.heir_of.iter().map(|name| (*name, id)).collect(),
            gone: BTreeSet::new(),
            idle: BTreeSet::new(),
            known: known.clone(),
            is_heard_of: false,
            sent: VecDeque::new(),
            repeats: false,
            gave_up: known.gave_up && !known.is_restored && known.set.is_some(),
            hand_over: None,
            unused: known.unused,
        }
    }

    /// Creates a primary that takes over by force: an operator knows that no better server is left.
    pub fn forced(known: &Membership, position: Position) -> AcknowledgingPrimary {
        let first = AcknowledgingPrimary::new(&Membership::new(known.id), position);
        let set = InSyncSet { term: known.term.next(known.id), ..first.set };
        AcknowledgingPrimary { set, is_new: false, is_heard_of: true, ..first }
    }

    /// Returns the present set.
    pub fn set(&self) -> &InSyncSet {
        &self.set
    }

    /// Returns whether the server may acknowledge.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// Returns whether the server has all writes that were acknowledged before its promotion.
    pub fn is_confirmed(&self) -> bool {
        self.gate != Gate::Unconfirmed
    }

    /// Returns whether another primary has handed its lead over to this server: no server has more data.
    pub fn is_handed_over(&self) -> bool {
        self.hand_over.is_some()
    }

    /// Returns whether a member may know the server's term.
    pub fn is_heard_of(&self) -> bool {
        self.is_heard_of
    }

    /// Returns the server's memory after its lead.
    pub fn membership(&self) -> Membership {
        if self.is_new {
            // No other server counts on this one: it knows as little as a new server.
            return Membership::new(self.id);
        }
        let known = self.known.clone();
        if !self.is_heard_of && !self.is_confirmed() {
            // No other server knows the term: it is dropped.
            return Membership { claim: self.claim, unused: self.unused, ..known };
        }
        let mut set = (!self.is_unknown()).then(|| self.set.clone());
        if let (Some(set), Some(hand_over), false) = (&mut set, &self.hand_over, self.is_confirmed()) {
            // The server has not used the hand-over.
            (set.quorum, set.before) = (hand_over.quorum.clone(), None);
        }
        // A server that was confirmed only by a disk may learn of later sets until its gate opens.
        let is_sure = self.gate == Gate::Open || self.is_confirmed() && !self.known.is_restored;
        let gave_up = set.is_some() && (is_sure || self.gave_up);
        let (term, claim, unused) = (self.set.term, self.claim, self.unused);
        Membership { term, set, claim, is_restored: false, gave_up, unused, ..known }
    }

    /// Returns whether the server does not know its set: it is never confirmed then.
    fn is_unknown(&self) -> bool {
        self.set.has(MemberId::NONE)
    }

    /// Returns the set as a word that has to go into the stream.
    pub fn next_word(&self) -> Option<String> {
        // Members that read an unknown set would forget the set that they know.
        (!self.is_unknown() && (self.set_at.is_none() || self.repeats)).then(|| self.set.to_string())
    }

    /// Records that the word was appended, and the stream's length since.
    pub fn appended(&mut self, stream: u64) {
        self.repeats = false;
        self.set_at.get_or_insert(stream);
        self.term_at.get_or_insert(stream);
    }

    /// Records the stream's length; the last bytes of it were not sent before.
    pub fn note_sent(&mut self, stream: u64, now: u64) {
        if self.sent.back().is_some_and(|(known, _)| *known == stream) {
            return;
        }
        self.sent.push_back((stream, now));
        if self.sent.len() > SENT_MAX {
            // Times in between are known less exactly, and never as later than they were.
            let mut number = 0;
            self.sent.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
    }

    /// Takes a replica's introduction, and returns whether the replica may follow: the server has all data that the
    /// replica [claims](Introduction::claim) (`has_all`), or knows that the rest was not acknowledged. The server
    /// itself has the data up to `position`.
    pub fn may_follow(&mut self, said: &Introduction, has_all: bool, position: Position) -> bool {
        let is_outdated = self.is_outdated(said);
        if is_outdated || said.term != self.set.term && said.term.number >= self.set.term.number {
            // Another server was promoted meanwhile, and may have acknowledged.
            if self.is_new || is_outdated {
                // This server may also have acknowledged, and forgotten it; or its data is older than the others'.
                (self.set.quorum, self.set.before) = (Quorum::alone(MemberId::NONE), None);
                self.heirs.clear();
                self.gave_up = false;
            } else if let Some(HandOver { quorum, .. }) = self.hand_over.take().filter(|_| !self.is_confirmed()) {
                (self.set.quorum, self.set.before) = (quorum, None);
            }
            self.hand_over = None;
            let last = if said.term.number > self.set.term.number { said.term } else { self.set.term };
            self.set.term = last.next(self.id);
            self.change();
            self.claim.get_or_insert(position);
            (self.term_at, self.gate) = (None, Gate::Unconfirmed);
            self.followers.values_mut().for_each(|follower| follower.acks = Acks::default());
        }
        // A copy of a directory may name a process that still runs.
        let is_online = |id: &MemberId| self.followers.get(id).is_some_and(|follower| follower.is_online);
        self.gone.extend(said.past.gone.iter().copied().filter(|id| *id != self.id && !is_online(id)));
        if let (Some(ended), Some(known), false) = (said.past.ended, &self.known.set, self.known.is_restored)
            && ended.let_none_acknowledge_after(known)
            && self.gone.contains(&ended.id)
        {
            self.idle.insert(ended.id);
        }
        self.forget_others();
        if has_all && !self.is_confirmed() {
            self.drop_unused(said);
            self.take_hand_over(said);
        }
        // A server that does not know the set never leads: it would only keep members from another primary.
        let may = self.is_confirmed() || has_all && (!self.is_unknown() || said.term == Term::NONE);
        // The replica learns the term before it follows.
        self.is_heard_of |= may;
        may
    }

    /// Returns to the set before a hand-over if this server knows only the hand-over's set, and the replica led by that
    /// set: it was never confirmed, and follows a later term now, so nothing was or will be acknowledged by the set.
    fn drop_unused(&mut self, said: &Introduction) {
        let Some(known) = self.known.set.as_ref().filter(|_| !self.known.is_restored && self.hand_over.is_none())
        else {
            return;
        };
        let is_unused = said.past.unused == Some(known.term) && known.term.leader == said.id;
        if is_unused
            && (&self.set.quorum, &self.set.before) == (&known.quorum, &known.before)
            && let Some(before) = &known.before
        {
            (self.set.quorum, self.set.before) = (before.clone(), None);
            self.begin_term();
        }
    }

    /// Begins to lead by a hand-over if the replica is the predecessor of the term that this server knew, and gave it
    /// up. The predecessor has all writes that were acknowledged until then, and this server has all data of the
    /// predecessor. The server acknowledges nothing before the predecessor has read the present set, or else before as
    /// many members of the former set as confirm a server have read that the present one is not used.
    fn take_hand_over(&mut self, said: &Introduction) {
        let known = &self.known;
        let is_next = self.set.term == known.term.next(self.id) && !known.is_restored;
        let Some(set) = known.set.as_ref().filter(|set| is_next && set.term == known.term) else { return };
        let has_given_up = said.past.gave_up
            && set.term == Term { number: said.past.known.0, leader: said.id }
            && set.before.is_none();
        // The predecessor knows the hand-over, and has not led since.
        let is_known = said.term == self.set.term && self.hand_over.as_ref().is_some_and(|it| it.by == said.id);
        if (has_given_up || is_known) && set.quorum.needed == 1 && !self.is_led_by_hand_over() {
            let is_other = |id: &MemberId| *id != self.id && !self.gone.contains(id);
            let others: Vec<MemberId> = set.quorum.members.iter().copied().filter(is_other).collect();
            let joint = Quorum::new(1, others.iter().copied().chain([said.id]).collect());
            let is_untold = |id: &MemberId| self.followers.get(id).is_none_or(|it| it.heard.is_none());
            let untold = others.into_iter().filter(is_untold).collect();
            let quorum = set.quorum.clone();
            (self.set.quorum, self.set.before) = (joint.clone(), Some(quorum.clone()));
            self.hand_over = Some(HandOver { by: said.id, quorum, joint, untold, asked: None });
            self.unused = Some(self.set.term);
            self.begin_term();
        }
    }

    /// Returns whether the set is that of a hand-over which the predecessor has not acknowledged yet.
    fn is_led_by_hand_over(&self) -> bool {
        let is_waited_for = |it: &HandOver| self.set.before.is_some() && self.set.quorum == it.joint;
        !self.is_confirmed() && self.hand_over.as_ref().is_some_and(is_waited_for)
    }

    /// Returns the predecessor whose acknowledgement the server waits for.
    fn predecessor(&self) -> Option<MemberId> {
        self.hand_over.as_ref().filter(|_| self.is_led_by_hand_over()).map(|it| it.by)
    }

    /// Returns to the set before the hand-over while the predecessor is absent: members confirm the server then.
    fn mind_predecessor(&mut self, settings: &AckSettings, now: u64) {
        let (is_led, is_confirmed) = (self.is_led_by_hand_over(), self.is_confirmed());
        let Some(HandOver { by, quorum, joint, asked, .. }) = self.hand_over.as_mut().filter(|_| !is_confirmed) else {
            return;
        };
        let follower = self.followers.get(by);
        let last = follower.and_then(|it| it.heard.max(it.left)).unwrap_or(0).max(*asked.get_or_insert(now));
        let is_there = now.saturating_sub(last) <= settings.silence;
        if is_led && !is_there {
            (self.set.quorum, self.set.before) = (quorum.clone(), None);
        } else if !is_led && is_there && follower.is_some_and(|it| it.is_online && it.heard.is_some()) {
            (self.set.quorum, self.set.before) = (joint.clone(), Some(quorum.clone()));
            self.unused = Some(self.set.term);
        } else {
            return;
        }
        self.begin_term();
    }

    /// Begins the term anew: the set was replaced before the server was confirmed, so its first word is not sent yet.
    fn begin_term(&mut self) {
        self.change();
        self.term_at = None;
    }

    /// Returns whether the server has all acknowledged writes, by the members that know its term.
    /// While a set changes, only members of the new one can have let a primary acknowledge, as long as no server is
    /// confirmed by the old one alone: as many members as are needed there prevent that. Members of the set with which
    /// the server gave up its own lead prevent it likewise. A server that begins with the set of a hand-over has let no
    /// primary acknowledge by it: the predecessor's acknowledgement is enough.
    fn is_sure(&self, term_at: u64) -> bool {
        let is_heard = |id: &MemberId| !self.gone.contains(id) && self.applied(*id) >= term_at;
        let by = self.predecessor();
        self.set.quorums().all(|quorum| {
            if let Some(by) = by.filter(|_| *quorum == self.set.quorum) {
                return is_heard(&by);
            }
            let heard = || quorum.members.iter().copied().filter(is_heard);
            // An heir may have a disk from before its member's last acknowledgement.
            let themselves = heard().filter(|id| self.process(*id) == *id).count();
            heard().count() >= quorum.voices() || themselves + self.idle_of(quorum) >= self.voices(quorum)
        })
    }

    /// Returns how many members of a quorum have to acknowledge before the server is confirmed.
    fn voices(&self, quorum: &Quorum) -> usize {
        if self.has_all_of(quorum) { quorum.needed } else { quorum.voices() }
    }

    /// Returns whether the server has all writes that were acknowledged by a quorum, unless another server was
    /// confirmed by it.
    fn has_all_of(&self, quorum: &Quorum) -> bool {
        let is_old = self.set.before.as_ref() == Some(quorum) && self.set.quorum != *quorum;
        self.gave_up || is_old && !self.known.is_restored
    }

    /// Returns how many members of a quorum confirm no other server, as they ended before. They have no data that this
    /// server could lack if the server [has all](Self::has_all_of).
    fn idle_of(&self, quorum: &Quorum) -> usize {
        let has_all = self.has_all_of(quorum);
        quorum.members.iter().filter(|id| has_all && self.idle.contains(id)).count()
    }

    /// Returns whether this server's knowledge comes from a disk, and the replica's is later.
    fn is_outdated(&self, said: &Introduction) -> bool {
        if !self.known.is_restored || self.is_unknown() {
            return false;
        }
        let names_it = said.past.gone.iter().any(|id| *id == self.id || self.known.heir_of.contains(id));
        // A replica that knows this server's own terms has met it before.
        names_it || said.term.leader != self.id && said.past.known > Past::of(&self.known).known
    }

    /// Drops names of the past that belong to no set, and ends waiting for members that are gone.
    fn forget_others(&mut self) {
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.untold.retain(|id| !self.gone.contains(id));
        }
        let set = &self.set;
        let is_there = |id: &MemberId| set.quorums().any(|quorum| quorum.members.contains(id));
        self.gone.retain(is_there);
        self.heirs.retain(|id, _| is_there(id));
    }

    /// Records that a replica gets the stream from now on.
    pub fn joined(&mut self, said: &Introduction) {
        let follower = self.followers.entry(said.id).or_default();
        (follower.is_online, follower.heard) = (true, None);
        self.gone.remove(&said.id);
        // An heir answers for a member if it knows a set of the last term of which this server knows one. The member
        // may have missed later sets of that term. No heir has acknowledged such a set in the member's name: an heir
        // that acknowledges is a member by its own name.
        let term_of = |past: &Past| past.known.0;
        let is_recent = self.is_confirmed() || term_of(&said.past) >= term_of(&Past::of(&self.known));
        let heirs = said.past.heir_of.iter().filter(|_| is_recent).map(|name| (*name, said.id));
        self.heirs.extend(heirs.filter(|(name, _)| *name != self.id && !self.known.heir_of.contains(name)));
        self.forget_others();
        (self.repeats, self.is_heard_of) = (true, true);
    }

    /// Records that a replica's link has ended.
    pub fn left(&mut self, id: MemberId, now: u64) {
        if let Some(follower) = self.followers.get_mut(&id)
            && std::mem::take(&mut follower.is_online)
        {
            follower.left = Some(now);
        }
    }

    /// Strikes a member off: an operator knows that it will never return.
    ///
    /// # Errors
    /// See [`StrikeError`].
    pub fn strike(&mut self, id: MemberId, settings: &AckSettings, now: u64) -> Result<(), StrikeError> {
        let is_there = |id: MemberId| self.followers.get(&id).is_some_and(|follower| follower.is_there(settings, now));
        if !self.is_confirmed() {
            return Err(StrikeError::Unconfirmed);
        }
        if id == self.id || !self.set.quorums().any(|quorum| quorum.members.contains(&id)) {
            return Err(StrikeError::NoMember);
        }
        if is_there(self.process(id)) {
            return Err(StrikeError::Online);
        }
        self.gone.insert(id);
        Ok(())
    }

    /// Returns the absent members without which nothing is acknowledged; none if enough are online.
    pub fn missing(&self, settings: &AckSettings, now: u64) -> Vec<Missing> {
        let is_there = |id: MemberId| {
            let process = self.process(id);
            let is_gone = self.is_confirmed() && self.gone.contains(&id);
            let follower = self.followers.get(&process);
            process == self.id || is_gone || follower.is_some_and(|follower| follower.is_there(settings, now))
        };
        let lacks = |quorum: &&Quorum| {
            let there = quorum.members.iter().filter(|id| is_there(**id)).count();
            match self.is_confirmed() {
                true => there < quorum.needed,
                false => there + self.idle_of(quorum) < self.voices(quorum),
            }
        };
        if let Some(by) = self.predecessor().filter(|by| !is_there(*by)) {
            let since = self.followers.get(&by).and_then(Follower::silent_since);
            return vec![Missing { id: by, since }];
        }
        let is_handed = self.predecessor().is_some();
        let quorums = self.set.quorums().filter(|quorum| !is_handed || **quorum != self.set.quorum);
        let all = quorums.filter(lacks).flat_map(|quorum| &quorum.members);
        let missing: BTreeSet<MemberId> = all.copied().filter(|id| !is_there(*id)).collect();
        let named = missing.into_iter().map(|id| {
            let since = self.followers.get(&self.process(id)).and_then(Follower::silent_since);
            Missing { id, since }
        });
        named.collect()
    }

    /// Returns absent members for which no reply waits, but which a server that is promoted after this one may need:
    /// members that have not followed this server since the role was handed over, so that they stay in the set.
    pub fn untold(&self, settings: &AckSettings, now: u64) -> Vec<Missing> {
        let untold = self.hand_over.iter().filter(|_| self.is_confirmed()).flat_map(|it| &it.untold);
        let is_absent = |id: &&MemberId| {
            let follower = self.followers.get(&self.process(**id));
            let is_there = follower.is_some_and(|it| it.is_there(settings, now));
            self.set.has(**id) && !self.gone.contains(id) && !is_there
        };
        let missing = self.missing(settings, now);
        let others = untold.filter(is_absent).filter(|id| missing.iter().all(|it| it.id != **id));
        let since = |id: &MemberId| self.followers.get(&self.process(*id)).and_then(Follower::silent_since);
        others.map(|id| Missing { id: *id, since: since(id) }).collect()
    }

    /// Returns whether enough replicas are online to acknowledge.
    pub fn has_replicas(&self, settings: &AckSettings, others: usize, now: u64) -> bool {
        self.followers.values().filter(|follower| follower.is_there(settings, now)).count() + others
            >= settings.replicas
    }

    /// Takes a replica's acknowledgement.
    pub fn acknowledged(&mut self, id: MemberId, acks: Acks, now: u64) {
        let Some(follower) = self.followers.get_mut(&id) else { return };
        (follower.acks, follower.heard) = (acks, Some(now));
        self.hand_over.iter_mut().for_each(|it| it.untold.retain(|untold| *untold != id));
        let before = self.sent.partition_point(|(stream, _)| *stream <= acks.applied);
        if let Some((_, at)) = before.checked_sub(1).and_then(|last| self.sent.get(last)) {
            follower.leased_at = *at;
        }
    }

    /// Takes the steps that are due by time, and by acknowledgements.
    pub fn tick(&mut self, settings: &AckSettings, now: u64) {
        if let Gate::Confirmed(until) = self.gate
            && now >= until
        {
            self.gate = Gate::Open;
        }
        self.mind_predecessor(settings, now);
        let (Some(set_at), Some(term_at)) = (self.set_at, self.term_at) else { return };
        if self.gate == Gate::Unconfirmed {
            // The server answers for itself, and for its own past, but not for members that are gone.
            if self.is_sure(term_at) {
                // A server that is confirmed only by its own disk waits for servers that may know a later set.
                let is_own_word = self.known.is_restored && self.set.is_heard(|id| self.process(id) == self.id);
                let more = if is_own_word { settings.silence } else { 0 };
                self.gate = Gate::Confirmed(now + settings.lease + settings.lease / DRIFT + more);
                (self.claim, self.gave_up) = (None, false);
                self.unused = self.unused.filter(|term| *term != self.set.term);
            }
            return;
        }
        if self.set.held(|id| self.applied(id)) < set_at {
            return;
        }
        if self.set.before.take().is_some() {
            self.change();
            return self.forget_others();
        }
        let wanted = self.wanted(settings, now);
        if wanted != self.set.quorum {
            self.set.before = Some(std::mem::replace(&mut self.set.quorum, wanted));
            self.is_new = false;
            self.change();
        }
        self.followers.retain(|id, follower| {
            follower.is_online || self.set.has(*id) || self.heirs.values().any(|heir| heir == id)
        });
    }

    fn change(&mut self) {
        self.set.epoch += 1;
        self.set_at = None;
    }

    /// Returns the set of the online replicas, if they are enough; else the present one.
    fn wanted(&self, settings: &AckSettings, now: u64) -> Quorum {
        let is_there = |follower: &Follower| {
            follower.is_online && follower.heard.is_some_and(|at| now.saturating_sub(at) <= settings.silence)
        };
        let there = self.followers.iter().filter(|(_, follower)| is_there(follower)).map(|(id, _)| *id);
        let mut members: Vec<MemberId> = there.collect();
        if members.len() < settings.replicas {
            return self.set.quorum.clone();
        }
        // Members of a hand-over's set follow the predecessor until they learn of the hand-over.
        let untold = self.hand_over.iter().flat_map(|it| &it.untold).filter(|id| !self.gone.contains(id));
        members.extend(untold);
        Quorum::new(settings.replicas, members)
    }

    /// Returns the process that answers for a member: the member itself, or its heir.
    fn process(&self, id: MemberId) -> MemberId {
        self.heirs.get(&id).copied().unwrap_or(id)
    }

    /// Returns a member's value; `all` for the server itself, and for a member that is gone: no server can take over
    /// with that member's voice.
    fn of_member(&self, id: MemberId, all: u64, said: impl Fn(&Follower) -> u64) -> u64 {
        let process = self.process(id);
        match self.followers.get(&process) {
            _ if process == self.id || self.gone.contains(&id) => all,
            Some(follower) => said(follower),
            None => 0,
        }
    }

    /// Returns the offset up to which a server has the stream.
    fn applied(&self, id: MemberId) -> u64 {
        self.of_member(id, u64::MAX, |follower| follower.acks.applied)
    }

    fn synced(&self, id: MemberId) -> u64 {
        self.of_member(id, u64::MAX, |follower| follower.acks.synced)
    }

    /// Returns the offset up to which so many replicas have acknowledged the stream, `durable`: on their disks.
    /// `others`: acknowledgements of replicas that know no set. None: nothing may be acknowledged.
    pub fn held(&self, replicas: usize, durable: bool, others: &[Acks]) -> Option<u64> {
        let needed = self.set.held(|id| if durable { self.synced(id) } else { self.applied(id) });
        let is_kept =
            self.gate == Gate::Open && self.term_at.is_some_and(|at| self.set.held(|id| self.applied(id)) >= at);
        let of = |acks: &Acks| if durable { acks.synced } else { acks.applied };
        let mut all: Vec<u64> = self.followers.values().map(|it| of(&it.acks)).chain(others.iter().map(of)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let holders = replicas.checked_sub(1).map_or(Some(u64::MAX), |last| all.get(last).copied());
        holders.filter(|_| is_kept).map(|holders| holders.min(needed))
    }

    /// Returns the time until which no other server can acknowledge.
    pub fn leased_until(&self, settings: &AckSettings) -> u64 {
        match self.set.held(|id| self.of_member(id, u64::MAX, |follower| follower.leased_at)) {
            0 => 0,
            at => at.saturating_add(settings.lease - settings.lease / DRIFT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: AckSettings = AckSettings { replicas: 1, lease: 100, silence: 200 };

    fn id(n: u128) -> MemberId {
        MemberId::of(n, 0)
    }

    /// Returns whether a primary that was shut down with the set of this term and epoch is confirmed by heirs of its
    /// members, which know these sets.
    fn is_confirmed_by(heirs: [(u64, u64); 2]) -> bool {
        let term = Term { number: 4, leader: id(9) };
        let set = InSyncSet { term, epoch: 5, quorum: Quorum::new(1, vec![id(1), id(2)]), before: None };
        let mut known = Membership { term, set: Some(set), ..Membership::new(id(9)) };
        known.inherit(id(10));
        let position = Position { id: id(20), offset: 7 };
        let mut primary = AcknowledgingPrimary::new(&known, position);
        primary.appended(100);
        for (number, known) in (1..).zip(heirs) {
            let past = Past { known, heir_of: vec![id(number)], ..Past::default() };
            let said = Introduction { id: id(10 + number), term, claim: Some(position), past };
            assert!(primary.may_follow(&said, true, position));
            primary.joined(&said);
            primary.acknowledged(said.id, Acks { applied: 100, synced: 100 }, 1);
        }
        primary.tick(&SETTINGS, 1);
        primary.is_confirmed()
    }

    #[test]
    fn a_member_that_died_before_it_was_told_of_a_hand_over_is_shown_until_it_is_struck_off() {
        let [a, b, c] = [1, 2, 3].map(id);
        let term = Term { number: 4, leader: a };
        let set = InSyncSet { term, epoch: 5, quorum: Quorum::new(1, vec![b, c]), before: None };
        let known = Membership { term, set: Some(set.clone()), ..Membership::new(b) };
        let position = Position { id: id(20), offset: 7 };
        let mut primary = AcknowledgingPrimary::new(&known, position);
        let past = Past { known: (4, 5), gave_up: true, ..Past::default() };
        let said = Introduction { id: a, term, claim: Some(position), past };
        assert!(primary.may_follow(&said, true, position) && primary.is_handed_over());
        primary.joined(&said);
        let acknowledge = |primary: &mut AcknowledgingPrimary, stream, now| {
            primary.appended(stream);
            primary.acknowledged(a, Acks { applied: stream, synced: stream }, now);
            primary.tick(&SETTINGS, now);
        };
        assert_eq!(primary.membership().unused, Some(primary.set().term), "it would say so if it followed");
        (1..5).for_each(|n| acknowledge(&mut primary, 100 + n, n));
        assert_eq!(primary.membership().unused, None, "it is confirmed by the hand-over");
        let untold = |primary: &AcknowledgingPrimary| primary.untold(&SETTINGS, 5);
        assert!(primary.set().has(c) && primary.missing(&SETTINGS, 5).is_empty(), "no reply waits for it");
        assert_eq!(untold(&primary), [Missing { id: c, since: None }]);
        assert_eq!(primary.strike(c, &SETTINGS, 5), Ok(()));
        assert_eq!(untold(&primary), []);
        (5..9).for_each(|n| acknowledge(&mut primary, 100 + n, n));
        assert!(!primary.set().has(c));
    }

    #[test]
    fn heirs_that_missed_the_last_changes_of_the_set_confirm_a_primary_but_none_of_an_earlier_term() {
        assert!(is_confirmed_by([(4, 5), (4, 5)]));
        // The primary has changed the set when the first member ended, and the other one has not learned of it.
        assert!(is_confirmed_by([(4, 5), (4, 3)]));
        assert!(is_confirmed_by([(4, 3), (4, 4)]));
        assert!(!is_confirmed_by([(4, 5), (3, 9)]));
        assert!(!is_confirmed_by([(0, 0), (4, 5)]));
    }
}
