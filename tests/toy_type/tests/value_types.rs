//! The toy type passes the tests of every type, and a test of its own for values that change while they are written.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../crates/commands/tests/value_types/every_type.rs"]
mod every_type;

use engine::data::value_type;
use every_type::{Machine, options};
use persistence::Style;
use persistence::format::Family;
use persistence::save::{SaveOptions, save};
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
        let before = saved(&machine);
        let engine = Arc::clone(&machine.engine);
        let mut file = Adding(&mut machine, Vec::new());
        save(&engine, &uncompressed(), &mut file).unwrap();
        assert!(file.1 == before, "the file is that of its moment");
        assert!(saved(&machine).len() > before.len(), "items were added");
    }
}

/// The options of files that are equal if their values are, however they were written.
fn uncompressed() -> SaveOptions {
    SaveOptions { style: Style { compress: false, family: Family::Valkey }, ..options(Family::Valkey) }
}

fn saved(machine: &Machine) -> Vec<u8> {
    let mut file = Vec::new();
    save(&machine.engine, &uncompressed(), &mut file).unwrap();
    file
}
