//! What threads know of the workers: who they are, how they are told something, and how much waits for them.
//!
//! In: messages from any thread. Out: messages to a worker's event loop, and a wake-up. It knows what a socket is,
//! since new connections are among the messages, but nothing of what a worker does with what it is told.

pub mod congestion;
pub mod link_lines;
pub mod mailbox;
pub mod migration_messages;
pub mod notifier;
pub mod replication_messages;
pub mod shared;
pub mod slumber;
pub mod stream_stops;
pub mod thread_inbox;
pub mod wake_state;
pub mod worker_slot;
