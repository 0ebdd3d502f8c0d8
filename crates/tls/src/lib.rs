//! TLS as bytes, and the parts that the server and the tools share: names of ciphers, trust, a client's options and
//! stream, the records of a server's connection.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod authorities;
pub mod ciphers;
pub mod client_options;
pub mod client_stream;
pub mod multipath;
pub mod peer_verifier;
pub mod records;
#[cfg(any(test, feature = "fuzzing"))]
pub mod testing;

pub use rustls::ClientConfig;
pub use rustls::pki_types::ServerName;
