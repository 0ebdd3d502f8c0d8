//! What has come over a link to a primary, and why a link ends.

use crate::ids::ReplicationId;
use std::fmt;

/// Up to where the replica has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its name.
    pub id: ReplicationId,
    /// Bytes of it.
    pub offset: u64,
}

/// Where a snapshot that comes over a connection of its own ends in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotEnd {
    /// The offset of its moment.
    pub position: Position,
    /// The database that the stream has selected there.
    pub db: u32,
    /// What the primary calls the connection, and is to be told on the other one; None: it knows already.
    pub client: Option<u64>,
}

impl SnapshotEnd {
    /// `offset id db client`, as they stand on the line.
    pub(crate) fn parse(line: &[u8]) -> Option<SnapshotEnd> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let offset = words.next()?.parse().ok()?;
        let id = ReplicationId::parse(words.next()?.as_bytes())?;
        // -1: none, so the stream begins by selecting one.
        let db: i64 = words.next()?.parse().ok()?;
        let client = words.next()?.parse().ok()?;
        let (position, db) = (Position { id, offset }, u32::try_from(db).unwrap_or(0));
        Some(SnapshotEnd { position, db, client: Some(client) })
    }
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived<'b> {
    /// Nothing to tell of; unless bytes were taken, more has to come.
    Nothing,
    /// A primary that knows no more than SYNC, or no name: its history cannot be gone on with later.
    Unnamed,
    /// A snapshot of this moment will come.
    FullSync(Position),
    /// The stream goes on where the replica is, by another name if one is told.
    Continue(Option<ReplicationId>),
    /// The snapshot is to be asked for over another connection, on which the primary is told what it calls this one.
    DualChannel(Option<u64>),
    /// Over that one: where the stream is to go on behind the snapshot, which will come.
    EndOffset(SnapshotEnd),
    /// The snapshot begins, of so many bytes if that is known.
    Snapshot(Option<u64>),
    /// A part of it.
    Data(&'b [u8]),
    /// It has ended.
    SnapshotEnd,
    /// Whole commands and transactions.
    Commands(&'b [u8]),
    /// Bytes of the stream that ask for [`PrimaryLink::ack`](crate::primary_link::PrimaryLink::ack).
    GetAck(&'b [u8]),
    /// Bytes of the stream that tell of [a set](crate::in_sync_set::InSyncSet::of_command).
    InSync(&'b [u8]),
}

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// Nothing came for too long, while this was to come.
    Timeout(&'static str),
    /// The primary does not want the password.
    Auth(String),
    /// It answered something else than it should.
    Unexpected(&'static str, String),
    /// It does not take over.
    FailoverRefused(String),
    /// It cannot be followed now, and is to be asked again.
    Later(String),
    /// It gave up the snapshot.
    Aborted(String),
    /// What it sends is no stream of commands.
    Protocol,
}

impl fmt::Display for LinkError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Timeout(what) => write!(formatter, "Timeout {what}"),
            LinkError::Auth(text) => write!(formatter, "Unable to AUTH to PRIMARY: {text}"),
            LinkError::Unexpected(what, text) => write!(formatter, "Unexpected reply to {what} from primary: {text}"),
            LinkError::FailoverRefused(text) => write!(formatter, "The failover's target does not take over: {text}"),
            LinkError::Later(text) => {
                write!(formatter, "PRIMARY is currently unable to PSYNC but should be in the future: {text}")
            }
            LinkError::Aborted(text) => write!(formatter, "PRIMARY aborted replication with an error: {text}"),
            LinkError::Protocol => formatter.write_str("Protocol error from the primary"),
        }
    }
}

impl std::error::Error for LinkError {}
