//! All nodes that one node knows, and the owners of slots.

use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::slot_owners::SlotOwners;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All nodes by their names, and the owners of slots.
///
/// Owners of slots and slots of nodes always agree, and every owner is in the table. A node that is named as a primary,
/// or as the other end of a moving slot, is in the table, too. A copy of the table shares the nodes that do not change.
#[derive(Clone, Debug)]
pub struct NodeTable {
    myself: NodeId,
    nodes: BTreeMap<NodeId, Arc<Node>>,
    /// Names in no order, of which some are drawn at random.
    names: Vec<NodeId>,
    owners: SlotOwners,
    /// Slots that their owner does not claim any more, without another claimant.
    unclaimed: SlotSet,
    /// Slots of this node that move to another one, and their targets.
    pub migrating: BTreeMap<u16, NodeId>,
    /// Slots of other nodes that move to this one, and their sources.
    pub importing: BTreeMap<u16, NodeId>,
}

impl NodeTable {
    /// Creates the table of a cluster of one node.
    pub fn new(myself: Node) -> NodeTable {
        let id = myself.id;
        NodeTable {
            myself: id,
            nodes: BTreeMap::from([(id, Arc::new(myself))]),
            names: vec![id],
            owners: SlotOwners::default(),
            unclaimed: SlotSet::none(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    /// Returns this node's name.
    pub fn my_id(&self) -> NodeId {
        self.myself
    }

    /// Returns this node.
    pub fn myself(&self) -> &Node {
        &self.nodes[&self.myself]
    }

    pub(crate) fn myself_mut(&mut self) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&self.myself).expect("this node is in the table"))
    }

    /// Returns the node of that name.
    pub fn get(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id).map(Arc::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id).map(Arc::make_mut)
    }

    /// Returns the node whose name is this text.
    pub fn named(&self, text: &[u8]) -> Option<&Node> {
        self.get(&NodeId::parse(text)?)
    }

    /// Returns all nodes, by their names.
    pub fn iter(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.values().map(Arc::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.nodes.values_mut().map(Arc::make_mut)
    }

    /// Returns how many nodes there are, including this one.
    #[expect(clippy::len_without_is_empty, reason = "this node is always there")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the names of all nodes, in no particular order.
    pub(crate) fn names(&self) -> &[NodeId] {
        &self.names
    }

    /// Returns the name of a slot's owner.
    pub fn owner(&self, slot: u16) -> Option<NodeId> {
        self.owners.get(slot)
    }

    /// Returns a slot's owner.
    pub fn owner_node(&self, slot: u16) -> Option<&Node> {
        self.get(&self.owners.get(slot)?)
    }

    /// Returns the replicas of a node.
    pub fn replicas(&self, of: NodeId) -> impl Iterator<Item = &Node> {
        self.iter().filter(move |node| node.is_replica() && node.primary == Some(of))
    }

    /// Returns the origin of a node's data: the node itself, or the primary of its primary, and so on.
    pub fn root_primary<'a>(&'a self, node: &'a Node) -> &'a Node {
        let mut root = node;
        for _ in 0..self.nodes.len() {
            match root.primary.and_then(|id| self.get(&id)) {
                Some(primary) if primary.id != node.id => root = primary,
                _ => break,
            }
        }
        root
    }

    /// Returns the config epoch that counts for a node: that of its primary, if it has one.
    pub fn epoch_of(&self, node: &Node) -> u64 {
        node.primary.and_then(|id| self.get(&id)).unwrap_or(node).config_epoch
    }

    /// Returns the owner of the slots that are served here: this node or its primary.
    pub fn my_primary(&self) -> NodeId {
        self.myself().primary.unwrap_or(self.myself)
    }

    /// Adds a new node.
    pub(crate) fn insert(&mut self, node: Node) {
        if !self.nodes.contains_key(&node.id) {
            self.names.push(node.id);
            self.nodes.insert(node.id, Arc::new(node));
        }
    }

    /// Removes another node, and all references to it. Returns the node, and the slots that it owned.
    pub(crate) fn remove(&mut self, id: NodeId) -> Option<(Node, SlotSet)> {
        if id == self.myself {
            return None;
        }
        let slots = self.nodes.get(&id)?.slots.clone();
        slots.iter().for_each(|slot| _ = self.set_owner(slot, None));
        self.migrating.retain(|_, to| *to != id);
        self.importing.retain(|_, from| *from != id);
        let node = Arc::unwrap_or_clone(self.nodes.remove(&id)?);
        self.names.retain(|name| *name != id);
        for other in self.nodes.values_mut() {
            if other.failure_reports.contains_key(&id) || other.primary == Some(id) {
                let other = Arc::make_mut(other);
                other.failure_reports.remove(&id);
                other.primary = other.primary.filter(|primary| *primary != id);
            }
        }
        if let Some(primary) = node.primary {
            self.lost_replica(primary);
        }
        Some((node, slots))
    }

    /// Renames a node; no node has the new name. Only a node without references is renamed: one in a handshake, or this
    /// one when it has forgotten all others.
    pub(crate) fn rename(&mut self, id: NodeId, to: NodeId) {
        if self.nodes.contains_key(&to) {
            return;
        }
        let Some(mut node) = self.nodes.remove(&id).map(Arc::unwrap_or_clone) else {
            return;
        };
        let slots = std::mem::take(&mut node.slots);
        slots.iter().for_each(|slot| _ = self.owners.set(slot, Some(to)));
        node.slots = slots;
        node.id = to;
        self.nodes.insert(to, Arc::new(node));
        self.names.iter_mut().filter(|name| **name == id).for_each(|name| *name = to);
        if self.myself == id {
            self.myself = to;
        }
    }

    /// Gives a slot to another owner, or to none. Returns the former owner.
    pub(crate) fn set_owner(&mut self, slot: u16, owner: Option<NodeId>) -> Option<NodeId> {
        let owner = owner.filter(|id| self.nodes.contains_key(id));
        let previous = self.owners.set(slot, owner);
        self.unclaimed.remove(slot);
        if let Some(node) = previous.and_then(|id| self.get_mut(&id)) {
            node.slots.remove(slot);
        }
        if let Some(id) = owner {
            let is_first = self.nodes.get(&id).is_some_and(|node| node.slots.is_empty());
            // A primary with its first slot may get replicas, if other primaries have replicas to give.
            let may_be_given = is_first && self.has_replicas();
            if let Some(node) = self.get_mut(&id) {
                node.slots.insert(slot);
                if may_be_given {
                    node.flags.set(Flags::MIGRATE_TO, true);
                }
            }
        }
        previous
    }

    fn has_replicas(&self) -> bool {
        let primary_of = |node: &Node| self.get(&node.primary?).map(Node::is_replica);
        self.iter().any(|node| primary_of(node) == Some(false))
    }

    /// Sets a node's primary, or none.
    pub(crate) fn set_primary(&mut self, id: NodeId, primary: Option<NodeId>) {
        let Some(node) = self.get_mut(&id) else {
            return;
        };
        let previous = std::mem::replace(&mut node.primary, primary);
        if previous == primary {
            return;
        }
        if let Some(previous) = previous {
            self.lost_replica(previous);
        }
        if let Some(primary) = primary.and_then(|id| self.get_mut(&id)) {
            primary.flags.set(Flags::MIGRATE_TO, true);
        }
    }

    /// Records that a primary has lost its last replica: it does not get others.
    fn lost_replica(&mut self, primary: NodeId) {
        if !self.nodes.values().any(|node| node.primary == Some(primary))
            && let Some(primary) = self.get_mut(&primary)
        {
            primary.flags.set(Flags::MIGRATE_TO, false);
        }
    }

    /// Returns whether no node claims a slot, though it may still have an owner.
    pub(crate) fn is_unclaimed(&self, slot: u16) -> bool {
        self.owners.get(slot).is_none() || self.unclaimed.contains(slot)
    }

    /// Records whether the owner of a slot claims it.
    pub(crate) fn set_unclaimed(&mut self, slot: u16, is_unclaimed: bool) {
        if is_unclaimed {
            self.unclaimed.insert(slot);
        } else {
            self.unclaimed.remove(slot);
        }
    }

    /// Records that an owner claims all its slots, including those that an older message omitted.
    pub(crate) fn claims_all(&mut self, slots: &SlotSet) {
        if !self.unclaimed.is_empty() {
            self.unclaimed = self.unclaimed.without(slots);
        }
    }

    /// Returns the slots of a node that it claims.
    pub(crate) fn claimed_slots(&self, node: &Node) -> SlotSet {
        if self.unclaimed.is_empty() { node.slots.clone() } else { node.slots.without(&self.unclaimed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(others: usize) -> (NodeTable, Vec<NodeId>) {
        let mut random = fastrand::Rng::with_seed(1);
        let ids: Vec<NodeId> = (0..=others).map(|_| NodeId::random(&mut random)).collect();
        let mut table = NodeTable::new(Node::new(ids[0], ids[0], Flags::MYSELF | Flags::PRIMARY, 1));
        ids[1..].iter().for_each(|id| table.insert(Node::new(*id, *id, Flags::PRIMARY, 1)));
        (table, ids)
    }

    #[test]
    fn a_removed_node_is_named_nowhere() {
        let (mut table, ids) = table(3);
        table.set_owner(5, Some(ids[1]));
        table.migrating.insert(6, ids[1]);
        table.importing.insert(7, ids[1]);
        table.get_mut(&ids[2]).expect("there").flags = Flags(Flags::REPLICA);
        table.set_primary(ids[2], Some(ids[1]));
        table.get_mut(&ids[3]).expect("there").failure_reports.insert(ids[1], 9);
        let (node, slots) = table.remove(ids[1]).expect("there");
        assert_eq!((node.id, slots.ranges()), (ids[1], vec![5..=5]));
        assert_eq!((table.owner(5), table.len(), table.names().len()), (None, 3, 3));
        assert!(table.migrating.is_empty() && table.importing.is_empty());
        assert!(table.iter().all(|node| node.primary.is_none() && node.failure_reports.is_empty()));
        assert!(table.remove(ids[0]).is_none(), "this node stays");
    }

    #[test]
    fn a_node_that_is_renamed_keeps_its_slots() {
        let (mut table, ids) = table(1);
        table.set_owner(5, Some(ids[0]));
        let other = NodeId([b'f'; 40]);
        table.rename(ids[0], other);
        assert_eq!((table.my_id(), table.owner(5), table.myself().id), (other, Some(other), other));
        table.rename(other, ids[1]);
        assert_eq!(table.my_id(), other, "the name is taken");
    }

    #[test]
    fn slots_and_owners_agree() {
        let (mut table, ids) = table(1);
        assert_eq!(table.set_owner(5, Some(ids[0])), None);
        table.set_unclaimed(5, true);
        assert!(table.is_unclaimed(5) && table.claimed_slots(table.myself()).is_empty());
        assert_eq!(table.set_owner(5, Some(ids[1])), Some(ids[0]));
        assert!(!table.is_unclaimed(5) && table.is_unclaimed(6));
        assert!(table.myself().slots.is_empty() && table.get(&ids[1]).is_some_and(|node| node.slots.contains(5)));
        assert_eq!(table.set_owner(5, Some(NodeId([b'0'; 40]))), Some(ids[1]), "nobody owns what an unknown one got");
        assert_eq!(table.owner(5), None);
    }

    #[test]
    fn a_chain_of_primaries_has_an_end() {
        let (mut table, ids) = table(2);
        table.set_primary(ids[0], Some(ids[1]));
        table.set_primary(ids[1], Some(ids[2]));
        assert_eq!(table.root_primary(table.myself()).id, ids[2]);
        table.set_primary(ids[2], Some(ids[0]));
        assert_eq!(table.root_primary(table.myself()).id, ids[2]);
        table.set_primary(ids[2], Some(ids[1]));
        let _ = table.root_primary(table.myself());
    }
}
