//! A primary that acknowledges: which of its replicas are in sync, up to where they hold its stream, and whether it
//! may still answer.
//!
//! ```text
//!   promoted -> the set it knows, in a term of its own -> enough members have heard -> a lease later: it acknowledges
//!                                                                                      the set follows who is there
//! ```
//!
//! What goes into the stream is asked for with [`next_word`](AcknowledgingPrimary::next_word) and told to have gone
//! with [`appended`](AcknowledgingPrimary::appended). Times are milliseconds of a clock that does not go back.

use crate::arrived::Position;
use crate::follower::Acks;
use crate::in_sync_member::{Introduction, Membership, Past};
use crate::in_sync_set::{InSyncSet, MemberId, Quorum, Term};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The replicas' clocks may be faster or slower by one part in so many.
const DRIFT: u64 = 10;
/// Lengths of the stream whose time is remembered.
const SENT_MAX: usize = 256;

/// What it is to be like.
#[derive(Clone, Copy, Debug)]
pub struct AckSettings {
    /// Replicas that have what is acknowledged; at least one.
    pub replicas: usize,
    /// How long after an acknowledgement its member counts as one that has not gone to another primary.
    pub lease: u64,
    /// Silence after which a replica is in sync no more.
    pub silence: u64,
}

/// Whether the server may acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may lack what was acknowledged before it was promoted.
    Unconfirmed,
    /// It has all of that, but its predecessor may still answer until then.
    Confirmed(u64),
    /// It may.
    Open,
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    acks: Acks,
    is_online: bool,
    /// It has acknowledged something since it came online, and when that was last.
    heard: Option<u64>,
    /// When what it has acknowledged had not been sent yet.
    leased_at: u64,
    /// The end of its last link; None: it had none.
    left: Option<u64>,
}

impl Follower {
    /// Whether it is online, and has not been silent for too long.
    fn is_there(&self, settings: &AckSettings, now: u64) -> bool {
        self.is_online && self.heard.is_none_or(|at| now.saturating_sub(at) <= settings.silence)
    }

    /// Returns since when it is not there; None: it has had no link.
    fn silent_since(&self) -> Option<u64> {
        if self.is_online { self.heard } else { self.left }
    }
}

/// A member for which replies and changes of the set wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The member.
    pub id: MemberId,
    /// The end of its link, or its last word; None: it has had no link since this server leads.
    pub since: Option<u64>,
}

/// A member that cannot be struck off, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrikeError {
    /// The server may lack data that the member has.
    Unconfirmed,
    /// No set has it, or it is the server itself.
    NoMember,
    /// It is there, and not silent.
    Online,
}

/// The lead that the primary's predecessor has handed to it.
#[derive(Debug)]
struct HandOver {
    /// The predecessor.
    by: MemberId,
    /// The set that it led with.
    quorum: Quorum,
    /// The same with the predecessor in the place of the server.
    joint: Quorum,
    /// Members of that which have acknowledged nothing yet: they are to be told whom to follow.
    untold: Vec<MemberId>,
    /// When the predecessor was waited for last; None: that is to be noted.
    asked: Option<u64>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct AcknowledgingPrimary {
    id: MemberId,
    set: InSyncSet,
    /// The stream's length behind the set; None: it is to be appended.
    set_at: Option<u64>,
    /// The same of the first one of the term.
    term_at: Option<u64>,
    gate: Gate,
    /// It began without a set, and nobody else was a member so far.
    is_new: bool,
    /// Up to where it may hold what was acknowledged before, as long as it is not sure to hold all of that.
    claim: Option<Position>,
    followers: BTreeMap<MemberId, Follower>,
    /// Members that have ended, and the processes that have their data.
    heirs: BTreeMap<MemberId, MemberId>,
    /// Members that will never be heard again.
    gone: BTreeSet<MemberId>,
    /// The membership before the server led.
    known: Membership,
    /// A member may have heard of the term.
    is_heard_of: bool,
    /// Lengths of the stream, and times before the last bytes of them were sent.
    sent: VecDeque<(u64, u64)>,
    /// A replica has to hear of the set.
    repeats: bool,
    /// The server led before with all that was acknowledged, and has heard of no other leader's set since.
    gave_up: bool,
    /// The hand-over by which it is to lead.
    hand_over: Option<HandOver>,
}

impl AcknowledgingPrimary {
    /// One that takes over with what it knows, and with the data up to here.
    pub fn new(known: &Membership, position: Position) -> AcknowledgingPrimary {
        let id = known.id;
        let is_first = known.term == Term::NONE;
        // Of a set that it does not know nobody can tell it.
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
            known: known.clone(),
            is_heard_of: false,
            sent: VecDeque::new(),
            repeats: false,
            gave_up: known.gave_up && !known.is_restored && known.set.is_some(),
            hand_over: None,
        }
    }

    /// One that takes over and is to be believed that nothing better is left.
    pub fn forced(known: &Membership, position: Position) -> AcknowledgingPrimary {
        let first = AcknowledgingPrimary::new(&Membership::new(known.id), position);
        let set = InSyncSet { term: known.term.next(known.id), ..first.set };
        AcknowledgingPrimary { set, is_new: false, is_heard_of: true, ..first }
    }

    /// The set as it is.
    pub fn set(&self) -> &InSyncSet {
        &self.set
    }

    /// Whether it may acknowledge.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// Whether it has all that was acknowledged before its time.
    pub fn is_confirmed(&self) -> bool {
        self.gate != Gate::Unconfirmed
    }

    /// Whether a member may have heard of its term.
    pub fn is_heard_of(&self) -> bool {
        self.is_heard_of
    }

    /// What it remembers when it leads no more.
    pub fn membership(&self) -> Membership {
        if self.is_new {
            // No other server counts on it: it knows as little as one that starts.
            return Membership::new(self.id);
        }
        let known = self.known.clone();
        if !self.is_heard_of && !self.is_confirmed() {
            // The term never was, for anybody else.
            return Membership { claim: self.claim, ..known };
        }
        let mut set = (!self.is_unknown()).then(|| self.set.clone());
        if let (Some(set), Some(hand_over), false) = (&mut set, &self.hand_over, self.is_confirmed()) {
            // The server has made nothing of the hand-over.
            (set.quorum, set.before) = (hand_over.quorum.clone(), None);
        }
        // One that had a disk's word only may hear until its gate opens that others know better.
        let is_sure = self.gate == Gate::Open || self.is_confirmed() && !self.known.is_restored;
        let gave_up = set.is_some() && (is_sure || self.gave_up);
        Membership { term: self.set.term, set, claim: self.claim, is_restored: false, gave_up, ..known }
    }

    /// Whether the set is one that the server does not know, and therefore is never confirmed by.
    fn is_unknown(&self) -> bool {
        self.set.has(MemberId::NONE)
    }

    /// What has to go into the stream.
    pub fn next_word(&self) -> Option<String> {
        // Members that hear of an unknown set would forget the one that they know.
        (!self.is_unknown() && (self.set_at.is_none() || self.repeats)).then(|| self.set.to_string())
    }

    /// That has gone, and the stream is so long now.
    pub fn appended(&mut self, stream: u64) {
        self.repeats = false;
        self.set_at.get_or_insert(stream);
        self.term_at.get_or_insert(stream);
    }

    /// The stream is so long now; none of the last bytes of it was sent before.
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

    /// A replica tells of itself. True: it may follow, for the server has what it [claims](Introduction::claim)
    /// (`has_all`), or knows that the rest was not acknowledged. The server itself has the data up to `position`.
    pub fn may_follow(&mut self, said: &Introduction, has_all: bool, position: Position) -> bool {
        let is_outdated = self.is_outdated(said);
        if is_outdated || said.term != self.set.term && said.term.number >= self.set.term.number {
            // Another server was promoted meanwhile, and may have acknowledged.
            if self.is_new || is_outdated {
                // Or this server has, and has forgotten; or its data is older than the others'.
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
        // A copy of a directory may name a process that is there.
        let is_online = |id: &MemberId| self.followers.get(id).is_some_and(|follower| follower.is_online);
        self.gone.extend(said.past.gone.iter().copied().filter(|id| *id != self.id && !is_online(id)));
        self.forget_others();
        if has_all && !self.is_confirmed() {
            self.take_hand_over(said);
        }
        // A server that does not know the set never leads: members that follow it would only be kept from another.
        let may = self.is_confirmed() || has_all && (!self.is_unknown() || said.term == Term::NONE);
        // The replica is told the term before it follows.
        self.is_heard_of |= may;
        may
    }

    /// Begins to lead by a hand-over if the replica is the predecessor of the term that this server knew, and gave it
    /// up. The predecessor has all that was acknowledged until then, and this server has all that it has. Nothing is
    /// acknowledged before the predecessor has heard of the set that is said now, or else as many of the former set's
    /// members as confirm a server have heard that it is not used.
    fn take_hand_over(&mut self, said: &Introduction) {
        let known = &self.known;
        let is_next = self.set.term == known.term.next(self.id) && !known.is_restored;
        let Some(set) = known.set.as_ref().filter(|set| is_next && set.term == known.term) else { return };
        let has_given_up = said.past.gave_up
            && set.term == Term { number: said.past.known.0, leader: said.id }
            && set.before.is_none();
        // It has heard of the hand-over, and led nowhere else since.
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
            self.begin_term();
        }
    }

    /// Whether the set is that of a hand-over which the predecessor has not heard of, as far as is known.
    fn is_led_by_hand_over(&self) -> bool {
        let is_waited_for = |it: &HandOver| self.set.before.is_some() && self.set.quorum == it.joint;
        !self.is_confirmed() && self.hand_over.as_ref().is_some_and(is_waited_for)
    }

    /// The predecessor whose word the server waits for.
    fn predecessor(&self) -> Option<MemberId> {
        self.hand_over.as_ref().filter(|_| self.is_led_by_hand_over()).map(|it| it.by)
    }

    /// Goes back to the set of before the hand-over while the predecessor is away: members confirm the server then.
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
        } else {
            return;
        }
        self.begin_term();
    }

    /// The set is another one before the server was confirmed: its first word is yet to come.
    fn begin_term(&mut self) {
        self.change();
        self.term_at = None;
    }

    /// Whether the server has all that was acknowledged, by those who have heard of its term.
    ///
    /// While a set changes, only members of the new one can have let anybody acknowledge, as long as no server is
    /// confirmed by the old one alone: so many as are needed there prevent that. The same holds for the set with which
    /// the server gave up its own lead. A server that begins with the set of a hand-over has let nobody acknowledge by
    /// it: the predecessor's word is enough.
    fn is_sure(&self, term_at: u64) -> bool {
        let is_heard = |id: &MemberId| !self.gone.contains(id) && self.applied(*id) >= term_at;
        let by = self.predecessor();
        self.set.quorums().all(|quorum| {
            if let Some(by) = by.filter(|_| *quorum == self.set.quorum) {
                return is_heard(&by);
            }
            let heard = || quorum.members.iter().copied().filter(is_heard);
            // An heir may have a disk of before its member's last word.
            let themselves = heard().filter(|id| self.process(*id) == *id).count();
            heard().count() >= quorum.voices() || themselves >= self.voices(quorum)
        })
    }

    /// How many members of a quorum are to be heard before the server is confirmed.
    fn voices(&self, quorum: &Quorum) -> usize {
        let is_old = self.set.before.as_ref() == Some(quorum) && self.set.quorum != *quorum;
        if self.gave_up || is_old && !self.known.is_restored { quorum.needed } else { quorum.voices() }
    }

    /// Whether this server's knowledge comes from a disk, and the replica's is later.
    fn is_outdated(&self, said: &Introduction) -> bool {
        if !self.known.is_restored || self.is_unknown() {
            return false;
        }
        let names_it = said.past.gone.iter().any(|id| *id == self.id || self.known.heir_of.contains(id));
        // A replica that knows this server's own terms has met it before.
        names_it || said.term.leader != self.id && said.past.known > Past::of(&self.known).known
    }

    /// Drops names of the past that no set has.
    fn forget_others(&mut self) {
        let set = &self.set;
        let is_there = |id: &MemberId| set.quorums().any(|quorum| quorum.members.contains(id));
        self.gone.retain(is_there);
        self.heirs.retain(|id, _| is_there(id));
    }

    /// A replica gets the stream from now on.
    pub fn joined(&mut self, said: &Introduction) {
        let follower = self.followers.entry(said.id).or_default();
        (follower.is_online, follower.heard) = (true, None);
        self.gone.remove(&said.id);
        // An heir answers for a member if it knows a set of the last term of which this server knows one. The member
        // may have missed later sets of that term. None of them has been acknowledged by an heir in the member's name:
        // an heir is a member by its own name then.
        let term_of = |past: &Past| past.known.0;
        let is_recent = self.is_confirmed() || term_of(&said.past) >= term_of(&Past::of(&self.known));
        let heirs = said.past.heir_of.iter().filter(|_| is_recent).map(|name| (*name, said.id));
        self.heirs.extend(heirs.filter(|(name, _)| *name != self.id && !self.known.heir_of.contains(name)));
        self.forget_others();
        (self.repeats, self.is_heard_of) = (true, true);
    }

    /// It gets it no more.
    pub fn left(&mut self, id: MemberId, now: u64) {
        if let Some(follower) = self.followers.get_mut(&id)
            && std::mem::take(&mut follower.is_online)
        {
            follower.left = Some(now);
        }
    }

    /// An operator says that a member will never be heard again.
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

    /// Members without which nothing is acknowledged; none if enough are there.
    pub fn missing(&self, settings: &AckSettings, now: u64) -> Vec<Missing> {
        let is_there = |id: MemberId| {
            let process = self.process(id);
            let is_gone = self.is_confirmed() && self.gone.contains(&id);
            let follower = self.followers.get(&process);
            process == self.id || is_gone || follower.is_some_and(|follower| follower.is_there(settings, now))
        };
        let lacks = |quorum: &&Quorum| {
            let there = quorum.members.iter().filter(|id| is_there(**id)).count();
            there < if self.is_confirmed() { quorum.needed } else { self.voices(quorum) }
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

    /// Whether as many replicas are there as acknowledge.
    pub fn has_replicas(&self, settings: &AckSettings, others: usize, now: u64) -> bool {
        self.followers.values().filter(|follower| follower.is_there(settings, now)).count() + others
            >= settings.replicas
    }

    /// A replica has acknowledged.
    pub fn acknowledged(&mut self, id: MemberId, acks: Acks, now: u64) {
        let Some(follower) = self.followers.get_mut(&id) else { return };
        (follower.acks, follower.heard) = (acks, Some(now));
        self.hand_over.iter_mut().for_each(|it| it.untold.retain(|untold| *untold != id));
        let before = self.sent.partition_point(|(stream, _)| *stream <= acks.applied);
        if let Some((_, at)) = before.checked_sub(1).and_then(|last| self.sent.get(last)) {
            follower.leased_at = *at;
        }
    }

    /// What is due by time, and by what was acknowledged.
    pub fn tick(&mut self, settings: &AckSettings, now: u64) {
        if let Gate::Confirmed(until) = self.gate
            && now >= until
        {
            self.gate = Gate::Open;
        }
        self.mind_predecessor(settings, now);
        let (Some(set_at), Some(term_at)) = (self.set_at, self.term_at) else { return };
        if self.gate == Gate::Unconfirmed {
            // The server answers for itself, and for its own past, but not for those who are gone.
            if self.is_sure(term_at) {
                // A server that has nobody's word but that of its own disk waits for those who know better.
                let is_own_word = self.known.is_restored && self.set.is_heard(|id| self.process(id) == self.id);
                let more = if is_own_word { settings.silence } else { 0 };
                self.gate = Gate::Confirmed(now + settings.lease + settings.lease / DRIFT + more);
                (self.claim, self.gave_up) = (None, false);
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

    /// The set of those who are there, if they are enough.
    fn wanted(&self, settings: &AckSettings, now: u64) -> Quorum {
        let is_there = |follower: &Follower| {
            follower.is_online && follower.heard.is_some_and(|at| now.saturating_sub(at) <= settings.silence)
        };
        let there = self.followers.iter().filter(|(_, follower)| is_there(follower)).map(|(id, _)| *id);
        let mut members: Vec<MemberId> = there.collect();
        if members.len() < settings.replicas {
            return self.set.quorum.clone();
        }
        // Members of a hand-over's set follow the predecessor until they are told.
        let untold = self.hand_over.iter().flat_map(|it| &it.untold).filter(|id| !self.gone.contains(id));
        members.extend(untold);
        Quorum::new(settings.replicas, members)
    }

    /// The process that answers for a member: itself, or its heir.
    fn process(&self, id: MemberId) -> MemberId {
        self.heirs.get(&id).copied().unwrap_or(id)
    }

    /// Returns a member's word; `all` for the server itself, and for a member that is gone: nothing can be taken over
    /// with its voice.
    fn of_member(&self, id: MemberId, all: u64, said: impl Fn(&Follower) -> u64) -> u64 {
        let process = self.process(id);
        match self.followers.get(&process) {
            _ if process == self.id || self.gone.contains(&id) => all,
            Some(follower) => said(follower),
            None => 0,
        }
    }

    /// Up to where a server has the stream.
    fn applied(&self, id: MemberId) -> u64 {
        self.of_member(id, u64::MAX, |follower| follower.acks.applied)
    }

    fn synced(&self, id: MemberId) -> u64 {
        self.of_member(id, u64::MAX, |follower| follower.acks.synced)
    }

    /// Up to where the stream is acknowledged by so many replicas, `durable`: on their disks. `others`: what replicas
    /// have that know of no set. None: nothing may be acknowledged.
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

    /// Until when nobody else can acknowledge.
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

    /// Whether a primary that was shut down with the set of this term and epoch is confirmed by heirs of its members,
    /// who know these.
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
    fn heirs_that_missed_the_last_changes_of_the_set_confirm_a_primary_but_none_of_an_earlier_term() {
        assert!(is_confirmed_by([(4, 5), (4, 5)]));
        // The primary has changed the set when the first member ended, and the other one has not heard of it.
        assert!(is_confirmed_by([(4, 5), (4, 3)]));
        assert!(is_confirmed_by([(4, 3), (4, 4)]));
        assert!(!is_confirmed_by([(4, 5), (3, 9)]));
        assert!(!is_confirmed_by([(0, 0), (4, 5)]));
    }
}
