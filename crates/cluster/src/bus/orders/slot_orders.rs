//! ADDSLOTS, DELSLOTS, FLUSHSLOTS, SET-CONFIG-EPOCH, BUMPEPOCH, and keys in slots of other nodes.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::bus::model::order_error::OrderError;
use crate::migration::JobState;
use crate::slot_set::SlotSet;
use crate::{Millis, SLOTS};

impl Bus {
    /// Makes this node the owner of slots without an owner. Ranges are inclusive.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if a range is invalid, or a slot has an owner or was named twice.
    pub fn add_slots(&mut self, ranges: &[(u16, u16)], now: Millis) -> Result<(), OrderError> {
        let slots = self.check_slots(ranges, false)?;
        self.change_slots(&slots, false, now);
        Ok(())
    }

    /// Makes this node, which is alone, the owner of all slots. The node serves at once, as no other can have replaced
    /// it. Returns false if it knows others.
    pub fn own_all(&mut self, now: Millis) -> bool {
        if self.nodes.len() > 1 {
            return false;
        }
        self.health.first_judged = Some(Millis::MIN / 2);
        let missing = (0..SLOTS as u16).filter(|slot| self.nodes.owner(*slot).is_none());
        let missing = SlotSet::of(missing.map(|slot| slot..=slot).collect::<Vec<_>>());
        self.change_slots(&missing, false, now);
        true
    }

    /// Takes these slots' owners away, as far as this node knows them.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if a range is invalid, or a slot has no owner or was named twice.
    pub fn del_slots(&mut self, ranges: &[(u16, u16)], now: Millis) -> Result<(), OrderError> {
        let slots = self.check_slots(ranges, true)?;
        self.change_slots(&slots, true, now);
        Ok(())
    }

    fn check_slots(&self, ranges: &[(u16, u16)], delete: bool) -> Result<SlotSet, OrderError> {
        let mut slots = SlotSet::none();
        for &(start, end) in ranges {
            if start > end {
                return Err(OrderError::StartAfterEnd(start, end));
            }
            for slot in start..=end {
                match (delete, self.nodes.owner(slot).is_some()) {
                    (true, false) => return Err(OrderError::SlotUnassigned(slot)),
                    (false, true) => return Err(OrderError::SlotBusy(slot)),
                    _ if !slots.insert(slot) => return Err(OrderError::SlotTwice(slot)),
                    _ => {}
                }
            }
        }
        Ok(slots)
    }

    fn change_slots(&mut self, slots: &SlotSet, delete: bool, now: Millis) {
        self.now = now;
        let owner = (!delete).then(|| self.nodes.my_id());
        for slot in slots.iter() {
            self.nodes.importing.remove(&slot);
            self.assign_slot(slot, owner);
        }
        self.todo.save(false);
        self.todo.update_state();
        self.settle();
    }

    /// Takes all of this node's slots away.
    ///
    /// # Errors
    /// Returns [`OrderError::FlushSlotsWithKeys`].
    pub fn flush_slots(&mut self, has_keys: bool, now: Millis) -> Result<(), OrderError> {
        if has_keys {
            return Err(OrderError::FlushSlotsWithKeys);
        }
        self.now = now;
        self.take_all_slots(self.nodes.my_id());
        self.todo.save(false);
        self.todo.update_state();
        self.settle();
        Ok(())
    }

    /// Gives this node, which knows no other, its first epoch.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if the number is no epoch, other nodes are known, or the node has an epoch.
    pub fn set_config_epoch(&mut self, epoch: i64, now: Millis) -> Result<(), OrderError> {
        let wanted = u64::try_from(epoch).map_err(|_| OrderError::InvalidEpoch(epoch))?;
        if self.nodes.len() > 1 {
            return Err(OrderError::EpochKnowsOthers);
        }
        if self.nodes.myself().config_epoch != 0 {
            return Err(OrderError::EpochNotZero);
        }
        self.now = now;
        self.nodes.myself_mut().config_epoch = wanted;
        self.current_epoch = self.current_epoch.max(wanted);
        self.log(Level::Notice, format!("configEpoch set to {wanted} via CLUSTER SET-CONFIG-EPOCH"));
        self.todo.save(false);
        self.todo.update_state();
        self.settle();
        Ok(())
    }

    /// Takes the greatest epoch. Returns whether it is new, and the epoch.
    pub fn bump_epoch(&mut self, now: Millis) -> (bool, u64) {
        self.now = now;
        let is_new = self.bump_without_consensus();
        self.settle();
        (is_new, self.nodes.myself().config_epoch)
    }

    /// Requests that the file is written to the disk.
    pub fn save_config(&mut self) {
        self.save(true, true);
    }

    /// Records that the keys of an [`Effect::LoseSlots`](crate::bus::Effect::LoseSlots) or
    /// [`Effect::FlushAll`](crate::bus::Effect::FlushAll) are removed.
    pub fn lost_keys_removed(&mut self) {
        self.removals = self.removals.saturating_sub(1);
        self.look_again();
    }

    /// Looks again for keys that were found while others were about to be removed, or while the role changed.
    pub(in crate::bus) fn look_again(&mut self) {
        if self.removals == 0 && self.follows == 0 && std::mem::take(&mut self.looks_again) {
            self.removals += 1;
            self.effects.push(Effect::LookAtKeys);
        }
    }

    /// Returns whether keys of other nodes' slots, or of failed imports, are about to be removed: they must not be
    /// confused with keys that arrive with these slots.
    pub fn has_keys_to_remove(&self) -> bool {
        self.removals > 0
            || !self.retained.is_empty()
            || self.migrations.jobs().any(|job| job.state == JobState::CleaningUp)
    }

    /// Takes the slots that have keys. A primary takes slots without an owner; keys of others' slots are to be removed.
    /// The driver calls it once the data is loaded, and after each [`Effect::Lead`](crate::bus::Effect::Lead) and
    /// [`Effect::LookAtKeys`](crate::bus::Effect::LookAtKeys).
    ///
    /// Keys do not make this node an owner while keys are about to be removed, or the role is about to change: they may
    /// belong to former slots, and their removal is no loss.
    pub fn keys_found(&mut self, populated: &SlotSet, now: Millis) {
        self.now = now;
        self.removals = self.removals.saturating_sub(1);
        let myself = self.nodes.my_id();
        if self.nodes.myself().is_replica() {
            return;
        }
        if self.removals > 0 || self.follows > 0 {
            self.looks_again = true;
            return;
        }
        let mut lost = SlotSet::none();
        // Keys that are arriving are not lost.
        let populated = populated.without(&self.migrations.importing());
        for slot in populated.iter() {
            match self.nodes.owner(slot) {
                Some(owner) if owner == myself => {}
                _ if self.nodes.importing.contains_key(&slot) => {}
                Some(owner) if self.are_in_same_shard(owner, myself) && self.may_be_replaced() => {
                    self.retained.insert(slot);
                }
                None => {
                    let text = format!("I have keys for unassigned slot {slot}. Taking responsibility for it.");
                    self.log(Level::Notice, text);
                    self.assign_slot(slot, Some(myself));
                    self.todo.save(true);
                    self.todo.update_state();
                }
                Some(_) => {
                    let text = format!(
                        "I have keys for slot {slot}, but the slot is assigned to another node. Deleting keys in the \
                         slot."
                    );
                    self.log(Level::Notice, text);
                    lost.insert(slot);
                }
            }
        }
        self.todo.lose_slots(&lost);
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use crate::SLOTS;
    use crate::bus::Bus;
    use crate::bus::test_bus::bus;
    use crate::bus::{Effect, OrderError};
    use crate::slot_set::SlotSet;

    #[test]
    fn slots_are_added_and_deleted_all_or_none() {
        let mut bus = bus();
        assert_eq!(bus.add_slots(&[(3, 5), (5, 6)], 1), Err(OrderError::SlotTwice(5)));
        assert_eq!(bus.add_slots(&[(6, 5)], 1), Err(OrderError::StartAfterEnd(6, 5)));
        assert!(bus.nodes().myself().slots.is_empty());
        bus.add_slots(&[(3, 5), (7, 7)], 1).expect("free");
        assert_eq!(
            bus.add_slots(&[(5, 5)], 1).map_err(|error| error.to_string()),
            Err("Slot 5 is already busy".into())
        );
        assert_eq!(bus.del_slots(&[(6, 6)], 1), Err(OrderError::SlotUnassigned(6)));
        bus.del_slots(&[(4, 5)], 1).expect("owned");
        assert_eq!(bus.nodes().myself().slots.ranges(), vec![3..=3, 7..=7]);
        assert!(matches!(bus.take_effects()[0], Effect::Save { .. }));
        assert_eq!(bus.flush_slots(true, 1), Err(OrderError::FlushSlotsWithKeys));
        bus.flush_slots(false, 1).expect("no keys");
        assert!(bus.nodes().myself().slots.is_empty());
    }

    #[test]
    fn a_single_node_serves_at_once_and_after_a_restart() {
        const NOW: i64 = 1_000_000;
        let mut bus = bus();
        assert!(bus.own_all(NOW) && bus.is_up());
        assert_eq!(bus.nodes().myself().slots.len(), SLOTS);
        assert!(bus.take_effects().contains(&Effect::SlotMapChanged));
        let (address, settings) = (bus.nodes().myself().address.clone(), bus.settings().clone());
        let mut again =
            Bus::load(&bus.conf(), address, settings, fastrand::Rng::with_seed(1), NOW).expect("its own file");
        assert!(!again.is_up() && again.own_all(NOW) && again.is_up());
        let mut one_of_two = crate::bus::test_bus::bus();
        crate::bus::test_bus::add_primary(&mut one_of_two);
        assert!(!one_of_two.own_all(NOW) && one_of_two.nodes().myself().slots.is_empty());
    }

    #[test]
    fn the_first_epoch_is_given_once() {
        let mut bus = bus();
        assert_eq!(bus.set_config_epoch(-1, 1), Err(OrderError::InvalidEpoch(-1)));
        bus.set_config_epoch(7, 1).expect("none yet");
        assert_eq!(bus.set_config_epoch(8, 1), Err(OrderError::EpochNotZero));
        assert_eq!((bus.current_epoch(), bus.bump_epoch(1)), (7, (false, 7)));
        assert_eq!(crate::bus::test_bus::bus().bump_epoch(1), (true, 1));
    }

    #[test]
    fn keys_that_are_about_to_go_make_no_owner() {
        let mut bus = bus();
        let other = crate::bus::test_bus::add_primary(&mut bus);
        bus.replicate(&other.0, false, 1).expect("empty");
        bus.followed();
        bus.reset(false, true, "me", 1).expect("a replica");
        bus.take_effects();
        // The first search is that of the new role, before the keys are removed.
        bus.keys_found(&SlotSet::of([1..=2]), 2);
        assert!(bus.nodes().myself().slots.is_empty());
        bus.lost_keys_removed();
        assert_eq!(bus.take_effects(), [Effect::LookAtKeys]);
        bus.keys_found(&SlotSet::none(), 3);
        assert!(bus.nodes().myself().slots.is_empty() && !bus.has_keys_to_remove());
        // The data is loaded while a role changes.
        bus.follows += 1;
        bus.data_loaded(4);
        bus.keys_found(&SlotSet::of([3..=3]), 4);
        assert!(bus.nodes().myself().slots.is_empty());
        bus.followed();
        bus.keys_found(&SlotSet::of([3..=3]), 5);
        assert_eq!(bus.nodes().myself().slots.ranges(), vec![3..=3]);
    }

    #[test]
    fn keys_without_an_owner_are_taken_and_those_of_others_removed() {
        let mut bus = bus();
        let other = crate::bus::test_bus::add_primary(&mut bus);
        bus.nodes.set_owner(9, Some(other));
        bus.nodes.importing.insert(8, other);
        bus.nodes.set_owner(8, Some(other));
        bus.keys_found(&SlotSet::of([1..=2, 8..=9]), 1);
        assert_eq!(bus.nodes().myself().slots.ranges(), vec![1..=2]);
        let lost = bus.take_effects().into_iter().filter(|effect| matches!(effect, Effect::LoseSlots(_)));
        assert_eq!(lost.collect::<Vec<_>>(), [Effect::LoseSlots(SlotSet::of([9..=9]))]);
        assert_ne!(bus.nodes().owner(9), Some(bus.nodes().my_id()));
    }
}
