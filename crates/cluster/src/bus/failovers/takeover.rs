//! The end of each failover: the replica becomes the primary.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::slot_set::SlotSet;

impl Bus {
    /// Takes the place of this node's primary, and all slots that it claims. Slots whose keys have not arrived here
    /// stay the former primary's, which alone has them. A member of the in-sync set has all keys: the primary took the
    /// slots when its members had them. The epoch was taken already.
    pub(in crate::bus) fn replace_my_primary(&mut self) {
        let myself = self.nodes.myself();
        let (id, shard_id) = (myself.id, myself.shard_id);
        let Some(old) = myself.primary.filter(|_| !myself.is_primary()) else {
            return;
        };
        let name = self.human_name(old);
        let absent = if self.facts.is_in_sync { SlotSet::none() } else { self.coming.absent().clone() };
        let text =
            format!("Setting myself to primary in shard {shard_id} after failover; my old primary is {old} ({name})");
        self.log(Level::Notice, text);
        self.set_as_primary(id);
        let slots = self.nodes.get(&old).map(|node| node.slots.clone()).unwrap_or_default();
        // The primary has given slots that it does not claim to another node, and no vote was asked for.
        let is_taken = |slot: &u16| !absent.contains(*slot) && !self.nodes.is_unclaimed(*slot);
        let taken = slots.iter().filter(is_taken).collect::<Vec<_>>();
        taken.into_iter().for_each(|slot| self.assign_slot(slot, Some(id)));
        self.update_state();
        self.todo.save(true);
        self.todo.broadcast();
        self.reset_manual_failover();
        self.election.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::model::bus_effect::Effect;
    use crate::bus::test_bus::{add_primary, bus};

    #[test]
    fn a_node_that_leads_expects_a_predecessor_that_paused_for_it_and_no_other_one() {
        for paused_at in [None, Some(7)] {
            let mut bus = bus();
            let primary = add_primary(&mut bus);
            bus.become_replica_of(primary, true, true);
            bus.manual.primary_offset = paused_at;
            bus.replace_my_primary();
            let is_handed_over = paused_at.is_some();
            assert!(bus.take_effects().contains(&Effect::Lead { is_handed_over }));
        }
    }
}
