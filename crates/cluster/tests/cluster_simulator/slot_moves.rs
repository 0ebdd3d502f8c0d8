//! Connections by which slots move between virtual nodes, and the nodes' effects for that.

use crate::cluster_world::{Flaw, World};
use crate::data::{DataEvent, Entry, Key};
use crate::executor::Lane;
use crate::holders::Mark;
use crate::member::node_at;
use cluster::migration::{JobName, JobState, MigrationEffect, SyncWord};
use cluster::slot_set::SlotSet;
use std::collections::VecDeque;

/// Item on such a connection.
#[derive(Clone, Debug)]
pub enum Item {
    Bytes(Vec<u8>),
    Change(Entry),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Talk,
    Snapshot,
    SnapshotEnds,
    Stream,
}

/// A connection. End 0 is the source.
pub struct JobLink {
    pub job: JobName,
    pub ends: [usize; 2],
    lives: [u64; 2],
    /// Arrival of the last item at each end: none overtakes it.
    last_arrival: [i64; 2],
    is_open: bool,
    /// Whether bytes were lost on the connection.
    is_broken: bool,
    phase: Phase,
    slots: SlotSet,
    snapshot: Vec<(Key, u64)>,
    changes: VecDeque<Item>,
    /// Length of the source's log that was read.
    read_to: usize,
    /// End of the target's data when the source's pause arrived there.
    keep_to: Option<Mark>,
}

impl JobLink {
    pub fn reads_log_of(&self, node: usize) -> bool {
        self.ends[0] == node && self.phase != Phase::Talk
    }
}

/// Number of snapshots that a node has open at once.
const PLACES: usize = 2;
/// Number of items that a source sends at once.
const PART: usize = 2;

impl World {
    fn link_of(&self, node: usize, job: &JobName) -> Option<(u64, usize)> {
        let found = self.data.links.iter().find(|(_, link)| link.job == *job && link.ends.contains(&node))?;
        Some((*found.0, usize::from(found.1.ends[1] == node)))
    }

    pub fn perform_migration(&mut self, node: usize, effect: MigrationEffect) {
        let life = self.life(node);
        match effect {
            MigrationEffect::Connect { job, ip, .. } => self.connect_job(node, job, &ip),
            MigrationEffect::Send { job, bytes } => {
                if let Some((link, end)) = self.link_of(node, &job) {
                    self.send_word(link, end, bytes);
                }
            }
            MigrationEffect::Close { job } => {
                if let Some((link, _)) = self.link_of(node, &job) {
                    self.close_job_link(link, Some(node));
                }
            }
            MigrationEffect::BeginSnapshot { job, slots } => {
                if let Some((id, _)) = self.link_of(node, &job) {
                    self.data.links.get_mut(&id).expect("found").slots = slots;
                    let delay = self.random.i64(1..40);
                    self.later(delay, DataEvent::Snapshot(id));
                }
            }
            MigrationEffect::Pause { job, .. } => {
                self.data.stores[node].is_migrating = true;
                if let Some((id, _)) = self.link_of(node, &job) {
                    let delay = self.random.i64(1..10);
                    self.later(delay, DataEvent::Paused(id));
                }
            }
            MigrationEffect::Resume => {
                self.data.stores[node].is_migrating = false;
                self.resume_writes(node);
            }
            MigrationEffect::Hide { job, slots } => _ = self.data.stores[node].hidden.insert(job, slots),
            MigrationEffect::Show { job } => self.show(node, &job),
            MigrationEffect::RemoveKeys { job, slots } => {
                let slots = if self.flaw() == Flaw::KeepsWhatCameInVain { SlotSet::none() } else { slots };
                self.duty(node, Lane::Slots, DataEvent::RemoveImported { node, life, job, slots });
            }
            MigrationEffect::Record(words) => self.log(node, Entry::Record(words)),
        }
    }

    /// Shows keys of an import, and checks that keys in slots of other nodes were removed while they were hidden.
    fn show(&mut self, node: usize, job: &JobName) {
        // A snapshot has the imports whose keys are hidden.
        self.data.stores[node].open.remove(job);
        let Some(slots) = self.data.stores[node].hidden.remove(job) else { return };
        let me = self.me(node);
        let left = self.data.stores[node].keys_in(&slots.without(&me.slots));
        if me.is_primary() && !left.is_empty() {
            self.violate(format!("{node} shows {left:?} of others' slots"));
        }
    }

    fn connect_job(&mut self, node: usize, job: JobName, ip: &str) {
        let Some(to) = node_at(ip).filter(|to| *to < self.members.len()) else { return };
        let id = self.data.number();
        let link = JobLink {
            job,
            ends: [node, to],
            lives: [self.life(node), self.life(to)],
            last_arrival: [0; 2],
            is_open: false,
            is_broken: false,
            phase: Phase::Talk,
            slots: SlotSet::none(),
            snapshot: Vec::new(),
            changes: VecDeque::new(),
            read_to: 0,
            keep_to: None,
        };
        self.data.links.insert(id, link);
        let delay = self.random.i64(1..20);
        self.later(delay, DataEvent::Opened(id));
    }

    pub fn opened(&mut self, id: u64) {
        let Some(link) = self.data.links.get_mut(&id) else { return };
        let ([from, to], job) = (link.ends, link.job);
        link.lives[1] = self.lives[to];
        link.is_open = true;
        if !self.is_up(to) || !self.are_connected(from, to) {
            self.data.links.remove(&id);
            return self.tell(from, |bus, now| bus.migration_lost(&job, Some("Connection refused"), now));
        }
        self.tell(from, |bus, now| bus.migration_connected(&job, None, now));
    }

    /// Closes a connection. The other end learns of it, if it can.
    pub fn close_job_link(&mut self, id: u64, by: Option<usize>) {
        let Some(link) = self.data.links.remove(&id) else { return };
        let reaches = self.are_connected(link.ends[0], link.ends[1]);
        for (end, node) in link.ends.into_iter().enumerate().filter(|(_, node)| by != Some(*node)) {
            if link.is_open && (reaches || by.is_none()) {
                let delay = self.random.i64(1..20).max(link.last_arrival[end] + 1 - self.now);
                self.later(delay, DataEvent::Broken { node, life: link.lives[end], job: link.job });
            }
        }
    }

    fn carry(&mut self, id: u64, end: usize, item: Item) {
        let delay = self.random.i64(1..15);
        let Some(link) = self.data.links.get_mut(&id) else { return };
        let arrival = (self.now + delay).max(link.last_arrival[end] + 1);
        link.last_arrival[end] = arrival;
        self.later(arrival - self.now, DataEvent::Arrives { link: id, end, item });
    }

    /// Sends a word of one end to the other one.
    fn send_word(&mut self, id: u64, end: usize, bytes: Vec<u8>) {
        let Some(link) = self.data.links.get_mut(&id) else { return };
        if end == 1 {
            return self.carry(id, 0, Item::Bytes(bytes));
        }
        match link.phase {
            Phase::Stream => {
                link.changes.push_back(Item::Bytes(bytes));
                self.later(0, DataEvent::Pump(id));
            }
            Phase::SnapshotEnds => {
                link.phase = Phase::Stream;
                self.carry(id, 1, Item::Bytes(bytes));
                self.later(0, DataEvent::Pump(id));
            }
            Phase::Talk | Phase::Snapshot => self.carry(id, 1, Item::Bytes(bytes)),
        }
    }

    pub fn arrives(&mut self, id: u64, end: usize, item: Item) {
        let Some(link) = self.data.links.get_mut(&id) else { return };
        let ([one, other], job) = (link.ends, link.job);
        if link.is_broken || self.members[one].side != self.members[other].side {
            link.is_broken = true;
            return;
        }
        let node = link.ends[end];
        match item {
            Item::Change(entry) => {
                self.tell(node, |bus, now| bus.migration_heard(&job, now));
                let is_wanted = |job: &cluster::migration::Job| job.state.is_in_progress();
                if self.is_up(node) && self.members[node].bus().migrations().job(&job).is_some_and(is_wanted) {
                    self.log(node, entry);
                }
            }
            Item::Bytes(bytes) if end == 0 && matches!(bytes[0], b'+' | b'-') => {
                self.tell(node, |bus, now| _ = bus.migration_answered(&job, &bytes, now));
            }
            Item::Bytes(bytes) => {
                let words = words_of(&bytes);
                match words.get(2) {
                    Some(word) if *word == b"ESTABLISH" => self.establish(id, node, &bytes),
                    word => {
                        let word = word.and_then(|word| SyncWord::parse(word));
                        if word == Some(SyncWord::Paused) && self.is_unsafe_yet(id, node) {
                            return self.later(5, DataEvent::Arrives { link: id, end, item: Item::Bytes(bytes) });
                        }
                        self.tell(node, |bus, now| bus.migration_word(&job, word, now));
                    }
                }
            }
        }
    }

    /// Returns whether the keys that have come are not yet as safe as a reply requires.
    fn is_unsafe_yet(&mut self, id: u64, target: usize) -> bool {
        let end = self.mark(target);
        let Some(link) = self.data.links.get_mut(&id) else { return false };
        let mark = *link.keep_to.get_or_insert(end);
        self.takes_over_late(target, mark)
    }

    /// Returns whether the event is of a job whose beginning the target has not carried out. The thread that moves
    /// slots takes nothing of a connection before that: it has waited for the file when it got the connection.
    pub fn comes_before_it_is_hidden(&self, event: u64) -> bool {
        let Some(DataEvent::Arrives { link, end: 1, .. }) = self.data.pending.get(&event) else { return false };
        let Some(link) = self.data.links.get(link) else { return false };
        let target = link.ends[1];
        let is_wanted = |job: &cluster::migration::Job| job.state.is_in_progress();
        let jobs = self.members[target].bus.as_ref().map(|bus| bus.migrations());
        let has_begun = jobs.and_then(|jobs| jobs.job(&link.job)).is_some_and(is_wanted);
        has_begun && !self.data.stores[target].hidden.contains_key(&link.job)
    }

    /// Asks a target to take slots. The target answers once its earlier keys in these slots are removed.
    fn establish(&mut self, id: u64, node: usize, bytes: &[u8]) {
        if !self.is_up(node) {
            return;
        }
        if self.members[node].bus().has_keys_to_remove() {
            let item = Item::Bytes(bytes.to_vec());
            return self.later(5, DataEvent::Arrives { link: id, end: 1, item });
        }
        let (words, mut answer) = (words_of(bytes), b"+OK\r\n".to_vec());
        self.tell(node, |bus, now| {
            if let Err(error) = bus.establish_import(&words[3..], false, now) {
                answer = format!("-ERR {error}\r\n").into_bytes();
            }
        });
        self.carry(id, 0, Item::Bytes(answer));
    }

    /// Takes a snapshot of the slots' keys; later log entries are sent behind them.
    pub fn snapshot(&mut self, id: u64) {
        let Some(link) = self.data.links.get(&id) else { return };
        let (node, job) = (link.ends[0], link.job);
        let of_node = |link: &&JobLink| link.ends[0] == node && link.phase == Phase::Snapshot;
        if self.data.links.values().filter(of_node).count() >= PLACES {
            if self.flaw() == Flaw::FailsWithoutPlace {
                return self.tell(node, |bus, now| bus.migration_failed(&job, "Too many snapshots", now));
            }
            return self.later(10, DataEvent::Snapshot(id));
        }
        let Some(link) = self.data.links.get_mut(&id) else { return };
        let store = &self.data.stores[node];
        link.snapshot = store
            .keys
            .iter()
            .filter(|(key, _)| link.slots.contains(key.0))
            .map(|(key, value)| (*key, *value))
            .collect();
        (link.read_to, link.phase) = (store.log.len(), Phase::Snapshot);
        self.tell(node, |bus, now| bus.snapshot_begun(&job, now));
        self.later(1, DataEvent::Pump(id));
    }

    /// Reads a source's log, and sends some of the items.
    pub fn pump(&mut self, id: u64) {
        self.read_log(id);
        let Some(link) = self.data.links.get_mut(&id) else { return };
        let (node, job) = (link.ends[0], link.job);
        match link.phase {
            Phase::Snapshot => {
                let rest = link.snapshot.split_off(link.snapshot.len().min(PART));
                let part = std::mem::replace(&mut link.snapshot, rest);
                let is_last = link.snapshot.is_empty();
                if is_last {
                    link.phase = Phase::SnapshotEnds;
                }
                for (key, value) in part {
                    self.carry(id, 1, Item::Change(Entry::Put(key, value)));
                }
                if is_last {
                    self.tell(node, |bus, now| bus.snapshot_sent(&job, now));
                } else {
                    let delay = self.random.i64(5..60);
                    self.later(delay, DataEvent::Pump(id));
                }
            }
            Phase::Stream => {
                let count = link.changes.len().min(PART);
                let part: Vec<Item> = link.changes.drain(..count).collect();
                let left = link.changes.len() as u64;
                part.into_iter().for_each(|item| self.carry(id, 1, item));
                self.tell(node, |bus, now| bus.migration_unsent(&job, left, now));
                if left > 0 {
                    let delay = self.random.i64(1..5);
                    self.later(delay, DataEvent::Pump(id));
                }
            }
            Phase::Talk | Phase::SnapshotEnds => {}
        }
    }

    fn read_log(&mut self, id: u64) {
        let forgets = self.flaw() == Flaw::ForgetsChanges;
        let forgets_several = self.flaw() == Flaw::PassesOverSeveralSlots;
        let Some(link) = self.data.links.get_mut(&id).filter(|link| link.phase != Phase::Talk) else { return };
        let log = &self.data.stores[link.ends[0]].log;
        for entry in &log[link.read_to.min(log.len())..] {
            match entry {
                // The command is of several slots, and would end the job.
                Entry::RemoveAll(keys) if forgets_several && keys.iter().any(|key| !link.slots.contains(key.0)) => {}
                Entry::RemoveAll(keys) if keys.iter().any(|key| link.slots.contains(key.0)) => {
                    link.changes.push_back(Item::Change(entry.clone()));
                }
                Entry::Put(key, _) | Entry::Remove(key) if link.slots.contains(key.0) => {
                    let is_lost = forgets && link.phase == Phase::Snapshot;
                    if !is_lost {
                        link.changes.push_back(Item::Change(entry.clone()));
                    }
                }
                _ => {}
            }
        }
        link.read_to = log.len();
    }

    /// Records the pause: all locks were passed, all writes so far are read, and no client writes any more.
    pub fn paused(&mut self, id: u64) {
        self.read_log(id);
        let Some(link) = self.data.links.get(&id) else { return };
        let (node, job) = (link.ends[0], link.job);
        self.tell(node, |bus, now| bus.migration_paused(&job, now));
    }

    /// Begins to move slots of one primary to another one.
    pub fn begin_migration(&mut self, slots: u16) {
        let primaries = self.primaries_with_slots();
        if primaries.is_empty() {
            return;
        }
        let source = primaries[self.random.usize(..primaries.len())];
        let others: Vec<usize> = primaries.into_iter().filter(|other| *other != source).collect();
        if others.is_empty() {
            return;
        }
        let target = others[self.random.usize(..others.len())];
        let owned: Vec<u16> = (0..slots).filter(|slot| self.me(source).slots.contains(*slot)).collect();
        if owned.is_empty() {
            return;
        }
        let first = owned[self.random.usize(..owned.len())];
        let most = self.random.u16(1..8);
        let last = (first..slots.min(first + most)).take_while(|slot| owned.contains(slot)).last().unwrap_or(first);
        let target = self.id(target);
        let (first, last) = (first.to_string(), last.to_string());
        let words: [&[u8]; 5] = [b"SLOTSRANGE", first.as_bytes(), last.as_bytes(), b"NODE", &target.0];
        self.note(format!("{source} is to give {first}-{last} to {target}"));
        self.tell(source, |bus, now| _ = bus.migrate_slots(&words, "test", now));
    }

    /// Cuts the connection of a job.
    pub fn cut_job_link(&mut self) {
        let links: Vec<u64> = self.data.links.keys().copied().collect();
        if !links.is_empty() {
            let link = links[self.random.usize(..links.len())];
            self.note(format!("the connection of {:?} is cut", self.data.links[&link].job));
            self.close_job_link(link, None);
        }
    }

    /// Resets connections with lost bytes when their ends reach each other again.
    pub fn heal_job_links(&mut self) {
        let broken: Vec<u64> = self.data.links.iter().filter(|(_, link)| link.is_broken).map(|(id, _)| *id).collect();
        broken.into_iter().for_each(|id| self.close_job_link(id, None));
    }

    /// Returns how many jobs have succeeded, at their sources.
    pub fn succeeded(&self) -> usize {
        let jobs = (0..self.members.len())
            .filter(|node| self.is_up(*node))
            .flat_map(|node| self.members[node].bus().migrations().jobs());
        jobs.filter(|job| !job.is_import && job.state == JobState::Success).count()
    }
}

/// Returns the words of a command.
fn words_of(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).skip(2).step_by(2).collect()
}
