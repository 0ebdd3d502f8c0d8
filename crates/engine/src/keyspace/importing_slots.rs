//! Slots whose keys clients do not see: they are on their way from another node, or already belong to one.
//!
//! Their keys lie among all others, and commands about a key of such a slot are sent elsewhere. Commands that name no
//! key (KEYS, SCAN, DBSIZE, RANDOMKEY) pass them over, and so do expiry and eviction: the other node decides over them.

use crate::data::slot::SLOTS;
use crate::locks::sync::Mutex;
use cluster::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Name of the migration that brings some of them.
pub type HiddenName = [u8; 40];

/// See the module's documentation.
pub struct HiddenSlots {
    is_any: AtomicBool,
    slots: Box<[AtomicBool]>,
    hidden: Mutex<Hidden>,
}

#[derive(Default)]
struct Hidden {
    /// Slots that come together, by the name of the migration.
    coming: BTreeMap<HiddenName, SlotSet>,
    /// Slots of other nodes, whose keys are still to be removed here.
    leaving: SlotSet,
}

impl Default for HiddenSlots {
    fn default() -> HiddenSlots {
        let slots = std::iter::repeat_with(AtomicBool::default).take(SLOTS).collect();
        HiddenSlots { is_any: AtomicBool::new(false), slots, hidden: Mutex::default() }
    }
}

impl HiddenSlots {
    /// Whether there are any.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
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

    fn change(&self, slots: &SlotSet, change: impl FnOnce(&mut Hidden)) {
        let mut hidden = self.hidden.lock();
        change(&mut hidden);
        for slot in slots.iter() {
            let hides = hidden.leaving.contains(slot) || hidden.coming.values().any(|coming| coming.contains(slot));
            self.slots[usize::from(slot)].store(hides, Relaxed);
        }
        self.is_any.store(!hidden.coming.is_empty() || !hidden.leaving.is_empty(), Relaxed);
    }

    /// Hides the keys of these slots.
    pub fn hide(&self, name: HiddenName, slots: SlotSet) {
        self.change(&slots.clone(), |hidden| _ = hidden.coming.insert(name, slots));
    }

    /// Shows the keys of the slots of that name.
    pub fn show(&self, name: &HiddenName) {
        let slots = self.hidden.lock().coming.get(name).cloned().unwrap_or_default();
        self.change(&slots, |hidden| _ = hidden.coming.remove(name));
    }

    /// Shows the keys of these slots, which are this node's: slots that have come, and slots that were leaving.
    pub fn show_own(&self, own: &SlotSet) {
        self.change(own, |hidden| {
            hidden.coming.retain(|_, slots| !slots.without(own).is_empty());
            hidden.leaving = hidden.leaving.without(own);
        });
    }

    /// Hides the keys of these slots, which are another node's, until they are removed.
    pub fn hide_leaving(&self, slots: &SlotSet) {
        self.change(slots, |hidden| hidden.leaving = hidden.leaving.union(slots));
    }

    /// Ends the removal of the keys of these slots.
    pub fn end_leaving(&self, slots: &SlotSet) {
        self.change(slots, |hidden| hidden.leaving = hidden.leaving.without(slots));
    }

    /// Returns the slots that leave now.
    pub fn leaving(&self) -> SlotSet {
        self.hidden.lock().leaving.clone()
    }

    /// Returns the slots that come now, by name.
    pub fn coming(&self) -> Vec<(HiddenName, SlotSet)> {
        match self.is_any() {
            true => self.hidden.lock().coming.iter().map(|(name, slots)| (*name, slots.clone())).collect(),
            false => Vec::new(),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_hidden_while_they_come_or_leave() {
        let hidden = HiddenSlots::default();
        assert!(!hidden.is_any());
        let [one, two] = [[b'1'; 40], [b'2'; 40]];
        hidden.hide(one, SlotSet::of([5..=9]));
        hidden.hide(two, SlotSet::of([20..=20]));
        assert!(hidden.hides(7) && hidden.hides(20) && !hidden.hides(10));
        assert!(
            hidden.hides_all(5..10) && !hidden.hides_all(5..11) && hidden.hides_any(9..12) && !hidden.hides_any(10..12)
        );
        hidden.hide_leaving(&SlotSet::of([7..=7, 30..=31]));
        hidden.show(&one);
        assert!(hidden.hides(7) && hidden.hides(30) && !hidden.hides(8), "it still leaves");
        assert_eq!(hidden.coming(), [(two, SlotSet::of([20..=20]))]);
        hidden.end_leaving(&SlotSet::of([0..=30]));
        assert!(!hidden.hides(7) && hidden.hides(31) && hidden.hides(20));
        hidden.show(&two);
        assert_eq!((hidden.leaving(), hidden.is_any()), (SlotSet::of([31..=31]), true));
        hidden.end_leaving(&SlotSet::all());
        assert!(!hidden.is_any() && !hidden.hides(31));
        hidden.hide(one, SlotSet::of([5..=9]));
        hidden.hide_leaving(&SlotSet::of([40..=41]));
        hidden.show_own(&SlotSet::of([5..=8, 40..=40]));
        assert!(hidden.hides(5) && !hidden.hides(40) && hidden.hides(41), "not all that comes together is there");
        hidden.show_own(&SlotSet::of([5..=9]));
        assert!(!hidden.hides(5) && hidden.coming().is_empty() && hidden.hides(41));
    }
}
