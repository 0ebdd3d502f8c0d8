//! Config epochs: of two primaries that claim a slot the one with the greater epoch owns it. No two primaries retain
//! the same epoch.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

impl Bus {
    /// Returns the greatest known epoch.
    fn greatest_epoch(&self) -> u64 {
        self.nodes.iter().map(|node| node.config_epoch).max().unwrap_or(0).max(self.current_epoch)
    }

    /// Takes an epoch greater than all known ones without an election, unless this node has the greatest. Returns
    /// whether it did. Two nodes may take the same epoch; the collision is found and resolved.
    pub(super) fn bump_without_consensus(&mut self) -> bool {
        let mine = self.nodes.myself().config_epoch;
        if mine != 0 && mine == self.greatest_epoch() {
            return false;
        }
        self.current_epoch = self.current_epoch.saturating_add(1);
        self.nodes.myself_mut().config_epoch = self.current_epoch;
        self.todo.save(true);
        self.todo.broadcast();
        self.log(Level::Notice, format!("New configEpoch set to {}", self.current_epoch));
        true
    }

    /// Takes an epoch for slots that this node takes. Returns whether it is a new one. Slots that the node had before
    /// are not protected by it from a successor.
    pub(super) fn bump_for(&mut self, slots: &SlotSet) -> bool {
        let before = self.nodes.myself().config_epoch;
        let is_new = self.bump_without_consensus();
        if is_new {
            self.note_takeover(slots, before);
        }
        is_new
    }

    /// Records that this node has taken slots by an epoch that no election agreed to; `epoch`: its epoch before.
    pub(super) fn note_takeover(&mut self, slots: &SlotSet, epoch: u64) {
        self.takeovers.note(slots, epoch, self.ticks, self.now);
    }

    /// Resolves a collision of epochs: of two primaries the one with the smaller name takes another epoch.
    pub(super) fn handle_epoch_collision(&mut self, sender: NodeId) {
        let myself = self.nodes.myself();
        let Some(other) = self.nodes.get(&sender) else {
            return;
        };
        let collides = other.config_epoch == myself.config_epoch && other.is_primary() && myself.is_primary();
        // A greater epoch would win back slots that this node has granted, or that a successor has. The collision is
        // found again.
        if !collides || other.id <= myself.id || !self.granted.is_empty() || self.may_be_replaced() {
            return;
        }
        self.note_takeover(&SlotSet::none(), myself.config_epoch);
        self.current_epoch = self.current_epoch.saturating_add(1);
        let (epoch, name) = (self.current_epoch, self.human_name(sender));
        self.nodes.myself_mut().config_epoch = epoch;
        self.todo.save(true);
        self.todo.broadcast();
        let text = format!("configEpoch collision with node {sender} ({name}). configEpoch set to {epoch}");
        self.log(Level::Notice, text);
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::cluster_bus::Bus;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node_id::NodeId;
    use crate::slot_set::SlotSet;

    /// The node took a slot by epoch 7, and the successor was elected with the same one; the node starts again.
    #[test]
    fn a_node_that_starts_again_knows_which_epoch_was_agreed_on() {
        let mut bus = bus();
        bus.add_slots(&[(0, 9)], 1).expect("free");
        let successor = add_primary(&mut bus);
        bus.nodes.get_mut(&successor).expect("known").shard_id = bus.nodes.myself().shard_id;
        (bus.current_epoch, bus.nodes.myself_mut().config_epoch) = (6, 5);
        bus.bump_for(&SlotSet::of([9..=9]));
        let random = fastrand::Rng::with_seed(1);
        let mut again = Bus::load(&bus.conf(), bus.announced.clone(), bus.settings.clone(), random, 1).expect("a file");
        assert_eq!(again.nodes.myself().config_epoch, 7);
        again.take_claim(successor, 7, &SlotSet::of([0..=8]));
        assert_eq!(again.nodes.get(&successor).expect("known").slots.len(), 9);
    }

    /// The node was cut off from most primaries; a replica of it was elected with epoch 6.
    #[test]
    fn a_collision_does_not_win_slots_back_from_a_successor() {
        for knows_of_cut in [false, true] {
            let mut bus = bus();
            bus.add_slots(&[(0, 9)], 1).expect("free");
            let (successor, other) = (add_primary(&mut bus), add_primary(&mut bus));
            bus.nodes.get_mut(&successor).expect("known").shard_id = bus.nodes.myself().shard_id;
            let larger = NodeId::parse(&[b'f'; 40]).expect("a name");
            bus.nodes.rename(other, larger);
            bus.health.is_up = !knows_of_cut;
            (bus.current_epoch, bus.nodes.myself_mut().config_epoch) = (6, 5);
            bus.nodes.get_mut(&larger).expect("known").config_epoch = 5;
            bus.handle_epoch_collision(larger);
            assert_eq!(bus.nodes.myself().config_epoch, if knows_of_cut { 5 } else { 7 });
            bus.take_claim(successor, 6, &SlotSet::of([0..=9]));
            assert_eq!(bus.nodes.get(&successor).expect("known").slots.len(), 10);
        }
    }
}
