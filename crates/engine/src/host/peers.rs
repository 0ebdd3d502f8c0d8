//! Other servers, and this one as a node among them.

use std::io;
use std::sync::Weak;
use std::time::Duration;

/// Connections to other servers.
pub trait Peers: Send + Sync {
    /// Connects to another server. `patience`: the timeout of that, and then of each read and each write.
    ///
    /// # Errors
    /// The name is not known, or no connection came about in that time.
    fn connect(&self, _host: &[u8], _port: &[u8], _patience: Duration) -> io::Result<Box<dyn Peer>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the node of a cluster that this server is, if it is one.
    fn own_node(&self) -> Option<OwnNode> {
        None
    }

    /// Whether the cluster has a node of this name.
    fn knows_node(&self, _name: &[u8]) -> bool {
        false
    }

    /// Returns the slots that move, as a snapshot for a replica has them; empty: none does.
    fn open_slots(&self) -> String {
        String::new()
    }

    /// Takes the slots that move at the primary that this server follows. False: the text is malformed.
    fn take_open_slots(&self, _text: &[u8]) -> bool {
        true
    }

    /// Saves the node's state of its cluster in its file before it returns.
    fn save_node(&self) {}
}

/// This server in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNode {
    /// The node's name.
    pub name: String,
    /// Whether it follows no other node.
    pub is_primary: bool,
    /// Whether it has slots, and a vote therefore.
    pub has_vote: bool,
}

/// Another server, at the other end of a connection.
pub trait Peer: io::Read + io::Write + Send {
    /// Sets the timeout of each read and each write.
    ///
    /// # Errors
    /// The system refuses it, as it does a time of zero.
    fn set_patience(&mut self, patience: Duration) -> io::Result<()>;

    /// Whether the connection is encrypted.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// The address of this end and the descriptor, as CLIENT LIST shows them.
    fn local_end(&self) -> (String, i32) {
        (String::new(), -1)
    }

    /// Returns the handle that ends the connection from another thread, as long as it is there.
    fn line(&self) -> Option<Weak<dyn Line>> {
        None
    }
}

/// The transport of a connection.
pub trait Line: Send + Sync {
    /// Ends all reads and writes, also those of threads that wait in one.
    fn hang_up(&self);
}
