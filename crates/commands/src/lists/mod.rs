//! Commands of lists.
//!
//! In: arguments and the keys' view. Out: replies, and lists that are changed through an edit. Clients that wait for an
//! element are served by the engine after the command.

pub mod list;
pub mod lmove;
pub mod lmovem;
pub mod lpos;
pub mod lrange;
pub mod pop;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] =
    &[list::COMMANDS, lmove::COMMANDS, lmovem::COMMANDS, lpos::COMMANDS, lrange::COMMANDS, pop::COMMANDS];
