//! The foundation of every command, and the path of one.
//!
//! Arguments and a session come in; a reply, effects and the further flow go out. [`command`] is an entry of the table,
//! [`context`] the context of a handler, [`dispatch`] the way from arguments to effects. No file here knows the effects
//! of a particular command.

pub mod acl_catalog;
pub mod acl_check;
pub mod admission;
pub mod args;
pub mod busy_script;
pub mod chunked_reply;
pub mod client_line;
pub mod cluster_proxy;
pub mod cluster_routing;
pub mod command;
pub mod command_table;
pub mod context;
pub mod dispatch;
pub mod help;
pub mod http_guard;
pub mod instrument;
pub mod key_spec;
pub mod lazy_free;
pub mod mode;
pub mod queued;
pub mod redact;
pub mod session;
mod slot_use;
pub mod tracked_reads;
pub mod yielding;
