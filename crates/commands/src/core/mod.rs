//! What every command stands on, and how one runs.
//!
//! Arguments and a session come in; a reply, effects and what is to follow go out. [`command`] is an entry of the table,
//! [`context`] what a handler works with, [`dispatch`] the way from arguments to effects. No file here knows what a
//! particular command does.

pub mod admission;
pub mod args;
pub mod chunked_reply;
pub mod command;
pub mod context;
pub mod dispatch;
pub mod help;
pub mod http_guard;
pub mod instrument;
pub mod key_spec;
pub mod lazy_free;
pub mod redact;
pub mod session;
pub mod table;
pub mod worker_barrier;
