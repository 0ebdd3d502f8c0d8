//! Commands of sorted sets.
//!
//! In: arguments and the keys' view. Out: replies, and sorted sets that are changed through an edit. `structures`
//! chooses the form of a set.

pub mod algebra;
pub mod bounds;
pub mod pop;
pub mod random;
pub mod range;
pub mod scan;
pub mod sorted_set;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] =
    &[algebra::COMMANDS, pop::COMMANDS, random::COMMANDS, range::COMMANDS, scan::COMMANDS, sorted_set::COMMANDS];
