//! The commands of Redis and Valkey on Cinnabar's engine: one file a family, one row and one function a
//! command.
#![forbid(unsafe_code)]

pub mod args;
pub mod bitfield;
pub mod bitmap;
pub mod book;
pub mod counter;
pub mod cx;
pub mod dispatch;
pub mod expire;
mod expire_option;
pub mod flush;
pub mod keyspace;
pub mod keyspec;
pub mod lcs;
pub mod mset;
pub mod object;
pub mod row;
pub mod scan;
pub mod session;
pub mod sorted_set;
pub mod string;
pub mod table;
#[cfg(test)]
mod testing;
pub mod time;

use row::Command;

/// All rows.
const FAMILIES: &[&[Command]] = &[
    bitfield::COMMANDS,
    bitmap::COMMANDS,
    counter::COMMANDS,
    expire::COMMANDS,
    flush::COMMANDS,
    keyspace::COMMANDS,
    lcs::COMMANDS,
    mset::COMMANDS,
    object::COMMANDS,
    scan::COMMANDS,
    sorted_set::COMMANDS,
    string::COMMANDS,
    time::COMMANDS,
];

pub use args::Args;
pub use cx::{Cx, Flow, Now, Piecewise};
pub use session::Session;
