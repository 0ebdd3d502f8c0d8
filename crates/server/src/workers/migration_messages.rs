//! Messages of other threads to the thread that moves slots.

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
    /// Input that came behind its order.
    pub input: Vec<u8>,
}

/// An event of the thread that writes the keys of a job.
pub enum SnapshotEvent {
    /// The moment has passed: changes are in the log from where the reader begins; changes from before the snapshot end
    /// at the offset.
    Begun { reader: LogReader, offset: u64 },
    /// All blocks have been sent.
    Written,
    /// There will be no snapshot, or no complete one.
    Failed,
    /// There are too many snapshots: this one is retried.
    Refused,
}

/// A message to the thread.
pub enum MigrationMessage {
    /// An effect that the node wants carried out.
    Effect(MigrationEffect),
    /// The connection of a source.
    Import(Box<NewImport>),
    /// A source is gone before its connection came.
    ImportLost(JobName),
    /// An event of a snapshot.
    Snapshot(JobName, SnapshotEvent),
    /// All keys were flushed at once, when so many jobs had begun.
    Flushed { begun: u64 },
    /// The client's connection is to end.
    Kill(u64),
}
