//! TLS as plain data: the directives, certificates and keys.
//!
//! In: the configuration, files that it names. Out: settings for new connections. It knows no socket, no thread and no
//! log: an error is a text for the log.

pub mod certificate;
pub mod key_files;
pub mod session_cache;
pub mod tls_settings;
