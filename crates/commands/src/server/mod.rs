//! Commands about the server itself: what it tells of itself, its configuration, its clients.
//!
//! In: the engine's counters, registry and configuration, and the table of commands. Out: texts and numbers as Valkey
//! gives them. It changes no key, but for DEBUG.

pub mod absent;
pub mod acl_category;
pub mod client;
pub mod client_list;
pub mod client_pause;
pub mod cluster;
pub mod command_command;
pub mod command_docs;
pub mod command_stats;
pub mod commandlog;
pub mod config;
pub mod connection;
pub mod debug;
pub mod debug_values;
pub mod digest;
pub mod info;
pub mod latency;
pub mod latency_report;
pub mod lolwut;
pub mod memory;
pub mod module;
pub mod replicas;
pub mod slowlog;
pub mod syntax;
pub mod time;
