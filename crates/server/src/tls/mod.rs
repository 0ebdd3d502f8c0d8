//! TLS as plain data: what the directives ask for, certificates and keys.
//!
//! In: the configuration, files that it names. Out: settings that new connections are made with. It knows no socket, no
//! thread and no log: what fails is a text for the log.

pub mod certificate;
pub mod key_files;
pub mod session_cache;
pub mod tls_settings;
