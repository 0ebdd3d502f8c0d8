//! All commands by name.

use crate::row::{Begin, Command, FindKeys};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Where a command's keys are, in the form that the dispatcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPlan {
    /// It has none, or finds them itself.
    None,
    /// One, at this argument.
    One(usize),
    /// From `first`, every `step`-th argument, up to `last` (negative: from the end).
    Range { first: usize, last: i32, step: usize },
    /// The specs have to be followed.
    Specs,
}

/// A row with what was derived from it once.
#[derive(Debug)]
pub struct Entry {
    pub command: &'static Command,
    /// `container|subcommand`, or the name.
    pub full_name: String,
    /// Position among all commands and subcommands, for tables of statistics.
    pub id: usize,
    pub(crate) plan: KeyPlan,
    pub subcommands: Vec<Entry>,
}

/// Every command, by lower-case name.
pub struct Table {
    by_name: HashMap<Vec<u8>, Entry, FixedState>,
    count: usize,
}

/// The longest name that is looked up.
const NAME_MAX: usize = 40;

impl Table {
    /// The table of all commands that exist.
    pub fn get() -> &'static Table {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Table::new(crate::FAMILIES))
    }

    fn new(families: &[&'static [Command]]) -> Table {
        let mut table = Table { by_name: HashMap::default(), count: 0 };
        for command in families.iter().copied().flatten() {
            let entry = Entry::new(command, "", &mut table.count);
            let known = table.by_name.insert(command.name.into(), entry);
            assert!(known.is_none(), "two rows for {}", command.name);
        }
        table
    }

    /// The command of this name, in whatever case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        let mut lower = [0u8; NAME_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower)
    }

    /// Top-level commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.values()
    }

    /// Number of top-level commands.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Number of commands and subcommands; ids are below it.
    pub fn ids(&self) -> usize {
        self.count
    }
}

impl Entry {
    fn new(command: &'static Command, container: &str, count: &mut usize) -> Entry {
        let id = *count;
        *count += 1;
        let full_name = match container {
            "" => command.name.to_owned(),
            _ => format!("{container}|{}", command.name),
        };
        let subcommands = command.subcommands.iter().map(|sub| Entry::new(sub, command.name, count)).collect();
        Entry { command, full_name, id, plan: KeyPlan::of(command), subcommands }
    }

    pub fn subcommand(&self, name: &[u8]) -> Option<&Entry> {
        self.subcommands.iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl KeyPlan {
    fn of(command: &Command) -> KeyPlan {
        match command.keys {
            [] => KeyPlan::None,
            [only] => match (only.begin, only.find) {
                (Begin::Index(index), FindKeys::Range { last: 0, .. }) => KeyPlan::One(index),
                (Begin::Index(first), FindKeys::Range { last, step, limit: 0 }) => KeyPlan::Range { first, last, step },
                _ => KeyPlan::Specs,
            },
            _ => KeyPlan::Specs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        let table = Table::get();
        assert_eq!(table.find(b"GeT").map(|entry| entry.command.name), Some("get"));
        assert!(table.find(b"nope").is_none());
        assert!(table.find(&[b'g'; NAME_MAX + 1]).is_none());
        assert!(table.iter().all(|entry| entry.command.name.len() <= NAME_MAX));
    }
}
