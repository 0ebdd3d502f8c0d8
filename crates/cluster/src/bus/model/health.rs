//! Whether the cluster serves, and the reason if it does not.

use crate::Millis;
use crate::node_id::NodeId;
use std::collections::BTreeSet;

/// Reason for which the cluster does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// A slot has no working owner, and all slots must have one.
    NotFullCoverage,
    /// Less than the majority of primaries is reachable.
    MinorityPartition,
}

/// State of the cluster as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub is_up: bool,
    pub down_reason: Option<DownReason>,
    /// Number of primaries with slots, which vote.
    pub size: usize,
    /// Whether the node has run for long enough to vote.
    pub is_safe_to_join: bool,
    pub first_judged: Option<Millis>,
    pub among_minority: Millis,
    /// Nodes that have not answered since this node stood still; None if most voters have, or the node did not.
    pub unheard: Option<BTreeSet<NodeId>>,
}
