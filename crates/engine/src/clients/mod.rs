//! Who is connected, and what clients wait for or want to be told of.

pub mod pubsub;
pub mod registry;
pub mod tracking;
pub mod waiters;
pub mod watch;
