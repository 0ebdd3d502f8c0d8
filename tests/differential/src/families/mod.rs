//! The commands under test, one file a family.
//!
//! A family is two tables and perhaps words of its own:
//!
//! - **rows**: how often and how a command is drawn (the language is in `grammar.rs`, the words are in `words.rs`);
//! - **rules**: which of its replies cannot be compared byte for byte, and how they are compared instead.
//!
//! To add a family, add such a file and name it in `ALL`.

pub mod acl;
mod bitmap;
mod connection;
mod events;
mod generic;
mod geo;
mod hash;
mod history;
mod hyperloglog;
mod list;
pub mod phases;
mod script;
mod set;
mod stream;
mod string;
mod transaction;
mod zset;
mod zset_book;

use crate::compare::Rule;
use crate::words::Word;

pub struct Family {
    pub name: &'static str,
    pub words: &'static [Word],
    pub rows: &'static [Row],
    /// By command, or by command and subcommand, in capitals.
    pub rules: &'static [(&'static str, Rule)],
}

pub struct Row {
    /// How often it is drawn, relative to the other rows of all families in use.
    pub weight: u32,
    pub grammar: &'static str,
    pub needs: Needs,
}

/// Condition for the use of a row. The given command is sent to find out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// Both servers know this command.
    Both(&'static str),
    /// The newest commands are asked for, and the peer knows this one. The test itself decides whether the subject
    /// knows it.
    Newest(&'static str),
}

const fn row(weight: u32, grammar: &'static str) -> Row {
    Row { weight, grammar, needs: Needs::Nothing }
}

const fn newest(weight: u32, grammar: &'static str, probe: &'static str) -> Row {
    Row { weight, grammar, needs: Needs::Newest(probe) }
}

const fn optional(weight: u32, grammar: &'static str, probe: &'static str) -> Row {
    Row { weight, grammar, needs: Needs::Both(probe) }
}

pub const ALL: &[&Family] = &[
    &string::FAMILY,
    &bitmap::FAMILY,
    &generic::FAMILY,
    &hash::FAMILY,
    &list::FAMILY,
    &set::FAMILY,
    &zset_book::FAMILY,
    &zset::FAMILY,
    &stream::FAMILY,
    &hyperloglog::FAMILY,
    &geo::FAMILY,
    &script::FAMILY,
    &transaction::FAMILY,
    &connection::FAMILY,
    &acl::FAMILY,
];

/// Returns the names of the families that are compared by default: users' rights are those of Valkey 9, and are
/// compared with that.
pub fn by_default() -> Vec<String> {
    let names = ALL.iter().map(|family| family.name).filter(|name| *name != acl::FAMILY.name);
    names.map(str::to_owned).collect()
}

pub use events::FAMILY as EVENTS;
pub use history::FAMILY as HISTORY;

/// Always in use: keys are added and removed, and hold values of other types than the commands want.
pub const SEASONING: Family = Family {
    name: "seasoning",
    words: &[],
    rows: &[
        row(6, "DEL key"),
        row(4, "ZADD key 1 A 2 B"),
        optional(2, "RPUSH key A B", "RPUSH"),
        optional(2, "SADD key 1 2", "SADD"),
        optional(2, "HSET key F V", "HSET"),
        optional(1, "XADD key 1-1 F V", "XADD"),
        row(2, "SELECT 0"),
    ],
    rules: &[],
};
