//! A Sentinel: watches primaries and their replicas, agrees with other Sentinels, and fails over.
//!
//! ```text
//! tick(now), connected, received(bytes), closed, script_ended        SENTINEL ..., PUBLISH hello, INFO, ROLE
//!                         \                                            /
//!                          +------------->  Sentinel  <---------------+
//!                                               |
//!         effects: connect, send, close, publish, log, run a script, kill it, exit
//! ```
//!
//! The Sentinel is one state machine without sockets, threads and clocks: time and bytes come in, effects go out. It
//! asks its [`Host`] for facts that it needs at once (names of hosts, whether the configuration is on the disk).
//! Instances (primaries, replicas, other Sentinels) lie in one table and name each other by number; two instances that
//! are the same Sentinel seen from two primaries share one link.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod commands;
mod config_line_list;
mod failovers;
mod info_text;
mod model;
mod odown;
mod sentinel;
mod sentinel_settings;
mod statements;
mod tilt;
mod voter;
mod watch;

pub use model::effect::{ConfigLine, ConnectionId, Effect, Host, Level, Millis, ScriptId};
pub use model::info_report::InfoReport;
pub use model::instance_transport::HELLO_CHANNEL;
pub use sentinel::Sentinel;
pub use statements::{STATEMENTS, Scope, Statement};
pub use voter::{REWRITTEN, load_order, statement_place};
