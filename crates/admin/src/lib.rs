//! The admin plane: a small HTTP server on a thread and a port of its own, for operators and monitoring.
//!
//! ```text
//!   GET /metrics --> `routes` -- may they? --> [`Backend`] --> [`family::Family`] -> [`prometheus`], [`open_metrics`]
//!   GET /healthz, /readyz                                              |
//!                                             every `otlp-interval` ---+----------> [`otlp`] -> a collector
//!   GET /        --> `page`
//!   GET /live    ------------------------------> [`Backend`] --> [`live::Live`] ---> JSON
//!   POST /command -> `command_request` -> `command_session`: a client of the server  -> JSON
//! ```
//!
//! In: connections, and a [`Backend`]'s data about the server. Out: text. No code here knows the meaning of a metric or
//! runs a command, and no state lasts from one request to the next.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod answers;
pub mod backend;
mod command_permits;
mod command_request;
mod command_session;
mod connection_limit;
pub mod exporter;
pub mod family;
mod http_connection;
pub mod http_server;
pub mod live;
pub mod negotiation;
pub mod open_metrics;
mod origin_check;
pub mod otlp;
mod page;
pub mod prometheus;
mod routes;

pub use backend::{Access, Backend, Caller, Credentials};
pub use command_permits::REQUESTS_MAX;
