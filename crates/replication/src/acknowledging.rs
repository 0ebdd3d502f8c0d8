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
use crate::in_sync_member::{Introduction, Membership};
use crate::in_sync_set::{InSyncSet, MemberId, Quorum, Term};
use std::collections::{BTreeMap, VecDeque};

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
    /// Lengths of the stream, and times before the last bytes of them were sent.
    sent: VecDeque<(u64, u64)>,
    /// A replica has to hear of the set.
    repeats: bool,
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
            sent: VecDeque::new(),
            repeats: false,
        }
    }

    /// One that takes over and is to be believed that nothing better is left.
    pub fn forced(known: &Membership, position: Position) -> AcknowledgingPrimary {
        let first = AcknowledgingPrimary::new(&Membership::new(known.id), position);
        let set = InSyncSet { term: known.term.next(known.id), ..first.set };
        AcknowledgingPrimary { set, is_new: false, ..first }
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

    /// What it remembers when it leads no more.
    pub fn membership(&self) -> Membership {
        if self.is_new {
            // No other server counts on it: it knows as little as one that starts.
            return Membership::new(self.id);
        }
        Membership { id: self.id, term: self.set.term, set: Some(self.set.clone()), claim: self.claim }
    }

    /// What has to go into the stream.
    pub fn next_word(&self) -> Option<String> {
        (self.set_at.is_none() || self.repeats).then(|| self.set.to_string())
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
        if said.term != self.set.term && said.term.number >= self.set.term.number {
            // Another server was promoted meanwhile, and may have acknowledged.
            if self.is_new {
                // Or this server has, and has forgotten.
                (self.set.quorum, self.set.before) = (Quorum::alone(MemberId::NONE), None);
            }
            self.set.term = said.term.next(self.id);
            self.change();
            self.claim.get_or_insert(position);
            (self.term_at, self.gate) = (None, Gate::Unconfirmed);
            self.followers.values_mut().for_each(|follower| follower.acks = Acks::default());
        }
        has_all || self.is_confirmed()
    }

    /// A replica gets the stream from now on.
    pub fn joined(&mut self, id: MemberId) {
        let follower = self.followers.entry(id).or_default();
        (follower.is_online, follower.heard) = (true, None);
        self.repeats = true;
    }

    /// It gets it no more.
    pub fn left(&mut self, id: MemberId) {
        if let Some(follower) = self.followers.get_mut(&id) {
            follower.is_online = false;
        }
    }

    /// A replica has acknowledged.
    pub fn acknowledged(&mut self, id: MemberId, acks: Acks, now: u64) {
        let Some(follower) = self.followers.get_mut(&id) else { return };
        (follower.acks, follower.heard) = (acks, Some(now));
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
        let (Some(set_at), Some(term_at)) = (self.set_at, self.term_at) else { return };
        if self.gate == Gate::Unconfirmed {
            if self.set.is_heard(|id| self.applied(id) >= term_at) {
                self.gate = Gate::Confirmed(now + settings.lease + settings.lease / DRIFT);
                self.claim = None;
            }
            return;
        }
        if self.set.held(|id| self.applied(id)) < set_at {
            return;
        }
        if self.set.before.take().is_some() {
            return self.change();
        }
        let wanted = self.wanted(settings, now);
        if wanted != self.set.quorum {
            self.set.before = Some(std::mem::replace(&mut self.set.quorum, wanted));
            self.is_new = false;
            self.change();
        }
        self.followers.retain(|id, follower| follower.is_online || self.set.has(*id));
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
        let members: Vec<MemberId> = there.collect();
        match members.len() < settings.replicas {
            true => self.set.quorum.clone(),
            false => Quorum::new(settings.replicas, members),
        }
    }

    /// Up to where a server has the stream.
    fn applied(&self, id: MemberId) -> u64 {
        if id == self.id { u64::MAX } else { self.followers.get(&id).map_or(0, |follower| follower.acks.applied) }
    }

    fn synced(&self, id: MemberId) -> u64 {
        if id == self.id { u64::MAX } else { self.followers.get(&id).map_or(0, |follower| follower.acks.synced) }
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
        let leased_at = |id| match self.followers.get(&id) {
            _ if id == self.id => u64::MAX,
            Some(follower) => follower.leased_at,
            None => 0,
        };
        match self.set.held(leased_at) {
            0 => 0,
            at => at.saturating_add(settings.lease - settings.lease / DRIFT),
        }
    }
}
