//! Clients that write, follow redirections, and remember their acknowledged writes.

use crate::cluster_world::{Flaw, World};
use crate::data::{DataEvent, Entry, Key};

/// A write in progress: each has a greater value than those before it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub writer: usize,
    pub node: usize,
    pub key: Key,
    pub value: u64,
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
    at: usize,
    value: u64,
    node: usize,
    attempt: u64,
}

/// Time without an answer after which a client asks another node.
const PATIENCE: i64 = 3000;

impl World {
    pub fn begin_writers(&mut self, count: usize, keys: usize, slots: u16) {
        for writer in 0..count {
            let keys =
                (0..keys).map(|_| (self.random.u16(0..slots), writer as u8)).collect::<std::collections::BTreeSet<_>>();
            let keys: Vec<Key> = keys.into_iter().collect();
            let told = vec![0; keys.len()];
            self.data.writers.push(Writer { keys, told, at: 0, value: 0, node: 0, attempt: 0 });
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
        let writer = &mut self.data.writers[number];
        if writer.value == writer.told[writer.at] {
            writer.at = (writer.at + 1 + random) % writer.keys.len();
            writer.value = writer.told[writer.at] + 1;
        } else if is_new {
            writer.node = random;
        }
        writer.attempt += 1;
        let (key, value, node, attempt) = (writer.keys[writer.at], writer.value, writer.node, writer.attempt);
        let delay = self.random.i64(1..8);
        self.later(delay, DataEvent::Ask(Request { writer: number, node, key, value, attempt }));
        // The client retries when no node answers.
        self.later(
            PATIENCE,
            DataEvent::Told { request: Request { writer: number, node, key, value, attempt }, answer: Answer::Down },
        );
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
        if self.members[node].following.is_some() {
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
            self.data.given_up.insert(key);
        } else {
            self.check_serves(node, key.0);
            self.check_kept(&request);
        }
        if self.data.stores[node].keys.get(&key).is_none_or(|old| *old < value) {
            self.log(node, Entry::Put(key, value));
        }
        Some(Answer::Done)
    }

    /// Checks that the writer's last acknowledged value is there. The value must stay from here on, whatever became of
    /// earlier writes.
    fn check_kept(&mut self, request: &Request) {
        let (key, node) = (request.key, request.node);
        let writer = &self.data.writers[request.writer];
        let told = writer.keys.iter().position(|own| *own == key).map_or(0, |at| writer.told[at]);
        let found = self.data.stores[node].keys.get(&key).copied().unwrap_or(0);
        if !self.data.given_up.remove(&key) && found < told {
            self.violate(format!("{node} has {found} for {key:?}, which was {told}"));
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
            Answer::Done => {
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
            for (key, told) in writer.keys.iter().zip(&writer.told) {
                let found = owner_of(key.0).and_then(|node| self.data.stores[node].keys.get(key)).copied();
                if found.unwrap_or(0) < *told && !self.data.given_up.contains(key) {
                    lost.push(format!("{key:?} is {found:?} and was {told}"));
                }
            }
        }
        lost
    }
}
