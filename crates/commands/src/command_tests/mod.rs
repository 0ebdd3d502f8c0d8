//! Tests of the crate `command` that need commands: one file for each of its files.

mod acl_catalog;
mod admission;
mod batch;
mod batch_command_cache;
mod book;
mod chunked_reply;
mod cluster_routing;
mod command_table;
mod dispatch;
mod forwarding;
mod help;
mod lazy_free;
mod redact;
mod rights;
mod slot_use;
