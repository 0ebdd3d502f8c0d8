//! Where commands are sent: what a node's clients need of the cluster, made anew with each change and never changed.

use crate::SLOTS;
use crate::node::Address;
use crate::node_id::NodeId;
use std::collections::BTreeMap;

/// What commands are admitted by.
#[derive(Clone, Debug, Default)]
pub struct SlotMap {
    /// The cluster serves: enough primaries are seen, and all slots are owned, if that is required.
    pub is_up: bool,
    /// The number of this node, or of its primary if it is a replica: whose slots commands may be about here.
    pub serving: Option<u16>,
    /// This node is a replica.
    pub is_replica: bool,
    /// Who is named by the numbers below.
    pub nodes: Vec<(NodeId, Address)>,
    /// For each slot the owner's number among the nodes.
    pub owners: Vec<Option<u16>>,
    /// Slots that go away from here, and where to.
    pub migrating: BTreeMap<u16, u16>,
    /// Slots that come here.
    pub importing: BTreeMap<u16, u16>,
}

impl SlotMap {
    /// Whether the slot is this node's, or its primary's.
    pub fn is_own(&self, slot: u16) -> bool {
        self.serving.is_some() && self.owners.get(usize::from(slot)) == Some(&self.serving)
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: u16) -> Option<&(NodeId, Address)> {
        debug_assert!(self.owners.len() == SLOTS, "each slot is told of");
        let number = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.nodes.get(usize::from(number))
    }
}
