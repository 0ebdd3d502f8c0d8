//! The heart of Cinnabar: a keyspace cut into shards that every thread works on at once.
//!
//! The engine opens no socket or file, starts no thread and reads no clock. Time and bytes come in as arguments,
//! effects go out through a [`Host`] and a [`propagation::change_log::ChangeLog`]. So it is a library: the crate
//! `commands` runs Redis commands on it, the crate `server` puts both behind sockets.
//!
//! [`locks::protocol`] has the rules for locks, [`keyspace::keys`] shows how a command reaches data, [`keyspace::edit`]
//! how it changes data, and [`propagation::effects`] the effects that follow.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod acl;
pub mod clients;
pub mod config;
pub mod data;
mod engine;
mod error;
pub mod expiry;
pub mod glob;
pub mod host;
pub mod keyspace;
pub mod locks;
pub mod per_worker;
pub mod propagation;
pub mod scripts;
pub mod snapshot;
pub mod stats;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;

pub use engine::host::{Host, NullHost};
pub use engine::{Engine, client_endings, held_writes, memory_limit, snapshot_steps, status_copy, unblock_clients};
pub use error::{Error, Word, before_nul};
pub use keyspace::keyspace_stats::DbSummary;
pub use keyspace::{Keyspace, Options};
