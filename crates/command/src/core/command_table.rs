//! All commands by name.

use crate::core::args::Args;
use crate::core::command::{Command, CommandEntry};
use crate::core::mode;
use engine::{Error, Word};
use std::sync::OnceLock;

/// Every command, by name in whatever case.
pub struct CommandTable {
    /// Commands by the [`slot`] of their name; few share one.
    slots: Vec<Vec<(u64, CommandEntry)>>,
    /// Commands and subcommands.
    count: usize,
    /// Commands that have a name.
    top_level: usize,
    /// Names by id, once one was asked for.
    names: OnceLock<Vec<&'static str>>,
    /// Commands and subcommands by name, once they were asked for.
    by_name: OnceLock<Vec<&'static CommandEntry>>,
}

static TABLE: OnceLock<CommandTable> = OnceLock::new();
/// The table of a Sentinel within a server's process.
static TABLE_OF_SENTINEL: OnceLock<CommandTable> = OnceLock::new();

/// Number of slots: a power of two, well above the number of commands.
const SLOTS: usize = 2048;

/// Returns the ends of a name and its length in one word, letters in lower case. Different names of the same length, of
/// at most eight letters, have different words.
#[inline]
pub(super) fn pack(name: &[u8]) -> u64 {
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

#[inline(always)]
fn place() -> &'static OnceLock<CommandTable> {
    if mode::is_sentinel_within() { &TABLE_OF_SENTINEL } else { &TABLE }
}

impl CommandTable {
    /// Returns the table of all commands that exist for this thread, under their present names.
    #[inline(always)]
    pub fn get() -> &'static CommandTable {
        place().get().expect("commands::install comes before the first command")
    }

    /// Sets the table up for the whole process, or for the Sentinel within it: of these commands, of which some are
    /// given other names (`rename-command`), one after the other; one with an empty new name can no longer be called.
    /// The first caller decides: true for it.
    pub fn install(commands: impl Iterator<Item = &'static Command>, renames: &[(Vec<u8>, Vec<u8>)]) -> bool {
        place().get().is_none() && place().set(CommandTable::new(commands, renames)).is_ok()
    }

    /// Builds the table of these commands, some of them by other names. A command with an empty name is left out.
    pub fn new(commands: impl Iterator<Item = &'static Command>, renames: &[(Vec<u8>, Vec<u8>)]) -> CommandTable {
        let mut named: Vec<(Vec<u8>, &'static Command)> =
            commands.map(|command| (command.name.as_bytes().to_vec(), command)).collect();
        for (from, to) in renames {
            if let Some((name, _)) = named.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(from)) {
                *name = to.to_ascii_lowercase();
            }
        }
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        let mut table =
            CommandTable { slots, count: 0, top_level: 0, names: OnceLock::new(), by_name: OnceLock::new() };
        for (name, command) in named {
            assert!(name.is_empty() || table.find(&name).is_none(), "two commands are called {}", command.name);
            let entry = CommandEntry::new(command, &name, None, &mut table.count);
            if !name.is_empty() {
                let packed = pack(&name);
                table.slots[slot(packed)].push((packed, entry));
                table.top_level += 1;
            }
        }
        table
    }

    /// Returns the command of this name, in whatever case.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<&CommandEntry> {
        let packed = pack(name);
        self.slots[slot(packed)]
            .iter()
            .find(|(candidate, entry)| *candidate == packed && entry.is_named(name))
            .map(|(_, entry)| entry)
    }

    /// Returns the top-level commands, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &CommandEntry> {
        self.slots.iter().flatten().map(|(_, entry)| entry)
    }

    /// Returns all commands and subcommands in the order of their full names.
    pub fn by_name(&'static self) -> &'static [&'static CommandEntry] {
        self.by_name.get_or_init(|| {
            let mut all: Vec<_> = self.iter().flat_map(|entry| [entry].into_iter().chain(&entry.subcommands)).collect();
            all.sort_by(|a, b| a.full_name.cmp(&b.full_name));
            all
        })
    }

    /// Returns the most commands that share a slot: a lookup compares as many names at most.
    pub fn fullest_slot(&self) -> usize {
        self.slots.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the number of top-level commands.
    pub fn len(&self) -> usize {
        self.top_level
    }

    /// Returns whether there is none, which is never so.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the name of the command or subcommand with this id.
    pub fn name_of(&'static self, id: usize) -> &'static str {
        let names = self.names.get_or_init(|| {
            let mut names = vec![""; self.ids()];
            for entry in self.iter().flat_map(|entry| [entry].into_iter().chain(&entry.subcommands)) {
                names[entry.id] = &*entry.full_name;
            }
            names
        });
        names.get(id).copied().unwrap_or_default()
    }

    /// Returns the number of commands and subcommands; ids are below it.
    pub fn ids(&self) -> usize {
        self.count
    }
}

/// Returns the entry of the command, unless there is none or it does not accept so many arguments.
pub fn accepted(args: &Args<'_>) -> Option<&'static CommandEntry> {
    lookup(args).filter(|entry| entry.accepts(args.len()))
}

/// Returns the entry that the first words name, of a subcommand if the command has some.
#[inline(always)]
pub fn lookup(args: &Args<'_>) -> Option<&'static CommandEntry> {
    let entry = CommandTable::get().find(&args[0])?;
    if !entry.subcommands.is_empty() && args.len() > 1 { entry.subcommand(&args[1]) } else { Some(entry) }
}

/// Returns the entry for these arguments, or the error if there is none.
///
/// # Errors
/// There is no such command or subcommand, or not with so many arguments.
pub fn find(args: &Args<'_>) -> Result<&'static CommandEntry, Error> {
    let Some(entry) = lookup(args) else {
        return Err(match CommandTable::get().find(&args[0]) {
            Some(container) => unknown_subcommand(container, args),
            None => unknown_command(args),
        });
    };
    if !entry.accepts(args.len()) {
        return Err(Error::WrongArity(Word::of(&*entry.full_name)));
    }
    Ok(entry)
}

/// Bytes of an unknown command's arguments that its error repeats.
const UNKNOWN_SHOWN: usize = 128;

/// Returns the error of words that are no command.
pub fn unknown_command(args: &Args<'_>) -> Error {
    let mut text = Vec::new();
    let mut left = UNKNOWN_SHOWN;
    for arg in args.from(1) {
        if left == 0 {
            break;
        }
        let arg = engine::before_nul(arg);
        let arg = &arg[..arg.len().min(left)];
        text.push(b'\'');
        text.extend_from_slice(arg);
        text.extend_from_slice(b"' ");
        left = left.saturating_sub(arg.len() + 3);
    }
    Error::UnknownCommand(Word::of(shown(&args[0])), Word::of(text))
}

/// Returns the error of a container's subcommand that does not exist.
pub fn unknown_subcommand(entry: &CommandEntry, args: &Args<'_>) -> Error {
    Error::UnknownSubcommand(Word::of(shown(&args[1])), Word::of(entry.command.name.to_uppercase()))
}

/// Returns as much of a name as an error repeats.
pub fn shown(name: &[u8]) -> &[u8] {
    let name = engine::before_nul(name);
    &name[..name.len().min(UNKNOWN_SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_may_cancel_out_a_letter() {
        assert_eq!(pack(b"appe....penn"), pack(b"append"));
    }
}
