//! [`command::core::help`] with the commands of the rooms.

use crate::core::command_table::CommandTable;
use crate::core::help::section;
use crate::testing::Client;

#[test]
fn every_container_has_a_help_that_names_its_subcommands() {
    crate::install(&[]);
    for entry in CommandTable::get().iter().filter(|entry| !entry.subcommands.is_empty()) {
        let lines: Vec<&str> = section(entry.command.name).collect();
        for sub in &entry.subcommands {
            let name = sub.command.name.to_uppercase();
            let named = lines.iter().any(|line| line.split([' ', '|']).any(|word| word == name));
            // Deprecated subcommands and those among nodes of a cluster are not shown.
            let is_left_out = ["HELP", "FLUSHSLOT", "SYNCSLOTS"].contains(&&*name) || sub.command.deprecated.is_some();
            assert!(named || is_left_out, "help.txt does not tell of {}", sub.full_name);
        }
    }
}

#[test]
fn a_help_begins_and_ends_as_all_do() {
    let mut client = Client::new();
    let help = client.run("object help");
    assert!(help.starts_with("[+OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +ENCODING <key> "));
    assert!(help.ends_with("    <key>. +HELP +    Print this help.]"), "{help}");
}
