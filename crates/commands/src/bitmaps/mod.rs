//! Commands of bits in strings.
//!
//! In: arguments and the keys' view. Out: replies and changed strings. The code knows strings as bytes, and no other
//! type.

pub mod bitfield;
pub mod bitmap;
pub mod popcount;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[bitfield::COMMANDS, bitmap::COMMANDS];
