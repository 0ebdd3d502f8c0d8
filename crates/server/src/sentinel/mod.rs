//! The Sentinel's thread, and the Sentinel's handle for others.
//!
//! ```text
//! worker: SENTINEL ...  -> desk (one lock over the state machine) <-  thread: time, replies of servers
//!                                       | effects
//!                                       v
//!                          thread: sockets, scripts, messages to subscribers, the log
//! ```
//!
//! In: replies of servers and other Sentinels, requests of clients through the [`handle`]. Out: bytes on sockets, tasks
//! for the worker. When something is to happen is not decided here.
//!
//! The process is a Sentinel, or has one [within](crate::sentinel_within) a server.

pub mod begin;
mod children;
mod driver;
pub mod sentinel_console;

mod sentinel_host;
