//! The workers as other threads see them: their numbers, the ways to notify them, and the bytes that wait for them.
//!
//! In: messages from any thread. Out: messages to a worker's event loop, and a wake-up. It knows sockets, since new
//! connections are among the messages, but nothing of a worker's work with its messages.

pub mod congestion;
pub mod link_lines;
pub mod mailbox;
pub mod migration_messages;
pub mod notifier;
pub mod replication_messages;
pub mod shared;
pub mod slumber;
pub mod snapshot_offsets;
pub mod thread_inbox;
pub mod wake_state;
pub mod worker_slot;
