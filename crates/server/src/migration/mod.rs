//! Slots on their way to other nodes and from them: connections, bytes, and the pause of writes.
//!
//! ```text
//!   node (crate cluster) -> effects -> thread <-> sockets
//!                        <- inputs  -    |
//!   source: keys of a snapshot, written by a thread each; then the change log, and the slots' part of it is sent
//!   target: commands are applied, as a primary's are
//! ```
//!
//! [`cluster::migration`] decides what is to be done when. One thread carries bytes for all jobs, and applies input.

mod export_link;
mod import_link;
pub mod migration_thread;
mod slot_snapshot_thread;
mod sync_words;
