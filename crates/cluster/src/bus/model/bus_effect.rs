//! What the bus wants done.

use crate::Millis;
use crate::link_id::LinkId;
use crate::migration::MigrationEffect;
use crate::slot_set::SlotSet;
use std::sync::Arc;

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details.
    Debug,
    /// Much of what happens.
    Verbose,
    /// What is worth to know.
    Notice,
    /// What must be known.
    Warning,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`Bus::conf`](crate::bus::Bus::conf) must be in the file before any later effect is carried out: what others are
    /// told is not forgotten.
    Save {
        /// It must outlive a loss of power, too.
        is_durable: bool,
        /// Only an operator wants it, and nothing has changed: if it fails the operator is told, and nothing is
        /// forgotten by that.
        is_asked_for: bool,
    },
    /// Opens a connection; `link_connected` or `link_lost` tells what became of it.
    Connect {
        /// Its number from now on.
        link: LinkId,
        /// Numeric address.
        ip: String,
        /// Port of the bus.
        port: u16,
    },
    /// Sends bytes on a link that stands. `link_written` tells when they are gone.
    Send {
        /// On which.
        link: LinkId,
        /// One whole packet.
        bytes: Arc<[u8]>,
    },
    /// Sends messages of clients on a link that stands, behind all packets of [`Effect::Send`] that wait.
    SendMessages {
        /// On which.
        link: LinkId,
        /// Whole packets.
        bytes: Arc<[u8]>,
    },
    /// Closes a link, whatever is not sent; nothing is reported of it any more.
    Close {
        /// Which.
        link: LinkId,
    },
    /// What commands are admitted by has changed: `Bus::slot_map` is another.
    SlotMapChanged,
    /// This node is a replica of the one at this address from now on, or still is and the address is another.
    /// [`Bus::followed`](crate::bus::Bus::followed) tells that replication goes by it.
    Follow {
        /// Numeric address.
        ip: String,
        /// The port for clients, with TLS if replication has it.
        port: u16,
        /// The data there has nothing in common with the data here: no partial resynchronization.
        needs_full_sync: bool,
    },
    /// This node is a primary from now on. What is in slots that are not its own is to be looked at:
    /// [`Bus::keys_found`](crate::bus::Bus::keys_found).
    Lead,
    /// All keys are to be removed: the node was reset, or follows nobody any more. Nobody is told that the order is
    /// done before they are.
    FlushAll,
    /// Keys in slots that are not this node's own are to be looked for.
    LookAtKeys,
    /// Keys of these slots are to be removed: another node has them.
    LoseSlots(SlotSet),
    /// Subscribers of sharded channels in these slots are to be told that they are elsewhere.
    DropShardSubscribers(SlotSet),
    /// A message for this node's subscribers that was published elsewhere.
    Deliver {
        /// Where to.
        channel: Vec<u8>,
        /// What.
        message: Vec<u8>,
        /// The channel belongs to a slot.
        is_sharded: bool,
    },
    /// No writes until then, so that a replica catches up: it takes over.
    PauseWrites {
        /// When they go on whatever happened.
        until: Millis,
    },
    /// Writes go on.
    Unpause,
    /// Something for a migration of slots.
    Migration(MigrationEffect),
    /// A line for the log.
    Log {
        /// How important it is.
        level: Level,
        /// The line.
        text: String,
    },
}
