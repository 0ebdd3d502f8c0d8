//! Data that arrives over a link to a primary, and reasons for the link's end.

use crate::replid::ReplicationId;
use std::fmt;

/// Place up to which the replica has a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the history.
    pub id: ReplicationId,
    /// Bytes of the history.
    pub offset: u64,
}

/// Place in the stream that belongs to a snapshot over a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotEnd {
    /// Offset of the snapshot's moment.
    pub position: Position,
    /// Database that the stream has selected there.
    pub db: u32,
    /// Name that the primary gives the connection, to be repeated on the other one; None: the primary knows it already.
    pub client: Option<u64>,
}

impl SnapshotEnd {
    /// Reads `offset id db client`, in the order of the line.
    pub(crate) fn parse(line: &[u8]) -> Option<SnapshotEnd> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let offset = words.next()?.parse().ok()?;
        let id = ReplicationId::parse(words.next()?.as_bytes())?;
        // The primary sends -1 where no database is selected: the stream begins with a SELECT.
        let db: i64 = words.next()?.parse().ok()?;
        let client = words.next()?.parse().ok()?;
        let (position, db) = (Position { id, offset }, u32::try_from(db).unwrap_or(0));
        Some(SnapshotEnd { position, db, client: Some(client) })
    }
}

/// Data that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived<'b> {
    /// Nothing to report; unless bytes were taken, more have to arrive.
    Nothing,
    /// The primary knows only SYNC, or its history has no name: the replica cannot continue that history later.
    Unnamed,
    /// A snapshot of this moment follows.
    FullSync(Position),
    /// The stream continues at the replica's place, by another name if the primary sent one.
    Continue(Option<ReplicationId>),
    /// The replica is to ask for the snapshot over another connection, and to send this name of the present one there.
    DualChannel(Option<u64>),
    /// The snapshot follows on that connection, and the stream continues at this place behind it.
    EndOffset(SnapshotEnd),
    /// The snapshot begins; its length if the primary sent one.
    Snapshot(Option<u64>),
    /// A part of the snapshot.
    Data(&'b [u8]),
    /// The snapshot has ended.
    SnapshotEnd,
    /// Whole commands and transactions.
    Commands(&'b [u8]),
    /// Bytes of the stream that ask for [`PrimaryLink::ack`](crate::primary_link::PrimaryLink::ack).
    GetAck(&'b [u8]),
    /// Bytes of the stream that announce [a set](crate::in_sync_set::InSyncSet::of_command).
    InSync(&'b [u8]),
}

/// Reason for a link's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// This did not arrive in time.
    Timeout(&'static str),
    /// The primary refused the password.
    Auth(String),
    /// The primary answered this request with an unexpected reply.
    Unexpected(&'static str, String),
    /// The server refused to take over.
    FailoverRefused(String),
    /// The primary cannot be followed now: the replica is to retry.
    Later(String),
    /// The primary aborted the snapshot.
    Aborted(String),
    /// The primary's bytes are no stream of commands.
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
