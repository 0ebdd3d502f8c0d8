//! The heart of Cinnabar: a keyspace cut into shards that every thread works on at once.
//!
//! The engine opens no socket or file, starts no thread and reads no clock. Time and bytes come in as
//! arguments, effects go out through a [`host::Host`] and a [`log::ChangeLog`]. That makes it a library:
//! the crate `commands` runs Redis commands on it, the crate `server` puts both behind sockets.
//!
//! Read [`locks`] for who may hold what, [`keys`] for how a command reaches data, [`edit`] for how it
//! changes data, [`effects`] for what follows from it.
#![forbid(unsafe_code)]

pub mod access;
pub mod audience;
pub mod blocked;
pub mod clients;
pub mod command_log;
pub mod config;
pub mod cut;
pub mod edit;
pub mod effects;
mod engine;
mod error;
pub mod eviction;
pub mod expiry;
pub mod glob;
pub mod hash;
pub mod held;
pub mod histogram;
pub mod host;
pub mod kept;
pub mod keys;
pub mod latency;
mod leftovers;
pub mod libraries;
pub mod links;
pub mod listing;
pub mod locks;
pub mod log;
pub mod metrics;
pub mod origin;
pub mod overview;
pub mod packing;
pub mod pause;
pub mod saves;
pub mod scripts;
pub mod shard;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tracking;
pub mod value;
pub mod watch;

pub use engine::{DbSummary, Engine, Options};
pub use error::Error;
