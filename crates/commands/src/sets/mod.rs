//! Commands of sets.
//!
//! In: arguments and the keys' view. Out: replies, and sets that are changed through an edit. Large results are worked
//! out and sent in chunks.

pub mod algebra;
pub mod cardinality;
pub mod chunked_algebra;
pub mod random;
pub mod set;
pub mod set_operations;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[algebra::COMMANDS, cardinality::COMMANDS, random::COMMANDS, set::COMMANDS];
