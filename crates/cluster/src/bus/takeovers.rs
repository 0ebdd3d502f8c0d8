//! Slots that a node takes by epochs that no election agreed to.
//!
//! ```text
//!   claimed -- file written -- map in force -- announced -- known to most for an election's time: forgotten
//!      |                            +-- stood still: the slots are not announced before the node serves again
//!      +------------------------------- stood still: given back to the source, as if they had never been claimed
//! ```
//!
//! The source of a migration holds writers back for a limited time. The file of a slow disk may take longer, and a node
//! that stood still does not know how long it took: by then the source may have served clients again. No client and no
//! other node has learned of a claim before the map is in force.
//!
//! Until most nodes know of the epoch, it does not protect the node's other slots from a successor that got them by
//! votes: votes and packets were on their way while the node waited for its disk, or was cut off.

use crate::Millis;
use crate::node_id::NodeId;
use crate::slot_map::SlotMap;
use crate::slot_set::SlotSet;

/// Ticks after which a takeover is known to others: its packets have left within them.
const TICKS_UNTIL_SAID: u64 = 2;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Takeovers {
    /// Takeovers that others may not know of, from the first to the last.
    unsaid: Vec<Unsaid>,
    /// Takeovers whose map is not in force.
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
struct Unsaid {
    slots: SlotSet,
    /// Epoch of the node before the takeover.
    epoch: u64,
    /// Tick and time of the takeover.
    tick: u64,
    at: Millis,
    /// Whether the node stood still before others had learned of it.
    is_withheld: bool,
}

/// A takeover whose map is not in force.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    slots: SlotSet,
    /// Former owners of the slots.
    pub sources: Vec<(u16, Option<NodeId>)>,
    /// Epoch of the node before the takeover, and by it.
    pub epochs: (u64, u64),
}

impl Takeovers {
    /// Records that the node has taken slots by an epoch of its own; `epoch`: its epoch before.
    pub fn note(&mut self, slots: &SlotSet, epoch: u64, tick: u64, at: Millis) {
        self.unsaid.push(Unsaid { slots: slots.clone(), epoch, tick, at, is_withheld: false });
    }

    /// Records a claim of slots with their former owners, and the node's epochs before and after it.
    pub fn claim(&mut self, slots: &SlotSet, sources: Vec<(u16, Option<NodeId>)>, epochs: (u64, u64)) {
        self.pending.push(Pending { slots: slots.clone(), sources, epochs });
    }

    /// Records that clients are served by this map. Returns whether slots are served that were claimed.
    pub fn in_force(&mut self, map: &SlotMap) -> bool {
        let before = self.pending.len();
        self.pending.retain(|takeover| !map.serves_all(&takeover.slots));
        self.pending.len() < before
    }

    /// Removes and returns the takeovers whose map was never in force, from the last to the first.
    pub fn take_pending(&mut self) -> Vec<Pending> {
        let pending = std::mem::take(&mut self.pending);
        for takeover in &pending {
            self.unsaid.retain(|unsaid| unsaid.epoch != takeover.epochs.0);
        }
        pending.into_iter().rev().collect()
    }

    /// Forgets takeovers before this time: no replica can have been elected without knowledge of their epochs.
    pub fn forget_before(&mut self, time: Millis) {
        self.unsaid.retain(|unsaid| unsaid.at >= time);
    }

    /// Forgets all takeovers: the node does not lead any more.
    pub fn clear(&mut self) {
        self.unsaid.clear();
        self.pending.clear();
    }

    /// Withholds takeovers that others cannot have learned of for certain by this tick.
    pub fn withhold(&mut self, tick: u64) {
        self.unsaid.iter_mut().for_each(|unsaid| unsaid.is_withheld |= tick <= unsaid.tick + TICKS_UNTIL_SAID);
    }

    /// Returns whether a takeover was withheld; none is any more.
    pub fn announce(&mut self) -> bool {
        let is_any = self.told_epoch().is_some();
        self.unsaid.iter_mut().for_each(|unsaid| unsaid.is_withheld = false);
        is_any
    }

    /// Returns the slots that are withheld.
    pub fn withheld(&self) -> SlotSet {
        let withheld = self.unsaid.iter().filter(|unsaid| unsaid.is_withheld);
        withheld.fold(SlotSet::none(), |all, unsaid| all.union(&unsaid.slots))
    }

    /// Returns the last epoch that the node announces, if takeovers are withheld.
    pub fn told_epoch(&self) -> Option<u64> {
        self.unsaid.iter().find(|unsaid| unsaid.is_withheld).map(|unsaid| unsaid.epoch)
    }

    /// Returns the epoch before the first takeover that others may not know of.
    pub fn agreed_epoch(&self) -> Option<u64> {
        self.unsaid.first().map(|unsaid| unsaid.epoch)
    }

    /// Returns the epoch before the takeovers that follow the one by which a slot was taken; None if none does.
    /// `withheld`: only withheld ones count.
    pub fn epoch_before(&self, slot: u16, withheld: bool) -> Option<u64> {
        let takeovers = self.unsaid.iter().filter(|unsaid| unsaid.is_withheld || !withheld);
        takeovers.fold(None, |before, takeover| match before {
            _ if takeover.slots.contains(slot) => None,
            None => Some(takeover.epoch),
            before => before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_protected_by_the_epoch_that_it_was_taken_with() {
        let mut takeovers = Takeovers::default();
        assert_eq!((takeovers.epoch_before(1, false), takeovers.agreed_epoch()), (None, None));
        takeovers.note(&SlotSet::of([7..=7]), 3, 1, 100);
        takeovers.note(&SlotSet::of([8..=8]), 5, 9, 900);
        let before = |takeovers: &Takeovers, withheld| [1, 7, 8].map(|slot| takeovers.epoch_before(slot, withheld));
        assert_eq!(before(&takeovers, false), [Some(3), Some(5), None]);
        assert_eq!(before(&takeovers, true), [None; 3]);
        takeovers.withhold(10);
        assert_eq!(before(&takeovers, true), [Some(5), Some(5), None]);
        assert_eq!((takeovers.withheld(), takeovers.told_epoch()), (SlotSet::of([8..=8]), Some(5)));
        takeovers.forget_before(200);
        assert_eq!((before(&takeovers, false), takeovers.agreed_epoch()), ([Some(5), Some(5), None], Some(5)));
        assert!(takeovers.announce() && !takeovers.announce() && takeovers.withheld().is_empty());
    }

    #[test]
    fn slots_that_were_never_served_are_as_if_they_had_not_been_taken() {
        let mut takeovers = Takeovers::default();
        let slots = SlotSet::of([7..=7]);
        takeovers.note(&SlotSet::of([6..=6]), 2, 1, 100);
        takeovers.note(&slots, 3, 1, 100);
        takeovers.claim(&slots, vec![(7, None)], (3, 4));
        assert!(!takeovers.in_force(&SlotMap::default()));
        assert_eq!(takeovers.take_pending().len(), 1);
        assert_eq!((takeovers.agreed_epoch(), takeovers.epoch_before(6, false)), (Some(2), None));
        assert!(takeovers.take_pending().is_empty());
    }
}
