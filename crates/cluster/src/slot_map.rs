//! Routes of commands: the part of the cluster's state that clients need, as an immutable map that each change
//! replaces.

use crate::SLOTS;
use crate::node::Address;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Map by which commands are admitted.
#[derive(Clone, Debug, Default)]
pub struct SlotMap {
    /// Whether the cluster serves: enough primaries are reachable, and all slots have owners, if that is required.
    pub is_up: bool,
    /// Number of the owner of the slots that are served here: this node, or its primary if it is a replica.
    pub serving: Option<u16>,
    /// Whether this node is a replica.
    pub is_replica: bool,
    /// Nodes by the numbers below.
    pub nodes: Vec<(NodeId, Address)>,
    /// Shard of each node: a replica that takes over is in the same one.
    pub shards: Vec<NodeId>,
    /// Number of each slot's owner among the nodes.
    pub owners: Vec<Option<u16>>,
    /// Slots that move away from this node, and their targets.
    pub migrating: BTreeMap<u16, u16>,
    /// Slots that move to this node, and their sources.
    pub importing: BTreeMap<u16, u16>,
    /// On a replica: slots of its primary whose keys have not all arrived yet.
    pub coming: SlotSet,
    /// Nodes that have failed, or are suspected.
    pub silent: Vec<Address>,
}

impl SlotMap {
    /// Returns whether this node serves all these slots as their owner.
    pub fn serves_all(&self, slots: &SlotSet) -> bool {
        !self.is_replica && slots.iter().all(|slot| self.is_own(slot))
    }

    /// Returns whether the slot is this node's, or its primary's.
    pub fn is_own(&self, slot: u16) -> bool {
        self.serving.is_some() && self.owners.get(usize::from(slot)) == Some(&self.serving)
    }

    /// Returns the owner of a slot.
    pub fn owner(&self, slot: u16) -> Option<&(NodeId, Address)> {
        debug_assert!(self.owners.len() == SLOTS, "each slot is told of");
        let number = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.nodes.get(usize::from(number))
    }

    /// Returns whether the node with this address does not answer the bus.
    pub fn is_silent(&self, at: SocketAddr) -> bool {
        let is_there =
            |node: &Address| node.ip.parse() == Ok(at.ip()) && [node.tcp_port, node.tls_port].contains(&at.port());
        self.silent.iter().any(is_there)
    }

    /// Returns this map with only its losses against an earlier one: new slots, a cluster that serves again and the
    /// place of a primary stay as they were. None if this map takes nothing away.
    pub fn losses_from(&self, before: &SlotMap) -> Option<SlotMap> {
        let is_down = before.is_up && !self.is_up;
        if before.is_replica && !self.is_replica {
            return is_down.then(|| SlotMap { is_up: false, ..before.clone() });
        }
        let slots = || 0..SLOTS as u16;
        let steps_down = before.serving.is_some() && self.is_replica && !before.is_replica;
        if !is_down && !steps_down && !slots().any(|slot| before.is_own(slot) && !self.is_own(slot)) {
            return None;
        }
        let mut map = SlotMap { is_up: self.is_up && before.is_up, ..self.clone() };
        for slot in slots().filter(|slot| self.is_own(*slot) && !before.is_own(*slot)) {
            let number = before.owner(slot).and_then(|owner| self.nodes.iter().position(|(id, _)| *id == owner.0));
            map.owners[usize::from(slot)] = number.map(|number| number as u16);
        }
        Some(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a map of two nodes, of which the first is this one and has the slots below a bound.
    fn map_with(bound: usize) -> SlotMap {
        let mut random = fastrand::Rng::with_seed(1);
        let nodes = (0..2).map(|_| (NodeId::random(&mut random), Address::default())).collect();
        let owners = (0..SLOTS).map(|slot| Some(u16::from(slot >= bound))).collect();
        SlotMap { is_up: true, serving: Some(0), nodes, owners, ..SlotMap::default() }
    }

    #[test]
    fn losses_are_in_a_map_of_their_own() {
        let before = map_with(10);
        assert!(before.losses_from(&before).is_none() && map_with(11).losses_from(&before).is_none());
        let after = map_with(9);
        let losses = after.losses_from(&before).expect("a slot has gone");
        assert!(losses.owners == after.owners && losses.is_up);
        // One slot leaves and one arrives, and the nodes have other numbers.
        let mut after = map_with(9);
        after.owners[20] = Some(0);
        after.owners.iter_mut().flatten().for_each(|owner| *owner = 1 - *owner);
        after.nodes.swap(0, 1);
        after.serving = Some(1);
        let losses = after.losses_from(&before).expect("a slot has gone");
        assert!(losses.is_own(8) && !losses.is_own(9) && !losses.is_own(20));
        assert_eq!(losses.owner(20), before.owner(20));
    }

    #[test]
    fn a_map_of_losses_serves_no_sooner_and_leads_no_sooner() {
        let down = SlotMap { is_up: false, ..map_with(10) };
        assert!(map_with(10).losses_from(&down).is_none());
        assert!(!down.losses_from(&map_with(10)).expect("it is down").is_up);
        let mut replica = map_with(10);
        (replica.is_replica, replica.serving) = (true, Some(1));
        assert!(replica.losses_from(&map_with(10)).expect("it leads no more").is_replica);
        assert!(map_with(10).losses_from(&replica).is_none());
        let losses = down.losses_from(&replica).expect("it is down");
        assert!(losses.is_replica && !losses.is_up && losses.serving == Some(1));
    }

    #[test]
    fn a_node_is_silent_at_each_of_its_ports() {
        let address = Address { ip: "10.0.0.1".to_owned(), tcp_port: 1, tls_port: 2, ..Address::default() };
        let map = SlotMap { silent: vec![address], ..SlotMap::default() };
        let is_silent = |at: &str| map.is_silent(at.parse().expect("an address"));
        assert!(is_silent("10.0.0.1:1") && is_silent("10.0.0.1:2"));
        assert!(!is_silent("10.0.0.1:3") && !is_silent("10.0.0.2:1"));
    }
}
