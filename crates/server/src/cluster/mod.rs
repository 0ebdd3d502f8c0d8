//! This server as a node of a cluster: the thread of the bus, and how others ask the node.
//!
//! ```text
//! worker: questions    -> view, which never changes
//! worker: PUBLISH      -> lane, bounded, for the thread
//! worker: orders       -> desk (one lock over the state machine) <-  thread: time, packets of other nodes
//!                                      | effects, in order, never by a worker
//!              the file, then what commands are admitted by, then replies to those who gave orders
//!                                      |
//!        thread: sockets      duties' thread: whom this server follows, keys of slots that are others' now
//! ```
//!
//! In: packets, orders of clients through the [`desk`](node_desk), the configuration. Out: bytes on sockets,
//! `nodes.conf`, the slot map that commands go by. What is to happen is decided in the crate `cluster`.

mod bus_link;
mod bus_thread;
mod deliveries;
mod duties;
mod link_output;
mod message_lane;
pub mod node_desk;
mod node_file;
mod node_settings;
mod pending_visits;
