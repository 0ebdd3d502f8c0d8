//! Commands that a replica sends on its link besides its offset: one ends the link, and the log reports it.

use crate::core::args::Args;
use crate::core::command::{MAY_REPLICATE, READONLY, WRITE};
use crate::core::command_table;

/// A command that would get a reply, on a link that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayCommand {
    /// Name of the command, with the subcommand's.
    pub name: String,
    /// Error that it would get, as it accesses keys.
    pub error: Option<&'static str>,
}

impl StrayCommand {
    /// Returns the command of these words; one at least.
    pub fn of(words: &[&[u8]]) -> StrayCommand {
        let args: Args<'_> = words.iter().copied().collect();
        match command_table::lookup(&args) {
            None => StrayCommand { name: "<unknown>".to_owned(), error: None },
            Some(entry) => {
                let is_of_keys = [WRITE, READONLY, MAY_REPLICATE].iter().any(|flag| entry.command.flags.has(*flag));
                let error = is_of_keys.then_some("Replica can't interact with the keyspace");
                StrayCommand { name: entry.full_name.to_string(), error }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_command_is_named_with_its_subcommand_and_must_not_look_at_keys() {
        crate::install(&[]);
        for (line, name, is_refused) in [
            ("get k", "get", true),
            ("XINFO help", "xinfo|help", false),
            ("ping", "ping", false),
            ("nope", "<unknown>", false),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let stray = StrayCommand::of(&words);
            assert_eq!((&*stray.name, stray.error.is_some()), (name, is_refused));
        }
    }
}
