//! All commands by name.

use crate::core::command::{BLOCKING, Begin, Command, FindKeys, Group, KeyFlags, READONLY, WRITE};
use crate::transactions::multi::may_touch_more;
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
    /// As many as this argument says, after it.
    Counted(usize),
    /// The specs have to be followed.
    Specs,
}

/// An entry with what was derived from it once.
#[derive(Debug)]
pub struct Entry {
    pub command: &'static Command,
    /// What it is called by: its name, unless it was renamed.
    called: Box<[u8]>,
    /// `container|subcommand`, or the name.
    pub full_name: String,
    /// Position among all commands and subcommands, for tables of statistics.
    pub id: usize,
    pub(crate) plan: KeyPlan,
    /// Fewest and most arguments, the name included.
    least: usize,
    most: usize,
    /// The name has at most eight bytes and all are letters, so that its packed form says everything.
    short_letters: bool,
    /// It may run a script, and then for long.
    pub(crate) runs_scripts: bool,
    /// Its arguments do not tell all keys that it touches.
    pub(crate) may_touch_more: bool,
    /// It works on one key and leaves its client as it is, but that it may go on in pieces.
    pub is_plain: bool,
    pub subcommands: Vec<Entry>,
}

/// Every command, by name in whatever case.
pub struct Table {
    /// Commands by the [`slot`] of their name; few share one.
    slots: Vec<Vec<(u64, Entry)>>,
    count: usize,
}

static TABLE: OnceLock<Table> = OnceLock::new();

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
    /// The table of all commands that exist, under the names that [`Table::rename`] gave them.
    pub fn get() -> &'static Table {
        TABLE.get_or_init(|| Table::new(crate::FAMILIES, &[]))
    }

    /// Gives commands other names (`rename-command`), one after the other; one with an empty new name can no longer be
    /// called. Must come before anybody asks for the table.
    pub fn rename(renames: &[(Vec<u8>, Vec<u8>)]) {
        assert!(TABLE.set(Table::new(crate::FAMILIES, renames)).is_ok(), "commands are renamed before they are used");
    }

    /// Whether there is such a command, before any is renamed.
    pub fn is_built_in(name: &[u8]) -> bool {
        crate::FAMILIES.iter().copied().flatten().any(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    fn new(families: &[&'static [Command]], renames: &[(Vec<u8>, Vec<u8>)]) -> Table {
        let commands = families.iter().copied().flatten();
        let mut named: Vec<(Vec<u8>, &'static Command)> =
            commands.map(|command| (command.name.as_bytes().to_vec(), command)).collect();
        for (from, to) in renames {
            if let Some((name, _)) = named.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(from)) {
                *name = to.to_ascii_lowercase();
            }
        }
        let mut table = Table { slots: (0..SLOTS).map(|_| Vec::new()).collect(), count: 0 };
        for (name, command) in named {
            assert!(name.is_empty() || table.find(&name).is_none(), "two commands are called {}", command.name);
            let entry = Entry::new(command, &name, "", &mut table.count);
            if !name.is_empty() {
                let packed = pack(&name);
                table.slots[slot(packed)].push((packed, entry));
            }
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

/// Commands that run scripts; DEBUG reads a log that has some.
const SCRIPTS: [&str; 8] = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "exec", "debug"];

impl Entry {
    fn new(command: &'static Command, called: &[u8], container: &str, count: &mut usize) -> Entry {
        let id = *count;
        *count += 1;
        let full_name = match container {
            "" => command.name.to_owned(),
            _ => format!("{container}|{}", command.name),
        };
        let inner = |sub: &'static Command| Entry::new(sub, sub.name.as_bytes(), command.name, count);
        let subcommands = command.subcommands.iter().map(inner).collect();
        let runs_scripts = container.is_empty() && SCRIPTS.contains(&command.name);
        let short_letters = called.len() <= 8 && called.iter().all(u8::is_ascii_alphabetic);
        let least = command.arity.unsigned_abs() as usize;
        let most = if command.arity < 0 { usize::MAX } else { least };
        let plan = KeyPlan::of(command);
        let is_plain = matches!(plan, KeyPlan::One(_)) && works_on_keys(command);
        Entry {
            command,
            called: called.into(),
            full_name,
            id,
            plan,
            least,
            most,
            short_letters,
            runs_scripts,
            may_touch_more: may_touch_more(command),
            is_plain,
            subcommands,
        }
    }

    /// The argument that is its only key, if it has one.
    #[inline(always)]
    pub fn only_key(&self) -> Option<usize> {
        if let KeyPlan::One(index) = self.plan { Some(index) } else { None }
    }

    /// Whether a call may have so many arguments, the name included.
    #[inline]
    pub fn accepts(&self, args: usize) -> bool {
        (self.least..=self.most).contains(&args)
    }

    /// Whether this is the name, of one whose [`pack`]ed form is the same.
    #[inline]
    fn is_named(&self, name: &[u8]) -> bool {
        name.len() == self.called.len() && (self.short_letters || self.called.eq_ignore_ascii_case(name))
    }

    pub fn subcommand(&self, name: &[u8]) -> Option<&Entry> {
        self.subcommands.iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Whether all that it does is with keys.
fn works_on_keys(command: &Command) -> bool {
    let elsewhere = matches!(
        command.group,
        Group::PubSub | Group::Transactions | Group::Connection | Group::Server | Group::Scripting | Group::Cluster
    );
    !elsewhere && command.flags.has(READONLY.and(WRITE)) && !command.flags.has(BLOCKING)
}

impl KeyPlan {
    fn of(command: &Command) -> KeyPlan {
        match command.keys {
            [] => KeyPlan::None,
            [only] if only.flags.has(KeyFlags::NOT_KEY) => KeyPlan::None,
            [only] => match (only.begin, only.find) {
                (Begin::Index(index), FindKeys::Range { last: 0, .. }) => KeyPlan::One(index),
                (Begin::Index(first), FindKeys::Range { last, step, limit: 0 }) => KeyPlan::Range { first, last, step },
                (Begin::Index(index), FindKeys::Counted { count: 0, first: 1, step: 1 }) => KeyPlan::Counted(index),
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
    fn a_renamed_command_answers_to_its_new_name_only() {
        let rename = |from: &str, to: &str| (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        let renames = [rename("DEL", "remove"), rename("get", "DEL"), rename("config", "")];
        let table = Table::new(crate::FAMILIES, &renames);
        let found = |name: &str| table.find(name.as_bytes()).map(|entry| &entry.full_name[..]);
        assert_eq!(
            (found("Remove"), found("del"), found("get"), found("config")),
            (Some("del"), Some("get"), None, None)
        );
        assert_eq!(table.ids(), Table::new(crate::FAMILIES, &[]).ids());
        assert!(Table::is_built_in(b"GET") && !Table::is_built_in(b"remove"));
    }

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
