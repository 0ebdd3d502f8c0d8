//! What a client's command comes to when other nodes are to answer it.

use crate::proxy::reply_join::Join;
use std::net::SocketAddr;

/// How commands of a connection to another node are understood there. Clients that agree in it share a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    /// Replies are in RESP3.
    pub resp3: bool,
    /// The selected database.
    pub db: u32,
    /// Reads leave the access clock alone (CLIENT NO-TOUCH).
    pub no_touch: bool,
}

/// Requests for one node that belong together: a command, or a transaction from MULTI to EXEC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who is believed to answer it.
    pub to: SocketAddr,
    /// The requests as they are sent.
    pub bytes: Vec<u8>,
    /// How many requests these are. The last one's reply is the part's; one before it counts if it is a redirection, or
    /// puts them off.
    pub requests: usize,
    /// It has several keys: while some of them are on their way it is put off.
    pub has_several: bool,
    /// It is known to be on its way to there: ASKING comes first.
    pub asking: bool,
    /// Its reply may take long.
    pub is_long: bool,
}

impl Part {
    /// Returns one request for the node at `to`.
    pub fn new(to: SocketAddr, bytes: Vec<u8>) -> Part {
        Part { to, bytes, requests: 1, has_several: false, asking: false, is_long: false }
    }
}

/// A command of a client that other nodes are to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// How its commands are understood.
    pub context: Context,
    /// What is asked; more than one part is asked at the same time.
    pub parts: Vec<Part>,
    /// How one answer is made of the parts' replies.
    pub join: Join,
    /// It may change something: when no reply comes the outcome is open, and it is not asked again.
    pub writes: bool,
    /// The number of the change that gave its client the rights by which it is asked.
    pub rights_since: u64,
}

impl Question {
    /// Whom all of it is for, if that is one node, at once: then another question of its client may follow it there.
    pub fn only_owner(&self) -> Option<SocketAddr> {
        match &self.parts[..] {
            [part] if self.join == Join::One && !part.has_several => Some(part.to),
            _ => None,
        }
    }
}
