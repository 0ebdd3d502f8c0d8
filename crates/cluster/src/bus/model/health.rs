//! Whether the cluster serves, and why not.

use crate::Millis;
use crate::node_id::NodeId;
use std::collections::BTreeSet;

/// Why the cluster does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// A slot has no owner that works, and all must have one.
    NotFullCoverage,
    /// Less than the majority of primaries is seen.
    MinorityPartition,
}

/// What is known of the whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    pub is_up: bool,
    pub down_reason: Option<DownReason>,
    /// How many primaries have slots: those that vote.
    pub size: usize,
    /// It has run for long enough to vote.
    pub is_safe_to_join: bool,
    pub first_judged: Option<Millis>,
    pub among_minority: Millis,
    /// Voters that have not answered since this node stood still; None if most have, or it did not.
    pub unheard: Option<BTreeSet<NodeId>>,
}
