//! A command and its path, without any command: the entry of the table, the context of a handler, sessions, admission,
//! rights, routing, the wait of a blocking command, and the batch that takes requests from bytes to replies.
//!
//! The rooms with the commands stand above, in `commands`, and install their entries.
#![deny(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod batch;
pub mod blocking;
pub mod core;

pub use crate::core::args::{Args, RetainedArgs};
pub use crate::core::context::{Context, Flow, Now, Resumable, Work};
pub use crate::core::session::{LendingMode, Session};
