//! TLS as plain data: what the directives ask for, certificates and keys, a connection's records.
//!
//! In: the configuration, files that it names, bytes from a socket. Out: settings that new connections are made with,
//! plaintext and records. It knows no socket, no thread and no log: what fails is a text for the log.

pub mod certificate;
pub mod key_files;
pub mod records;
pub mod session_cache;
pub mod tls_settings;
