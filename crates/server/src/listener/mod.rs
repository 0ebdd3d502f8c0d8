//! The listening sockets, and how new connections get to workers.
//!
//! In: the configuration's addresses, connections from the kernel. Out: messages with a new connection, to the worker
//! that has the fewest; connections with TLS after their handshakes, which threads of their own make. It knows nothing
//! of what a connection says.

pub mod acceptor;
pub mod handshakes;
pub mod new_client;
pub mod sockets;
pub mod tls_state;
