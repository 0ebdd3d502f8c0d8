//! Owner of each slot: a number of two bytes for each slot, and a list of names for the numbers.

use crate::SLOTS;
use crate::node_id::NodeId;
use std::collections::BTreeMap;

/// Number of a slot without an owner.
const NOBODY: u16 = u16::MAX;

/// Owner of each slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotOwners {
    /// Number of each slot's owner.
    numbers: Vec<u16>,
    /// Name for each number; None where it is free. There are at most as many as there are slots.
    names: Vec<Option<NodeId>>,
    /// Number of each owner, and how many slots it has.
    owners: BTreeMap<NodeId, (u16, usize)>,
}

impl Default for SlotOwners {
    fn default() -> SlotOwners {
        SlotOwners { numbers: vec![NOBODY; SLOTS], names: Vec::new(), owners: BTreeMap::new() }
    }
}

impl SlotOwners {
    /// Returns a slot's owner.
    pub fn get(&self, slot: u16) -> Option<NodeId> {
        let number = *self.numbers.get(usize::from(slot))?;
        self.names.get(usize::from(number)).copied().flatten()
    }

    /// Gives a slot to another owner, or to none. Returns the former owner.
    pub fn set(&mut self, slot: u16, owner: Option<NodeId>) -> Option<NodeId> {
        let previous = self.get(slot);
        if usize::from(slot) >= SLOTS {
            return None;
        }
        if let Some(id) = previous
            && let Some((number, slots)) = self.owners.get_mut(&id)
        {
            *slots -= 1;
            if *slots == 0 {
                self.names[usize::from(*number)] = None;
                self.owners.remove(&id);
            }
        }
        self.numbers[usize::from(slot)] = owner.map_or(NOBODY, |owner| self.number(owner));
        previous
    }

    fn number(&mut self, owner: NodeId) -> u16 {
        if let Some((number, slots)) = self.owners.get_mut(&owner) {
            *slots += 1;
            return *number;
        }
        let free = self.names.iter().position(Option::is_none).unwrap_or(self.names.len());
        if free == self.names.len() {
            self.names.push(None);
        }
        self.names[free] = Some(owner);
        self.owners.insert(owner, (free as u16, 1));
        free as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut owners = SlotOwners::default();
        for round in 0..3 {
            let mut ids = Vec::new();
            for slot in 0..SLOTS as u16 {
                let id = NodeId::random(&mut random);
                ids.push(id);
                let previous = owners.set(slot, Some(id));
                assert_eq!(previous.is_some(), round > 0);
            }
            assert!((0..SLOTS as u16).all(|slot| owners.get(slot) == Some(ids[usize::from(slot)])));
            assert!(owners.names.len() <= SLOTS);
        }
        let last = owners.get(7);
        assert_eq!((owners.set(7, None), owners.get(7), owners.get(16384)), (last, None, None));
        assert_eq!(owners.set(16384, last), None);
    }
}
