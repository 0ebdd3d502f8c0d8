//! Claims of slots: a primary owns the slots that it claims if no other claims them with a greater epoch. A node that
//! loses its last slot this way follows the new owner.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node::Node;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;

/// Result of a claim.
#[derive(Default)]
struct Outcome {
    /// Slots that this node lost.
    lost: SlotSet,
    /// Number of slots that this node, or its primary, lost.
    lost_by_shard: usize,
    /// Whether the claimant took some of these slots as the successor of their owner, and not by a migration.
    is_succession: bool,
    /// Slots that went from one shard to another, and their former owners.
    moved: Vec<(NodeId, u16)>,
}

impl Bus {
    /// Takes another node's claim.
    pub(in crate::bus) fn take_claim(&mut self, claimant: NodeId, epoch: u64, claimed: &SlotSet) {
        if claimant == self.nodes.my_id() {
            self.log(Level::Notice, "Discarding UPDATE message about myself.".to_string());
            return;
        }
        let served_as = self.nodes.my_primary();
        let is_in_my_shard = self.are_in_same_shard(claimant, self.nodes.my_id());
        let (mut outcome, had) = (Outcome::default(), self.slots_with_data());
        for slot in claimed.iter() {
            self.take_claimed_slot(slot, claimant, epoch, served_as, is_in_my_shard, &mut outcome);
        }
        // Slots that the claimant does not claim any more stay its own until another node claims them: clients are
        // still sent there. But this node does not announce them to others. A packet that was overtaken by one with a
        // greater epoch has an earlier claim.
        let claimant_now = self.nodes.get(&claimant).filter(|node| node.config_epoch <= epoch);
        let held = claimant_now.map(|node| node.slots.clone()).unwrap_or_default();
        held.without(claimed).iter().for_each(|slot| self.nodes.set_unclaimed(slot, true));
        let moving: SlotSet = self.nodes.migrating.keys().chain(self.nodes.importing.keys()).copied().collect();
        moving.without(claimed).iter().for_each(|slot| self.take_moving_slot(slot, claimant, epoch));
        if outcome.lost_by_shard > 0 && is_in_my_shard {
            // This node was replaced, and its source may know of the slots from the new primary.
            self.migrations.sources_know();
        }
        self.log_moved(&outcome.moved, claimant);
        let myself = self.nodes.myself();
        let is_other = myself.primary != Some(claimant);
        let both_have_nothing = claimed.is_empty() && myself.slots.is_empty();
        let is_newer = self.nodes.epoch_of(myself) < epoch;
        let is_empty_succession = is_other && both_have_nothing && is_newer && is_in_my_shard;
        let took_over = outcome.lost_by_shard > 0 || is_empty_succession;
        outcome.is_succession |= is_empty_succession;
        let shard_is_empty = self.nodes.get(&served_as).is_none_or(|node| node.slots.is_empty());
        if took_over && shard_is_empty {
            self.lost_all_to(claimant, claimed.len() >= outcome.lost_by_shard, is_in_my_shard, &outcome);
        } else if is_in_my_shard {
            // Other nodes may have the rest of this node's slots by now, or take it within a moment.
            self.retained = self.retained.union(&outcome.lost);
        } else {
            self.lose_keys_in(&outcome.lost);
        }
        self.note_coming(claimant, &had);
    }

    fn take_claimed_slot(
        &mut self,
        slot: u16,
        claimant: NodeId,
        epoch: u64,
        served_as: NodeId,
        is_in_my_shard: bool,
        outcome: &mut Outcome,
    ) {
        let owner = self.nodes.owner(slot);
        if owner == Some(claimant) {
            self.nodes.set_unclaimed(slot, false);
            return;
        }
        let is_unclaimed = self.nodes.is_unclaimed(slot);
        let known = if is_in_my_shard { self.epoch_for_successor(slot) } else { self.epoch_of_slot(slot) };
        let is_older = known.is_some_and(|known| known < epoch);
        let is_granted = self.granted.contains(slot) && self.is_granted_to(slot, claimant, epoch);
        if !is_unclaimed && !is_older && !is_granted {
            return;
        }
        // A node may still claim the slots that it gave to this one, with an epoch that it has got meanwhile.
        if owner == Some(self.nodes.my_id()) && !is_granted && self.has_just_come_from(slot, claimant, epoch) {
            return;
        }
        if let Some(owner) = owner {
            if !is_unclaimed && !self.are_in_same_shard(owner, claimant) {
                outcome.moved.push((owner, slot));
            }
            if owner == self.nodes.my_id() {
                outcome.lost.insert(slot);
            }
            outcome.lost_by_shard += usize::from(owner == served_as);
            outcome.is_succession |= owner == served_as && is_in_my_shard && !is_granted;
        }
        if !is_in_my_shard && let Some(to) = self.nodes.migrating.remove(&slot) {
            let named = self.named_in_shard(to);
            self.log(Level::Notice, format!("Slot {slot} is no longer being migrated to node {named}."));
        }
        if let Some(from) = self.nodes.importing.get(&slot).copied().filter(|from| *from != claimant) {
            self.source_changed(slot, from, claimant);
        }
        self.assign_slot(slot, Some(claimant));
        if self.nodes.myself().primary != Some(claimant) {
            self.coming.forget_imported(&SlotSet::of([slot..=slot]));
        }
        self.todo.save(true);
        self.todo.update_state();
    }

    /// Records another owner of a slot that was coming here: the replacement of its old one, or a third one.
    fn source_changed(&mut self, slot: u16, from: NodeId, claimant: NodeId) {
        if self.are_in_same_shard(claimant, from) {
            self.replace_source(slot, claimant);
        } else {
            let named = self.named_in_shard(from);
            self.log(Level::Notice, format!("Slot {slot} is no longer being imported from node {named}."));
            self.nodes.importing.remove(&slot);
        }
    }

    /// Takes a moving slot that the claimant does not claim, but may be the other end of.
    fn take_moving_slot(&mut self, slot: u16, claimant: NodeId, epoch: u64) {
        if let Some(to) = self.nodes.migrating.get(&slot).copied().filter(|to| *to != claimant)
            && let Some(target) = self.nodes.get(&to)
            && (target.config_epoch < epoch || target.is_replica())
            && self.are_in_same_shard(to, claimant)
        {
            self.replace_target(slot, claimant);
            self.todo.save(true);
            self.todo.update_state();
        }
        let myself = self.nodes.my_id();
        if self.nodes.myself().is_primary() && self.nodes.importing.get(&slot) == Some(&claimant) {
            // The source has given the slot to this node, or to the primary that this node has replaced.
            let named = self.named_in_shard(claimant);
            let text = format!(
                "Slot {slot} is no longer being imported from node {named}; Clear my importing source for the slot."
            );
            self.log(Level::Notice, text);
            self.nodes.importing.remove(&slot);
            self.todo.save(true);
            if self.nodes.owner(slot) != Some(myself) {
                self.assign_slot(slot, Some(myself));
                self.bump_for(&SlotSet::of([slot..=slot]));
                self.todo.update_state();
            }
        }
    }

    /// Makes this node follow the claimant: it has no slot any more. Where another node of the shard has its place, and
    /// the last slot went on from there, the node follows its successor, which may need the node's data. A primary of
    /// the shard that has taken no slot from this node has other data.
    fn lost_all_to(&mut self, claimant: NodeId, all_went_there: bool, is_in_my_shard: bool, outcome: &Outcome) {
        let other_primary = self.other_primary_of_shard().filter(|_| !is_in_my_shard);
        let shares_history = outcome.is_succession || !self.retained.is_empty();
        let follows_shard = is_in_my_shard || other_primary.is_some();
        let claimant = other_primary.unwrap_or(claimant);
        let named = self.named_in_shard(claimant);
        if self.settings.allow_replica_migration || follows_shard {
            let text = format!("Configuration change detected. Reconfiguring myself as a replica of node {named}");
            self.log(Level::Notice, text);
            // Moves of slots continue in the shard. The data of a shared history is not sent anew.
            self.become_replica_of(claimant, !follows_shard, !shares_history);
            self.todo.save(true);
            self.todo.update_state();
            self.todo.broadcast();
        } else if self.nodes.myself().is_primary() && all_went_there {
            let text = format!("My last slot was migrated to node {named}. I am now an empty primary.");
            self.log(Level::Notice, text);
            self.lose_keys_in(&outcome.lost);
        }
    }

    /// Returns another primary of this node's shard that has slots.
    pub(in crate::bus) fn other_primary_of_shard(&self) -> Option<NodeId> {
        let shard = self.nodes.myself().shard_id;
        let is_successor = |node: &&Node| !node.is_myself() && node.has_vote() && node.shard_id == shard;
        self.nodes.iter().find(is_successor).map(|node| node.id)
    }

    /// Removes the keys of slots that a node of this node's shard has taken: this node has heard others since, and
    /// still leads.
    pub(in crate::bus) fn remove_retained(&mut self) {
        if !self.retained.is_empty() && !self.may_be_replaced() {
            let lost = std::mem::take(&mut self.retained).without(&self.nodes.myself().slots);
            self.lose_keys_in(&lost);
        }
    }

    fn lose_keys_in(&mut self, lost: &SlotSet) {
        if !lost.is_empty() {
            self.todo.lose_slots(lost);
        }
    }

    fn log_moved(&mut self, moved: &[(NodeId, u16)], to: NodeId) {
        let mut start = 0;
        for at in 1..=moved.len() {
            let goes_on = moved.get(at).is_some_and(|(from, slot)| {
                let (last_from, last) = moved[at - 1];
                *from == last_from && *slot == last + 1
            });
            if goes_on {
                continue;
            }
            let (from, first) = moved[start];
            let last = moved[at - 1].1;
            let (from, to) = (self.named_in_shard(from), self.named_in_shard(to));
            self.log(Level::Notice, format!("Slot range [{first}, {last}] is migrated from node {from} to node {to}."));
            start = at;
        }
    }

    /// Moves all slots of a replaced primary to the node of its shard that replaced it, which is also the new end of
    /// moving slots. Returns how many slots there were, and how many moved from it and to it.
    pub(in crate::bus) fn move_slots(&mut self, from: NodeId, to: NodeId) -> (usize, usize, usize) {
        let slots = self.nodes.get(&from).map(|node| node.slots.clone()).unwrap_or_default();
        for slot in slots.iter() {
            self.assign_slot(slot, Some(to));
            // The new primary has not claimed the slots itself. The former one may have lost some before, without this
            // node's knowledge.
            self.nodes.set_unclaimed(slot, true);
        }
        let of_node = |moving: &BTreeMap<u16, NodeId>| -> Vec<u16> {
            moving.iter().filter(|(_, node)| **node == from).map(|(slot, _)| *slot).collect()
        };
        let (importing, migrating) = (of_node(&self.nodes.importing), of_node(&self.nodes.migrating));
        importing.iter().for_each(|slot| self.replace_source(*slot, to));
        migrating.iter().for_each(|slot| self.replace_target(*slot, to));
        (slots.len(), importing.len(), migrating.len())
    }

    /// Makes the node that has replaced a slot's owner the source of that slot.
    fn replace_source(&mut self, slot: u16, by: NodeId) {
        let named = self.named_in_shard(by);
        let text =
            format!("Failover occurred in migration source. Update importing source for slot {slot} to node {named}.");
        self.log(Level::Verbose, text);
        self.nodes.importing.insert(slot, by);
    }

    /// Makes the node that has replaced a slot's target the new target.
    fn replace_target(&mut self, slot: u16, by: NodeId) {
        let named = self.named_in_shard(by);
        let text = format!("Failover occurred in migration target. Slot {slot} is now being migrated to node {named}.");
        self.log(Level::Verbose, text);
        self.nodes.migrating.insert(slot, by);
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::test_bus::{add_primary, bus};
    use crate::bus::{Bus, Effect};
    use crate::node_id::NodeId;
    use crate::slot_set::SlotSet;

    /// Returns a primary that has just started, and the node of its shard that replaced it before. Slot 9 went on from
    /// there, to a node that is not heard yet.
    fn replaced() -> (Bus, NodeId) {
        let mut bus = bus();
        bus.add_slots(&[(0, 9)], 1).expect("free");
        let (successor, shard) = (add_primary(&mut bus), bus.nodes.myself().shard_id);
        bus.nodes.get_mut(&successor).expect("known").shard_id = shard;
        bus.take_effects();
        bus.take_claim(successor, 20, &SlotSet::of([0..=8]));
        bus.settle();
        (bus, successor)
    }

    fn removed(bus: &mut Bus) -> SlotSet {
        let lost = bus.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::LoseSlots(slots) => Some(slots),
            _ => None,
        });
        lost.fold(SlotSet::none(), |all, slots| all.union(&slots))
    }

    /// The successor may lose its data: then only the replaced primary has it.
    #[test]
    fn a_replaced_primary_retains_its_keys_until_it_has_heard_who_has_its_other_slots() {
        let (mut bus, successor) = replaced();
        bus.keys_found(&SlotSet::of([0..=9]), 2);
        assert!(removed(&mut bus).is_empty() && bus.has_keys_to_remove());
        let third = add_primary(&mut bus);
        bus.take_claim(third, 21, &SlotSet::of([9..=9]));
        bus.settle();
        assert_eq!(bus.nodes.myself().primary, Some(successor));
        bus.health.is_up = true;
        bus.tick(3);
        assert!(removed(&mut bus).is_empty() && bus.retained.is_empty(), "it follows its successor with its data");
    }

    #[test]
    fn a_replaced_primary_that_still_leads_when_it_serves_removes_the_keys() {
        let (mut bus, _) = replaced();
        assert!(removed(&mut bus).is_empty());
        bus.health.is_up = true;
        bus.tick(3);
        assert_eq!(removed(&mut bus), SlotSet::of([0..=8]));
        assert!(bus.retained.is_empty());
    }

    /// The other primary was a target that stood still, and was replaced, when a source had granted it slots.
    #[test]
    fn a_second_primary_of_the_shard_is_followed_as_one_with_other_data() {
        let mut bus = bus();
        bus.add_slots(&[(0, 9)], 1).expect("free");
        let (second, third) = (add_primary(&mut bus), add_primary(&mut bus));
        bus.nodes.get_mut(&second).expect("known").shard_id = bus.nodes.myself().shard_id;
        bus.take_claim(second, 20, &SlotSet::of([10..=19]));
        bus.take_effects();
        bus.take_claim(third, 21, &SlotSet::of([0..=9]));
        bus.settle();
        assert_eq!(bus.nodes.myself().primary, Some(second));
        let follows = bus.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::Follow { needs_full_sync, .. } => Some(needs_full_sync),
            _ => None,
        });
        assert_eq!(follows.collect::<Vec<_>>(), [true]);
    }

    /// Packets on one link overtake those on the other.
    #[test]
    fn a_packet_that_was_overtaken_by_a_later_claim_does_not_take_slots_back() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        for (epoch, slots) in [(1, 0..=6), (3, 0..=9), (1, 0..=6), (4, 0..=8)] {
            let node = bus.nodes.get_mut(&other).expect("known");
            node.config_epoch = node.config_epoch.max(epoch);
            bus.take_claim(other, epoch, &SlotSet::of([slots]));
            let known = bus.nodes.get(&other).expect("known").slots.clone();
            assert_eq!(known.iter().any(|slot| bus.nodes.is_unclaimed(slot)), epoch == 4);
        }
        assert_eq!((bus.nodes.is_unclaimed(8), bus.nodes.is_unclaimed(9)), (false, true));
    }

    /// The replica was elected while this node waited for its disk, and the node took a slot before it heard of that.
    #[test]
    fn a_takeover_that_nobody_knows_of_does_not_win_back_slots_from_an_elected_successor() {
        for (times, keeps) in [(2..2, SlotSet::of([7..=7])), (90_000..90_003, SlotSet::of([0..=7]))] {
            let mut bus = bus();
            bus.add_slots(&[(0, 6)], 1).expect("free");
            let replica = add_primary(&mut bus);
            bus.nodes.get_mut(&replica).expect("known").shard_id = bus.nodes.myself().shard_id;
            bus.current_epoch = 12;
            bus.nodes.myself_mut().config_epoch = 11;
            bus.claim_slots(&SlotSet::of([7..=7]));
            assert_eq!(bus.nodes.myself().config_epoch, 13);
            bus.settle();
            times.clone().for_each(|now| bus.tick(now));
            bus.take_claim(replica, 13, &SlotSet::of([0..=6]));
            assert_eq!(bus.nodes.myself().slots, keeps, "{times:?}");
        }
    }
}
