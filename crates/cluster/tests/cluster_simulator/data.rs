//! Data of virtual nodes: keys, the log that replicas follow, and requests that wait for both.
//!
//! All data that a node has applied survives its death, as with a log that is synced before each reply. The one
//! exception is a synchronization: a replica that dies before it has saved that data returns with the former data.
//! Replicas apply their primaries' logs a moment later, so a replica that takes over may lack data. That is no mistake:
//! these keys are [given up](Data::given_up).

use crate::cluster_world::{Flaw, World};
use crate::executor::Lane;
use crate::holders::{Kept, Safety};
use crate::slot_moves::{Item, JobLink};
use crate::writers::{Answer, Request, Writer};
use cluster::bus::Effect;
use cluster::migration::{JobName, SlotRanges};
use cluster::slot_map::SlotMap;
use cluster::slot_set::SlotSet;
use std::collections::{BTreeMap, BTreeSet};

/// Part of its primary's data that a replica with a link may lack.
const LAG: i64 = 1000;

/// A slot, and a number in the slot.
pub type Key = (u16, u8);
pub type Keys = BTreeMap<Key, u64>;
pub type Imports = BTreeMap<JobName, SlotRanges>;

/// Entry of a node's log.
#[derive(Clone, Debug)]
pub enum Entry {
    Put(Key, u64),
    Remove(Key),
    /// Removes several keys by one command.
    RemoveAll(Vec<Key>),
    /// CLUSTER SYNCSLOTS and its arguments.
    Record(Vec<Vec<u8>>),
}

/// A node's data.
#[derive(Default)]
pub struct Store {
    pub keys: Keys,
    /// Imports that the log has as in progress.
    pub open: Imports,
    pub hidden: BTreeMap<JobName, SlotSet>,
    pub log: Vec<Entry>,
    /// History of the log.
    pub history: u64,
    /// Log of another node that is followed, and the length applied.
    pub followed: Option<(u64, usize)>,
    /// Data in the node's files, while they do not have that of the last synchronization, and whether it is no part of
    /// the primary's history.
    files: Option<(Keys, Imports, bool)>,
    pub kept: Kept,
    /// Slots with clients that wait for keys.
    pub waiters: BTreeSet<u16>,
    /// Whether writes wait for a failover.
    pub is_failing_over: bool,
    /// Whether writes wait for migrations.
    pub is_migrating: bool,
    /// Requests that wait for these.
    pub waiting: Vec<Request>,
}

impl Store {
    pub fn holds_writes(&self) -> bool {
        self.is_failing_over || self.is_migrating
    }

    pub fn hides(&self, slot: u16) -> bool {
        self.hidden.values().any(|slots| slots.contains(slot))
    }

    /// Applies an entry, and logs it.
    pub fn apply(&mut self, entry: Entry) {
        match &entry {
            Entry::Put(key, value) => _ = self.keys.insert(*key, *value),
            Entry::Remove(key) => _ = self.keys.remove(key),
            Entry::RemoveAll(keys) => self.keys.retain(|key, _| !keys.contains(key)),
            Entry::Record(words) => self.record(words),
        }
        self.log.push(entry);
        self.kept.version += 1;
    }

    fn record(&mut self, words: &[Vec<u8>]) {
        let after = |word: &[u8]| words.iter().position(|each| each == word).map(|at| &words[at + 1..]);
        let name = after(b"NAME").and_then(|rest| JobName::parse(&rest[0])).expect("a name");
        match after(b"SLOTSRANGE") {
            Some(ranges) => {
                let numbers = ranges.iter().map(|word| String::from_utf8_lossy(word).parse().expect("a slot"));
                let numbers: Vec<u16> = numbers.collect();
                self.open.insert(name, SlotRanges(numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect()));
            }
            None => _ = self.open.remove(&name),
        }
    }

    pub fn keys_in(&self, slots: &SlotSet) -> Vec<Key> {
        self.keys.keys().copied().filter(|(slot, _)| slots.contains(*slot)).collect()
    }

    pub fn populated(&self) -> SlotSet {
        SlotSet::of(self.keys.keys().map(|(slot, _)| *slot..=*slot))
    }
}

/// Event of the data after a while.
#[derive(Clone, Debug)]
pub enum DataEvent {
    /// A writer's request arrives.
    Ask(Request),
    /// A writer gets its answer.
    Told {
        request: Request,
        answer: Answer,
    },
    /// A writer's waiting time has expired.
    Think(usize),
    /// A connection is established, or refused.
    Opened(u64),
    /// An item arrives at an end of a connection: the source is 0.
    Arrives {
        link: u64,
        end: usize,
        item: Item,
    },
    /// A node learns that a connection has ended.
    Broken {
        node: usize,
        life: u64,
        job: JobName,
    },
    /// The moment of a snapshot passes.
    Snapshot(u64),
    /// A source sends the next items.
    Pump(u64),
    /// Writes are paused.
    Paused(u64),
    /// Keys of a failed import are removed.
    RemoveImported {
        node: usize,
        life: u64,
        job: JobName,
        slots: SlotSet,
    },
    /// Keys of slots of other nodes are removed.
    RemoveLost {
        node: usize,
        life: u64,
        slots: SlotSet,
    },
    Flush {
        node: usize,
        life: u64,
    },
    /// Clients that wait for keys of lost slots are sent on.
    EndWaits {
        node: usize,
        life: u64,
    },
    LookAtKeys {
        node: usize,
        life: u64,
    },
    /// A node's file is written.
    Saved {
        node: usize,
        life: u64,
    },
    /// A replica's data of this history is saved.
    DataSaved {
        node: usize,
        life: u64,
        history: u64,
    },
    /// A replica reads its primary's log.
    Pull {
        node: usize,
        life: u64,
    },
    /// A replica has the log up to this length.
    Acknowledged {
        node: usize,
        life: u64,
        replica: usize,
        history: u64,
        len: usize,
    },
    /// The log is on the disk up to this version of the data.
    LogSynced {
        node: usize,
        life: u64,
        version: u64,
        disk: Box<(Keys, Imports)>,
    },
    /// A slot map comes into force late.
    MapSet {
        node: usize,
        life: u64,
        map: Box<SlotMap>,
    },
    Follow {
        node: usize,
        life: u64,
        from: Option<usize>,
        needs_full_sync: bool,
    },
    Lead {
        node: usize,
        life: u64,
    },
}

/// All data of a world.
#[derive(Default)]
pub struct Data {
    /// Whether nodes have data.
    pub is_on: bool,
    pub stores: Vec<Store>,
    pub links: BTreeMap<u64, JobLink>,
    pub pending: BTreeMap<u64, DataEvent>,
    pub writers: Vec<Writer>,
    /// Whether the writers begin no further writes.
    pub writers_rest: bool,
    /// Keys whose writes may be lost: a replica that lacked them took over, or a source's pause ended before it learned
    /// what became of the slots, which it warns of.
    pub given_up: BTreeSet<Key>,
    /// Nodes whose replica has taken over, until they know.
    pub replaced: BTreeSet<usize>,
    pub last: u64,
    /// Slots that a node writes to although it warns that these writes may be lost.
    pub risks: BTreeMap<usize, SlotSet>,
    pub acknowledged: usize,
    pub safety: Safety,
    /// Nodes that have lost their data, and were not synchronized since.
    pub lost: BTreeSet<usize>,
}

impl Data {
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl World {
    /// Gives all nodes data from now on.
    pub fn begin_data(&mut self) {
        self.data.is_on = true;
        for node in 0..self.members.len() {
            let (slots, map) = (self.me(node).slots.clone(), self.members[node].bus().slot_map());
            let member = &mut self.members[node];
            member.has_led = member.following.is_none();
            (member.kept, member.slots, member.threads.map) = (slots.clone(), slots, map);
            // The node is synchronized anew.
            (member.has_history, member.is_linked) = (false, false);
            let history = self.data.number();
            self.data.stores.push(Store { history, ..Store::default() });
        }
    }

    pub fn happens_to_data(&mut self, id: u64) {
        let Some(event) = self.data.pending.remove(&id) else { return };
        let lives = |world: &World, node: usize, life: u64| world.life(node) == life && world.is_up(node);
        match event {
            DataEvent::Ask(request) => self.asked(request),
            DataEvent::Told { request, answer } => self.told(&request, answer),
            DataEvent::Think(writer) => self.think(writer),
            DataEvent::Opened(link) => self.opened(link),
            DataEvent::Arrives { link, end, item } => self.arrives(link, end, item),
            DataEvent::Broken { node, life, job } if lives(self, node, life) => {
                self.tell(node, |bus, now| bus.migration_lost(&job, None, now));
            }
            DataEvent::Snapshot(link) => self.snapshot(link),
            DataEvent::Pump(link) => self.pump(link),
            DataEvent::Paused(link) => self.paused(link),
            DataEvent::RemoveImported { node, life, job, slots } if lives(self, node, life) => {
                let own = self.me(node).slots.clone();
                self.remove_keys(node, &slots.without(&own));
                self.tell(node, |bus, now| bus.imported_keys_removed(&job, now));
            }
            DataEvent::RemoveLost { node, life, slots } if lives(self, node, life) => {
                let own = self.me(node).slots.clone();
                self.remove_keys(node, &slots.without(&own));
                self.tell(node, |bus, _| bus.lost_keys_removed());
            }
            DataEvent::Flush { node, life } if lives(self, node, life) => {
                self.remove_keys(node, &SlotSet::all());
                self.tell(node, |bus, _| bus.lost_keys_removed());
            }
            DataEvent::LookAtKeys { node, life } if lives(self, node, life) => {
                let found = self.data.stores[node].populated();
                self.tell(node, |bus, now| bus.keys_found(&found, now));
            }
            DataEvent::Saved { node, life } if lives(self, node, life) => self.saved(node),
            DataEvent::DataSaved { node, life, history }
                if lives(self, node, life) && self.data.stores[node].history == history =>
            {
                self.data_saved(node);
            }
            DataEvent::MapSet { node, life, map } if lives(self, node, life) => self.members[node].threads.map = *map,
            DataEvent::Follow { node, life, from, needs_full_sync } if lives(self, node, life) => {
                let member = &mut self.members[node];
                // The time without a primary begins with the end of a link: there was no link since the start, or since
                // this node led.
                let was_linked = member.following.is_some() && member.heard != 0;
                (member.following, member.heard) = (from, if was_linked { self.now } else { 0 });
                member.is_foreign |= needs_full_sync || member.has_led;
                let has_led = member.has_led && !self.data.lost.contains(&node);
                member.has_history = (member.has_history || has_led) && !needs_full_sync;
                member.is_linked = false;
                member.threads.must_not_serve = false;
                member.is_unconfirmed = false;
                self.data.stores[node].kept.begin_log();
                self.data.replaced.remove(&node);
                self.tell(node, |bus, _| bus.followed());
            }
            DataEvent::Lead { node, life } if lives(self, node, life) => {
                let former = self.members[node].following.take();
                self.data_leads(node, former);
                self.tell(node, |bus, now| bus.led(now));
            }
            event => self.happens_to_holders(event),
        }
    }

    /// Returns the node of an event of the data.
    pub fn node_of_data(&self, id: u64) -> Option<usize> {
        let end = |link: &u64, end: usize| self.data.links.get(link).map(|link| link.ends[end]);
        match self.data.pending.get(&id)? {
            DataEvent::Ask(request) => Some(request.node),
            DataEvent::Told { .. } | DataEvent::Think(_) => None,
            DataEvent::Arrives { link, end: at, .. } => end(link, *at),
            DataEvent::Opened(link) | DataEvent::Snapshot(link) | DataEvent::Pump(link) | DataEvent::Paused(link) => {
                end(link, 0)
            }
            DataEvent::Broken { node, .. }
            | DataEvent::RemoveImported { node, .. }
            | DataEvent::RemoveLost { node, .. }
            | DataEvent::Flush { node, .. }
            | DataEvent::LookAtKeys { node, .. }
            | DataEvent::EndWaits { node, .. }
            | DataEvent::Saved { node, .. }
            | DataEvent::DataSaved { node, .. }
            | DataEvent::Pull { node, .. }
            | DataEvent::Acknowledged { node, .. }
            | DataEvent::LogSynced { node, .. }
            | DataEvent::MapSet { node, .. }
            | DataEvent::Follow { node, .. }
            | DataEvent::Lead { node, .. } => Some(*node),
        }
    }

    /// Removes a replica's keys when its primary's are removed.
    fn remove_keys(&mut self, node: usize, slots: &SlotSet) {
        if !self.me(node).is_primary() {
            return;
        }
        for key in self.data.stores[node].keys_in(slots) {
            self.log(node, Entry::Remove(key));
        }
    }

    /// Applies an entry at a primary, and informs the followers of its log.
    pub fn log(&mut self, node: usize, entry: Entry) {
        self.data.stores[node].apply(entry);
        self.members[node].offset += 1;
        self.applied(node);
        let links: Vec<u64> =
            self.data.links.iter().filter(|(_, link)| link.reads_log_of(node)).map(|(id, _)| *id).collect();
        for link in links {
            let delay = self.random.i64(0..5);
            self.later(delay, DataEvent::Pump(link));
        }
    }

    pub fn later(&mut self, delay: i64, event: DataEvent) {
        let id = self.data.number();
        self.data.pending.insert(id, event);
        self.at_data(delay, id);
    }

    pub fn perform_on_data(&mut self, node: usize, effect: Effect) {
        let life = self.life(node);
        match effect {
            Effect::Migration(effect) => self.perform_migration(node, effect),
            Effect::PauseWrites { .. } => self.data.stores[node].is_failing_over = true,
            Effect::Unpause => {
                self.data.stores[node].is_failing_over = false;
                self.resume_writes(node);
            }
            Effect::LookAtKeys => self.duty(node, Lane::Slots, DataEvent::LookAtKeys { node, life }),
            Effect::FlushAll if self.flaw() == Flaw::LooksBeforeItIsEmpty => {
                let found = self.data.stores[node].populated();
                self.tell(node, |bus, now| {
                    bus.lost_keys_removed();
                    bus.followed();
                    bus.keys_found(&found, now);
                });
            }
            Effect::FlushAll => self.duty(node, Lane::Roles, DataEvent::Flush { node, life }),
            Effect::LoseSlots(slots) => {
                if let Some(risk) = self.data.risks.get_mut(&node) {
                    *risk = risk.without(&slots);
                }
                self.duty(node, Lane::Slots, DataEvent::RemoveLost { node, life, slots });
            }
            _ => {}
        }
    }

    /// Sends a replica its primary's new log entries, or all data.
    pub fn replicate_data(&mut self, node: usize) {
        let Some(from) = self.members[node].following.filter(|from| *from < self.members.len() && *from != node) else {
            return;
        };
        if !self.is_up(from)
            || !self.is_up(node)
            || !self.are_connected(node, from)
            || self.is_stopped(from)
            || self.members[from].following.is_some()
            // A member of the in-sync set does not follow a primary that has forgotten it.
            || self.members[from].is_unconfirmed
        {
            // A stopped primary ends no connection.
            self.members[node].is_linked &= self.is_stopped(from);
            return;
        }
        let history = self.data.stores[from].history;
        let end = self.data.stores[from].log.len();
        match self.data.stores[node].followed {
            Some((known, at)) if known == history => {
                let news: Vec<Entry> = self.data.stores[from].log[at..].to_vec();
                for entry in news {
                    self.follow_entry(node, entry);
                }
            }
            // A full synchronization takes a while. The link to a dead primary has ended, even if the primary is back
            // by now.
            _ if self.random.u8(..8) > 0 => return self.members[node].is_linked = false,
            _ => self.copy_all(node, from),
        }
        self.data.stores[node].followed = Some((history, end));
        let (offset, now) = (self.members[from].offset, self.now);
        self.members[node].kept = self.me(from).slots.clone();
        let member = &mut self.members[node];
        (member.offset, member.heard, member.synchronized) = (offset, now, now);
        member.synchronizations += u64::from(!member.is_linked);
        (member.has_history, member.is_foreign, member.has_led, member.is_linked) = (true, false, false, true);
        self.data.lost.remove(&node);
        self.acknowledge(node, from);
    }

    /// Records that the files have all data.
    fn data_saved(&mut self, node: usize) {
        let store = &mut self.data.stores[node];
        store.files = None;
        store.kept.all_on_disk(&store.keys, &store.open);
        self.members[node].is_unsaved = false;
    }

    fn follow_entry(&mut self, node: usize, entry: Entry) {
        if let Entry::Record(words) = &entry {
            let args: Vec<&[u8]> = words[3..].iter().map(Vec::as_slice).collect();
            let is_beginning = words[2] == b"ESTABLISH";
            self.tell(node, |bus, now| {
                // A known job, or one that is unknown by now, does not matter.
                let _ = match is_beginning {
                    true => bus.establish_import(&args, true, now).map(drop),
                    false => bus.finish_import(&args, false, now),
                };
            });
        }
        if self.is_up(node) {
            self.data.stores[node].apply(entry);
            self.applied(node);
        }
    }

    fn copy_all(&mut self, node: usize, from: usize) {
        self.tell(node, |bus, now| bus.forget_imports("Full resynchronization occurred", now));
        if !self.is_up(node) {
            return;
        }
        let (keys, open) = (self.data.stores[from].keys.clone(), self.data.stores[from].open.clone());
        let history = self.data.number();
        let store = &mut self.data.stores[node];
        let is_foreign = self.members[node].is_foreign;
        let former = (std::mem::take(&mut store.keys), std::mem::take(&mut store.open), is_foreign);
        store.files.get_or_insert(former);
        (store.keys, store.open, store.history) = (keys, open.clone(), history);
        store.hidden.clear();
        store.log.clear();
        store.kept.version += 1;
        self.members[node].is_unsaved = true;
        self.applied(node);
        let (life, delay) = (self.life(node), self.random.i64(0..5000));
        self.later(delay, DataEvent::DataSaved { node, life, history });
        for (job, slots) in open {
            self.tell(node, |bus, now| bus.track_import(job, slots, now));
        }
    }

    /// Records which slots a node has gained.
    pub fn note_gained(&mut self, node: usize) {
        let now = self.now;
        let member = &mut self.members[node];
        let myself = member.bus.as_ref().expect("it is up").nodes().myself();
        let slots = &myself.slots;
        if member.slots != *slots {
            if myself.is_primary() && member.following.is_none() {
                member.kept = slots.clone();
            }
            slots.without(&member.slots).iter().for_each(|slot| _ = member.gained.insert(slot, now));
            member.slots = slots.clone();
        }
    }

    /// Checks that a replica takes no slots whose keys it cannot have: it was never synchronized, or the slots came
    /// long after its link to the primary broke.
    fn check_takeover(&mut self, node: usize, former: usize) {
        let slots = self.me(node).slots.clone();
        let lacks_data = match self.data.safety {
            // A former primary of a shard whose replicas have every acknowledged write has them, too.
            Safety::AtReplicas(_) => self.data.lost.contains(&node),
            _ => !self.members[node].has_history || self.members[node].is_foreign,
        };
        if !slots.is_empty() && lacks_data {
            self.violate(format!("{node} leads, and was never synchronized"));
        }
        if self.members[node].heard == 0 || matches!(self.data.safety, Safety::AtReplicas(_)) {
            // No election chooses a node without a link since its start. An operator may, and gets the data of its
            // file. A primary whose replicas are asked takes slots when all of them have the keys, however long one is
            // gone since.
            return;
        }
        let until = self.members[node].synchronized + LAG;
        let gained = &self.members[former].gained;
        let late = slots.without(&self.members[node].kept);
        let late = late.iter().find(|slot| gained.get(slot).is_some_and(|gained| *gained > until));
        if let Some(slot) = late {
            self.violate(format!("{node} leads for slot {slot}, whose keys {former} got when it was not followed"));
        }
    }

    /// Records that a node has replaced its primary: data of the primary that it lacks may be lost.
    fn note_takeover(&mut self, node: usize, former: Option<usize>) {
        let Some(former) = former.filter(|former| *former < self.members.len()) else { return };
        self.check_takeover(node, former);
        self.data.replaced.insert(former);
        self.members[node].has_led = true;
        if matches!(self.data.safety, Safety::AtReplicas(_)) {
            // The successor has all that was acknowledged.
            return;
        }
        let (new, old) = (&self.data.stores[node].keys, &self.data.stores[former].keys);
        let all: BTreeSet<Key> = new.keys().chain(old.keys()).copied().collect();
        let differ: Vec<Key> = all.into_iter().filter(|key| new.get(key) != old.get(key)).collect();
        self.data.given_up.extend(differ);
    }

    /// Records the death of a node. A node that is a primary in its file returns as one, with its slots: it has taken
    /// over, though replication had not followed yet.
    pub fn note_unled(&mut self, node: usize) {
        let former = self.members[node].following;
        if former.is_some() && self.members[node].is_primary_by_file(&self.settings) {
            self.note_takeover(node, former);
        }
    }

    /// Makes a replica lead.
    pub fn data_leads(&mut self, node: usize, former: Option<usize>) {
        let history = self.data.number();
        let store = &mut self.data.stores[node];
        (store.history, store.followed) = (history, None);
        store.log.clear();
        store.kept.begin_log();
        self.note_takeover(node, former);
        // A primary whose files lack its data is a matter of its configuration.
        self.data_saved(node);
        let life = self.life(node);
        self.duty(node, Lane::Slots, DataEvent::LookAtKeys { node, life });
    }

    pub fn data_dies(&mut self, node: usize) {
        let store = &mut self.data.stores[node];
        (store.is_failing_over, store.is_migrating) = (false, false);
        store.hidden.clear();
        store.waiting.clear();
        store.waiters.clear();
        store.kept.die();
        self.lose_data(node);
        let links: Vec<u64> =
            self.data.links.iter().filter(|(_, link)| link.ends.contains(&node)).map(|(id, _)| *id).collect();
        for link in links {
            self.close_job_link(link, Some(node));
        }
    }

    /// Reads the data from the disk.
    pub fn data_returns(&mut self, node: usize) {
        let history = self.data.number();
        let store = &mut self.data.stores[node];
        (store.history, store.followed) = (history, None);
        store.log.clear();
        let files = store.files.take();
        let is_lost = self.data.lost.contains(&node);
        match (self.data.safety, files) {
            // A node that has not lost its data was shut down with it.
            (Safety::AtReplicas(_), _) if is_lost => (store.keys, store.open) = Default::default(),
            (Safety::AtReplicas(_), _) => {}
            (_, Some((keys, open, is_foreign))) => {
                (store.keys, store.open) = (keys, open);
                self.members[node].is_foreign = is_foreign;
            }
            (Safety::OnDisk, None) => (store.keys, store.open) = store.kept.disk.clone(),
            (Safety::Applied, None) => {}
        }
        store.kept.all_on_disk(&store.keys, &store.open);
        let open = store.open.clone();
        (self.members[node].has_history, self.members[node].is_unsaved) = (!is_lost, false);
        self.members[node].is_unconfirmed = is_lost && self.me(node).is_primary();
        for (job, slots) in open {
            self.tell(node, |bus, now| bus.track_import(job, slots, now));
        }
        self.tell(node, |bus, now| bus.data_loaded(now));
        let life = self.life(node);
        self.duty(node, Lane::Slots, DataEvent::LookAtKeys { node, life });
    }

    /// Returns a violation of the invariants at the end, when all failures are repaired; None if there is none.
    pub fn unsettled_data(&self) -> Option<String> {
        for node in 0..self.members.len() {
            let (bus, store) = (self.members[node].bus(), &self.data.stores[node]);
            if let Some(job) = bus.migrations().jobs().find(|job| !job.state.is_finished()) {
                return Some(format!("{node} has a job that does not end: {job:?}"));
            }
            if !store.hidden.is_empty() || !store.open.is_empty() {
                return Some(format!("{node} hides keys of no job"));
            }
            if store.holds_writes() || !store.waiting.is_empty() {
                return Some(format!("{node} holds writes"));
            }
            let me = bus.nodes().myself();
            if store.waiters.iter().any(|slot| !me.slots.contains(*slot)) {
                return Some(format!("a client waits at {node} for a key that is elsewhere"));
            }
            match me.primary {
                None => {
                    if let Some(key) = store.keys.keys().find(|(slot, _)| !me.slots.contains(*slot)) {
                        return Some(format!("{node} has the key {key:?} of another's slot"));
                    }
                }
                Some(primary) => {
                    let primary = (0..self.members.len()).find(|other| self.id(*other) == primary);
                    if primary.is_none_or(|primary| self.data.stores[primary].keys != store.keys) {
                        return Some(format!("{node} has not what {primary:?} has"));
                    }
                }
            }
        }
        None
    }
}
