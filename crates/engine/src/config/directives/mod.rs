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

use super::entry::Entry;

/// Every area, in the order in which a rewrite appends changed directives and in which positions are counted.
pub const AREAS: &[&[Entry]] = &[
    network::ENTRIES,
    security::ENTRIES,
    limits::ENTRIES,
    memory::ENTRIES,
    data::ENTRIES,
    persistence::ENTRIES,
    replication::ENTRIES,
    cluster::ENTRIES,
    tls::ENTRIES,
    logging::ENTRIES,
    process::ENTRIES,
];

/// How many directives there are.
pub const COUNT: usize = process::END as usize;
