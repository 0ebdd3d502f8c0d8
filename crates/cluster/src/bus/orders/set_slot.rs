//! SETSLOT: one slot moves, step by step, as its mover orders.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::bus::model::order_error::OrderError;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

/// New state of a slot. Nodes are named by the client's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotAction<'a> {
    /// The slot goes to that node.
    Migrating(&'a [u8]),
    /// The slot comes from that node.
    Importing(&'a [u8]),
    /// The slot neither comes nor goes.
    Stable,
    /// The slot belongs to that node.
    Node(&'a [u8]),
}

impl Bus {
    /// Checks whether the order would be refused. `has_keys`: the slot has keys; `from_primary`: this node's primary
    /// has sent the order.
    ///
    /// # Errors
    /// Returns the refusal.
    pub fn check_set_slot(
        &self,
        slot: u16,
        action: SlotAction<'_>,
        has_keys: bool,
        from_primary: bool,
    ) -> Result<Option<NodeId>, OrderError> {
        let myself = self.nodes.myself();
        if !from_primary && myself.is_replica() {
            return Err(OrderError::SetSlotOnReplica);
        }
        if self.migrations.is_importing() {
            return Err(OrderError::SlotImportInProgress);
        }
        if self.migrations.is_exporting() {
            return Err(OrderError::SlotExportInProgress);
        }
        let is_mine = self.nodes.owner(slot) == Some(myself.id);
        let other = |name: &[u8]| {
            let node = self.nodes.named(name).ok_or_else(|| OrderError::DontKnowNode(name.to_vec()))?;
            match () {
                () if node.is_myself() => Err(OrderError::TargetIsMyself),
                () if node.is_replica() => Err(OrderError::TargetNotPrimary),
                () => Ok(Some(node.id)),
            }
        };
        match action {
            SlotAction::Migrating(_) if myself.is_primary() && !is_mine => Err(OrderError::NotOwner(slot)),
            SlotAction::Importing(_) if is_mine => Err(OrderError::AlreadyOwner(slot)),
            SlotAction::Migrating(name) | SlotAction::Importing(name) => other(name),
            SlotAction::Stable => Ok(None),
            SlotAction::Node(name) => {
                let node = self.nodes.named(name).ok_or_else(|| OrderError::UnknownNode(name.to_vec()))?;
                match () {
                    () if node.is_replica() => Err(OrderError::TargetNotPrimary),
                    () if is_mine && !node.is_myself() && has_keys => Err(OrderError::StillHoldsKeys(slot)),
                    // Its replicas have keys that it lacks, and a successor would have none of the keys that came.
                    () if is_mine != node.is_myself() && self.facts.is_unconfirmed => {
                        Err(OrderError::MayLackAcknowledged(slot))
                    }
                    () => Ok(Some(node.id)),
                }
            }
        }
    }

    /// Carries out the order.
    ///
    /// # Errors
    /// Returns the refusal.
    pub fn set_slot(
        &mut self,
        slot: u16,
        action: SlotAction<'_>,
        has_keys: bool,
        from_primary: bool,
        now: Millis,
    ) -> Result<(), OrderError> {
        let node = self.check_set_slot(slot, action, has_keys, from_primary)?;
        self.now = now;
        let name = node.map(|id| format!("{id} ({})", self.human_name(id))).unwrap_or_default();
        match (action, node) {
            (SlotAction::Migrating(_), Some(to)) => {
                self.log(Level::Notice, format!("Migrating slot {slot} to node {name}"));
                self.nodes.migrating.insert(slot, to);
            }
            (SlotAction::Importing(_), Some(from)) => {
                self.log(Level::Notice, format!("Importing slot {slot} from node {name}"));
                self.nodes.importing.insert(slot, from);
            }
            (SlotAction::Node(_), Some(to)) => self.give_slot(slot, to, has_keys),
            _ => {
                self.log(Level::Notice, format!("Marking slot {slot} stable"));
                self.nodes.importing.remove(&slot);
                self.nodes.migrating.remove(&slot);
            }
        }
        self.todo.save(false);
        self.todo.update_state();
        self.settle();
        Ok(())
    }

    fn give_slot(&mut self, slot: u16, to: NodeId, has_keys: bool) {
        let named = self.named_in_shard(to);
        self.log(Level::Notice, format!("Assigning slot {slot} to node {named}"));
        if !has_keys {
            self.nodes.migrating.remove(&slot);
        }
        let my_primary = self.nodes.root_primary(self.nodes.myself()).id;
        let was_mine = self.nodes.owner(slot) == Some(my_primary);
        self.assign_slot(slot, Some(to));
        let is_empty = self.nodes.get(&my_primary).is_some_and(|node| node.slots.is_empty());
        if was_mine && is_empty {
            self.lost_last_slot(to);
        }
        let myself = self.nodes.myself();
        let (is_mine, is_my_primary) = (to == myself.id, Some(to) == myself.primary);
        if !is_mine && !is_my_primary {
            return;
        }
        let was_importing = self.nodes.importing.remove(&slot).is_some();
        if was_importing && is_mine {
            // Other nodes believe the claim by its epoch.
            if self.bump_for(&SlotSet::of([slot..=slot])) {
                self.log(Level::Notice, format!("ConfigEpoch updated after importing slot {slot}"));
            }
            self.todo.broadcast();
        }
    }

    /// Follows the node that has the last slot now, if replicas may move: this node's primary owns no slot any more.
    /// Where another node of the shard has taken the other slots, this node follows that one, which may need its data.
    fn lost_last_slot(&mut self, to: NodeId) {
        let is_in_my_shard = self.are_in_same_shard(to, self.nodes.my_id());
        let other_primary = self.other_primary_of_shard().filter(|_| !is_in_my_shard);
        let follows_shard = is_in_my_shard || other_primary.is_some();
        let to = other_primary.unwrap_or(to);
        let named = self.named_in_shard(to);
        if self.settings.allow_replica_migration || follows_shard {
            let text = format!("Lost my last slot during slot migration. Reconfiguring myself as a replica of {named}");
            self.log(Level::Notice, text);
            self.become_replica_of(to, !follows_shard, self.retained.is_empty());
            self.todo.save(true);
            self.todo.update_state();
            self.todo.broadcast();
        } else if self.nodes.myself().is_primary() {
            let text = format!("My last slot was migrated to node {named}. I am now an empty primary.");
            self.log(Level::Notice, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SlotAction;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::bus::{Effect, Facts, OrderError};
    use crate::node::Flags;
    use crate::slot_set::SlotSet;

    #[test]
    fn a_slot_comes() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.nodes.set_owner(5, Some(other));
        let (name, me) = (other.0, bus.nodes().my_id().0);
        let refused = |result: Result<(), OrderError>, text: &str| {
            assert_eq!(result.expect_err("refused").to_string(), text);
        };
        refused(bus.set_slot(5, SlotAction::Migrating(&name), false, false, 1), "I'm not the owner of hash slot 5");
        refused(bus.set_slot(5, SlotAction::Importing(b"x"), false, false, 1), "I don't know about node x");
        refused(bus.set_slot(5, SlotAction::Importing(&me), false, false, 1), "Target node is myself");
        refused(bus.set_slot(5, SlotAction::Node(b"x"), false, false, 1), "Unknown node x");
        bus.set_slot(5, SlotAction::Importing(&name), false, false, 1).expect("may come");
        assert_eq!(bus.nodes().importing.get(&5), Some(&other));
        bus.set_slot(5, SlotAction::Node(&me), true, false, 1).expect("is here");
        assert!(bus.nodes().importing.is_empty());
        assert_eq!((bus.nodes().owner(5), bus.nodes().myself().config_epoch), (Some(bus.nodes().my_id()), 1));
        refused(bus.set_slot(5, SlotAction::Importing(&name), false, false, 1), "I'm already the owner of hash slot 5");
        assert_eq!(bus.set_slot(5, SlotAction::Node(&name), true, false, 1), Err(OrderError::StillHoldsKeys(5)));
    }

    #[test]
    fn the_last_slot_goes_and_its_owner_follows_it() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.nodes.set_owner(5, Some(bus.nodes().my_id()));
        let name = other.0;
        bus.set_slot(5, SlotAction::Migrating(&name), false, false, 1).expect("may go");
        bus.take_effects();
        bus.set_slot(5, SlotAction::Node(&name), false, false, 1).expect("has gone");
        let myself = bus.nodes().myself();
        assert!(myself.is_replica() && !myself.is_primary() && bus.nodes().migrating.is_empty());
        assert_eq!((myself.primary, myself.shard_id), (Some(other), bus.nodes().get(&other).expect("there").shard_id));
        let follows = |effect: &Effect| matches!(effect, Effect::Follow { needs_full_sync: true, .. });
        assert!(bus.take_effects().iter().any(follows));
        assert!(bus.nodes().get(&other).is_some_and(|node| node.flags.has(Flags::MIGRATE_TO)));
        assert_eq!(bus.set_slot(5, SlotAction::Stable, false, false, 1), Err(OrderError::SetSlotOnReplica));
        bus.set_slot(5, SlotAction::Stable, false, true, 1).expect("from the primary");
    }

    #[test]
    fn an_empty_primary_stays_one_where_replicas_do_not_move() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.nodes.set_owner(5, Some(bus.nodes().my_id()));
        let mut settings = bus.settings().clone();
        settings.allow_replica_migration = false;
        bus.set_settings(settings, 1);
        bus.set_slot(5, SlotAction::Node(&other.0), false, false, 1).expect("has gone");
        assert!(bus.nodes().myself().is_primary());
    }

    #[test]
    fn a_replaced_primary_follows_its_successor_when_its_last_slot_goes() {
        for replicas_move in [true, false] {
            let mut bus = bus();
            let (successor, third) = (add_primary(&mut bus), add_primary(&mut bus));
            bus.settings.allow_replica_migration = replicas_move;
            bus.add_slots(&[(0, 5)], 1).expect("free");
            let shard = bus.nodes.myself().shard_id;
            bus.nodes.get_mut(&successor).expect("there").shard_id = shard;
            bus.take_claim(successor, 9, &SlotSet::of([0..=4]));
            bus.settle();
            bus.take_effects();
            assert!(bus.nodes.myself().is_primary());
            bus.set_slot(5, SlotAction::Node(&third.0), false, false, 1).expect("has gone");
            assert_eq!(bus.nodes.myself().primary, Some(successor), "{replicas_move}");
            let effects = bus.take_effects();
            let follows = |effect: &Effect| matches!(effect, Effect::Follow { needs_full_sync: false, .. });
            assert!(
                effects.iter().any(follows) && !effects.iter().any(|effect| matches!(effect, Effect::LoseSlots(_)))
            );
        }
    }

    /// It has lost its data, and its replicas have not. A slot without keys here may have some there.
    #[test]
    fn a_primary_that_may_lack_acknowledged_writes_gives_and_takes_no_slot() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        let (name, me) = (other.0, bus.nodes().my_id().0);
        bus.nodes.set_owner(5, Some(bus.nodes().my_id()));
        bus.nodes.set_owner(6, Some(other));
        bus.set_slot(6, SlotAction::Importing(&name), false, false, 1).expect("may come");
        bus.set_facts(Facts { is_unconfirmed: true, ..Facts::default() }, 1);
        assert_eq!(bus.set_slot(5, SlotAction::Node(&name), false, false, 1), Err(OrderError::MayLackAcknowledged(5)));
        assert_eq!(bus.set_slot(6, SlotAction::Node(&me), true, false, 1), Err(OrderError::MayLackAcknowledged(6)));
        bus.set_slot(6, SlotAction::Node(&name), false, false, 1).expect("nothing changes");
        bus.set_facts(Facts::default(), 2);
        bus.set_slot(5, SlotAction::Node(&name), false, false, 2).expect("has gone");
    }
}
