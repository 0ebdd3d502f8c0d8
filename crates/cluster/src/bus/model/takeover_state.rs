//! What is kept of a failover that goes on.

use crate::Millis;
use crate::node_id::NodeId;

/// A replica's attempt to replace its primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Election {
    /// When votes are asked for, or were; 0 for no election.
    pub start: Millis,
    pub votes: usize,
    pub is_asked: bool,
    /// How many replicas of the same primary have more.
    pub rank: i64,
    /// How many failed primaries are replaced before this one.
    pub failed_primary_rank: i64,
    pub epoch: u64,
    pub reason: Option<CannotFailover>,
    pub reason_logged: Millis,
}

/// Why a replica does not take over though its primary has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotFailover {
    NoHistory,
    OutOfSync,
    DataAge,
    WaitingDelay,
    Expired,
    WaitingVotes,
}

/// A failover that was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManualFailover {
    /// When it is given up; 0 for there is none.
    pub end: Millis,
    /// On the primary: who takes over. Writes are paused.
    pub replica: Option<NodeId>,
    /// On the replica: how far the primary came before it paused.
    pub primary_offset: Option<i64>,
    /// On the replica: votes may be asked for.
    pub can_start: bool,
}
