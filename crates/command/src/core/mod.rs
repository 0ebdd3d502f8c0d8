//! The foundation of every command, and the path of one.
//!
//! Arguments and a session come in; a reply, effects and the further flow go out. [`command`] is an entry of the table,
//! [`context`] the context of a handler, [`dispatch`] the way from arguments to effects. No file here knows the effects
//! of a particular command.

pub mod acl_catalog;
pub(crate) mod admission;
pub(crate) mod args;
pub(crate) mod busy_script;
pub(crate) mod chunked_reply;
pub mod client_line;
pub(crate) mod cluster_routing;
pub mod command;
pub mod command_table;
pub mod context;
pub mod dispatch;
pub(crate) mod forwarding;
pub(crate) mod help;
pub(crate) mod http_guard;
pub mod instrument;
pub(crate) mod key_spec;
pub(crate) mod lazy_free;
pub mod lending;
pub mod mode;
pub mod queued;
pub(crate) mod redact;
pub mod rights;
pub(crate) mod session;
mod slot_use;
pub(crate) mod tracked_reads;
