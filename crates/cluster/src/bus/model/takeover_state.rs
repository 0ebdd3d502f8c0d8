//! State of a failover in progress.

use crate::Millis;
use crate::node_id::NodeId;

/// A replica's attempt to replace its primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    /// Time at which votes are requested, or were; 0 for no election.
    pub start: Millis,
    pub votes: usize,
    pub is_asked: bool,
    /// Number of replicas of the same primary with more data.
    pub rank: i64,
    /// Number of failed primaries that are replaced before this one.
    pub failed_primary_rank: i64,
    pub epoch: u64,
    pub reason: Option<CannotFailover>,
    pub reason_logged: Millis,
}

/// Reason for which a replica does not take over although its primary has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotFailover {
    NoHistory,
    OutOfSync,
    DataAge,
    WaitingDelay,
    Expired,
    WaitingVotes,
}

/// A requested failover.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManualFailover {
    /// Deadline; 0 for no failover.
    pub end: Millis,
    /// On the primary: the replica that takes over. Writes are paused.
    pub replica: Option<NodeId>,
    /// On the replica: the offset at which the primary paused.
    pub primary_offset: Option<i64>,
    /// On the replica: votes may be requested.
    pub can_start: bool,
}
