//! The append-only file's place on the disk, and the thread that writes and syncs it.
//!
//! In: the log's journal, and a notifier's ring. Out: the file, and messages to workers that replies may go. It knows
//! nothing of replies or connections.

pub mod disk;
pub mod durable_replies;
pub mod kept_log;
pub mod write_delay;
pub mod writer;
