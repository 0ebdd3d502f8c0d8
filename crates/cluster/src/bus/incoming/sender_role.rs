//! Role of a packet's sender: primary, or replica of a primary.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node::Flags;
use crate::node_id::NodeId;
use crate::packet::Header;

impl Bus {
    /// Takes the role that a node announces. Returns false for a packet that is older than the known state: nothing of
    /// it counts then.
    pub(in crate::bus) fn take_role(&mut self, sender: NodeId, header: &Header, before: Flags) -> bool {
        if !header.is_replica {
            if before.has(Flags::REPLICA) {
                self.set_as_primary(sender);
            }
            return true;
        }
        let primary = header.primary.filter(|id| *id != sender && self.nodes.get(id).is_some());
        if before.has(Flags::PRIMARY) && !self.primary_became_replica(sender, primary, header) {
            return false;
        }
        if let Some(primary) = primary
            && self.nodes.get(&sender).is_some_and(|node| node.primary != Some(primary))
        {
            self.replica_changed_primary(sender, primary);
        }
        true
    }

    fn primary_became_replica(&mut self, sender: NodeId, primary: Option<NodeId>, header: &Header) -> bool {
        match primary.filter(|primary| self.are_in_same_shard(*primary, sender)) {
            Some(primary) => {
                let epoch = |id: NodeId| self.nodes.get(&id).map_or(0, |node| self.nodes.epoch_of(node));
                let known = epoch(sender).max(epoch(primary));
                // A primary that gave its last slots away may follow one with a smaller epoch.
                let is_later = header.current_epoch > known;
                if is_later && primary == self.nodes.my_id() && known > header.config_epoch {
                    self.bump_without_consensus();
                }
                if known > header.config_epoch && !is_later {
                    let text = format!(
                        "Ignore stale message from {}; gossip config epoch: {}, current config epoch: {known}",
                        self.named_in_shard(sender),
                        header.config_epoch
                    );
                    self.log(Level::Notice, text);
                    return false;
                }
                if self.nodes.get(&primary).is_some_and(|node| node.is_replica()) {
                    self.learn_of_failover(sender, primary, header.config_epoch);
                }
            }
            None => {
                let named = self.named_in_shard(sender);
                let slots = self.take_all_slots(sender);
                let text = format!("Node {named} is no longer primary; removed all {slots} slot(s) it used to own");
                self.log(Level::Notice, text);
            }
        }
        if let Some(node) = self.nodes.get_mut(&sender) {
            node.flags.set(Flags::PRIMARY | Flags::MIGRATE_TO, false);
            node.flags.set(Flags::REPLICA, true);
            // Slots that the successor has not claimed belong to another node, whose claim has not arrived here.
            let left = node.slots.clone();
            left.iter().for_each(|slot| self.nodes.set_unclaimed(slot, true));
        }
        self.todo.save(true);
        self.todo.update_state();
        true
    }

    /// Takes a failover: the sender was replaced by its replica. The new primary's packet is expected, but the sender's
    /// is enough.
    fn learn_of_failover(&mut self, sender: NodeId, primary: NodeId, epoch: u64) {
        if primary == self.nodes.my_id() {
            return;
        }
        let (slots, importing, migrating) = self.move_slots(sender, primary);
        self.set_as_primary(primary);
        if let Some(node) = self.nodes.get_mut(&primary) {
            node.config_epoch = epoch;
        }
        if slots > 0 {
            let shard = self.nodes.get(&sender).map(|node| node.shard_id.to_string()).unwrap_or_default();
            let (old, new) = (self.human_name(sender), self.human_name(primary));
            let text = format!(
                "A failover occurred in shard {shard}; node {sender} ({old}) lost {slots} slot(s) and failed over to \
                 node {primary} ({new}) with a config epoch of {epoch}"
            );
            self.log(Level::Notice, text);
        }
        let new = self.named_in_shard(primary);
        for (moving, end, what) in
            [(importing, "source", "importing source"), (migrating, "target", "migrating target")]
        {
            if moving > 0 {
                let text =
                    format!("A failover occurred in migration {end}. Update {what} of {moving} slot(s) to node {new}.");
                self.log(Level::Notice, text);
            }
        }
    }

    fn replica_changed_primary(&mut self, sender: NodeId, primary: NodeId) {
        let (replica, named) = (self.human_name(sender), self.named_in_shard(primary));
        self.log(Level::Notice, format!("Node {sender} ({replica}) is now a replica of node {named}"));
        self.nodes.set_primary(sender, Some(primary));
        self.follow_no_replica();
        if let Some(shard_id) = self.nodes.get(&primary).map(|node| node.shard_id) {
            self.update_shard_id(sender, shard_id);
        }
        self.todo.save(false);
    }

    /// Makes this node follow the primary of its primary, if that is a replica now.
    fn follow_no_replica(&mut self) {
        let myself = self.nodes.myself();
        let mine = myself.primary.and_then(|id| self.nodes.get(&id));
        let Some(next) = mine.and_then(|mine| mine.primary).filter(|next| *next != myself.id) else {
            return;
        };
        let text = format!(
            "I'm a sub-replica! Reconfiguring myself as a replica of {next} from {}",
            mine.map(|mine| mine.id.to_string()).unwrap_or_default()
        );
        self.log(Level::Notice, text);
        let needs_full_sync = !self.are_in_same_shard(next, self.nodes.my_id());
        self.become_replica_of(next, true, needs_full_sync);
        self.todo.save(true);
        self.todo.update_state();
        self.todo.broadcast();
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::Flags;
    use crate::slot_set::SlotSet;

    /// A primary's slot 9 went to a third node, which this node does not know as the owner. Then a replica took the
    /// primary's place, and slots 0 to 8.
    #[test]
    fn a_node_that_was_replaced_is_taken_to_claim_nothing() {
        for successor_first in [false, true] {
            let mut bus = bus();
            let (old, successor, third) = (add_primary(&mut bus), add_primary(&mut bus), add_primary(&mut bus));
            let shard = bus.nodes.get(&old).expect("there").shard_id;
            let node = bus.nodes.get_mut(&successor).expect("there");
            (node.shard_id, node.flags) = (shard, Flags(Flags::REPLICA));
            bus.nodes.set_primary(successor, Some(old));
            bus.take_claim(old, 5, &SlotSet::of([0..=9]));
            bus.nodes.get_mut(&old).expect("there").config_epoch = 5;
            bus.take_claim(old, 5, &SlotSet::of([0..=8]));
            let file = String::from_utf8_lossy(&bus.conf()).into_owned();
            assert!(file.contains(" 0-8\n") && !file.contains("0-9"), "{file}");
            if successor_first {
                bus.set_as_primary(successor);
                bus.take_claim(successor, 7, &SlotSet::of([0..=8]));
                // The table is that of a node that has just started.
                bus.nodes.set_unclaimed(9, false);
            }
            let mut header = bus.header(0);
            (header.is_replica, header.primary, header.config_epoch) = (true, Some(successor), 7);
            assert!(bus.take_role(old, &header, Flags(Flags::PRIMARY)));
            assert!(bus.nodes.is_unclaimed(9) && bus.nodes.is_unclaimed(8) != successor_first);
            assert_eq!(bus.nodes.owner(8), Some(successor));
            bus.take_claim(third, 4, &SlotSet::of([9..=9]));
            assert_eq!(bus.nodes.owner(9), Some(third));
        }
    }

    /// A primary whose last slots have gone follows the other primary of its shard, which has an older epoch.
    #[test]
    fn a_primary_that_follows_one_with_a_smaller_epoch_is_believed_as_it_knows_a_later_epoch() {
        for is_me in [false, true] {
            let mut bus = bus();
            let (sender, other) = (add_primary(&mut bus), add_primary(&mut bus));
            let primary = if is_me { bus.nodes.my_id() } else { other };
            let shard = bus.nodes.get(&primary).expect("there").shard_id;
            bus.nodes.get_mut(&sender).expect("there").shard_id = shard;
            for (id, epoch) in [(sender, 8), (primary, 7)] {
                bus.nodes.get_mut(&id).expect("there").config_epoch = epoch;
            }
            bus.current_epoch = 8;
            let mut header = bus.header(0);
            (header.is_replica, header.primary, header.config_epoch) = (true, Some(primary), 7);
            header.current_epoch = 8;
            assert!(!bus.take_role(sender, &header, Flags(Flags::PRIMARY)), "it may be from before the election");
            header.current_epoch = 9;
            bus.current_epoch = 9;
            assert!(bus.take_role(sender, &header, Flags(Flags::PRIMARY)));
            assert_eq!(bus.nodes.get(&primary).expect("there").config_epoch, if is_me { 10 } else { 7 });
        }
    }
}
