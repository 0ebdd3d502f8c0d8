//! The toy type passes the tests of every type, and a test of its own for values that change while they are written.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../crates/commands/tests/value_types/every_type.rs"]
mod every_type;

use engine::data::value_type;
use every_type::{Machine, keys_of, options};
use persistence::format::Family;
use persistence::save::save;
use std::io::{self, Write};
use std::sync::Arc;

/// Prepares the process: the toy type stands beside the built-in ones.
fn install() {
    commands::install_types(toy_type::TYPES);
    commands::install(&[]);
}

/// A file during whose writing an item is added to a toy.
struct Adding<'m>(&'m mut Machine, Vec<u8>);

impl Write for Adding<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        self.0.text("TOY.ADD a later");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_toy_is_written_as_it_was_while_items_are_added() {
    install();
    for sample in (value_type::named(b"toy").unwrap().samples)() {
        let mut machine = Machine::new();
        machine.put("a", &sample);
        let len = keys_of(&saved(&machine))[0].2;
        let engine = Arc::clone(&machine.engine);
        let mut file = Adding(&mut machine, Vec::new());
        save(&engine, &options(Family::Valkey), &mut file).unwrap();
        assert_eq!(keys_of(&file.1), [("a".to_owned(), "toy", len)]);
        assert!(keys_of(&saved(&machine))[0].2 > len, "items were added");
    }
}

fn saved(machine: &Machine) -> Vec<u8> {
    let mut file = Vec::new();
    save(&machine.engine, &options(Family::Valkey), &mut file).unwrap();
    file
}
