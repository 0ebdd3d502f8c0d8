//! The loop of a worker's thread: tick after tick, each a batch of requests of the connections that it owns.
//!
//! ```text
//!   worker.rs        the loop: poll, tick, housekeeping
//!   tick.rs          read, run, write;   deprioritized.rs  the same for connections that are served after others
//!   replies.rs push.rs durability.rs     output, and when it is sent
//!   handover.rs retirement.rs            connections that another worker is to serve
//!   proxy_links.rs   requests of clients to other nodes of a cluster
//!   metering.rs      connections whose users have used up their quota for now
//!   messages.rs blocked_clients.rs housekeeping.rs client_eviction.rs script_reentry.rs
//! ```
//!
//! All of these are methods of one [`Worker`](worker::Worker), which consists of small types with a file each: here and
//! in [`schedule`](crate::schedule). In: events of sockets, messages from other threads, timers. Out: replies to
//! sockets, records to the log's file, messages to other workers. It knows the engine through commands only, and
//! nothing of the host or the process.

pub mod blocked_clients;
pub mod client_eviction;
pub mod connection_migration;
pub mod deprioritized;
pub mod durability;
pub mod housekeeping;
pub mod messages;
pub mod open_outcome;
pub mod pipeline;
pub mod poller;
pub mod proxy_links;
pub mod push;
pub mod push_targets;
pub mod replies;
pub mod reply_buffer;
pub mod script_reentry;
pub mod settings;
pub mod status_lines;
pub mod throttling;
mod tick;
pub mod tick_input;
pub mod worker;
pub mod worker_shutdown;
pub mod worker_threads;
