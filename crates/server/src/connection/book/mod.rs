//! The book protocol, translated: its requests become commands in a connection's queue, and the replies of these become
//! its frames. No other code of the server knows the protocol.
//!
//! ```text
//!   socket -> [`book_requests`]: frames to commands -> queue -> batch, as with RESP
//!   socket <- [`book_stream`] <- [`reply_frames`]: RESP3 to frames <- replies, as with RESP
//! ```
//!
//! A command with the same meaning in both protocols runs the same handler; [`book_commands`] has the few others.

pub mod book_commands;
pub mod book_requests;
pub mod book_stream;
pub mod reply_frames;

#[cfg(test)]
mod tests;
