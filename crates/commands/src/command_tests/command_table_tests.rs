//! [`command::core::command_table`] with the commands of the rooms.

use crate::core::command_table::*;

#[test]
fn a_renamed_command_answers_to_its_new_name_only() {
    let rename = |from: &str, to: &str| (from.as_bytes().to_vec(), to.as_bytes().to_vec());
    let renames = [rename("DEL", "remove"), rename("get", "DEL"), rename("config", "")];
    let table = CommandTable::new(crate::all(), &renames);
    let found = |name: &str| table.find(name.as_bytes()).map(|entry| &entry.full_name[..]);
    assert_eq!((found("Remove"), found("del"), found("get"), found("config")), (Some("del"), Some("get"), None, None));
    assert_eq!(table.ids(), CommandTable::new(crate::all(), &[]).ids());
    assert!(crate::is_built_in(b"GET") && !crate::is_built_in(b"remove"));
}

#[test]
fn names_are_found_in_any_case() {
    let table = &CommandTable::new(crate::all(), &[]);
    assert_eq!(table.find(b"GeT").map(|entry| entry.command.name), Some("get"));
    assert!(table.find(b"nope").is_none());
    // Control characters that differ from digits and underscores in one bit only.
    assert!(table.find(b"BITFIELD\x7fRO").is_none() && table.find(b"BITFIELD_RO").is_some());
    // Another length that cancels out another last letter.
    assert!(table.find(b"appe....penn").is_none());
    assert!(table.find(b"").is_none() && table.find(&[0xff; 100]).is_none());
    for entry in table.iter() {
        let name = entry.command.name.to_uppercase();
        assert_eq!(table.find(name.as_bytes()).map(|found| found.id), Some(entry.id));
    }
    assert!(table.fullest_slot() <= 3, "names crowd in a slot: mix them better");
}
