//! The threads that replicate: one that serves replicas, one that follows a primary.
//!
//! ```text
//!   log -> [ the primary's thread: stream, backlog ] -> sockets of replicas
//!   a thread a snapshot -> a thread for each replica that gets it
//! ```
//!
//! In: the change log, connections that sent PSYNC, the engine's status. Out: bytes to replicas, and numbers for INFO.
//! They wait for no shard's lock but to begin a snapshot.

pub mod applied;
mod backlog_retention;
mod dual_channel;
mod durable_marks;
mod framing_waits;
pub mod full_sync;
pub mod isr;
mod joining;
mod link_membership;
pub mod link_thread;
mod link_voice;
mod load_way;
pub mod member_file;
pub mod primary_thread;
pub mod replica;
mod role_change;
pub mod role_orders;
mod send_coalescing;
mod snapshot_file;
mod snapshot_reader;
pub mod sync_queue;
