//! Slots of a replica's primary whose keys have not all come to the replica.
//!
//! ```text
//!   primary   takes slots over, at offset 700 of its stream - says so in a packet, with an offset of 720
//!   replica   hears the packet, and has applied 650: the slots come - 720 applied: they are here
//! ```
//!
//! A replica answers no reads about such slots. It takes them over with the others if its link stood when they came:
//! what it lacks then is what any replica may lack. A node that becomes a replica of one that has more than it had
//! itself, or whose link does not stand, has nothing of the rest. These slots stay where their keys are when it
//! replaces its primary, until the link stands and the stream has come as far.

use super::cluster_bus::Bus;
use super::model::bus_settings::Facts;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct ComingSlots {
    slots: SlotSet,
    /// The slots among them that came while no stream did.
    absent: SlotSet,
    /// The offset of the primary's stream at which all of them are here; None: it has not been told since they came.
    until: Option<i64>,
}

impl ComingSlots {
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Returns the slots whose keys are not here at all.
    pub fn absent(&self) -> &SlotSet {
        &self.absent
    }

    /// These come, too; `with_stream`: the link to their owner stands.
    fn add(&mut self, slots: &SlotSet, with_stream: bool) {
        if !slots.is_empty() {
            (self.slots, self.until) = (self.slots.union(slots), None);
        }
        if !with_stream {
            self.absent = self.absent.union(slots);
        }
    }

    /// A node has told how far its stream is, after it told of its slots.
    pub fn note_offset(&mut self, is_primary: bool, offset: i64) {
        if is_primary && self.until.is_none() {
            self.until = Some(offset);
        }
    }

    /// Looks whether they are all here. True if there were some, and are none any more.
    pub fn have_come(&mut self, facts: &Facts) -> bool {
        let is_there = facts.is_linked && self.until.is_some_and(|until| facts.replication_offset >= until);
        let are_here = is_there && !self.slots.is_empty();
        if is_there {
            *self = ComingSlots::default();
        }
        are_here
    }
}

impl Bus {
    /// Slots whose keys this node has, as far as it is a primary or was synchronized with its own.
    pub(super) fn slots_with_data(&self) -> SlotSet {
        let owner = self.nodes.get(&self.nodes.my_primary());
        owner.map(|owner| owner.slots.without(&self.coming.absent)).unwrap_or_default()
    }

    /// A node has claimed slots, before which this node had the keys of `had`.
    pub(super) fn note_coming(&mut self, claimant: NodeId, had: &SlotSet) {
        if self.nodes.myself().primary == Some(claimant)
            && let Some(primary) = self.nodes.get(&claimant)
        {
            let new = primary.slots.without(had);
            // A node that stood still does not know yet of the end of its link, whose stream it may have missed.
            self.coming.add(&new, self.facts.is_linked && self.follows == 0 && !self.is_resuming());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::Flags;

    /// A replica of a primary with slots 0 to 9.
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

    /// Packets that lie in the links of a node that was stopped come before it hears of the end of its link.
    #[test]
    fn slots_that_a_node_hears_of_when_it_goes_on_have_not_come() {
        let (mut bus, primary) = replica();
        bus.set_facts(facts(650, true), 1);
        bus.stood_still(20_000);
        bus.take_claim(primary, 1, &SlotSet::of([0..=12]));
        assert_eq!(*bus.coming.absent(), SlotSet::of([10..=12]));
    }

    /// The former primary, which was stopped, had been granted slots, takes them when it goes on, and has its place
    /// back by a greater epoch. The link to it has not come to stand when it has failed again.
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
}
