//! Words of the change log.
//!
//! Replicas and readers of the append-only file may be other servers: Valkey from 9.1 on, Redis from 7.2 on. A command
//! or an option that one of them does not know is logged as its effect, in words that all of them know; the handler
//! passes these to [`log_as`](crate::keyspace::edit::Edit::log_as).

use super::effects::Record;

/// One command of these words.
pub fn record(words: &[&[u8]]) -> Record {
    words.iter().map(|word| word.to_vec()).collect()
}

/// A command of these words and more of one kind.
pub fn record_of<W: AsRef<[u8]>>(words: &[&[u8]], more: impl Iterator<Item = W>) -> Record {
    words.iter().map(|word| word.to_vec()).chain(more.map(|word| word.as_ref().to_vec())).collect()
}
