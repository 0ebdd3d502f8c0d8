//! Slots whose keys clients do not see yet: they are on their way from another node.
//!
//! Their keys lie among all others, and commands about a key of such a slot are sent elsewhere. What names no key
//! (KEYS, SCAN, DBSIZE, RANDOMKEY) passes them over, and so do expiry and eviction: the other node tells what becomes
//! of them.

use crate::data::slot::SLOTS;
use crate::locks::sync::Mutex;
use cluster::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The name of what brings some of them.
pub type HiddenName = [u8; 40];

/// See the module's documentation.
pub struct HiddenSlots {
    /// How many groups there are: nearly always none.
    groups: AtomicUsize,
    slots: Box<[AtomicBool]>,
    by_name: Mutex<BTreeMap<HiddenName, Group>>,
}

/// Slots that come together.
#[derive(Default)]
struct Group {
    slots: SlotSet,
    /// Keys by database.
    lens: BTreeMap<u32, usize>,
}

impl Default for HiddenSlots {
    fn default() -> HiddenSlots {
        let slots = std::iter::repeat_with(AtomicBool::default).take(SLOTS).collect();
        HiddenSlots { groups: AtomicUsize::new(0), slots, by_name: Mutex::default() }
    }
}

impl HiddenSlots {
    /// Whether there are any.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.groups.load(Relaxed) > 0
    }

    /// Whether keys of the slot are hidden.
    #[inline]
    pub fn hides(&self, slot: u16) -> bool {
        self.is_any() && self.slots.get(usize::from(slot)).is_some_and(|hidden| hidden.load(Relaxed))
    }

    /// Whether keys of one of these slots are hidden.
    pub fn hides_any(&self, mut slots: Range<usize>) -> bool {
        self.is_any() && slots.any(|slot| self.slots.get(slot).is_some_and(|hidden| hidden.load(Relaxed)))
    }

    /// Whether keys of all of these slots are hidden.
    pub fn hides_all(&self, mut slots: Range<usize>) -> bool {
        self.is_any() && slots.all(|slot| self.slots.get(slot).is_some_and(|hidden| hidden.load(Relaxed)))
    }

    /// Keys of these slots are hidden from now on.
    pub fn hide(&self, name: HiddenName, slots: SlotSet) {
        let mut groups = self.by_name.lock();
        slots.iter().for_each(|slot| self.slots[usize::from(slot)].store(true, Relaxed));
        groups.insert(name, Group { slots, lens: BTreeMap::new() });
        self.groups.store(groups.len(), Relaxed);
    }

    /// Keys of the slots of that name are as all others.
    pub fn show(&self, name: &HiddenName) {
        let mut groups = self.by_name.lock();
        let Some(group) = groups.remove(name) else { return };
        group.slots.iter().for_each(|slot| self.slots[usize::from(slot)].store(false, Relaxed));
        self.groups.store(groups.len(), Relaxed);
    }

    /// What is hidden now, by name.
    pub fn groups(&self) -> Vec<(HiddenName, SlotSet)> {
        match self.is_any() {
            true => self.by_name.lock().iter().map(|(name, group)| (*name, group.slots.clone())).collect(),
            false => Vec::new(),
        }
    }

    /// Hidden keys of a database.
    pub fn len(&self, db: u32) -> usize {
        if !self.is_any() {
            return 0;
        }
        self.by_name.lock().values().filter_map(|group| group.lens.get(&db)).sum()
    }

    /// A key of a slot has come into a database.
    #[cold]
    pub(crate) fn key_came(&self, slot: u16, db: u32) {
        self.change(slot, db, |len| len + 1);
    }

    /// A key of a slot has gone from a database.
    #[cold]
    pub(crate) fn key_went(&self, slot: u16, db: u32) {
        self.change(slot, db, |len| len.saturating_sub(1));
    }

    fn change(&self, slot: u16, db: u32, change: impl FnOnce(usize) -> usize) {
        if !self.hides(slot) {
            return;
        }
        let mut groups = self.by_name.lock();
        if let Some(group) = groups.values_mut().find(|group| group.slots.contains(slot)) {
            let len = group.lens.entry(db).or_default();
            *len = change(*len);
        }
    }

    /// The data is another now, which was read with these beside it: keys are counted as they were there.
    pub fn adopt_counts(&self, beside: &HiddenSlots) {
        let mut counted = std::mem::take(&mut *beside.by_name.lock());
        self.emptied(None);
        for (name, group) in self.by_name.lock().iter_mut() {
            if let Some(beside) = counted.remove(name) {
                group.lens = beside.lens;
            }
        }
    }

    /// A database has no keys any more; None: none has.
    pub fn emptied(&self, db: Option<u32>) {
        if self.is_any() {
            let mut groups = self.by_name.lock();
            groups.values_mut().for_each(|group| group.lens.retain(|of, _| db.is_some_and(|db| db != *of)));
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn keys_of_hidden_slots_are_counted_by_what_brings_them() {
        let hidden = HiddenSlots::default();
        hidden.key_came(7, 0);
        assert!(!hidden.is_any() && hidden.len(0) == 0);
        let [one, two] = [[b'1'; 40], [b'2'; 40]];
        hidden.hide(one, SlotSet::of([5..=9]));
        hidden.hide(two, SlotSet::of([20..=20]));
        assert!(hidden.hides(7) && hidden.hides(20) && !hidden.hides(10));
        assert!(
            hidden.hides_all(5..10) && !hidden.hides_all(5..11) && hidden.hides_any(9..12) && !hidden.hides_any(10..12)
        );
        for slot in [5, 6, 20, 30] {
            hidden.key_came(slot, 3);
        }
        hidden.key_went(6, 3);
        assert_eq!((hidden.len(3), hidden.len(0)), (2, 0));
        hidden.show(&one);
        assert_eq!((hidden.len(3), hidden.hides(7)), (1, false));
        hidden.emptied(Some(3));
        assert_eq!(hidden.len(3), 0);
        hidden.show(&two);
        assert!(!hidden.is_any());
    }
}
