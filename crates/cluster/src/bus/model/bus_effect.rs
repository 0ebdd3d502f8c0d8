//! Effects that the bus requests.

use crate::Millis;
use crate::link_id::LinkId;
use crate::migration::MigrationEffect;
use crate::slot_set::SlotSet;
use std::sync::Arc;

pub use crate::log_level::Level;

/// Effects to carry out, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`Bus::conf`](crate::bus::Bus::conf) must be in the file before any later effect is carried out: the node does
    /// not forget what it has announced.
    Save {
        /// Whether the file must outlive a loss of power, too.
        is_durable: bool,
        /// Whether only an operator wants this, and nothing has changed: a failure is reported to the operator, and
        /// loses nothing.
        is_asked_for: bool,
    },
    /// Opens a connection; `link_connected` or `link_lost` reports the result.
    Connect {
        /// Number of the link.
        link: LinkId,
        /// Numeric address.
        ip: String,
        /// Port of the bus.
        port: u16,
    },
    /// Sends bytes on an established link. `link_written` reports that they have left it.
    Send {
        /// Link to send on.
        link: LinkId,
        /// One whole packet.
        bytes: Arc<[u8]>,
    },
    /// Sends messages of clients on an established link, behind all packets of [`Effect::Send`] that wait.
    SendMessages {
        /// Link to send on.
        link: LinkId,
        /// Whole packets.
        bytes: Arc<[u8]>,
    },
    /// Closes a link, and drops bytes that are not sent; the driver reports nothing more about it.
    Close {
        /// Link to close.
        link: LinkId,
    },
    /// The slot map by which commands are admitted has changed.
    SlotMapChanged,
    /// Replication follows the primary at this address from now on, or the primary's address has changed.
    /// [`Bus::followed`](crate::bus::Bus::followed) reports that replication follows it.
    Follow {
        /// Numeric address.
        ip: String,
        /// Port for clients, with TLS if replication has it.
        port: u16,
        /// Whether the two histories have nothing in common: no partial resynchronization.
        needs_full_sync: bool,
    },
    /// Replication leads from now on. The driver looks for keys in slots that are not this node's own, and reports
    /// them: [`Bus::keys_found`](crate::bus::Bus::keys_found).
    Lead {
        /// Whether the former primary has paused its writes for this node, and will follow it.
        is_handed_over: bool,
    },
    /// Removes all keys: the node was reset, or follows no primary any more. The order is not reported as done before
    /// they are removed.
    FlushAll,
    /// Looks for keys in slots that are not this node's own.
    LookAtKeys,
    /// Removes keys of these slots: another node owns them.
    LoseSlots(SlotSet),
    /// Unsubscribes clients from sharded channels in these slots, which another node owns.
    DropShardSubscribers(SlotSet),
    /// Delivers a message of another node's client to this node's subscribers.
    Deliver {
        /// Channel.
        channel: Vec<u8>,
        /// Message.
        message: Vec<u8>,
        /// Whether the channel belongs to a slot.
        is_sharded: bool,
    },
    /// Pauses writes, so that a replica catches up and takes over.
    PauseWrites {
        /// Time at which writes resume in any case.
        until: Millis,
    },
    /// Resumes writes.
    Unpause,
    /// Carries out an effect of a migration of slots.
    Migration(MigrationEffect),
    /// Writes a line to the log.
    Log {
        /// Importance of the line.
        level: Level,
        /// Text of the line.
        text: String,
    },
}
