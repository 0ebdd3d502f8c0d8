//! Commands of strings: values, counters, several keys at once.
//!
//! In: arguments and the keys' view. Out: replies, and strings that are changed through an edit.

pub mod compare;
pub mod counter;
pub mod increx;
pub mod lcs;
pub mod mset;
pub mod string;
pub mod substring;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[
    compare::COMMANDS,
    counter::COMMANDS,
    increx::COMMANDS,
    lcs::COMMANDS,
    mset::COMMANDS,
    string::COMMANDS,
    substring::COMMANDS,
];
