//! The listening sockets, and how new connections get to workers.
//!
//! In: the configuration's addresses, connections from the kernel. Out: messages with a new connection, to the worker
//! that has the fewest; those with TLS after their handshakes, and a proxy's after their headers, which threads of
//! their own see to. It knows nothing of what a client says.

pub mod acceptor;
pub mod handshakes;
pub mod new_client;
pub mod proxied;
pub mod sockets;
pub mod tls_state;
