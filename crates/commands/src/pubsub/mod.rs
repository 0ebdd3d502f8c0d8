//! Messages that clients get without a request for each: publications, changes of keys that they have read, all
//! commands.
//!
//! In: commands that subscribe, publish, track and monitor. Out: entries of the engine's tables, and pushes. The worker
//! of a client, and the way of a push to its socket, are not known here.

pub mod channels;
pub(crate) mod monitor;
pub mod tracking;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[channels::COMMANDS, monitor::COMMANDS];
