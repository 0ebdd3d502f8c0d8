//! What a worker's thread does: one turn after another, each a batch of requests of the connections that it owns.

pub mod batch;
pub mod coalescing;
pub mod congestion;
pub mod fairness;
pub mod mailbox;
pub mod quiet;
pub mod script_reentry;
pub mod settings;
pub mod shared;
pub mod tick;
pub mod worker;
