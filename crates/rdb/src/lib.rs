//! The primitives of the RDB format of Redis and Valkey: numbers, lengths, strings, modules' values, checksums.
//!
//! A type's codec is built of these, beside the type's structure. [`rdb_reader`] reads, [`write`](mod@write) and
//! [`module_value`] write. This crate knows no value, no key and no file.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod checksum;
pub mod format;
pub mod module_value;
pub mod rdb_reader;
pub mod write;
