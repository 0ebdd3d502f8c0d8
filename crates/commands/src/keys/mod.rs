//! Commands that work on keys of any type: expire, scan, sort, dump, move, flush.
//!
//! In: arguments and the keys' view. Out: replies, and keys that are renamed, copied, removed or sent away. The code
//! looks at a value's type only where the reply depends on it.

pub mod delete_matching;
pub mod dump;
pub mod expire;
pub mod expire_option;
pub mod flush;
pub(crate) mod key_walk;
pub mod keyspace;
pub mod migrate;
pub mod object;
pub(crate) mod pop_several;
pub mod scan;
pub mod scan_options;
pub mod sort;
pub(crate) mod table_exchange;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[
    delete_matching::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    flush::COMMANDS,
    keyspace::COMMANDS,
    migrate::COMMANDS,
    object::COMMANDS,
    scan::COMMANDS,
    sort::COMMANDS,
];
