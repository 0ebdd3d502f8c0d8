//! Whether a primary may acknowledge, and which members keep it from that.

use crate::in_sync_set::MemberId;

/// Settings of acknowledged writes.
#[derive(Clone, Copy, Debug)]
pub struct AckSettings {
    /// Replicas that must have an acknowledged write; at least one.
    pub replicas: usize,
    /// Time after an acknowledgement for which its member is known to follow no other primary.
    pub lease: u64,
    /// Silence after which a replica is no longer in sync.
    pub silence: u64,
}

/// Whether the server may acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The server may lack writes that were acknowledged before its promotion.
    Unconfirmed,
    /// The server has all acknowledged writes, but its predecessor may still answer until then.
    Confirmed(u64),
    /// The server may acknowledge.
    Open,
}

/// A member for which replies and changes of the set wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Member's name.
    pub id: MemberId,
    /// End of the member's link, or its last acknowledgement; None: no link since this server leads.
    pub since: Option<u64>,
}

/// Reason for which a member cannot be struck off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrikeError {
    /// The server may lack data that the member has.
    Unconfirmed,
    /// The member belongs to no set, or is the server itself.
    NoMember,
    /// The member is online, and not silent.
    Online,
}
