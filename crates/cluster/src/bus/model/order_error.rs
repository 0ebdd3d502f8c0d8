//! Reasons for which an order of CLUSTER is refused.

use std::fmt;

/// Reason for which an order is refused. Shown as the error's text without `-ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// The range of slots ends before it begins.
    StartAfterEnd(u16, u16),
    /// The slot has an owner.
    SlotBusy(u16),
    /// The slot has no owner.
    SlotUnassigned(u16),
    /// The slot was named twice.
    SlotTwice(u16),
    /// The node has keys.
    FlushSlotsWithKeys,
    /// SETSLOT was sent to a replica.
    SetSlotOnReplica,
    /// SETSLOT during an import of whole slots.
    SlotImportInProgress,
    /// SETSLOT during an export of whole slots.
    SlotExportInProgress,
    /// The slot to be exported belongs to another node.
    NotOwner(u16),
    /// The slot to be imported belongs to this node.
    AlreadyOwner(u16),
    /// SETSLOT with an unknown node.
    DontKnowNode(Vec<u8>),
    /// SETSLOT with this node.
    TargetIsMyself,
    /// SETSLOT with a replica.
    TargetNotPrimary,
    /// The node is unknown.
    UnknownNode(Vec<u8>),
    /// The slot has keys.
    StillHoldsKeys(u16),
    /// The slot would go from, or to, a primary that may lack acknowledged writes.
    MayLackAcknowledged(u16),
    /// SET-CONFIG-EPOCH with a negative number.
    InvalidEpoch(i64),
    /// SET-CONFIG-EPOCH on a node that knows others.
    EpochKnowsOthers,
    /// SET-CONFIG-EPOCH on a node that has an epoch.
    EpochNotZero,
    /// MEET with an invalid address.
    InvalidAddress(Vec<u8>, u16),
    /// FORGET of this node.
    CannotForgetMyself,
    /// FORGET of this node's primary.
    CannotForgetMyPrimary,
    /// REPLICATE of this node.
    CannotReplicateMyself,
    /// REPLICATE of a replica.
    OnlyReplicatePrimaries,
    /// REPLICATE on a primary that has keys or slots.
    NotEmpty,
    /// FAILOVER on a primary.
    FailoverOnPrimary,
    /// FAILOVER on a replica without a primary.
    PrimaryUnknown,
    /// FAILOVER of a primary that cannot take part in it.
    PrimaryDown,
    /// RESET of a primary with keys.
    ResetWithKeys,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderError::StartAfterEnd(start, end) => {
                write!(f, "start slot number {start} is greater than end slot number {end}")
            }
            OrderError::SlotBusy(slot) => write!(f, "Slot {slot} is already busy"),
            OrderError::SlotUnassigned(slot) => write!(f, "Slot {slot} is already unassigned"),
            OrderError::SlotTwice(slot) => write!(f, "Slot {slot} specified multiple times"),
            OrderError::FlushSlotsWithKeys => write!(f, "DB must be empty to perform CLUSTER FLUSHSLOTS."),
            OrderError::SetSlotOnReplica => write!(f, "Please use SETSLOT only with masters."),
            OrderError::SlotImportInProgress => write!(f, "Slot import in progress."),
            OrderError::SlotExportInProgress => write!(f, "Slot export in progress."),
            OrderError::NotOwner(slot) => write!(f, "I'm not the owner of hash slot {slot}"),
            OrderError::AlreadyOwner(slot) => write!(f, "I'm already the owner of hash slot {slot}"),
            OrderError::DontKnowNode(name) => {
                write!(f, "I don't know about node {}", String::from_utf8_lossy(name))
            }
            OrderError::TargetIsMyself => write!(f, "Target node is myself"),
            OrderError::TargetNotPrimary => write!(f, "Target node is not a master"),
            OrderError::UnknownNode(name) => write!(f, "Unknown node {}", String::from_utf8_lossy(name)),
            OrderError::StillHoldsKeys(slot) => write!(
                f,
                "Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
            ),
            OrderError::MayLackAcknowledged(slot) => {
                write!(f, "Can't assign hashslot {slot} while I may lack acknowledged writes and serve no client.")
            }
            OrderError::InvalidEpoch(epoch) => write!(f, "Invalid config epoch specified: {epoch}"),
            OrderError::EpochKnowsOthers => {
                write!(f, "The user can assign a config epoch only when the node does not know any other node.")
            }
            OrderError::EpochNotZero => write!(f, "Node config epoch is already non-zero"),
            OrderError::InvalidAddress(ip, port) => {
                write!(f, "Invalid node address specified: {}:{port}", String::from_utf8_lossy(ip))
            }
            OrderError::CannotForgetMyself => write!(f, "I tried hard but I can't forget myself..."),
            OrderError::CannotForgetMyPrimary => write!(f, "Can't forget my master!"),
            OrderError::CannotReplicateMyself => write!(f, "Can't replicate myself"),
            OrderError::OnlyReplicatePrimaries => write!(f, "I can only replicate a master, not a replica."),
            OrderError::NotEmpty => {
                write!(f, "To set a master the node must be empty and without assigned slots.")
            }
            OrderError::FailoverOnPrimary => write!(f, "You should send CLUSTER FAILOVER to a replica"),
            OrderError::PrimaryUnknown => write!(f, "I'm a replica but my master is unknown to me"),
            OrderError::PrimaryDown => write!(f, "Master is down or failed, please use CLUSTER FAILOVER FORCE"),
            OrderError::ResetWithKeys => {
                write!(f, "CLUSTER RESET can't be called with master nodes containing keys")
            }
        }
    }
}

impl std::error::Error for OrderError {}
