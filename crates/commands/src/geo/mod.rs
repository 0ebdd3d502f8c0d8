//! Commands of points on the earth, which are sorted sets of geohashes.
//!
//! In: places, distances and shapes. Out: ranges of scores, and members within them. The arithmetic is in `structures`;
//! a sorted set is used as any command uses it.

pub mod points;
pub mod search;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[points::COMMANDS, search::COMMANDS];
