//! The connected clients, and the keys and messages that they wait for.
//!
//! In: marks that commands leave under a shard's lock (a ticket, a watched key, a reader), subscriptions. Out: commands
//! that are run again, raised flags, and pushes for the workers to deliver. It knows nothing of sockets, nor of what a
//! command does.

pub(crate) mod deferred;
pub mod key_clients;
pub mod listeners;
pub mod pubsub;
pub mod registry;
pub mod tracking;
pub mod waiters;
pub mod watch;
