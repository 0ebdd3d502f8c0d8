//! A client's command as questions to other nodes.

use crate::proxy::reply_join::Join;
use std::borrow::Cow;
use std::net::SocketAddr;

/// Context of a connection's commands at another node. Clients with the same context share a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Context {
    /// Whether replies are in RESP3.
    pub resp3: bool,
    /// Selected database.
    pub db: u32,
    /// Whether reads leave the access clock alone (CLIENT NO-TOUCH).
    pub no_touch: bool,
}

/// Requests for one node that belong together: a command, or a transaction from MULTI to EXEC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Node that is expected to answer.
    pub to: SocketAddr,
    /// Bytes of the requests.
    pub bytes: Vec<u8>,
    /// Number of requests. The last one's reply is the part's; an earlier reply counts if it redirects or postpones
    /// them.
    pub requests: usize,
    /// Whether the part has several keys: it is postponed while some of them are moving.
    pub has_several: bool,
    /// Whether the slot is known to be moving to that node: ASKING precedes the requests.
    pub asking: bool,
    /// Whether the reply may be slow.
    pub is_long: bool,
}

impl Part {
    /// Returns a part of one request for the node at `to`.
    pub fn new(to: SocketAddr, bytes: Vec<u8>) -> Part {
        Part { to, bytes, requests: 1, has_several: false, asking: false, is_long: false }
    }
}

/// A client's command that other nodes are to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Context of the commands.
    pub context: Context,
    /// Parts, which are sent at the same time.
    pub parts: Vec<Part>,
    /// Way in which the parts' replies become one answer.
    pub join: Join,
    /// Whether the command may write: without a reply the outcome is open, and it is not sent again.
    pub writes: bool,
    /// Number of the change that gave the client the rights by which it asks.
    pub rights_since: u64,
}

impl Question {
    /// Returns the question's only node, if all parts are for it and none is slow: another question may follow it
    /// there.
    pub fn only_owner(&self) -> Option<SocketAddr> {
        match &self.parts[..] {
            [part] if self.join == Join::One && !part.has_several => Some(part.to),
            _ => None,
        }
    }
}

/// A client's command with one key that another node is to answer behind the client's earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower<'a> {
    /// Node that is expected to answer.
    pub to: SocketAddr,
    /// Bytes of the request.
    pub bytes: Cow<'a, [u8]>,
    /// Whether the reply may be slow.
    pub is_long: bool,
    /// Whether the command may write.
    pub writes: bool,
    /// Number of the change that gave the client the rights by which it asks.
    pub rights_since: u64,
}
