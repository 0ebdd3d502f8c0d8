//! All commands by name.

use crate::row::{Begin, Command, FindKeys};
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

/// Every command, by name in whatever case.
pub struct Table {
    /// Commands by [`slot`] of their name; few share one.
    slots: Vec<Vec<Entry>>,
    count: usize,
}

/// A power of two, well above the number of commands.
const SLOTS: usize = 2048;

/// A number that names in any case share and other names seldom do: length and some letters.
#[inline]
fn slot(name: &[u8]) -> usize {
    let letter = |index: usize| usize::from(name.get(index).map_or(0, |byte| byte | 0x20));
    let mix = letter(0) + letter(1) * 7 + letter(2) * 61 + letter(name.len().saturating_sub(1)) * 257;
    (mix + name.len() * 523) % SLOTS
}

impl Table {
    /// The table of all commands that exist.
    pub fn get() -> &'static Table {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Table::new(crate::FAMILIES))
    }

    fn new(families: &[&'static [Command]]) -> Table {
        let mut table = Table { slots: (0..SLOTS).map(|_| Vec::new()).collect(), count: 0 };
        for command in families.iter().copied().flatten() {
            assert!(table.find(command.name.as_bytes()).is_none(), "two rows for {}", command.name);
            let entry = Entry::new(command, "", &mut table.count);
            table.slots[slot(command.name.as_bytes())].push(entry);
        }
        table
    }

    /// The command of this name, in whatever case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.slots[slot(name)].iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Top-level commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten()
    }

    /// Number of top-level commands.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
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
        assert!(table.find(b"").is_none() && table.find(&[0xff; 100]).is_none());
        for entry in table.iter() {
            let name = entry.command.name.to_uppercase();
            assert_eq!(table.find(name.as_bytes()).map(|found| found.id), Some(entry.id));
        }
        assert!(table.slots.iter().all(|slot| slot.len() <= 3), "names crowd in a slot: mix their letters better");
    }
}
