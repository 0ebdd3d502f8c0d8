//! The admin plane: a small HTTP server on a thread and a port of its own, for those who watch the server.
//!
//! ```text
//!   GET /metrics ---> [`http_server`] -- may they? --> [`Backend`] --> [`family::Family`] -> [`prometheus`]
//!   GET /healthz                                                                          -> [`open_metrics`]
//!   GET /readyz                          every `otlp-interval` -----------------------+----> [`otlp`] -> a collector
//! ```
//!
//! In: connections, and what a [`Backend`] tells of the server. Out: text. Nothing here knows what the metrics are of,
//! and nothing is kept from one request to the next.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod backend;
pub mod exporter;
pub mod family;
mod http_connection;
pub mod http_server;
pub mod negotiation;
pub mod open_metrics;
pub mod otlp;
pub mod prometheus;

pub use backend::{Access, Backend, Caller, Credentials};
