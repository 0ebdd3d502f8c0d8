//! What is to be done at the end of an input.

use crate::slot_set::SlotSet;

/// What was asked for since.
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
    /// What is known has changed: it is saved before anybody is told. What must not be forgotten even if power is lost
    /// is `durable`.
    pub fn save(&mut self, durable: bool) {
        self.save = true;
        self.slot_map_changed = true;
        self.is_durable |= durable;
    }

    /// Whether the cluster is up is to be judged again.
    pub fn update_state(&mut self) {
        self.update_state = true;
    }

    pub fn slot_map_changed(&mut self) {
        self.slot_map_changed = true;
    }

    /// This node's primary may have to be replaced.
    pub fn handle_failover(&mut self) {
        self.handle_failover = true;
    }

    /// A manual failover may go on.
    pub fn handle_manual_failover(&mut self) {
        self.handle_manual_failover = true;
    }

    pub fn waits_for_offset(&self) -> bool {
        self.handle_manual_failover
    }

    /// All others are told at once.
    pub fn broadcast(&mut self) {
        self.broadcast = true;
    }

    /// Subscribers in a slot are to go elsewhere.
    pub fn drop_channels(&mut self, slot: u16) {
        self.dropped_channels.insert(slot);
    }

    /// This node leads now: what its former primary imported ends, as soon as it is said which slots it has taken over.
    pub fn leads(&mut self) {
        self.leads = true;
    }

    /// Keys of slots are to be removed.
    pub fn lose_slots(&mut self, slots: &SlotSet) {
        self.lost_slots = self.lost_slots.union(slots);
    }
}
