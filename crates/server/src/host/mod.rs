//! What the server does for the engine: time, memory, files, threads, other servers.

pub mod allocator;
pub mod blocking_pool;
pub mod clock;
pub mod engine_host;
pub mod lazy_free;
