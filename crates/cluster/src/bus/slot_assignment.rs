//! Slots that get another owner.

use super::cluster_bus::Bus;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

impl Bus {
    /// A slot is another's from now on, or nobody's. A client that has subscribed to a channel in it goes elsewhere.
    pub(super) fn assign_slot(&mut self, slot: u16, owner: Option<NodeId>) {
        if self.nodes.set_owner(slot, owner).is_some() {
            self.todo.drop_channels(slot);
        }
    }

    /// A node owns nothing any more. Answers how many slots it had.
    pub(super) fn take_all_slots(&mut self, node: NodeId) -> usize {
        let slots = self.nodes.get(&node).map(|node| node.slots.clone()).unwrap_or_default();
        slots.iter().for_each(|slot| self.assign_slot(slot, None));
        slots.len()
    }

    /// No slot comes or goes.
    pub(super) fn close_all_slots(&mut self) {
        self.nodes.migrating.clear();
        self.nodes.importing.clear();
    }

    /// A client that has subscribed to channels that are not served here goes elsewhere.
    pub(super) fn drop_channels_of_others(&mut self) {
        let owner = self.nodes.my_primary();
        let own = self.nodes.get(&owner).map(|node| node.slots.clone()).unwrap_or_default();
        SlotSet::all().without(&own).iter().for_each(|slot| self.todo.drop_channels(slot));
    }
}
