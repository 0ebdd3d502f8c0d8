//! All nodes that one node knows, and whose the slots are.

use crate::SLOTS;
use crate::node::Node;
use crate::node_id::NodeId;
use std::collections::BTreeMap;

/// All nodes by their names, and whose the slots are.
#[derive(Clone, Debug)]
pub struct NodeTable {
    myself: NodeId,
    nodes: BTreeMap<NodeId, Node>,
    /// The owner of each slot.
    owners: Vec<Option<NodeId>>,
    /// Slots of this node that go to another one, and to whom.
    pub migrating: BTreeMap<u16, NodeId>,
    /// Slots of others that come to this node, and from whom.
    pub importing: BTreeMap<u16, NodeId>,
}

impl NodeTable {
    /// A cluster of one node.
    pub fn new(myself: Node) -> NodeTable {
        let id = myself.id;
        NodeTable {
            myself: id,
            nodes: BTreeMap::from([(id, myself)]),
            owners: vec![None; SLOTS],
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    /// This node.
    #[expect(clippy::missing_panics_doc, reason = "it is never removed")]
    pub fn myself(&self) -> &Node {
        &self.nodes[&self.myself]
    }

    pub fn get(&self, id: &NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// All, by their names.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Whose a slot is.
    pub fn owner(&self, slot: u16) -> Option<NodeId> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// The replicas of a node.
    pub fn replicas(&self, of: NodeId) -> impl Iterator<Item = &Node> {
        self.iter().filter(move |node| node.is_replica() && node.primary == Some(of))
    }
}
