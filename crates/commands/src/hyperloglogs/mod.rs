//! Commands of HyperLogLog sketches, which are strings.
//!
//! In: elements and keys. Out: estimates, and sketches in the bytes that other servers have. The arithmetic is in
//! `structures`.

pub mod hyperloglog;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[hyperloglog::COMMANDS];
