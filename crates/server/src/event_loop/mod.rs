//! What a worker's thread does: tick after tick, each a batch of requests of the connections that it owns.
//!
//! In: events of sockets, messages from other threads, timers. Out: replies to sockets, records to the log's file,
//! messages to other workers. It knows the engine through commands only, and nothing of the host or the process.

pub mod client_eviction;
pub mod coalescing;
pub mod durability;
pub mod fairness;
pub mod push;
pub mod replies;
pub mod script_reentry;
pub mod settings;
pub mod tick;
pub mod worker;
