//! Slots that get another owner.

use super::cluster_bus::Bus;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

impl Bus {
    /// Gives a slot to another owner, or to none. Clients are unsubscribed from the slot's channels.
    pub(super) fn assign_slot(&mut self, slot: u16, owner: Option<NodeId>) {
        if self.nodes.set_owner(slot, owner).is_some() {
            self.todo.drop_channels(slot);
        }
    }

    /// Takes all slots from a node. Returns how many it had.
    pub(super) fn take_all_slots(&mut self, node: NodeId) -> usize {
        let slots = self.nodes.get(&node).map(|node| node.slots.clone()).unwrap_or_default();
        slots.iter().for_each(|slot| self.assign_slot(slot, None));
        slots.len()
    }

    /// Stops all moves of slots.
    pub(super) fn close_all_slots(&mut self) {
        self.nodes.migrating.clear();
        self.nodes.importing.clear();
    }

    /// Unsubscribes clients from channels that are not served here.
    pub(super) fn drop_channels_of_others(&mut self) {
        let owner = self.nodes.my_primary();
        let own = self.nodes.get(&owner).map(|node| node.slots.clone()).unwrap_or_default();
        SlotSet::all().without(&own).iter().for_each(|slot| self.todo.drop_channels(slot));
    }
}
