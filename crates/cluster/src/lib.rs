//! A node of a cluster as a state machine: packets of the bus, orders and time come in; packets, files to write and
//! changes of the served slots go out. The bus is that of Valkey's clusters, byte by byte.
//!
//! ```text
//!   packets, changes of links, ticks -> [`bus::Bus`] -> [`bus::Effect`]: connect, send, close, save, follow ...
//!   CLUSTER's orders ---------------->                  [`node_table::NodeTable`]: read by CLUSTER's queries
//!                                                       [`slot_map::SlotMap`]: routes of commands
//! ```
//!
//! Nothing here depends on sockets, threads, clocks or keys: a simulator can run hundreds of nodes.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod bus;
pub mod conf;
pub mod data_history;
pub mod link_id;
pub mod log_level;
pub mod migration;
pub mod node;
pub mod node_id;
pub mod node_table;
pub mod packet;
pub mod proxy;
pub mod slot_map;
mod slot_owners;
pub mod slot_set;

/// Number of a cluster's slots.
pub const SLOTS: usize = 16384;

/// Unix time in milliseconds.
pub type Millis = i64;
