//! Commands about the server itself: its state, its configuration, its clients.
//!
//! A container with much behind it is a room of its own: `acl/`, `client/`, `command/`, `debug/`, `info/`, `latency/`.
//!
//! In: the engine's counters, registry and configuration, and the table of commands. Out: texts and numbers as Valkey
//! gives them. It changes no key, but for DEBUG.

pub mod acl;
pub mod client;
pub mod command;
pub mod config;
pub mod connection;
pub(crate) mod debug;
pub mod hotkeys;
pub mod info;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod time;
mod worker_barrier;

use crate::core::command::Command;

/// The commands of this room.
pub const COMMANDS: &[&[Command]] = &[
    acl::COMMANDS,
    client::COMMANDS,
    command::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    hotkeys::COMMANDS,
    info::COMMANDS,
    latency::COMMANDS,
    latency::commandlog::COMMANDS,
    latency::slowlog::COMMANDS,
    lolwut::COMMANDS,
    memory::COMMANDS,
    module::COMMANDS,
    time::COMMANDS,
];
