//! Replication as Redis and Valkey speak it: what both ends of a link know and decide.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`ids`] | names of histories, and how far one goes that two names have |
//!
//! Bytes and times come in, bytes and decisions go out. No module opens a socket, starts a thread, reads a clock or
//! trusts a length it was told.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod ids;
