//! One connection: its socket, what has come in, what is to go out, and the limits of both.

pub mod limits;
pub mod output_buffer;
pub mod push;
pub mod replies;
pub mod socket;
pub mod state;
