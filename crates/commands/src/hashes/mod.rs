//! Commands of hashes, and of the expiry of their fields.
//!
//! In: arguments and the keys' view. Out: replies, and hashes that are changed through an edit. `structures` chooses
//! the form of a hash.

pub mod field_ttl;
pub mod hash;
pub mod hgetall;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[field_ttl::COMMANDS, hash::COMMANDS, hgetall::COMMANDS];
