//! Words of the change log.
//!
//! Replicas and readers of the append-only file may be other servers: Valkey from 9.1 on, Redis from 7.2 on. A command
//! or an option that one of them does not know is logged as its effect, in words that all of them know; the handler
//! passes these to [`log_as`](crate::keyspace::edit::Edit::log_as). State of streams that other servers do not have is
//! logged so that they accept the words and change nothing.

use super::effects::Record;

/// A group that no stream has: an XACK of it carries state that only this server's streams have.
pub const OWN_GROUP: &[u8] = b"\0cinnabar-stream";

/// Returns the record of a stream's state that other servers have no place for, as this server's snapshots have it.
pub fn stream_state(key: &[u8], state: &[u8]) -> Record {
    record(&[b"XACK", key, OWN_GROUP, b"STATE", state])
}

/// Returns the record of a stream's entry that was given back to its group; other servers find it with a consumer
/// without a name.
pub fn given_back(key: &[u8], group: &[u8], id: &[u8], deliveries: u64) -> Record {
    let deliveries = deliveries.to_string();
    let options: [&[u8]; 6] = [b"TIME", b"0", b"RETRYCOUNT", deliveries.as_bytes(), b"FORCE", b"JUSTID"];
    record(&[&[&b"XCLAIM"[..], key, group, b"", b"-1", id], &options[..]].concat())
}

/// Makes one command of these words.
pub fn record(words: &[&[u8]]) -> Record {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Makes a command of these words and more of one kind.
pub fn record_of<W: AsRef<[u8]>>(words: &[&[u8]], more: impl Iterator<Item = W>) -> Record {
    words.iter().map(|word| word.to_vec()).chain(more.map(|word| word.as_ref().to_vec())).collect()
}
