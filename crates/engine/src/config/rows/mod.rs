//! One row a directive, a file an area; everything else about configuration derives from these.

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

use super::row::Row;

/// Every table, in the order in which a rewrite appends changed directives.
pub const AREAS: &[&[Row]] = &[
    network::ROWS,
    security::ROWS,
    limits::ROWS,
    memory::ROWS,
    data::ROWS,
    persistence::ROWS,
    replication::ROWS,
    cluster::ROWS,
    tls::ROWS,
    logging::ROWS,
    process::ROWS,
];
