//! What clients are told without asking each time: messages, changes of keys that they have read, all commands.
//!
//! In: commands that subscribe, publish, track and monitor. Out: entries of the engine's tables, and pushes. Which
//! worker a client belongs to, and how a push reaches its socket, is not known here.

pub mod channels;
pub(crate) mod monitor;
pub mod tracking;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[channels::COMMANDS, monitor::COMMANDS];
