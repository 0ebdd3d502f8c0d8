//! Requests of the engine to its surroundings: it opens no socket or file, starts no thread and reads no clock.
//!
//! Small traits, so that each part takes the one that it needs; [`Host`](crate::Host) is all of them. A function with a
//! body does what a program without sockets and files does. Traits that speak of the engine's data are with these:
//! [`EffectSink`](crate::propagation::effects::EffectSink), [`Delivery`](crate::clients::waiters::Delivery). Nothing
//! here knows of keys or commands.

pub mod clock;
pub mod connections;
pub mod files;
pub mod log;
pub mod memory;
pub mod peer_connections;
pub mod peers;
pub mod process;
pub mod threads;
