//! One entry a directive, a file an area; everything else about configuration derives from these.

mod cluster;
mod data;
mod limits;
mod logging;
mod memory;
mod network;
mod persistence;
mod process;
mod replication;
mod security;
mod tls;

use super::directive_entry::DirectiveEntry;

/// Every area with its title, in the order in which a rewrite appends changed directives and in which positions are
/// counted.
pub const AREAS: &[(&str, &[DirectiveEntry])] = &[
    ("Listeners, sockets and threads", network::ENTRIES),
    ("Passwords and what is off unless it is asked for", security::ENTRIES),
    ("Limits of clients and scripts", limits::ENTRIES),
    ("Memory, eviction and expiry", memory::ENTRIES),
    ("Databases, events of keys, compact encodings", data::ENTRIES),
    ("Snapshots and the append-only file", persistence::ENTRIES),
    ("Replication", replication::ENTRIES),
    ("Cluster", cluster::ENTRIES),
    ("TLS", tls::ENTRIES),
    ("Logs, latency and crash reports", logging::ENTRIES),
    ("The process", process::ENTRIES),
];

/// How many directives there are.
pub const COUNT: usize = process::END as usize;
