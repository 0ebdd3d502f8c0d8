//! This server as a node of a cluster: the slots that it serves, as commands look at them.
//!
//! A byte for each slot says that a command needs no further look: that is all that most commands read. All other slots
//! are found in the [`SlotMap`], which the cluster's bus makes anew with each change. A change begins an
//! [epoch](crate::status::deny_reasons::Epoch): a command that was admitted before does not run in a shard that has
//! seen it.

use crate::data::slot::SLOTS;
use crate::locks::sync::Mutex;
use crate::time::Nanos;
use cluster::slot_map::SlotMap;
use cluster::slot_set::SlotSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Any command about this slot runs here.
const SERVED: u8 = 1;
/// Reads of clients that want them from replicas run here.
const READABLE: u8 = 2;

/// Slots that are served here, and the nodes of the others.
pub struct ClusterStatus {
    slots: Vec<AtomicU8>,
    map: Mutex<Arc<SlotMap>>,
    /// On a replica: slots of its primary in the map that the primary has lost, by its stream.
    left: Mutex<SlotSet>,
    /// The moment up to which the map holds, in nanoseconds: the bus may not know of a later one by then.
    until: AtomicU64,
    /// Whether the moment has passed. Changed under the lock of `left`.
    is_late: AtomicBool,
    /// How often the moment has passed.
    lapses: AtomicU64,
}

impl Default for ClusterStatus {
    fn default() -> ClusterStatus {
        let slots = std::iter::repeat_with(AtomicU8::default).take(SLOTS).collect();
        let (map, until) = (Mutex::new(Arc::new(SlotMap::default())), AtomicU64::new(u64::MAX));
        ClusterStatus {
            slots,
            map,
            left: Mutex::default(),
            until,
            is_late: AtomicBool::new(false),
            lapses: AtomicU64::new(0),
        }
    }
}

impl ClusterStatus {
    /// Whether any command about the slot runs here.
    #[inline]
    pub fn serves(&self, slot: u16) -> bool {
        self.has(slot, SERVED)
    }

    /// Whether reads of a client that wants them from a replica run here.
    #[inline]
    pub fn serves_reads(&self, slot: u16) -> bool {
        self.has(slot, SERVED | READABLE)
    }

    #[inline]
    fn has(&self, slot: u16, bits: u8) -> bool {
        self.slots.get(usize::from(slot)).is_some_and(|word| word.load(Relaxed) & bits != 0)
    }

    /// Returns the map of all slots.
    pub fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.lock())
    }

    /// Whether the map says that the cluster serves, and holds.
    pub fn is_up(&self, map: &SlotMap) -> bool {
        map.is_up && !self.is_late.load(Relaxed)
    }

    /// Whether the map may have expired at this moment. Called once for each batch of commands.
    #[inline]
    pub fn is_late(&self, now: Nanos) -> bool {
        now.0 > self.until.load(Acquire)
    }

    /// How often the map did not hold any more. It is counted before the map holds again: replies to commands that ran
    /// before a greater number came about may tell of a data set that others have replaced.
    #[inline]
    pub fn lapses(&self) -> u64 {
        self.lapses.load(Relaxed)
    }

    /// Stops serving if the map has expired. True if that is new: the caller begins an epoch.
    pub(crate) fn expire(&self, now: Nanos) -> bool {
        let left = self.left.lock();
        let is_news = self.lapse(now);
        if is_news {
            self.mark(&self.map(), &left);
        }
        is_news
    }

    /// Counts that the map does not hold any more, once. True if it did not before this.
    fn lapse(&self, now: Nanos) -> bool {
        let is_news = self.is_late(now) && !self.is_late.swap(true, Relaxed);
        if is_news {
            self.lapses.fetch_add(1, Relaxed);
        }
        is_news
    }

    /// Extends the map up to `until`. `knows`: if it had expired, the bus knew. True if the served slots change: the
    /// caller begins an epoch.
    pub(crate) fn extend(&self, now: Nanos, until: Nanos, knows: bool) -> Option<bool> {
        let left = self.left.lock();
        if !knows && (self.is_late(now) || self.is_late.load(Relaxed)) {
            return None;
        }
        self.lapse(now);
        self.until.store(until.0, Release);
        let was_late = self.is_late.swap(false, Relaxed);
        if was_late {
            self.mark(&self.map(), &left);
        }
        Some(was_late)
    }

    /// Whether the server's primary has lost the slot, by its stream, though the map does not say so yet.
    pub fn has_left(&self, slot: u16) -> bool {
        self.left.lock().contains(slot)
    }

    /// Returns the slots that the server's primary has lost, by its stream, though the map does not say so yet.
    pub(crate) fn left(&self) -> SlotSet {
        self.left.lock().clone()
    }

    /// Replaces the map. The caller begins an epoch.
    pub(crate) fn set_map(&self, map: SlotMap) {
        let mut left = self.left.lock();
        // The stream's news is old when the bus knows it, too.
        *left = left.iter().filter(|slot| map.is_replica && map.is_own(*slot)).collect();
        self.mark(&map, &left);
        *self.map.lock() = Arc::new(map);
    }

    /// Changes which slots the primary has lost. The caller begins an epoch.
    pub(crate) fn change_left(&self, change: impl FnOnce(&mut SlotSet)) {
        let mut left = self.left.lock();
        let map = self.map();
        change(&mut left);
        *left = left.iter().filter(|slot| map.is_replica && map.is_own(*slot)).collect();
        self.mark(&map, &left);
    }

    fn mark(&self, map: &SlotMap, left: &SlotSet) {
        let bits = if map.is_replica { READABLE } else { SERVED };
        let is_up = self.is_up(map);
        for (slot, word) in (0..).zip(&self.slots) {
            let is_own = is_up && map.is_own(slot) && !left.contains(slot) && !map.coming.contains(slot);
            let is_open = map.migrating.contains_key(&slot) || map.importing.contains_key(&slot);
            word.store(if is_own && !is_open { bits } else { 0 }, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(change: impl FnOnce(&mut SlotMap)) -> ClusterStatus {
        let mut map = SlotMap { is_up: true, serving: Some(0), owners: vec![Some(0); SLOTS], ..SlotMap::default() };
        map.owners[7] = Some(1);
        map.owners[8] = None;
        change(&mut map);
        let status = ClusterStatus::default();
        status.set_map(map);
        status
    }

    #[test]
    fn slots_that_a_node_owns_and_keeps_are_served_without_a_further_look() {
        let plain = status(|_| {});
        assert!(plain.serves(6) && !plain.serves(7) && !plain.serves(8) && plain.serves_reads(6));
        let open = status(|map| {
            map.migrating.insert(1, 1);
            map.importing.insert(2, 1);
        });
        assert!(open.serves(0) && !open.serves(1) && !open.serves_reads(1) && !open.serves(2));
        assert!(!status(|map| map.is_up = false).serves(6));
        let replica = status(|map| map.is_replica = true);
        assert!(!replica.serves(6) && replica.serves_reads(6) && !replica.serves_reads(7));
        assert!(!status(|map| map.serving = None).serves(8));
        assert!(!ClusterStatus::default().serves(0));
    }

    #[test]
    fn a_map_that_does_not_hold_any_more_serves_nothing_until_the_bus_knows() {
        let status = status(|_| {});
        let at = Nanos;
        assert!(!status.expire(at(u64::MAX)), "nobody has said how long it holds");
        assert_eq!(status.extend(at(5), at(10), false), Some(false));
        assert!(!status.is_late(at(10)) && !status.expire(at(10)) && status.serves(6));
        assert!(status.expire(at(11)) && !status.expire(at(12)));
        assert!(!status.serves(6) && !status.is_up(&status.map()) && status.map().is_up);
        status.set_map(SlotMap::clone(&status.map()));
        assert!(!status.serves(6), "a map that was made before it");
        assert_eq!(status.extend(at(12), at(20), false), None, "the bus has not looked");
        assert!(!status.serves(6));
        assert_eq!(status.extend(at(13), at(20), true), Some(true));
        assert!(status.serves(6) && !status.is_late(at(20)));
        assert_eq!(status.lapses(), 1);
        assert_eq!(status.extend(at(21), at(30), false), None, "it was late, though no worker has seen it");
        assert_eq!(status.extend(at(22), at(30), true), Some(true));
        assert_eq!(status.lapses(), 2, "replies of before tell that it was late");
    }

    #[test]
    fn slots_that_the_primary_has_lost_are_read_no_more_until_they_come_back() {
        let replica = |own: u16| {
            let mut map = SlotMap { is_up: true, serving: Some(0), is_replica: true, ..SlotMap::default() };
            map.owners = (0..SLOTS).map(|slot| Some(u16::from(slot >= usize::from(own)))).collect();
            map
        };
        let status = ClusterStatus::default();
        status.set_map(replica(10));
        status.change_left(|left| *left = SlotSet::of([8..=12]));
        assert!(status.serves_reads(7) && !status.serves_reads(8) && status.has_left(9) && !status.has_left(12));
        status.set_map(replica(9));
        assert!(status.has_left(8) && !status.serves_reads(8), "this one has not been told of by the bus");
        status.set_map(replica(10));
        assert!(!status.has_left(9) && status.serves_reads(9) && !status.serves_reads(8));
        status.change_left(|left| *left = SlotSet::none());
        assert!(status.serves_reads(8));
        status.change_left(|left| *left = SlotSet::all());
        status.set_map(SlotMap { is_replica: false, ..replica(10) });
        assert!(status.serves(0) && !status.has_left(0), "it leads itself");
    }
}
