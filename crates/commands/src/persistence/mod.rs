//! The way of the data set to files and back: snapshots, the append-only file, the end of the process.
//!
//! In: commands, directives, and the time. Out: the beginning of a file, and the consequences of a failure. The formats
//! are the crate `persistence`'s; files and threads are the host's.

pub mod aof;
pub mod history_fields;
pub mod load;
pub mod prepare_shutdown;
pub mod save;
pub mod shutdown;
mod shutdown_failover;
pub mod write_options;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[aof::COMMANDS, save::COMMANDS, shutdown::COMMANDS];
