//! Clients' connections, and what the threads that serve them are told.

use crate::acl::users::UserChange;
use cluster::slot_set::SlotSet;
use replication::failover_state::Target;
use replication::ids::ReplicationId;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// Clients' connections, and the threads that serve them.
pub trait Connections: Send + Sync {
    /// Ends the connection of a client that `worker` serves.
    fn kill(&self, _worker: usize, _client: u64) {}

    /// In a cluster: what was published here goes to subscribers at other nodes, after the next
    /// [`send_to_nodes`](Self::send_to_nodes) at the latest.
    fn publish_to_nodes(&self, _channel: &[u8], _message: &[u8], _is_sharded: bool) {}

    /// Sends to other nodes the messages that were published before.
    fn send_to_nodes(&self) {}

    /// All keys, or those of a database, have gone at once: slots do not move on. Called under all locks.
    fn keys_flushed(&self) {}

    /// A file or a primary's snapshot says that slots were on their way there, by that name.
    fn track_import(&self, _name: &[u8; 40], _slots: &SlotSet) {}

    /// Data of a file or of another server is about to take the place of what there is, for this reason.
    fn data_is_replaced(&self, _reason: &str) {}

    /// The data has been read from a file.
    fn data_loaded(&self) {}

    /// Ends it when it has been sent what it was replied so far; one that no worker serves ends at once.
    fn close(&self, _worker: usize, _client: u64) {}

    /// Users have changed: workers look which clients may not listen any more to what they listen to.
    fn rights_changed(&self, _changes: &Arc<[UserChange]>) {}

    /// CONFIG SET has changed the configuration.
    fn config_changed(&self) {}

    /// The clients' pause has begun, changed or ended: workers look at it again.
    fn pause_changed(&self) {}

    /// The log was turned off, or replies wait for it in another way: who waits for it looks again.
    fn log_changed(&self) {}

    /// Whom the server follows, or how, has changed: the thread that keeps the link looks at it again.
    fn primary_changed(&self) {}

    /// Notes the place of the stream that replicas get, if there is one: a snapshot is of this moment. Called under all
    /// locks.
    fn mark_stream(&self) -> Option<Box<dyn StreamMark>> {
        None
    }

    /// A client waits for replicas: they are asked how far they are.
    fn ask_replicas(&self) {}

    /// All that was written until now becomes part of the stream; `offset` is told how long that is then, and replicas
    /// are asked how far they are.
    fn frame_changes(&self, offset: &Arc<OnceLock<u64>>) {
        let _ = offset.set(0);
    }

    /// Replicas get these words as a command after all that was framed.
    fn tell_replicas(&self, _words: &[&str]) {}

    /// The server is to follow another one once all that was written is part of the stream. False: there is no stream,
    /// and it is done by the caller.
    fn step_down(&self, _order: &Arc<StepDown>) -> bool {
        false
    }

    /// A failover was asked for, or taken back: who serves the replicas looks at it.
    fn failover_changed(&self) {}

    /// A script runs for so long that others are not to wait for it: the thread that it has serves other clients for a
    /// moment, who may only call what is for such times. Called under the locks of the script.
    fn while_busy(&self) {}

    /// A script or another command has run for a while: the thread that it has serves other clients for a moment, as
    /// far as their commands can do with locks that are free. Called under its locks.
    fn while_long(&self) {}

    /// Sends bytes to the client whose script this thread runs, and waits for its next request: the words of it, or
    /// None when the client or the server is about to end. Called under the locks of the script.
    fn converse(&self, _bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// How many connections there were.
    fn connections(&self) -> ConnectionStats {
        ConnectionStats::default()
    }

    /// The certificates of connections with TLS.
    fn certificates(&self) -> Certificates {
        Certificates::default()
    }

    /// Counts connections anew (CONFIG RESETSTAT).
    fn reset_stats(&self) {}
}

/// A place of the stream that replicas get.
pub trait StreamMark {
    /// The history's name, and its bytes up to there; None if it has ended meanwhile. Waits for the thread that knows
    /// it:
    /// no lock may be held.
    fn position(&self) -> Option<(ReplicationId, u64)>;
}

/// The order to follow another server, for who frames the change log: it is carried out once all that was written is
/// part of the stream.
#[derive(Debug)]
pub struct StepDown {
    /// Whom the server is to follow.
    pub primary: Target,
    /// Nobody writes any more: who gives the order has all locks, and has seen to it that none runs that was admitted
    /// before. Otherwise that is for who carries it out.
    pub is_quiet: bool,
    is_done: AtomicBool,
}

impl StepDown {
    /// An order.
    pub fn new(primary: Target, is_quiet: bool) -> StepDown {
        StepDown { primary, is_quiet, is_done: AtomicBool::new(false) }
    }

    /// Whether the server follows.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Acquire)
    }

    /// It does.
    pub fn set_done(&self) {
        self.is_done.store(true, Release);
    }
}

/// The certificates in use, as far as there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The one that clients see.
    pub server: Option<CertificateInfo>,
    /// The one that other servers see, if that is another.
    pub client: Option<CertificateInfo>,
    /// Of those of authorities the one that ends first.
    pub authority: Option<CertificateInfo>,
}

/// What INFO tells of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Hexadecimal digits.
    pub serial: String,
    /// When it ends, in seconds of Unix time.
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
