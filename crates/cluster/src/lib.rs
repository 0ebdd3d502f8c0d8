//! A node of a cluster as a state machine: packets of the bus, orders and time come in; packets, files to write and
//! changes of what the node serves go out. The bus is that of Valkey's clusters, byte by byte.
//!
//! ```text
//!   packets, links that came and went, ticks -> [`bus::Bus`] -> [`bus::Effect`]: connect, send, close, save, follow ...
//!   CLUSTER's orders ------------------------>                  [`node_table::NodeTable`]: what CLUSTER's questions read
//!                                                               [`slot_map::SlotMap`]: where commands are sent
//! ```
//!
//! Nothing here knows of sockets, threads or clocks, nor of keys: it may be run by the hundred in a simulator.
#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod bus;
pub mod conf;
pub mod link_id;
pub mod migration;
pub mod node;
pub mod node_id;
pub mod node_table;
pub mod packet;
pub mod proxy;
pub mod slot_map;
mod slot_owners;
pub mod slot_set;

/// How many slots a cluster has.
pub const SLOTS: usize = 16384;

/// Unix time in milliseconds.
pub type Millis = i64;
