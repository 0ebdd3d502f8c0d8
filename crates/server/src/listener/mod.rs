//! The listening sockets, and how new connections get to workers.
//!
//! In: the configuration's addresses, connections from the kernel. Out: messages with a new connection, to the worker
//! that has the fewest. It knows nothing of what a connection says.

pub mod acceptor;
pub mod sockets;
