//! Slots that this node takes at the end of a migration, until the map with them serves clients.
//!
//! ```text
//!   claimed -- file written -- map in force -- announced: their owner, whatever follows
//!      +------------------------ stood still: given back to the source, as if they had never been claimed
//! ```
//!
//! The source holds writers back for a limited time. The file of a slow disk may take longer, and a node that stood
//! still does not know how long it took: by then the source may have served clients again. No client and no other node
//! has learned of the claim before the map is in force.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use super::standstill::UnsaidTakeover;
use crate::Millis;
use crate::node_id::NodeId;
use crate::slot_map::SlotMap;
use crate::slot_set::SlotSet;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct PendingTakeover {
    slots: SlotSet,
    /// Former owners of the slots.
    sources: Vec<(u16, Option<NodeId>)>,
    /// Epoch of this node before the takeover, and by it.
    epochs: (u64, u64),
}

impl Bus {
    /// Takes slots that their owner gives up, by an epoch greater than all others.
    pub(super) fn claim_slots(&mut self, slots: &SlotSet) {
        let (myself, before) = (self.nodes.my_id(), self.nodes.myself().config_epoch);
        let others: Vec<(u16, Option<NodeId>)> = slots.iter().map(|slot| (slot, self.nodes.owner(slot))).collect();
        let sources: Vec<_> = others.into_iter().filter(|(_, owner)| *owner != Some(myself)).collect();
        sources.iter().for_each(|(slot, _)| self.assign_slot(*slot, Some(myself)));
        self.bump_for(slots);
        let epochs = (before, self.nodes.myself().config_epoch);
        self.pending.push(PendingTakeover { slots: slots.clone(), sources, epochs });
        self.todo.save(true);
        self.todo.update_state();
        self.todo.broadcast();
    }

    /// Records that clients are served by this map from now on.
    pub fn map_in_force(&mut self, map: &SlotMap, now: Millis) {
        let is_in_force = |slots: &SlotSet| !map.is_replica && slots.iter().all(|slot| map.is_own(slot));
        let before = self.pending.len();
        self.pending.retain(|takeover| !is_in_force(&takeover.slots));
        if self.pending.len() < before {
            self.takeovers_in_force(is_in_force, now);
        }
    }

    /// Gives slots back whose map was never in force.
    pub(super) fn give_pending_back(&mut self) {
        let myself = self.nodes.my_id();
        for takeover in std::mem::take(&mut self.pending).into_iter().rev() {
            let owned = takeover.sources.into_iter().filter(|(slot, _)| self.nodes.owner(*slot) == Some(myself));
            for (slot, source) in owned.collect::<Vec<_>>() {
                let source = source.filter(|id| self.nodes.get(id).is_some_and(|node| node.is_primary()));
                self.assign_slot(slot, source);
            }
            if self.nodes.myself().config_epoch == takeover.epochs.1 {
                self.nodes.myself_mut().config_epoch = takeover.epochs.0;
            }
            let is_other = |unsaid: &UnsaidTakeover| unsaid.epoch != takeover.epochs.0;
            self.unsaid.retain(is_other);
            let text = "Slots that were granted too long ago stay with their former owner: this node stood still before \
                        it served them.";
            self.log(Level::Warning, text.to_string());
            self.todo.save(true);
            self.todo.slot_map_changed();
        }
    }
}
