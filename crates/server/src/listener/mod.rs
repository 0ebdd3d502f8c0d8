//! The listening sockets, and how new connections get to workers.

pub mod acceptor;
pub mod sockets;
