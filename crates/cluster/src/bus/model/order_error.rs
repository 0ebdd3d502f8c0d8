//! Why an order of CLUSTER is refused.

use std::fmt;

/// Why an order is refused. Shown as the error's text without `-ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// A range of slots that ends before it begins.
    StartAfterEnd(u16, u16),
    /// The slot has an owner.
    SlotBusy(u16),
    /// The slot has none.
    SlotUnassigned(u16),
    /// The slot was named twice.
    SlotTwice(u16),
    /// There are keys.
    FlushSlotsWithKeys,
    /// SETSLOT was sent to a replica.
    SetSlotOnReplica,
    /// SETSLOT while whole slots come here.
    SlotImportInProgress,
    /// SETSLOT while whole slots go away.
    SlotExportInProgress,
    /// The slot that is to go away belongs to another node.
    NotOwner(u16),
    /// The slot that is to come is here.
    AlreadyOwner(u16),
    /// SETSLOT with a node that is not known.
    DontKnowNode(Vec<u8>),
    /// SETSLOT with this node.
    TargetIsMyself,
    /// SETSLOT with a replica.
    TargetNotPrimary,
    /// A node that is not known.
    UnknownNode(Vec<u8>),
    /// The slot has keys.
    StillHoldsKeys(u16),
    /// SET-CONFIG-EPOCH with less than 0.
    InvalidEpoch(i64),
    /// SET-CONFIG-EPOCH when others are known.
    EpochKnowsOthers,
    /// SET-CONFIG-EPOCH when there is one.
    EpochNotZero,
    /// MEET with what is no address.
    InvalidAddress(Vec<u8>, u16),
    /// FORGET of this node.
    CannotForgetMyself,
    /// FORGET of this node's primary.
    CannotForgetMyPrimary,
    /// REPLICATE of this node.
    CannotReplicateMyself,
    /// REPLICATE of a replica.
    OnlyReplicatePrimaries,
    /// REPLICATE on a primary that has something.
    NotEmpty,
    /// FAILOVER on a primary.
    FailoverOnPrimary,
    /// FAILOVER on a replica of nobody.
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
