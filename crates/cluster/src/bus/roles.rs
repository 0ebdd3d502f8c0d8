//! Changes of role: primaries become replicas, replicas become primaries.

use super::cluster_bus::Bus;
use super::coming_slots::ComingSlots;
use super::model::bus_effect::{Effect, Level};
use super::model::takeover_state::ManualFailover;
use crate::data_history::DataHistory;
use crate::node::Flags;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

impl Bus {
    /// Makes a replica a primary.
    pub(super) fn set_as_primary(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id).filter(|node| !node.is_primary()) else {
            return;
        };
        let (had_primary, shard_id, is_myself) = (node.primary.is_some(), node.shard_id, node.is_myself());
        let name = self.human_name(id);
        let text = format!("Reconfiguring node {id} ({name}) as primary for shard {shard_id}");
        self.log(Level::Notice, text);
        self.nodes.set_primary(id, None);
        if let Some(node) = self.nodes.get_mut(&id) {
            if had_primary && !is_myself {
                node.flags.set(Flags::MIGRATE_TO, true);
            }
            node.flags.set(Flags::REPLICA, false);
            node.flags.set(Flags::PRIMARY, true);
        }
        if is_myself {
            self.coming = ComingSlots::default();
            (self.history, self.files_history) = (DataHistory::Primary, DataHistory::Primary);
            self.removals += 1;
            self.effects.push(Effect::Lead { is_handed_over: self.manual.primary_offset.is_some() });
            self.todo.leads();
        }
        self.todo.save(false);
        self.todo.update_state();
    }

    /// Makes this node, which owns no slot, a replica of another one.
    pub(super) fn become_replica_of(&mut self, primary: NodeId, close_slots: bool, needs_full_sync: bool) {
        // A replica that wins by an earlier vote has an earlier epoch than this node when it leads again.
        self.voted_for_replica = None;
        let Some(shard_id) = self.nodes.get(&primary).map(|node| node.shard_id) else {
            return;
        };
        let myself = self.nodes.my_id();
        if myself == primary {
            return;
        }
        self.takeovers.clear();
        let history = match (needs_full_sync, self.nodes.myself().is_primary()) {
            (true, _) => DataHistory::Other,
            (false, true) => DataHistory::Own,
            (false, false) => DataHistory::Primary,
        };
        self.history = self.history.max(history);
        self.files_history = self.files_history.max(history);
        let epoch_of = |id: NodeId| self.nodes.get(&id).map_or(0, |node| self.nodes.epoch_of(node));
        if epoch_of(myself) > epoch_of(primary) {
            // Others would take this node's new role for an old one, by its primary's epoch.
            self.current_epoch = self.current_epoch.max(epoch_of(myself).saturating_add(1));
        }
        let flags = &mut self.nodes.myself_mut().flags;
        flags.set(Flags::PRIMARY | Flags::MIGRATE_TO, false);
        flags.set(Flags::REPLICA, true);
        self.migrations.sources_know();
        if close_slots {
            self.close_all_slots();
        }
        self.nodes.set_primary(myself, Some(primary));
        (self.coming, self.retained) = (ComingSlots::default(), SlotSet::none());
        self.update_shard_id(myself, shard_id);
        self.synchronizations = self.facts.synchronizations;
        self.follow(primary, needs_full_sync);
        self.drop_channels_of_others();
        self.reset_manual_failover();
        self.election.start = 0;
        self.todo.save(false);
    }

    /// Makes replication follow the primary at its present address.
    pub(super) fn follow(&mut self, primary: NodeId, needs_full_sync: bool) {
        if let Some(node) = self.nodes.get(&primary) {
            let address = &node.address;
            let port = if self.settings.tls_replication { address.tls_port } else { address.tcp_port };
            self.effects.push(Effect::Follow { ip: address.ip.clone(), port, needs_full_sync });
            self.follows += 1;
        }
    }

    /// Records that replication follows the primary of an [`Effect::Follow`].
    pub fn followed(&mut self) {
        self.follows = self.follows.saturating_sub(1);
        self.look_again();
    }

    /// Records a node's shard. A replica belongs to its primary's shard, whatever it announces.
    pub(super) fn update_shard_id(&mut self, id: NodeId, shard_id: NodeId) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let root = self.nodes.root_primary(node).shard_id;
        if node.is_replica() && root != shard_id {
            let text = format!(
                "Shard id {shard_id} update request for node id {id} diverges from existing primary shard id {root}, \
                 rejecting!"
            );
            self.log(Level::Notice, text);
            return;
        }
        if node.shard_id != shard_id
            && let Some(node) = self.nodes.get_mut(&id)
        {
            node.shard_id = shard_id;
            self.todo.save(false);
        }
        let myself = self.nodes.myself_mut();
        if myself.id != id && myself.primary == Some(id) && myself.shard_id != shard_id {
            myself.shard_id = shard_id;
            self.todo.save(true);
        }
    }

    /// Returns whether two nodes are in one shard.
    pub(super) fn are_in_same_shard(&self, one: NodeId, other: NodeId) -> bool {
        let shard = |id: NodeId| self.nodes.get(&id).map(|node| node.shard_id);
        shard(one) == shard(other)
    }

    /// Ends any manual failover. A primary that had paused for one resumes writes.
    pub(super) fn reset_manual_failover(&mut self) {
        if self.manual.replica.is_some() {
            self.effects.push(Effect::Unpause);
        }
        self.manual = ManualFailover::default();
    }

    /// Returns a node's name in the log.
    pub(super) fn human_name(&self, id: NodeId) -> String {
        self.nodes.get(&id).map(|node| node.human_name(self.settings.tls_cluster)).unwrap_or_default()
    }

    /// Returns this node's name, with its shard, in the log.
    pub fn own_name_in_shard(&self) -> String {
        self.named_in_shard(self.nodes.my_id())
    }

    /// Returns a node's name, with its shard, in the log.
    pub(super) fn named_in_shard(&self, id: NodeId) -> String {
        let shard = self.nodes.get(&id).map(|node| node.shard_id.to_string()).unwrap_or_default();
        format!("{id} ({}) in shard {shard}", self.human_name(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::cluster_bus::Bus;
    use crate::bus::model::bus_settings::Facts;
    use crate::bus::test_bus::{add_primary, bus};

    /// The replica's files hold the data of its former primary.
    #[test]
    fn a_replica_that_starts_before_its_first_synchronization_never_stands() {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        bus.nodes.set_owner(7, Some(primary));
        bus.become_replica_of(primary, true, true);
        bus.settle();
        let (address, settings) = (bus.announced.clone(), bus.settings.clone());
        let load = |text: &[u8]| {
            let random = fastrand::Rng::with_seed(1);
            Bus::load(text, address.clone(), settings.clone(), random, 1).expect("its own file")
        };
        let facts = |is_linked| Facts { is_following: true, is_linked, has_history: true, ..Facts::default() };
        let mut again = load(&bus.conf());
        again.followed();
        again.set_facts(facts(false), 2);
        assert!(!again.has_history());
        again.take_effects();
        again.set_facts(facts(true), 3);
        again.settle();
        assert!(again.has_history());
        assert!(again.take_effects().iter().any(|effect| matches!(effect, Effect::Save { .. })));
        let mut between_two_looks = load(&bus.conf());
        between_two_looks.followed();
        between_two_looks.set_facts(facts(false), 2);
        between_two_looks.set_facts(Facts { synchronizations: 1, ..facts(false) }, 3);
        assert!(between_two_looks.has_history(), "the link has come up, and is down again");
        let mut synchronized = load(&again.conf());
        synchronized.followed();
        synchronized.set_facts(facts(false), 4);
        assert!(synchronized.has_history(), "it was synchronized with this primary");
    }

    fn linked() -> Facts {
        Facts { is_following: true, is_linked: true, synchronizations: 1, has_history: true, ..Facts::default() }
    }

    fn load_again(bus: &Bus, facts: Facts) -> Bus {
        let random = fastrand::Rng::with_seed(1);
        let mut again = Bus::load(&bus.conf(), bus.announced.clone(), bus.settings.clone(), random, 1).expect("a file");
        again.followed();
        again.set_facts(facts, 2);
        again
    }

    /// A snapshot that was read from the link is in no file before the next save.
    #[test]
    fn files_are_of_the_former_history_until_the_data_is_saved() {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        bus.become_replica_of(primary, true, true);
        bus.settle();
        bus.followed();
        bus.set_facts(Facts { is_unsaved: true, ..linked() }, 2);
        assert!(bus.has_history(), "its data is the primary's");
        let unlinked = Facts { is_linked: false, synchronizations: 0, ..linked() };
        assert!(!load_again(&bus, unlinked).has_history(), "its files are not");
        bus.take_effects();
        bus.set_facts(linked(), 3);
        bus.settle();
        assert!(bus.take_effects().iter().any(|effect| matches!(effect, Effect::Save { .. })));
        assert!(load_again(&bus, unlinked).has_history(), "it was saved");
    }

    /// Its own writes may be no part of the history of the replica that has replaced it.
    #[test]
    fn a_former_primary_stands_when_its_successor_has_synchronized_it() {
        let mut bus = bus();
        bus.add_slots(&[(7, 7)], 1).expect("free");
        let successor = add_primary(&mut bus);
        let shard = bus.nodes.myself().shard_id;
        bus.nodes.get_mut(&successor).expect("there").shard_id = shard;
        bus.take_claim(successor, 9, &SlotSet::of([7..=7]));
        bus.settle();
        bus.followed();
        assert!(bus.nodes.myself().is_replica());
        let unlinked = Facts { is_linked: false, synchronizations: 0, ..linked() };
        bus.set_facts(unlinked, 2);
        assert!(!bus.has_history());
        bus.set_facts(Facts { is_in_sync: true, ..unlinked }, 3);
        assert!(bus.has_history(), "all acknowledged writes are here");
        assert!(!load_again(&bus, unlinked).has_history());
        bus.set_facts(linked(), 4);
        assert!(bus.has_history());
        assert!(load_again(&bus, unlinked).has_history());
    }
}
