//! One connection: its socket, what has come in, what is to go out, and the limits of both.
//!
//! In: bytes from the socket. Out: bytes to it. It knows nothing of the worker that owns it, nor of other connections.

pub mod limits;
pub mod output_buffer;
pub mod socket;
pub mod state;
