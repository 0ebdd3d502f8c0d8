//! Moving slots as a snapshot for a replica has them: `slot<node,` for one that comes from a node, and `slot>node,` for
//! one that goes there.

use super::cluster_bus::Bus;
use crate::SLOTS;
use crate::node::Node;
use crate::node_id::NodeId;

/// Error: the text is no list of open slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOpenSlots;

impl Bus {
    /// Returns all open slots; empty if none moves.
    pub fn open_slots(&self) -> String {
        let importing = self.nodes.importing.iter().map(|(slot, node)| format!("{slot}<{node},"));
        importing.chain(self.nodes.migrating.iter().map(|(slot, node)| format!("{slot}>{node},"))).collect()
    }

    /// Takes the open slots of the primary that this node follows. An unknown node is added; other nodes will announce
    /// its address.
    ///
    /// # Errors
    /// Returns [`BadOpenSlots`] if the text is no such list: nothing has changed.
    pub fn take_open_slots(&mut self, text: &[u8], now: crate::Millis) -> Result<(), BadOpenSlots> {
        self.now = now;
        let open = parse(text).ok_or(BadOpenSlots)?;
        for (slot, is_importing, node) in open {
            if self.nodes.get(&node).is_none() {
                let shard_id = NodeId::random(&mut self.random);
                self.nodes.insert(Node::new(node, shard_id, 0, now));
            }
            let moving = if is_importing { &mut self.nodes.importing } else { &mut self.nodes.migrating };
            moving.insert(slot, node);
            self.todo.save(true);
            self.todo.slot_map_changed();
        }
        self.settle();
        Ok(())
    }
}

fn parse(text: &[u8]) -> Option<Vec<(u16, bool, NodeId)>> {
    let Some(entries) = text.strip_suffix(b",") else { return text.is_empty().then(Vec::new) };
    let entry = |entry: &[u8]| {
        let at = entry.iter().position(|byte| matches!(byte, b'<' | b'>'))?;
        let slot: u16 = std::str::from_utf8(&entry[..at]).ok()?.parse().ok()?;
        let node = NodeId::parse(&entry[at + 1..])?;
        (usize::from(slot) < SLOTS).then_some((slot, entry[at] == b'<', node))
    };
    entries.split(|byte| *byte == b',').map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::Address;

    #[test]
    fn a_replica_has_the_open_slots_of_its_primary() {
        let mut primary = bus();
        let other = add_primary(&mut primary);
        assert_eq!(primary.open_slots(), "");
        primary.nodes.importing.insert(7, other);
        primary.nodes.migrating.insert(9, other);
        let text = primary.open_slots();
        assert_eq!(text, format!("7<{other},9>{other},"));
        let mut replica = bus();
        assert_eq!(replica.take_open_slots(text.as_bytes(), 5), Ok(()));
        assert_eq!(replica.open_slots(), text);
        // A node of which only the name is known is also present after a restart.
        let again = Bus::load(&replica.conf(), Address::default(), replica.settings, fastrand::Rng::with_seed(1), 6);
        assert!(again.is_ok_and(|again| again.open_slots() == text));
    }

    #[test]
    fn a_malformed_list_changes_nothing() {
        let mut bus = bus();
        let name = bus.nodes.my_id();
        for text in
            ["7", "7<", "7=x,", "7<abc,", &format!("16384<{name},"), &format!("7<{name}"), &format!("7<{name},8")]
        {
            assert_eq!(bus.take_open_slots(text.as_bytes(), 5), Err(BadOpenSlots), "{text}");
        }
        assert_eq!((bus.open_slots(), bus.take_open_slots(b"", 5)), (String::new(), Ok(())));
    }
}
