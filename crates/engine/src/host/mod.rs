//! What the engine asks of whoever runs it: it opens no socket or file, starts no thread and reads no clock.

pub mod peer_connections;
pub mod surroundings;
pub mod threads;
