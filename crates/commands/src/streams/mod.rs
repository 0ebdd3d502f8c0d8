//! Commands of streams and of their consumer groups.
//!
//! In: arguments, the keys' view, and the time for new ids. Out: replies, and streams that are changed through an edit.
//! Deliveries to a consumer are logged so that a replay has the same result.

pub mod add;
pub mod claim;
pub mod consume;
pub mod extended;
pub mod group;
pub(crate) mod own_words;
pub mod pending;
pub mod range;
pub mod stream;
pub(crate) mod stream_records;
pub mod trim;
pub mod xinfo;
pub mod xread;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[
    add::COMMANDS,
    claim::COMMANDS,
    consume::COMMANDS,
    extended::COMMANDS,
    group::COMMANDS,
    pending::COMMANDS,
    range::COMMANDS,
    stream::COMMANDS,
    trim::COMMANDS,
    xinfo::COMMANDS,
    xread::COMMANDS,
];
