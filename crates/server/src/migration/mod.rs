//! Slots on their way to other nodes and from them: connections, bytes, and the pause of writes.
//!
//! ```text
//!   node (crate cluster) -> effects -> thread <-> sockets
//!                        <- inputs  -    |
//!   source: keys of a snapshot, written by a thread each; then the change log, of which the slots' part is sent
//!   target: commands are applied, as those of a primary are
//! ```
//!
//! What is to be done when is decided in [`cluster::migration`]. One thread carries bytes for all jobs, and applies
//! what comes.

mod export_link;
mod import_link;
pub mod migration_thread;
mod slot_snapshot_thread;
mod sync_words;
