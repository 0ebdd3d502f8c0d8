//! Other servers, and what this one is among them.

use std::io;
use std::sync::Weak;
use std::time::Duration;

/// Connections to other servers.
pub trait Peers: Send + Sync {
    /// Connects to another server. `patience`: how long that may take, and then each read and each write.
    ///
    /// # Errors
    /// The name is not known, or no connection came about in that time.
    fn connect(&self, _host: &[u8], _port: &[u8], _patience: Duration) -> io::Result<Box<dyn Peer>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The node of a cluster that this server is, if it is one.
    fn own_node(&self) -> Option<OwnNode> {
        None
    }

    /// Whether the cluster has a node of this name.
    fn knows_node(&self, _name: &[u8]) -> bool {
        false
    }

    /// The slots that move, as a snapshot for a replica has them; empty: none does.
    fn open_slots(&self) -> String {
        String::new()
    }

    /// The same, of the primary that this server follows. False: the text is none.
    fn take_open_slots(&self, _text: &[u8]) -> bool {
        true
    }

    /// What the node knows of its cluster is in its file when this returns.
    fn save_node(&self) {}
}

/// What this server is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNode {
    /// The node's name.
    pub name: String,
    /// It follows no other node.
    pub is_primary: bool,
    /// It has slots, and a vote therefore.
    pub has_vote: bool,
}

/// Another server, at the other end of a connection.
pub trait Peer: io::Read + io::Write + Send {
    /// How long each read and each write may take from now on.
    ///
    /// # Errors
    /// The system refuses it, as it does a time of zero.
    fn set_patience(&mut self, patience: Duration) -> io::Result<()>;

    /// Whether nobody between here and there can read along.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// The address of this end and the descriptor, as CLIENT LIST shows them.
    fn local_end(&self) -> (String, i32) {
        (String::new(), -1)
    }

    /// What ends the connection from another thread, as long as it is there.
    fn line(&self) -> Option<Weak<dyn Line>> {
        None
    }
}

/// What a connection goes over.
pub trait Line: Send + Sync {
    /// Nothing is read or written from now on; who waits for that waits no more.
    fn hang_up(&self);
}
