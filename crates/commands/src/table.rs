//! All commands by name.

use crate::row::{Begin, Command, FindKeys, KeyFlags};
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
    /// The name has at most eight bytes and all are letters, so that its packed form says everything.
    short_letters: bool,
    pub subcommands: Vec<Entry>,
}

/// Every command, by name in whatever case.
pub struct Table {
    /// Commands by the [`slot`] of their name; few share one.
    slots: Vec<Vec<(u64, Entry)>>,
    count: usize,
}

/// A power of two, well above the number of commands.
const SLOTS: usize = 2048;

/// The ends of a name and its length in one word, letters in lower case. Of two names of the same length, at most eight
/// letters, only equal ones have the same.
#[inline]
fn pack(name: &[u8]) -> u64 {
    let word = |at: usize| u64::from(u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]));
    let ends = match name.len() {
        0 => 0,
        len @ 1..4 => u64::from(name[0]) | u64::from(name[len / 2]) << 8 | u64::from(name[len - 1]) << 16,
        len => word(0) | word(len - 4) << 32,
    };
    (ends | 0x2020_2020_2020_2020) ^ (name.len() as u64) << 56
}

#[inline]
fn slot(packed: u64) -> usize {
    (packed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize
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
            let packed = pack(command.name.as_bytes());
            table.slots[slot(packed)].push((packed, entry));
        }
        table
    }

    /// The command of this name, in whatever case.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        let packed = pack(name);
        self.slots[slot(packed)]
            .iter()
            .find(|(candidate, entry)| *candidate == packed && entry.is_named(name))
            .map(|(_, entry)| entry)
    }

    /// Top-level commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten().map(|(_, entry)| entry)
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
        let short_letters = command.name.len() <= 8 && command.name.bytes().all(|byte| byte.is_ascii_alphabetic());
        Entry { command, full_name, id, plan: KeyPlan::of(command), short_letters, subcommands }
    }

    /// Whether this is the name, of one whose [`pack`]ed form is the same.
    #[inline]
    fn is_named(&self, name: &[u8]) -> bool {
        name.len() == self.command.name.len()
            && (self.short_letters || self.command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    pub fn subcommand(&self, name: &[u8]) -> Option<&Entry> {
        self.subcommands.iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl KeyPlan {
    fn of(command: &Command) -> KeyPlan {
        match command.keys {
            [] => KeyPlan::None,
            [only] if only.flags.has(KeyFlags::NOT_KEY) => KeyPlan::None,
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
        // Control characters that differ from digits and underscores in one bit only.
        assert!(table.find(b"BITFIELD\x7fRO").is_none() && table.find(b"BITFIELD_RO").is_some());
        // Another length that cancels out another last letter.
        assert_eq!(pack(b"appe....penn"), pack(b"append"));
        assert!(table.find(b"appe....penn").is_none());
        assert!(table.find(b"").is_none() && table.find(&[0xff; 100]).is_none());
        for entry in table.iter() {
            let name = entry.command.name.to_uppercase();
            assert_eq!(table.find(name.as_bytes()).map(|found| found.id), Some(entry.id));
        }
        assert!(table.slots.iter().all(|slot| slot.len() <= 3), "names crowd in a slot: mix them better");
    }
}
