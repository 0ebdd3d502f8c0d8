//! The engine's requests to the process around it, and the threads that serve them: freeing, waiting for other servers.
//!
//! In: calls of the engine's host traits. Out: messages to workers, system calls. It is the only room that the engine
//! calls into, and no other room but the start knows it.

pub mod apply;
pub mod blocking_pool;
pub mod config_host;
pub mod engine_host;
pub mod lazy_free;
mod measured_memory;
pub mod sentinel_follower;
pub mod tls_peer;
