//! What other threads tell the thread that moves slots.

use crate::connection::socket::SocketStream;
use cluster::migration::{JobName, MigrationEffect};
use engine::clients::registry::ClientInfo;
use engine::propagation::log_reader::LogReader;
use std::sync::Arc;

/// A connection from which slots come.
pub struct NewImport {
    pub job: JobName,
    pub stream: SocketStream,
    pub info: Arc<ClientInfo>,
    /// What it has sent behind its order.
    pub input: Vec<u8>,
}

/// What the thread tells that writes the keys of a job.
pub enum SnapshotEvent {
    /// The moment has passed: changes are in the log from where the reader begins, and those of before the snapshot end
    /// at the offset.
    Begun { reader: LogReader, offset: u64 },
    /// All has been handed out.
    Written,
    /// There will be none, or no whole one.
    Failed,
    /// There are too many snapshots: it is tried again.
    Refused,
}

/// What other threads tell it.
pub enum MigrationMessage {
    /// What the node wants done.
    Effect(MigrationEffect),
    /// A source.
    Import(Box<NewImport>),
    /// A source is gone before its connection came.
    ImportLost(JobName),
    /// Something about a snapshot.
    Snapshot(JobName, SnapshotEvent),
    /// All keys have gone at once, when so many jobs had begun.
    Flushed { begun: u64 },
    /// The client's connection is to end.
    Kill(u64),
}
