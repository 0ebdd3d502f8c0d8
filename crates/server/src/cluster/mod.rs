//! This server as a node of a cluster: the thread of the bus, and the node's handle for others.
//!
//! ```text
//! worker: questions    -> view, which never changes
//! worker: PUBLISH      -> lane, bounded, for the thread
//! worker: orders       -> desk (one lock over the state machine) <-  thread: time, packets of other nodes
//!                                      | effects, in order, never by a worker
//!              the file, then the slot map of commands, then replies to the clients of orders
//!                                      |
//!        thread: sockets      duties' thread: this server's primary, keys of slots that are others' now
//! ```
//!
//! In: packets, orders of clients through the [`handle`](node_handle), the configuration. Out: bytes on sockets,
//! `nodes.conf`, the slot map that commands go by. The crate `cluster` decides what is to happen.

mod bus_link;
mod bus_thread;
mod deliveries;
mod message_lane;
mod node_file;
pub mod node_handle;
mod node_settings;
mod pending_orders;
mod task_lanes;
