//! The keyspace as bytes outside of memory: the RDB format of Redis and Valkey, read and written.
//!
//! ```text
//!  REDIS0011 | fields | SELECTDB n | [expiry] type key value | ... | EOF | crc-64      a file
//!                                               type value | version | crc-64           what DUMP answers
//! ```
//!
//! Values go through [`encode`] and [`decode`], files through [`save`] and [`load`], single values through [`dump`].
//! All work on buffers and on any reader and writer of bytes: this crate opens no file and starts no thread. Input is
//! never trusted: every length is checked against the bytes present before memory is taken for it, and an error names
//! the offset and the reason.
//!
//! The format was taken from the files and dumps that the other servers write, and from their description of it
//! (`rdb.h`).
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod aof;
pub mod check;
pub mod check_stats;
mod chunked_values;
pub mod decode;
pub mod dump;
pub mod encode;
pub mod fan_out;
pub mod load;
pub mod save;
pub mod slot_snapshot;
pub mod snapshot_sum;
mod snapshot_writer;
mod stream;
mod ziplist;

pub use decode::Decoded;
pub use encode::Style;
pub use rdb::rdb_reader::{Fault, Reason, Source};
pub use rdb::{format, rdb_reader};

#[cfg(test)]
mod all_encodings_tests;
#[cfg(test)]
mod many_snapshots_tests;
#[cfg(test)]
mod save_under_writes_tests;
#[cfg(test)]
mod tests;
