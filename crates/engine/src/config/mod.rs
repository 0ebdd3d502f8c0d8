//! Configuration: one entry a directive, and everything else derived from the entries.
//!
//! | module | what it knows |
//! | --- | --- |
//! | [`directive`] | the identities that code uses |
//! | [`directive_entry`], [`directives`] | name, kind, bounds, default and flags of each |
//! | [`apply`] | what a changed directive does at once |
//! | [`directive_value`] | text to value and back |
//! | [`store`] | the values in force: typed reads, CONFIG GET, CONFIG SET |
//! | [`command_line`] | program arguments to configuration text |
//! | [`config_file`] | configuration text to values |
//! | [`config_rewrite`] | values back into the text they came from |
//!
//! Nothing here opens a file: what must be read comes through [`config_file::ConfigFiles`], what must take effect goes
//! through [`store::ApplyHooks`].

pub mod apply;
pub mod command_line;
pub mod config_file;
pub mod config_rewrite;
pub mod directive;
pub mod directive_entry;
pub mod directive_table;
pub mod directive_value;
mod directives;
pub mod keyspace_events;
mod sentinel_config;
pub mod store;
mod validators;

#[cfg(test)]
mod tests;

pub use apply::{Applied, Apply, EngineHook, EngineHooks, ServerHook, ServerHooks};
pub use command_line::{CommandLine, Invocation, parse_command_line};
pub use config_file::{ConfigFiles, LoadError, LoadedConfig, SentinelStatement, load, os_message};
pub use config_rewrite::{NO_CONFIG_FILE, RewriteInput, SentinelState, rewrite, rewrite_with_sentinel};
pub use directive::Directive;
pub use directive_entry::{DirectiveEntry, DirectiveKind, Preset, Unit, Unmet};
pub use directive_table::is_sensitive;
pub use directive_value::{ClientClass, DirectiveValue, OutputBufferLimit, SavePoint, Upstream};
pub use directives::AREAS;
pub use store::{ApplyHooks, Config, ConfigCaller, ConfigEdit, ConfigStore, SetError};
pub use validators::TITLE_VARIABLES;
