//! The thread that writes and syncs the append-only file, and the replies that wait for it.

pub mod durable_replies;
pub mod writer;
