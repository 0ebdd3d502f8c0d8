//! The admin plane: the server's numbers over HTTP, on a thread and a port of its own.
//!
//! In: counters and states that the engine and the threads hold anyway. Out: metrics as plain data, the rights of
//! callers, whether the server is to be sent clients, and a client of the server for the commands of the page. The HTTP
//! server, the formats and the page are the crate `admin`'s.
//!
//! For all but those commands no worker is asked and no shard's lock is waited for: data that another thread has locked
//! is shown as it was seen last. So numbers are shown whatever workers do.

mod authorization;
mod command_metrics;
mod info_metrics;
mod lag_metrics;
mod live_numbers;
mod page_client;
pub mod plane;
mod readiness;
mod worker_metrics;
