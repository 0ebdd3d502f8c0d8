//! RESET: the node forgets its cluster.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::bus::model::order_error::OrderError;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

impl Bus {
    /// Forgets all nodes and slots. A replica becomes an empty primary. With `hard` the node gets another name, and
    /// forgets the epochs.
    ///
    /// # Errors
    /// Returns [`OrderError::ResetWithKeys`].
    pub fn reset(&mut self, hard: bool, has_keys: bool, by: &str, now: Millis) -> Result<(), OrderError> {
        let was_replica = self.nodes.myself().is_replica();
        if self.nodes.myself().is_primary() && has_keys {
            return Err(OrderError::ResetWithKeys);
        }
        self.now = now;
        self.log(Level::Notice, format!("Cluster reset (user request from '{by}')."));
        self.close_all_slots();
        self.reset_manual_failover();
        let myself = self.nodes.my_id();
        for id in self.nodes.iter().map(|node| node.id).collect::<Vec<_>>() {
            self.take_all_slots(id);
            if id != myself {
                self.remove_node(id);
            }
        }
        self.forgotten.clear();
        self.retained = SlotSet::none();
        self.takeovers.clear();
        if hard {
            self.current_epoch = 0;
            self.last_vote_epoch = 0;
            self.nodes.myself_mut().config_epoch = 0;
            self.log(Level::Notice, "configEpoch set to 0 via CLUSTER RESET HARD".to_string());
            let name = NodeId::random(&mut self.random);
            self.nodes.rename(myself, name);
            self.log(Level::Notice, format!("Node hard reset, now I'm {name}"));
        }
        self.move_to_new_shard();
        if was_replica {
            self.set_as_primary(self.nodes.my_id());
            self.removals += 1;
            self.effects.push(Effect::FlushAll);
        }
        self.todo.save(true);
        self.todo.update_state();
        self.settle();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::test_bus::{add_primary, bus};
    use crate::bus::{Effect, OrderError};

    #[test]
    fn a_soft_reset_keeps_the_name_and_the_epochs() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.nodes.set_owner(7, Some(other));
        bus.bump_epoch(1);
        let id = bus.nodes().my_id();
        assert_eq!(bus.reset(false, true, "me", 1), Err(OrderError::ResetWithKeys));
        bus.reset(false, false, "me", 1).expect("empty");
        assert_eq!((bus.nodes().len(), bus.nodes().my_id(), bus.current_epoch()), (1, id, 1));
        assert_eq!(bus.nodes().owner(7), None);
    }

    #[test]
    fn a_hard_reset_of_a_replica_leaves_nothing() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.replicate(&other.0, false, 1).expect("empty");
        bus.bump_epoch(1);
        let (id, shard) = (bus.nodes().my_id(), bus.nodes().myself().shard_id);
        bus.take_effects();
        bus.reset(true, true, "me", 1).expect("a replica");
        let myself = bus.nodes().myself();
        assert!(myself.id != id && myself.shard_id != shard && myself.is_primary() && myself.primary.is_none());
        assert_eq!((bus.current_epoch(), myself.config_epoch), (0, 0));
        let effects = bus.take_effects();
        assert!(effects.contains(&Effect::Lead { is_handed_over: false }) && effects.contains(&Effect::FlushAll));
    }
}
