//! The listening sockets, and how new connections get to workers.
//!
//! In: the configuration's addresses, connections from the kernel. Out: messages with a new connection, to the worker
//! that has the fewest; connections with TLS after their handshakes, and a proxy's after their headers, on threads of
//! their own. It knows nothing of clients' requests.

pub mod acceptor;
pub mod handshakes;
pub mod new_client;
pub mod proxied;
pub mod sockets;
pub mod tls_state;
