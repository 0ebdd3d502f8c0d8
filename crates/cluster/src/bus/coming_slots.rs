//! Slots of a replica's primary whose keys have not all arrived at the replica.
//!
//! ```text
//!   primary   takes slots over, at offset 700 of its stream - announces them in a packet, with an offset of 720
//!   replica   takes the packet at offset 650: the slots are coming - 720 applied: they have arrived
//! ```
//!
//! A replica answers no reads about such slots. The replica takes them over with the others if its link was up when
//! they came: data that it lacks then is data that any replica may lack. A node that becomes a replica of one with more
//! slots than its own, or whose link is down, has no keys of the additional ones. These slots stay with the owner of
//! their keys when the node replaces its primary, until the link is up and the stream has reached that offset. The end
//! of their import in the stream does as well: it stands behind their keys, whenever the node hears of the claim. A
//! member of the in-sync set takes them, too: its primary waited for its members before it took the slots.

use super::cluster_bus::Bus;
use super::model::bus_settings::Facts;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct ComingSlots {
    slots: SlotSet,
    /// Slots among them that came while the stream was down.
    absent: SlotSet,
    /// Slots whose import has ended in the stream before the primary was heard to claim them.
    unclaimed: SlotSet,
    /// Offset of the primary's stream at which all of them have arrived; None: not announced since they came.
    until: Option<i64>,
}

impl ComingSlots {
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Returns the slots none of whose keys have arrived.
    pub fn absent(&self) -> &SlotSet {
        &self.absent
    }

    /// Adds slots that the primary claims; `with_stream`: the link to their owner is up.
    fn add(&mut self, claimed: &SlotSet, with_stream: bool) {
        let slots = &claimed.without(&self.unclaimed);
        self.unclaimed = self.unclaimed.without(claimed);
        if !slots.is_empty() {
            (self.slots, self.until) = (self.slots.union(slots), None);
        }
        if !with_stream {
            self.absent = self.absent.union(slots);
        }
    }

    /// Records the offset that a node announces after its slots.
    pub fn note_offset(&mut self, is_primary: bool, offset: i64) {
        if is_primary && self.until.is_none() {
            self.until = Some(offset);
        }
    }

    /// Removes the slots if all of them have arrived. Returns whether there were some.
    pub fn have_come(&mut self, facts: &Facts) -> bool {
        let is_there = facts.is_linked && self.until.is_some_and(|until| facts.replication_offset >= until);
        let are_here = is_there && !self.slots.is_empty();
        if is_there {
            *self = ComingSlots { unclaimed: std::mem::take(&mut self.unclaimed), ..ComingSlots::default() };
        }
        are_here
    }

    /// Records the end of an import in the primary's stream; `owned`: the slots that the primary is known to own.
    /// Returns whether slots are no longer coming.
    fn import_ended(&mut self, imported: &SlotSet, owned: &SlotSet) -> bool {
        let before = self.slots.len();
        self.slots = self.slots.without(imported);
        self.absent = self.absent.without(imported);
        self.unclaimed = self.unclaimed.union(&imported.without(owned));
        self.slots.len() < before
    }

    /// Forgets that an import of slots has ended: another node owns them, or the data is replaced.
    pub fn forget_imported(&mut self, slots: &SlotSet) {
        self.unclaimed = self.unclaimed.without(slots);
    }
}

impl Bus {
    /// Returns the slots whose keys this node has: a primary's own, or those that a replica was synchronized with.
    pub(super) fn slots_with_data(&self) -> SlotSet {
        let owner = self.nodes.get(&self.nodes.my_primary());
        owner.map(|owner| owner.slots.without(&self.coming.absent)).unwrap_or_default()
    }

    /// Records the end of an import in the stream of this node's primary.
    pub(super) fn note_imported(&mut self, imported: &SlotSet) {
        let myself = self.nodes.myself();
        if let Some(primary) = myself.primary.filter(|_| !myself.is_primary()).and_then(|id| self.nodes.get(&id))
            && self.coming.import_ended(imported, &primary.slots)
        {
            self.todo.slot_map_changed();
        }
    }

    /// Records a claim of slots; `had`: the slots whose keys this node had before.
    pub(super) fn note_coming(&mut self, claimant: NodeId, had: &SlotSet) {
        if self.nodes.myself().primary == Some(claimant)
            && let Some(primary) = self.nodes.get(&claimant)
        {
            let new = primary.slots.without(had);
            // A node that stood still does not know yet that its link has ended, and may have missed the stream.
            self.coming.add(&new, self.facts.is_linked && self.follows == 0 && !self.is_resuming());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::Flags;

    /// Creates a replica of a primary with slots 0 to 9.
    fn replica() -> (Bus, NodeId) {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        (0..10).for_each(|slot| _ = bus.nodes.set_owner(slot, Some(primary)));
        let myself = bus.nodes.my_id();
        bus.nodes.get_mut(&myself).expect("there").flags = Flags(Flags::MYSELF | Flags::REPLICA);
        bus.nodes.set_primary(myself, Some(primary));
        (bus, primary)
    }

    fn facts(offset: i64, is_linked: bool) -> Facts {
        Facts { replication_offset: offset, is_linked, is_following: true, has_history: true, ..Facts::default() }
    }

    #[test]
    fn slots_are_here_when_the_stream_has_come_as_far() {
        let (mut bus, primary) = replica();
        bus.set_facts(facts(650, true), 1);
        bus.take_claim(primary, 1, &SlotSet::of([0..=12]));
        assert_eq!((bus.coming.slots(), bus.coming.absent()), (&SlotSet::of([10..=12]), &SlotSet::none()));
        bus.set_facts(facts(9000, true), 2);
        assert!(!bus.coming.slots().is_empty(), "nobody knows how far the primary was");
        bus.coming.note_offset(true, 720);
        for (offset, is_linked, are_here) in [(719, true, false), (720, false, false), (720, true, true)] {
            bus.set_facts(facts(offset, is_linked), 3);
            assert_eq!(bus.coming.slots().is_empty(), are_here, "{offset} {is_linked}");
        }
        assert!(bus.slot_map().coming.is_empty());
    }

    /// Packets that wait in the links of a stopped node arrive before the node learns that its link has ended.
    #[test]
    fn slots_that_a_node_hears_of_when_it_goes_on_have_not_come() {
        let (mut bus, primary) = replica();
        bus.set_facts(facts(650, true), 1);
        bus.stood_still(20_000);
        bus.take_claim(primary, 1, &SlotSet::of([0..=12]));
        assert_eq!(*bus.coming.absent(), SlotSet::of([10..=12]));
    }

    /// The end of an import stands behind its keys in the stream. The node may hear of the claim before or after it,
    /// and may find out only then that it stood still, or that its link is down.
    #[test]
    fn slots_whose_import_has_ended_in_the_stream_have_come() {
        for claim_is_first in [false, true] {
            let (mut bus, primary) = replica();
            let other = add_primary(&mut bus);
            (10..=12).for_each(|slot| _ = bus.nodes.set_owner(slot, Some(other)));
            bus.set_facts(facts(650, true), 1);
            bus.stood_still(20_000);
            if claim_is_first {
                bus.take_claim(primary, 9, &SlotSet::of([0..=12]));
                assert_eq!(*bus.coming.absent(), SlotSet::of([10..=12]));
            }
            bus.note_imported(&SlotSet::of([10..=12]));
            if !claim_is_first {
                bus.take_claim(primary, 9, &SlotSet::of([0..=12]));
            }
            assert!(bus.coming.slots().is_empty() && bus.coming.absent().is_empty(), "{claim_is_first}");
            bus.set_facts(facts(650, false), 20_001);
            bus.replace_my_primary();
            assert_eq!(bus.nodes.myself().slots, SlotSet::of([0..=12]), "{claim_is_first}");
        }
    }

    #[test]
    fn an_import_that_has_ended_says_nothing_of_a_later_one() {
        let (mut bus, primary) = replica();
        let other = add_primary(&mut bus);
        bus.set_facts(facts(650, true), 1);
        bus.note_imported(&SlotSet::of([10..=12]));
        bus.take_claim(other, 8, &SlotSet::of([10..=10]));
        bus.set_facts(facts(650, false), 2);
        bus.take_claim(primary, 9, &SlotSet::of([0..=12]));
        assert_eq!(*bus.coming.absent(), SlotSet::of([10..=10]), "another node had it meanwhile");
        bus.take_claim(other, 10, &SlotSet::of([11..=11]));
        bus.take_claim(primary, 11, &SlotSet::of([0..=12]));
        assert_eq!(*bus.coming.absent(), SlotSet::of([10..=11]));
    }

    /// The former primary was stopped while slots were granted to it, takes them when it resumes, and recovers its
    /// place by a greater epoch. That primary fails again before the link to it is up.
    #[test]
    fn slots_that_never_came_stay_with_the_primary_that_is_replaced() {
        let (mut bus, former) = replica();
        bus.replace_my_primary();
        let myself = bus.nodes.my_id();
        assert_eq!(bus.nodes.myself().slots, SlotSet::of([0..=9]));
        bus.nodes.get_mut(&former).expect("there").config_epoch = 13;
        let shard = bus.nodes.myself().shard_id;
        bus.nodes.get_mut(&former).expect("there").shard_id = shard;
        bus.take_claim(former, 13, &SlotSet::of([0..=12]));
        assert_eq!(bus.nodes.myself().primary, Some(former));
        assert_eq!(*bus.coming.absent(), SlotSet::of([10..=12]));
        bus.set_facts(facts(9000, false), 2);
        bus.replace_my_primary();
        assert_eq!(bus.nodes.get(&myself).expect("there").slots, SlotSet::of([0..=9]));
        assert_eq!(bus.nodes.get(&former).expect("there").slots, SlotSet::of([10..=12]));
        assert!(bus.coming.slots().is_empty(), "it leads");
    }

    /// The primary took the slots when all members had their keys, and has lost its data since. The member has started
    /// again, and hears of the slots before its link is up.
    #[test]
    fn a_member_of_the_in_sync_set_takes_slots_that_it_hears_of_without_a_link() {
        for is_in_sync in [false, true] {
            let (mut bus, primary) = replica();
            bus.set_facts(Facts { is_in_sync, ..facts(650, false) }, 1);
            bus.take_claim(primary, 9, &SlotSet::of([0..=12]));
            bus.replace_my_primary();
            let (taken, left) = if is_in_sync { (12, SlotSet::none()) } else { (9, SlotSet::of([10..=12])) };
            assert_eq!(bus.nodes.myself().slots, SlotSet::of([0..=taken]));
            assert_eq!(bus.nodes.get(&primary).expect("there").slots, left);
        }
    }
}
