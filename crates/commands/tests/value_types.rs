//! Every value type passes these tests because it stands in the table.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "value_types/every_type.rs"]
mod every_type;

/// Prepares the process: the built-in types are always there.
fn install() {
    commands::install(&[]);
}
