//! The admin plane: what the server tells of itself over HTTP, on a thread and a port of its own.
//!
//! In: counters and states that the engine and the threads keep anyway. Out: metrics as plain data, who may see
//! them, whether the server is to be sent clients, and a client of the server for the commands of the page. The HTTP
//! server, the formats and the page are the crate `admin`'s.
//!
//! For all but those commands no worker is asked and no shard's lock is waited for: what another thread has at the
//! moment is told as it was seen last. So numbers are told whatever workers do.

mod authorization;
mod command_metrics;
mod info_metrics;
mod info_table;
mod lag_metrics;
mod live_numbers;
mod page_client;
pub mod plane;
mod readiness;
mod worker_metrics;
