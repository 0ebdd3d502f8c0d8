//! A replica of a primary with enough replicas moves to a primary without any.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node::Flags;
use crate::node_id::NodeId;
use std::collections::BTreeMap;

/// Time for which a primary has no replica before one moves to it: its own may only be late.
const DELAY: Millis = 5000;

impl Bus {
    /// Returns how many working replicas each primary has.
    pub(in crate::bus) fn working_replicas(&self) -> BTreeMap<NodeId, usize> {
        let mut replicas: BTreeMap<NodeId, usize> = BTreeMap::new();
        for primary in self.nodes.iter().filter(|node| !node.has_failed()).filter_map(|node| node.primary) {
            *replicas.entry(primary).or_default() += 1;
        }
        replicas
    }

    /// Moves this node to a primary without replicas if it is the replica that has to move: of the replicas of
    /// primaries with most replicas, the one with the smallest name.
    pub(in crate::bus) fn consider_migration(&mut self) {
        let replicas = self.working_replicas();
        let count = |id: NodeId| replicas.get(&id).copied().unwrap_or(0);
        let Some(mine) = self.nodes.myself().primary else {
            return;
        };
        let working = self.nodes.iter().filter(|node| node.is_primary() && !node.has_failed());
        let working = working.filter(|node| !node.flags.has(Flags::NOADDR | Flags::HANDSHAKE));
        let (mut orphans, mut most) = (0, 0);
        for node in working {
            let replicas = count(node.id);
            let may_be_given = !node.slots.is_empty() && node.flags.has(Flags::MIGRATE_TO);
            orphans += usize::from(replicas == 0 && may_be_given);
            most = most.max(replicas);
        }
        if orphans == 0 || most < 2 || count(mine) != most || !self.health.is_up {
            return;
        }
        let unsuspected =
            |id: NodeId| self.nodes.replicas(id).filter(|node| !node.flags.has(Flags::PFAIL | Flags::FAIL)).count();
        if unsuspected(mine) <= self.settings.migration_barrier {
            return;
        }
        if let Some(target) = self.orphan_for_me(&replicas, most) {
            let named = self.named_in_shard(target);
            self.log(Level::Notice, format!("Migrating to orphaned primary {named}"));
            self.become_replica_of(target, true, true);
            self.todo.save(true);
            self.todo.broadcast();
        }
    }

    fn orphan_for_me(&mut self, replicas: &BTreeMap<NodeId, usize>, most: usize) -> Option<NodeId> {
        let (now, mut target) = (self.now, None);
        for node in self.nodes.iter_mut() {
            let has_none = replicas.get(&node.id).is_none_or(|replicas| *replicas == 0);
            let is_orphan = has_none && !node.is_replica() && !node.has_failed() && node.flags.has(Flags::MIGRATE_TO);
            match is_orphan {
                true if node.orphaned_since == 0 => node.orphaned_since = now,
                true => {}
                false => node.orphaned_since = 0,
            }
            if is_orphan && target.is_none() && !node.slots.is_empty() {
                target = Some((node.id, node.orphaned_since));
            }
        }
        let has_most = |id: NodeId| replicas.get(&id) == Some(&most);
        let candidates = self.nodes.iter().filter(|node| node.primary.is_some_and(has_most)).map(|node| node.id);
        let is_candidate = candidates.min() == Some(self.nodes.my_id());
        let (target, since) = target?;
        (is_candidate && now - since > DELAY).then_some(target)
    }
}
