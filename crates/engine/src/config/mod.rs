//! Configuration: one entry a directive, and everything else derived from the entries.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`directive`] | the identities that code uses |
//! | [`entry`], [`directives`] | name, kind, bounds, default and flags of each |
//! | [`apply`] | what a changed directive does at once |
//! | [`value`] | text to value and back |
//! | [`store`] | the values in force: typed reads, CONFIG GET, CONFIG SET |
//! | [`command_line`] | program arguments to configuration text |
//! | [`mod@load`] | configuration text to values |
//! | [`rewrite`](mod@rewrite) | values back into the text they came from |
//!
//! Nothing here opens a file: what must be read comes through [`load::Host`], what must take effect goes through
//! [`store::ApplyHooks`].

pub mod apply;
mod check;
pub mod command_line;
pub mod directive;
mod directives;
pub mod entry;
pub mod keyspace_events;
pub mod load;
pub mod rewrite;
pub mod store;
pub mod table;
pub mod value;

#[cfg(test)]
mod tests;

pub use apply::{Applied, Apply, EngineHook, EngineHooks, ServerHook, ServerHooks};
pub use check::TITLE_VARIABLES;
pub use command_line::{CommandLine, Invocation, parse_command_line};
pub use directive::Directive;
pub use directives::AREAS;
pub use entry::{Entry, Kind, Preset, Unit, Unmet};
pub use load::{Host, LoadError, Loaded, load, os_message};
pub use rewrite::{NO_CONFIG_FILE, RewriteInput, rewrite};
pub use store::{ApplyHooks, Caller, Config, ConfigEdit, ConfigStore, SetError};
pub use table::is_sensitive;
pub use value::{ClientClass, OutputBufferLimit, SavePoint, Upstream, Value};
