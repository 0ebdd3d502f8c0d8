//! A value type for tests: a list of texts, installed as any type that is not built in. Nothing else knows its name.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod commands;
mod toy;

use ::commands::InstalledType;

/// The types of this crate, for the program that installs them.
pub static TYPES: &[InstalledType] = &[InstalledType { value_type: &toy::TOY, commands: commands::COMMANDS }];
