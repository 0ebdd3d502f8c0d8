//! [`command::core::acl_catalog`] with the commands of the rooms.

use crate::core::acl_catalog::*;
use crate::core::command_table::CommandTable;
use engine::acl::catalog::CommandCatalog;

#[test]
fn numbers_are_those_of_the_table_also_where_commands_are_renamed() {
    crate::install(&[]);
    let rename = |from: &str, to: &str| (from.as_bytes().to_vec(), to.as_bytes().to_vec());
    let table = CommandTable::new(crate::all(), &[rename("get", "fetch"), rename("config", "")]);
    assert_eq!(table.ids(), Catalog::get().count());
    for entry in table.iter().flat_map(|entry| [entry].into_iter().chain(&entry.subcommands)) {
        let number = Catalog::get().find(entry.full_name.as_bytes()).expect("a known command");
        assert_eq!((number.id, number.is_inner), (entry.id, entry.full_name.contains('|')));
    }
}
