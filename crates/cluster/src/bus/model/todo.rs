//! Work to be done at the end of an input.

use crate::slot_set::SlotSet;

/// Work that was requested since the last end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Todo {
    pub save: bool,
    pub is_durable: bool,
    pub update_state: bool,
    pub slot_map_changed: bool,
    pub handle_failover: bool,
    pub handle_manual_failover: bool,
    pub broadcast: bool,
    pub dropped_channels: SlotSet,
    pub lost_slots: SlotSet,
    pub leads: bool,
}

impl Todo {
    /// Requests a save before anything is announced; `durable`: the file must outlive a loss of power.
    pub fn save(&mut self, durable: bool) {
        self.save = true;
        self.slot_map_changed = true;
        self.is_durable |= durable;
    }

    /// Requests a new decision whether the cluster is up.
    pub fn update_state(&mut self) {
        self.update_state = true;
    }

    pub fn slot_map_changed(&mut self) {
        self.slot_map_changed = true;
    }

    /// Requests a check whether this node's primary has to be replaced.
    pub fn handle_failover(&mut self) {
        self.handle_failover = true;
    }

    /// Requests the next step of a manual failover.
    pub fn handle_manual_failover(&mut self) {
        self.handle_manual_failover = true;
    }

    pub fn waits_for_offset(&self) -> bool {
        self.handle_manual_failover
    }

    /// Requests a pong to all other nodes at once.
    pub fn broadcast(&mut self) {
        self.broadcast = true;
    }

    /// Requests that clients are unsubscribed from a slot's channels.
    pub fn drop_channels(&mut self, slot: u16) {
        self.dropped_channels.insert(slot);
    }

    /// Requests the end of the former primary's imports: this node leads, and they end once it is known which slots it
    /// takes.
    pub fn leads(&mut self) {
        self.leads = true;
    }

    /// Requests the removal of keys of slots.
    pub fn lose_slots(&mut self, slots: &SlotSet) {
        self.lost_slots = self.lost_slots.union(slots);
    }
}
