//! One connection: its socket, its input, its output, the state in which it waits, and its limits.
//!
//! In: bytes from the socket. Out: bytes to it. The book protocol is translated here, to commands and from RESP. This
//! room knows nothing of the worker that owns a connection, nor of other connections.

pub mod book;
pub mod chunked;
pub mod connection_limits;
pub mod input;
pub mod memory_usage;
pub mod output;
pub mod output_buffer;
pub mod peer_socket;
pub mod rate_limit;
pub mod sched_state;
pub mod slow_reader_timeout;
pub mod socket;
pub mod state;
pub mod tls_stream;
pub mod waiting;
