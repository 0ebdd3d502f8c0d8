//! Clients' connections, and events for the threads that serve them.

use crate::acl::users::UserChange;
use cluster::slot_set::SlotSet;
use replication::failover_state::Target;
use replication::replid::ReplicationId;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// Clients' connections, and the threads that serve them.
pub trait Connections: Send + Sync {
    /// Ends the connection of a client that `worker` serves.
    fn kill(&self, _worker: usize, _client: u64) {}

    /// Sends a published message to subscribers at other nodes of a cluster, after the next
    /// [`send_to_nodes`](Self::send_to_nodes) at the latest.
    fn publish_to_nodes(&self, _channel: &[u8], _message: &[u8], _is_sharded: bool) {}

    /// Sends to other nodes the messages that were published before.
    fn send_to_nodes(&self) {}

    /// All keys, or those of a database, were removed at once: migrations of slots are cancelled. Called under all
    /// locks.
    fn keys_flushed(&self) {}

    /// A file or a primary's snapshot says that slots were on their way there, by that name.
    fn track_import(&self, _name: &[u8; 40], _slots: &SlotSet) {}

    /// Data of a file or of another server is about to replace the present data, for this reason.
    fn data_is_replaced(&self, _reason: &str) {}

    /// The data has been read from a file.
    fn data_loaded(&self) {}

    /// Ends a connection when it has been sent its replies so far; one that no worker serves ends at once.
    fn close(&self, _worker: usize, _client: u64) {}

    /// Users have changed: workers look which clients may no longer have their subscriptions.
    fn rights_changed(&self, _changes: &Arc<[UserChange]>) {}

    /// CONFIG SET has changed the configuration.
    fn config_changed(&self) {}

    /// The clients' pause has begun, changed or ended: workers look at it again.
    fn pause_changed(&self) {}

    /// The log was turned off, or replies wait for it in another way: clients that wait for it look again.
    fn log_changed(&self) {}

    /// The primary of the server, or the way it is followed, has changed: the thread of the link looks at it again.
    fn primary_changed(&self) {}

    /// Marks the place of the stream that replicas get, if there is one: a snapshot is of this moment. Called under all
    /// locks.
    fn mark_stream(&self) -> Option<Box<dyn StreamMark>> {
        None
    }

    /// A client waits for replicas: they are asked for their offsets.
    fn ask_replicas(&self) {}

    /// Makes all changes until now a part of the stream; `offset` gets its length then, and replicas are asked for
    /// their offsets.
    fn frame_changes(&self, offset: &Arc<OnceLock<u64>>) {
        let _ = offset.set(0);
    }

    /// Sends these words to replicas as a command after all that was framed.
    fn tell_replicas(&self, _words: &[&str]) {}

    /// Follows another server once all changes are part of the stream. False: there is no stream, and the caller does
    /// it.
    fn demote(&self, _order: &Arc<StepDown>) -> bool {
        false
    }

    /// A failover was requested or cancelled: the thread that serves the replicas looks at it.
    fn failover_changed(&self) {}

    /// A script runs for so long that clients must not wait for it: its thread serves other clients for a moment, which
    /// may only call commands for such times. Called under the locks of the script.
    fn serve_clients_busy(&self) {}

    /// A script or another command has run for a while: its thread serves other clients for a moment, as far as their
    /// commands can do with locks that are free. Called under its locks.
    fn serve_clients(&self) {}

    /// Sends bytes to the client whose script this thread runs, and waits for its next request: its words, or None when
    /// the client or the server is about to end. Called under the locks of the script.
    fn converse(&self, _bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// Returns the counts of connections.
    fn connections(&self) -> ConnectionStats {
        ConnectionStats::default()
    }

    /// Returns the certificates of connections with TLS.
    fn certificates(&self) -> Certificates {
        Certificates::default()
    }

    /// Resets the counts of connections (CONFIG RESETSTAT).
    fn reset_stats(&self) {}
}

/// A place of the stream that replicas get.
pub trait StreamMark {
    /// Returns the history's name, and its length up to there; None if it has ended meanwhile. Waits for the thread
    /// that knows it: no lock may be held.
    fn position(&self) -> Option<(ReplicationId, u64)>;
}

/// The order to follow another server, for the thread that frames the change log: it is carried out once all changes
/// are part of the stream.
#[derive(Debug)]
pub struct StepDown {
    /// Server to follow.
    pub primary: Target,
    /// Whether all writes have ended: the giver of the order holds all locks, and has waited for every command that was
    /// admitted before. Otherwise the thread that carries it out does so.
    pub is_quiet: bool,
    is_done: AtomicBool,
}

impl StepDown {
    /// Makes an order.
    pub fn new(primary: Target, is_quiet: bool) -> StepDown {
        StepDown { primary, is_quiet, is_done: AtomicBool::new(false) }
    }

    /// Whether the server follows already.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Acquire)
    }

    /// Marks that the server follows.
    pub fn set_done(&self) {
        self.is_done.store(true, Release);
    }
}

/// The certificates in use, as far as there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate that clients see.
    pub server: Option<CertificateInfo>,
    /// The certificate that other servers see, if that is another.
    pub client: Option<CertificateInfo>,
    /// The certificate of an authority that expires first.
    pub authority: Option<CertificateInfo>,
}

/// Certificate as INFO shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Hexadecimal digits.
    pub serial: String,
    /// Its expiry, in seconds of Unix time.
    pub expires_at: i64,
}

/// Connections since the start or CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionStats {
    /// Connections that were handed to a worker.
    pub received: u64,
    /// Connections that were refused: there were too many clients, or the protected mode lets in local ones only.
    pub rejected: u64,
}
