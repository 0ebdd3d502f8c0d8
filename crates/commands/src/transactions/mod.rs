//! Commands that wait, that are grouped, and that are given up when a watched key has changed.
//!
//! In: queued commands of a session, keys that a command waits for. Out: one moment for a group, with one group in the
//! log; tickets at the keys. The effects of the commands within are unknown here.

pub mod cluster_handle;
pub mod multi;
pub(crate) mod settled_reply;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[multi::COMMANDS];
