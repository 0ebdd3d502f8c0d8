//! Clients that write, follow redirections, and remember their acknowledged writes.

use crate::cluster_world::{Flaw, World};
use crate::data::{DataEvent, Entry, Key};
use crate::holders::Safety;
use cluster::migration::{Job, JobState};
use cluster::slot_set::SlotSet;
use std::collections::BTreeSet;

/// A write in progress: each has a greater value than those before it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub writer: usize,
    pub node: usize,
    pub key: Key,
    pub value: u64,
    /// Whether all keys of the writer are removed that the node has.
    pub removes: bool,
    /// Number of the attempt: answers to earlier attempts do not matter.
    pub attempt: u64,
}

/// Answer of a node to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Moved(usize),
    Down,
}

/// A client, and the keys that only this client writes.
pub struct Writer {
    keys: Vec<Key>,
    /// Last acknowledged value of each key.
    pub told: Vec<u64>,
    /// Whether a key was removed behind its last value, and whether the outcome of a removal is open.
    gone: Vec<bool>,
    open: Vec<bool>,
    /// Keys that the last removal took.
    removed: Vec<Key>,
    at: usize,
    value: u64,
    node: usize,
    attempt: u64,
}

impl Writer {
    /// Returns why a key cannot have this value; None if it can.
    fn wrong(&self, at: usize, found: Option<u64>) -> Option<String> {
        let (key, told) = (self.keys[at], self.told[at]);
        match found {
            _ if self.open[at] => None,
            Some(found) if self.gone[at] && found <= told => Some(format!("{key:?} is {found} and was removed")),
            found if !self.gone[at] && found.unwrap_or(0) < told => {
                Some(format!("{key:?} is {found:?} and was {told}"))
            }
            _ => None,
        }
    }
}

/// Time without an answer after which a client asks another node.
const PATIENCE: i64 = 3000;

impl World {
    pub fn begin_writers(&mut self, count: usize, keys: usize, slots: u16) {
        for writer in 0..count {
            let keys = (0..keys).map(|_| (self.random.u16(0..slots), writer as u8)).collect::<BTreeSet<_>>();
            let keys: Vec<Key> = keys.into_iter().collect();
            let (told, gone) = (vec![0; keys.len()], vec![false; keys.len()]);
            let (open, removed) = (gone.clone(), Vec::new());
            self.data.writers.push(Writer { keys, told, gone, open, removed, at: 0, value: 0, node: 0, attempt: 0 });
            self.later(1, DataEvent::Think(writer));
        }
    }

    /// Begins a write, or retries it at another node.
    pub fn think(&mut self, number: usize) {
        if self.data.writers_rest {
            return;
        }
        let nodes = self.members.len();
        let (is_new, random) = (self.random.u8(..8) > 0, self.random.usize(..nodes));
        let removes = self.random.u8(..32) == 0;
        let writer = &mut self.data.writers[number];
        let removes = removes && writer.value == writer.told[writer.at];
        if removes {
            writer.open.fill(true);
        } else if writer.value == writer.told[writer.at] {
            writer.at = (writer.at + 1 + random) % writer.keys.len();
            writer.value = writer.told[writer.at] + 1;
        } else if is_new {
            writer.node = random;
        }
        writer.attempt += 1;
        let (key, value, node, attempt) = (writer.keys[writer.at], writer.value, writer.node, writer.attempt);
        let request = Request { writer: number, node, key, value, removes, attempt };
        let delay = self.random.i64(1..8);
        self.later(delay, DataEvent::Ask(request));
        // The client retries when no node answers.
        self.later(PATIENCE, DataEvent::Told { request, answer: Answer::Down });
    }

    /// Takes a request at its node.
    pub fn asked(&mut self, request: Request) {
        if let Some(answer) = self.answer(request) {
            let delay = self.random.i64(1..8);
            self.later(delay, DataEvent::Told { request, answer });
        }
    }

    /// Returns the answer; None if it is later, or never.
    fn answer(&mut self, request: Request) -> Option<Answer> {
        let Request { node, key, value, .. } = request;
        if !self.is_up(node) {
            return Some(Answer::Down);
        }
        if self.expires(node) || !self.members[node].threads.map.is_up {
            return Some(Answer::Down);
        }
        let map = &self.members[node].threads.map;
        if !map.is_own(key.0) || map.is_replica {
            let owner = map.owner(key.0).map(|owner| owner.0);
            let owner = owner
                .and_then(|owner| (0..self.members.len()).find(|other| self.is_up(*other) && self.id(*other) == owner));
            return Some(owner.map_or(Answer::Down, Answer::Moved));
        }
        if self.members[node].following.is_some() || self.members[node].is_unconfirmed {
            // The node only applies its log until it has begun to lead.
            return Some(Answer::Down);
        }
        if self.data.stores[node].holds_writes() && self.flaw() != Flaw::WritesOnWhenPaused {
            self.data.stores[node].waiting.push(request);
            return None;
        }
        self.check_own(node, key.0);
        if self.is_unsafe(node, key.0) {
            self.check_may_serve(node, key.0);
            let is_at_replicas = matches!(self.data.safety, Safety::AtReplicas(_));
            if !is_at_replicas || self.is_at_risk(node, key.0) {
                self.give_up(&request);
            }
        } else {
            self.check_serves(node, key.0);
            if !request.removes {
                self.check_kept(&request);
            }
        }
        self.data.stores[node].waiters.insert(key.0);
        if request.removes {
            self.remove_all(&request);
            return self.reply_when_kept(request);
        }
        if self.data.stores[node].keys.get(&key).is_none_or(|old| *old < value) {
            self.log(node, Entry::Put(key, value));
        }
        self.reply_when_kept(request)
    }

    /// Checks that the writer's last acknowledged value is there. The value must stay from here on, whatever became of
    /// earlier writes.
    fn check_kept(&mut self, request: &Request) {
        let (key, node) = (request.key, request.node);
        let writer = &self.data.writers[request.writer];
        let at = writer.keys.iter().position(|own| *own == key).expect("its own key");
        let found = self.data.stores[node].keys.get(&key).copied();
        let wrong = writer.wrong(at, found);
        if let Some(wrong) = wrong.filter(|_| !self.data.given_up.contains(&key)) {
            self.violate(format!("{node}: {wrong}"));
        }
        self.data.given_up.remove(&key);
    }

    /// Removes all keys of a writer that a node has, with a command for each slot.
    fn remove_all(&mut self, request: &Request) {
        let (node, writer) = (request.node, &mut self.data.writers[request.writer]);
        if writer.attempt != request.attempt {
            // The connection has ended.
            return;
        }
        let map = &self.members[node].threads.map;
        writer.removed = writer.keys.iter().copied().filter(|key| map.is_own(key.0)).collect();
        let removed = writer.removed.clone();
        if self.is_unsafe(node, request.key.0) {
            self.give_up(request);
        }
        if self.flaw() == Flaw::PassesOverSeveralSlots {
            return self.log(node, Entry::RemoveAll(removed));
        }
        let slots: BTreeSet<u16> = removed.iter().map(|key| key.0).collect();
        for slot in slots {
            self.log(node, Entry::RemoveAll(removed.iter().copied().filter(|key| key.0 == slot).collect()));
        }
    }

    /// Records that a source does not know whether its slots were taken, and resumes writes.
    pub fn data_is_at_risk(&mut self, node: usize) {
        let warns = |job: &Job| job.message.as_ref().is_some_and(|text| text.starts_with("Unpaused before migration"));
        self.add_risks(node, warns);
    }

    /// Records the death of a source that does not know whether its slots were taken: it forgets that it granted them,
    /// and writes to them when it serves again.
    pub fn note_grants(&mut self, node: usize) {
        self.add_risks(node, |job| job.state == JobState::FailoverGranted);
    }

    fn add_risks(&mut self, node: usize, which: impl Fn(&Job) -> bool) {
        let jobs = self.members[node].bus().migrations().jobs().filter(|job| !job.is_import && which(job));
        let slots = jobs.fold(SlotSet::none(), |all, job| all.union(&job.slots.to_set()));
        let risks = self.data.risks.entry(node).or_insert_with(SlotSet::none);
        *risks = risks.union(&slots);
    }

    /// Returns whether a node's writes to a slot may be lost: the node was replaced, warns, or does not reach most
    /// others.
    pub fn is_unsafe(&self, node: usize, slot: u16) -> bool {
        let members = self.members.len();
        let reached = (0..members).filter(|other| self.is_up(*other) && self.are_connected(node, *other)).count();
        self.data.replaced.contains(&node) || self.is_at_risk(node, slot) || 2 * reached <= members
    }

    /// Returns whether a node warns that writes to a slot may be lost.
    pub fn is_at_risk(&self, node: usize, slot: u16) -> bool {
        self.data.risks.get(&node).is_some_and(|slots| slots.contains(slot))
    }

    /// Gives up the keys of a request.
    pub fn give_up(&mut self, request: &Request) {
        self.data.given_up.insert(request.key);
        if request.removes {
            self.data.given_up.extend(self.data.writers[request.writer].removed.iter().copied());
        }
    }

    /// Checks that no other node serves a slot that a node serves, except in the same shard, or
    /// [unsafe](World::is_unsafe).
    fn check_serves(&mut self, node: usize, slot: u16) {
        let store = &self.data.stores[node];
        if store.hides(slot) {
            self.violate(format!("{node} serves slot {slot}, which it hides"));
        }
        let shard = self.me(node).shard_id;
        for other in (0..self.members.len()).filter(|other| *other != node && self.is_up(*other)) {
            let shard_id = self.me(other).shard_id;
            let serves = self.serves(other, slot) && !self.data.stores[other].holds_writes();
            if serves && shard_id != shard && !self.is_unsafe(other, slot) {
                return self.violate(format!("{node} and {other} serve slot {slot}"));
            }
        }
    }

    /// Returns whether clients of a node may write to a slot there.
    fn serves(&self, node: usize, slot: u16) -> bool {
        if self.is_stopped(node) || self.members[node].following.is_some() || self.is_expired(node) {
            return false;
        }
        let map = &self.members[node].threads.map;
        map.is_up && !map.is_replica && map.is_own(slot)
    }

    /// Checks that a node which knows of a loss does not serve the lost slots.
    fn check_own(&mut self, node: usize, slot: u16) {
        let bus = self.members[node].bus();
        if !bus.is_up() || !bus.nodes().myself().is_primary() || bus.nodes().owner(slot) != Some(self.id(node)) {
            self.violate(format!("{node} serves slot {slot}, which it has lost"));
        }
    }

    /// Checks that a node which was replaced while it was stopped serves nothing that its replacement serves.
    fn check_may_serve(&mut self, node: usize, slot: u16) {
        if !self.members[node].threads.must_not_serve {
            return;
        }
        let shard = self.me(node).shard_id;
        for other in (0..self.members.len()).filter(|other| *other != node && self.is_up(*other)) {
            if self.me(other).shard_id == shard && self.serves(other, slot) {
                return self.violate(format!("{node} was stopped, and serves slot {slot}, as {other} does"));
            }
        }
    }

    pub fn told(&mut self, request: &Request, answer: Answer) {
        let writer = &mut self.data.writers[request.writer];
        if writer.attempt != request.attempt {
            return;
        }
        match answer {
            Answer::Done if request.removes => {
                for at in 0..writer.keys.len() {
                    if writer.removed.contains(&writer.keys[at]) {
                        (writer.gone[at], writer.open[at]) = (true, false);
                    }
                }
                writer.attempt += 1;
                self.later(5, DataEvent::Think(request.writer));
            }
            Answer::Moved(_) if request.removes => {
                writer.attempt += 1;
                self.later(5, DataEvent::Think(request.writer));
            }
            Answer::Done => {
                (writer.gone[writer.at], writer.open[writer.at]) = (false, false);
                writer.told[writer.at] = request.value;
                self.data.acknowledged += 1;
                let delay = self.random.i64(1..20);
                self.later(delay, DataEvent::Think(request.writer));
            }
            Answer::Moved(node) => {
                writer.node = node;
                writer.attempt += 1;
                let next = Request { node, attempt: writer.attempt, ..*request };
                let delay = self.random.i64(1..8);
                self.later(delay, DataEvent::Ask(next));
                self.later(PATIENCE, DataEvent::Told { request: next, answer: Answer::Down });
            }
            Answer::Down => {
                writer.attempt += 1;
                let delay = self.random.i64(20..200);
                self.later(delay, DataEvent::Think(request.writer));
            }
        }
    }

    /// Resumes writes at a node.
    pub fn resume_writes(&mut self, node: usize) {
        if !self.data.stores[node].holds_writes() {
            for request in std::mem::take(&mut self.data.stores[node].waiting) {
                self.asked(request);
            }
        }
    }

    /// Returns the acknowledged writes that are lost.
    pub fn lost_writes(&self) -> Vec<String> {
        let owner_of = |slot: u16| {
            (0..self.members.len()).find(|node| self.me(*node).is_primary() && self.me(*node).slots.contains(slot))
        };
        let mut lost = Vec::new();
        for writer in &self.data.writers {
            for (at, key) in writer.keys.iter().enumerate() {
                let found = owner_of(key.0).and_then(|node| self.data.stores[node].keys.get(key)).copied();
                lost.extend(writer.wrong(at, found).filter(|_| !self.data.given_up.contains(key)));
            }
        }
        lost
    }
}
