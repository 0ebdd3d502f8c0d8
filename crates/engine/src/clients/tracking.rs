//! Client-side caching: which clients hold copies of which keys, and must learn that these are out of date.
//!
//! A client that asked for it (CLIENT TRACKING) is remembered at each key that it reads; the next change of the key
//! forgets the readers and sends them an invalidation. In broadcast mode no reader is remembered: a client gets an
//! invalidation for every change of a key that begins with one of its prefixes.
//!
//! ```text
//!   shard      key -> ids of its readers        under the shard's lock, like the key itself: [`Tracked`]
//!   engine     id -> how the client tracks      [`Tracker`]
//!              prefix -> clients that broadcast it
//!   worker     prefix -> keys that changed in this turn, and the client that changed them last
//! ```
//!
//! **Nothing is lost.** A reader is remembered under the lock under which it read. A change takes the readers out under
//! the same lock, so it either comes before the read, which then sees it, or finds the reader. The reader's worker
//! hands an invalidation over when the running command has ended, so a reply that it concerns always comes before it.
//! And invalidations leave their worker before its replies do: a command that any client sends after the reply to a
//! write comes after the invalidation.
//!
//! A key is its name, whatever database it is in. An id stays at a key after its client has left or tracks no more,
//! until the key changes or has to make room for others; no client is notified then.

use crate::clients::listeners::Listeners;
use crate::clients::pubsub::{PubSub, Push};
use crate::clients::registry::ClientInfo;
use crate::locks::sync::{Mutex, RwLock};
use crate::per_worker::PerWorker;
use crate::propagation::effects::{Author, ClientIds, Effects, TrackedChange};
use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The keys of one shard that were read by clients that track.
#[derive(Default)]
pub struct Tracked {
    readers: IndexMap<Box<[u8]>, ClientIds, RandomState>,
    items: usize,
}

impl Tracked {
    /// Records that the client has read the key; true if it is the key's first reader.
    pub fn remember(&mut self, key: &[u8], client: u64) -> bool {
        let Some(readers) = self.readers.get_mut(key) else {
            self.readers.insert(key.into(), ClientIds::from_slice(&[client]));
            self.items += 1;
            return true;
        };
        if let Err(at) = readers.binary_search(&client) {
            readers.insert(at, client);
            self.items += 1;
        }
        false
    }

    /// Takes the key's readers out; None when there are none.
    pub fn forget(&mut self, key: &[u8]) -> Option<ClientIds> {
        let readers = self.readers.swap_remove(key)?;
        self.items -= readers.len();
        Some(readers)
    }

    /// Takes the readers of one key out, which `random` chooses.
    pub fn forget_any(&mut self, random: usize) -> Option<(Box<[u8]>, ClientIds)> {
        let at = random.checked_rem(self.readers.len())?;
        let (key, readers) = self.readers.swap_remove_index(at)?;
        self.items -= readers.len();
        Some((key, readers))
    }

    /// Removes all keys; returns how many that were.
    pub fn clear(&mut self) -> usize {
        let keys = self.readers.len();
        *self = Tracked::default();
        keys
    }

    /// Returns the number of keys with readers.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Whether no reader is remembered.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Returns the number of client ids of all keys together.
    pub fn items(&self) -> usize {
        self.items
    }
}

/// Keys whose changes a client is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackingMode {
    /// Keys that it reads.
    Reads,
    /// Keys that it reads after CLIENT CACHING YES.
    OptIn,
    /// Keys that it reads, but not after CLIENT CACHING NO.
    OptOut,
    /// Keys that begin with one of its prefixes.
    Broadcast,
}

/// One client that tracks, from one CLIENT TRACKING to the next.
#[derive(Debug)]
pub struct Tracker {
    /// The client that tracks.
    pub client: Arc<ClientInfo>,
    /// The client that gets the invalidations instead, and may be gone by now.
    pub redirect: Option<Arc<ClientInfo>>,
    /// Keys whose changes it is notified of.
    pub mode: TrackingMode,
    /// Whether its own changes are left out.
    pub no_loop: bool,
    /// Its prefixes; empty unless it broadcasts.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// Whether it has ended, so that invalidations on their way to it are of no use.
    ended: AtomicBool,
}

impl Tracker {
    /// Makes a client that begins to track, without prefixes.
    pub fn new(
        client: &Arc<ClientInfo>,
        redirect: Option<Arc<ClientInfo>>,
        mode: TrackingMode,
        no_loop: bool,
    ) -> Tracker {
        let (client, ended) = (Arc::clone(client), AtomicBool::new(false));
        Tracker { client, redirect, mode, no_loop, prefixes: BTreeSet::new(), ended }
    }

    /// Returns the client that gets the invalidations.
    pub fn target(&self) -> &Arc<ClientInfo> {
        self.redirect.as_ref().unwrap_or(&self.client)
    }

    /// Whether it does not track any more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Whether it is notified of changes by `client`.
    fn hears_of(&self, client: u64) -> bool {
        !self.no_loop || self.client.id != client
    }
}

/// Copies that are out of date: of these keys, or all.
#[derive(Debug, PartialEq, Eq)]
pub enum Stale {
    /// Its copies of these keys.
    Keys(Vec<Box<[u8]>>),
    /// All of its copies.
    Everything,
}

impl Stale {
    /// Returns the bytes of the names.
    pub fn size(&self) -> usize {
        match self {
            Stale::Keys(keys) => keys.iter().map(|key| key.len() + size_of::<Box<[u8]>>()).sum(),
            Stale::Everything => 0,
        }
    }
}

/// Keys that changed, by prefix, with the client that changed them last.
type Changed = BTreeMap<Box<[u8]>, BTreeMap<Box<[u8]>, u64>>;

/// Changes that one worker has to broadcast.
#[derive(Default)]
struct Side {
    changed: Mutex<Changed>,
    pending: AtomicBool,
}

/// All clients that track.
pub struct Tracking {
    /// Its bit says whether there is a tracker, or something left of one.
    listeners: Arc<Listeners>,
    broadcasts: AtomicBool,
    /// Keys with readers in all shards, and how many there may be; 0: any number.
    keys: CachePadded<AtomicUsize>,
    max_keys: AtomicUsize,
    trackers: RwLock<HashMap<u64, Arc<Tracker>>>,
    prefixes: RwLock<Prefixes>,
    workers: PerWorker<Side>,
}

/// Trackers of names that begin so, by client.
type Prefixes = BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Tracker>>>;

impl Tracking {
    /// Makes a table without trackers.
    pub fn new(workers: usize, listeners: Arc<Listeners>) -> Self {
        Tracking {
            listeners,
            broadcasts: AtomicBool::new(false),
            keys: CachePadded::default(),
            max_keys: AtomicUsize::new(0),
            trackers: RwLock::new(HashMap::new()),
            prefixes: RwLock::new(BTreeMap::new()),
            workers: PerWorker::new(workers),
        }
    }

    /// Whether any client tracks.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.listeners.has_tracking()
    }

    /// Sets `tracking-table-max-keys`.
    pub fn limit_keys(&self, max: usize) {
        self.max_keys.store(max, Relaxed);
    }

    /// Makes the client track from now on, or in another way than before.
    pub fn begin(&self, tracker: Tracker) -> Arc<Tracker> {
        let tracker = Arc::new(tracker);
        let id = tracker.client.id;
        let mut trackers = self.trackers.write();
        let old = trackers.insert(id, Arc::clone(&tracker));
        self.listeners.set_tracking(true);
        let mut prefixes = self.prefixes.write();
        if let Some(old) = old {
            leave_prefixes(&mut prefixes, &old);
        }
        for prefix in &tracker.prefixes {
            prefixes.entry(prefix.clone()).or_default().insert(id, Arc::clone(&tracker));
        }
        self.broadcasts.store(!prefixes.is_empty(), Relaxed);
        tracker
    }

    /// Ends the client's tracking; it gets no invalidation from now on.
    pub fn end(&self, tracker: &Tracker) {
        tracker.ended.store(true, Relaxed);
        let mut trackers = self.trackers.write();
        trackers.remove(&tracker.client.id);
        let mut prefixes = self.prefixes.write();
        leave_prefixes(&mut prefixes, tracker);
        self.broadcasts.store(!prefixes.is_empty(), Relaxed);
        self.listeners.set_tracking(!trackers.is_empty() || self.keys.load(Relaxed) > 0);
    }

    /// Returns the number of clients that track.
    pub fn clients(&self) -> usize {
        self.trackers.read().len()
    }

    /// Returns how many prefixes clients have asked for.
    pub fn prefixes(&self) -> usize {
        self.prefixes.read().len()
    }

    /// Counts a key that has got its first reader.
    pub fn count_key(&self) {
        self.keys.fetch_add(1, Relaxed);
    }

    fn count_forgotten(&self, keys: usize) {
        if self.keys.fetch_sub(keys, Relaxed) == keys {
            let trackers = self.trackers.read();
            // A client that begins meanwhile waits for the lock.
            self.listeners.set_tracking(!trackers.is_empty());
        }
    }

    /// Removes all keys of a shard.
    pub fn clear(&self, tracked: &mut Tracked) {
        match tracked.clear() {
            0 => {}
            keys => self.count_forgotten(keys),
        }
    }

    /// Whether some keys must be forgotten: there are too many of them, or no client tracks any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_on() && self.has_excess()
    }

    #[cold]
    fn has_excess(&self) -> bool {
        let (keys, max) = (self.keys.load(Relaxed), self.max_keys.load(Relaxed));
        keys > 0 && (max > 0 && keys > max || self.trackers.read().is_empty())
    }

    /// Whether `worker` has changes to broadcast.
    #[inline]
    pub fn has_pending(&self, worker: usize) -> bool {
        self.workers[worker].pending.load(Relaxed)
    }

    /// Sends the changes that `worker` has made since it last did so.
    #[cold]
    pub fn broadcast(&self, pubsub: &PubSub, worker: usize) {
        let side = &self.workers[worker];
        side.pending.store(false, Relaxed);
        let changed = std::mem::take(&mut *side.changed.lock());
        let prefixes = self.prefixes.read();
        for (prefix, keys) in changed {
            let Some(trackers) = prefixes.get(&prefix) else { continue };
            let all = Arc::new(Stale::Keys(keys.keys().cloned().collect()));
            for tracker in trackers.values() {
                if !tracker.no_loop {
                    tell(pubsub, worker, tracker, &all);
                    continue;
                }
                let others = keys.iter().filter(|(_, client)| tracker.hears_of(**client));
                let others: Vec<Box<[u8]>> = others.map(|(key, _)| key.clone()).collect();
                if !others.is_empty() {
                    tell(pubsub, worker, tracker, &Arc::new(Stale::Keys(others)));
                }
            }
        }
    }

    /// Collects the readers of a changed key of this shard. Only while [tracking](Tracking::is_on) is on.
    #[cold]
    pub(crate) fn changed(&self, tracked: &mut Tracked, effects: &mut Effects, key: &[u8], expired: bool) {
        let readers = tracked.forget(key);
        if readers.is_some() {
            self.count_forgotten(1);
        } else if !self.broadcasts.load(Relaxed) {
            return;
        }
        effects.rare().changes.push(TrackedChange { key: key.into(), readers: readers.unwrap_or_default(), expired });
    }

    /// Invalidates a key that was forgotten for want of room. No lock may be held.
    pub(crate) fn tell_forgotten(&self, pubsub: &PubSub, worker: usize, key: Box<[u8]>, readers: &ClientIds) {
        self.count_forgotten(1);
        // The key is unchanged, so it is not broadcast and all of its readers are notified.
        let stale = Arc::new(Stale::Keys(vec![key]));
        let trackers = self.trackers.read();
        let readers = readers.iter().filter_map(|id| trackers.get(id));
        let readers = readers.filter(|tracker| tracker.mode != TrackingMode::Broadcast);
        readers.for_each(|tracker| tell(pubsub, worker, tracker, &stale));
    }

    /// Sends these changes to the clients that they concern. No lock may be held.
    #[cold]
    pub(crate) fn tell(&self, pubsub: &PubSub, changes: Vec<TrackedChange>, flushed: bool, author: Author) {
        let trackers = self.trackers.read();
        if flushed {
            let everything = Arc::new(Stale::Everything);
            trackers.values().for_each(|tracker| tell(pubsub, author.worker, tracker, &everything));
        }
        let broadcasts = self.broadcasts.load(Relaxed);
        for TrackedChange { key, readers, expired } in changes {
            if broadcasts {
                self.note(&key, Author { client: if expired { 0 } else { author.client }, ..author });
            }
            let stale = Arc::new(Stale::Keys(vec![key]));
            let readers = readers.iter().filter_map(|id| trackers.get(id));
            // A client that broadcasts by now may have read the key before.
            let readers =
                readers.filter(|tracker| tracker.mode != TrackingMode::Broadcast && tracker.hears_of(author.client));
            readers.for_each(|tracker| tell(pubsub, author.worker, tracker, &stale));
        }
    }

    /// Records a change for the clients that broadcast a prefix of the key.
    fn note(&self, key: &[u8], author: Author) {
        let prefixes = self.prefixes.read();
        let side = &self.workers[author.worker];
        for prefix in prefixes.keys().filter(|prefix| key.starts_with(prefix)) {
            side.changed.lock().entry(prefix.clone()).or_default().insert(key.into(), author.client);
            side.pending.store(true, Relaxed);
        }
    }
}

fn leave_prefixes(prefixes: &mut BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<Tracker>>>, tracker: &Tracker) {
    for prefix in &tracker.prefixes {
        if let Some(trackers) = prefixes.get_mut(prefix) {
            trackers.remove(&tracker.client.id);
            if trackers.is_empty() {
                prefixes.remove(prefix);
            }
        }
    }
}

fn tell(pubsub: &PubSub, worker: usize, tracker: &Arc<Tracker>, stale: &Arc<Stale>) {
    let push = Push::Invalidation { tracker: Arc::clone(tracker), stale: Arc::clone(stale) };
    pubsub.post(worker, tracker.target().worker.load(Relaxed), push);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::UnixMs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn readers_are_those_since_the_last_change(steps in prop::collection::vec((0..4u8, 0..8u8, 1..6u64), 0..200)) {
            let mut tracked = Tracked::default();
            let mut model: BTreeMap<Box<[u8]>, BTreeSet<u64>> = BTreeMap::new();
            for (step, key, client) in steps {
                let key: Box<[u8]> = Box::new([key]);
                match step {
                    0 => {
                        let readers = tracked.forget(&key).map(|readers| readers.into_iter().collect());
                        prop_assert_eq!(readers, model.remove(&key));
                    }
                    1 => {
                        let any = tracked.forget_any(client as usize);
                        prop_assert_eq!(any.is_none(), model.is_empty());
                        if let Some((key, readers)) = any {
                            prop_assert_eq!(Some(readers.into_iter().collect()), model.remove(&key));
                        }
                    }
                    _ => {
                        let first = tracked.remember(&key, client);
                        prop_assert_eq!(first, !model.contains_key(&key));
                        model.entry(key).or_default().insert(client);
                    }
                }
                prop_assert_eq!(tracked.len(), model.len());
                prop_assert_eq!(tracked.items(), model.values().map(BTreeSet::len).sum::<usize>());
            }
        }
    }

    #[test]
    fn broadcasts_name_each_key_once_and_spare_who_changed_it() {
        let (tracking, pubsub) = (Tracking::new(1, Arc::default()), PubSub::new(1));
        let client = |id| Arc::new(ClientInfo::new(id, "", "", -1, 0, UnixMs(0)));
        for (id, no_loop) in [(1, false), (2, true)] {
            let mut tracker = Tracker::new(&client(id), None, TrackingMode::Broadcast, no_loop);
            tracker.prefixes.insert(b"a"[..].into());
            tracking.begin(tracker);
        }
        let change = |key: &[u8], expired| TrackedChange { key: key.into(), readers: ClientIds::new(), expired };
        let changes = vec![change(b"a1", false), change(b"a1", false), change(b"b", false), change(b"a2", true)];
        tracking.tell(&pubsub, changes, false, Author { worker: 0, client: 2 });
        assert!(tracking.has_pending(0) && !pubsub.has_own(0));
        tracking.broadcast(&pubsub, 0);
        let told = |push: &Push| match push {
            Push::Invalidation { tracker, stale } => format!("{} {stale:?}", tracker.client.id),
            other => panic!("nobody sent {other:?}"),
        };
        let told: Vec<String> = pubsub.take_own(0).expect("pushes").iter().map(told).collect();
        assert_eq!(told, ["1 Keys([[97, 49], [97, 50]])", "2 Keys([[97, 50]])"]);
        assert!(!tracking.has_pending(0));
    }

    #[test]
    fn changes_are_of_interest_until_nothing_is_left_of_trackers() {
        let tracking = Tracking::new(1, Arc::default());
        let client = Arc::new(ClientInfo::new(1, "", "", -1, 0, UnixMs(0)));
        let mut tracked = Tracked::default();
        let tracker = tracking.begin(Tracker::new(&client, None, TrackingMode::Reads, false));
        assert!(tracking.is_on() && tracked.remember(b"k", 1));
        tracking.count_key();
        assert!(!tracking.is_over());
        tracking.end(&tracker);
        assert!(tracking.is_on() && tracking.is_over() && tracker.has_ended());
        tracking.clear(&mut tracked);
        assert!(!tracking.is_on() && tracked.is_empty());
    }
}
