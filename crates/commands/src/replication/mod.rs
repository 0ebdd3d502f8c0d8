//! Commands of replication, one file a group.
//!
//! In: requests of clients, and of servers at the other end of a link. Out: the new
//! [status](engine::status::replication_status) of the engine, and connections that are handed to the threads that
//! replicate. This room opens no socket and frames no stream.

pub mod acknowledge;
pub mod applier;
pub mod demote;
pub mod failover_command;
pub mod follow;
pub mod load_beside;
#[cfg(test)]
mod logged_effects_tests;
pub mod min_replicas;
pub(crate) mod psync;
pub(crate) mod replconf;
pub mod replica_error;
pub(crate) mod replicaof;
pub(crate) mod role;
pub mod snapshot_load;
pub mod snapshot_options;
pub(crate) mod stream_catch_up;
pub mod wait_replicas;

use crate::core::command::Command;

/// Commands of this room.
pub const COMMANDS: &[&[Command]] = &[
    failover_command::COMMANDS,
    psync::COMMANDS,
    replconf::COMMANDS,
    replicaof::COMMANDS,
    role::COMMANDS,
    wait_replicas::COMMANDS,
];
