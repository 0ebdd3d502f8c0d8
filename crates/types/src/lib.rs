//! The value types that the server has beside the built-in ones: a folder and a line of [`TYPES`] each.
//!
//! CONTRIBUTING.md describes how a type is added, and `tests/toy_type` is one to read. A type knows engine, commands
//! and its structure; only programs know this crate.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

use commands::InstalledType;

/// The types, for the programs that install them.
pub static TYPES: &[InstalledType] = &[];
