//! Connections between virtual nodes: bytes arrive late but in order, or never if the two ends cannot reach each other.

use cluster::link_id::LinkId;
use std::collections::BTreeMap;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct End {
    pub node: usize,
    /// Node's name for the connection; None while it does not know the connection.
    pub link: Option<LinkId>,
    /// Arrival of the last bytes on the way to this end: none overtake them.
    pub last_arrival: i64,
}

/// A connection, which the first end has made.
#[derive(Clone, Debug)]
pub struct Connection {
    pub ends: [End; 2],
    /// Whether bytes were lost on the connection: it is reset when the ends reach each other again.
    pub is_broken: bool,
}

/// All connections, and the ends' names for them.
#[derive(Default)]
pub struct Network {
    pub connections: BTreeMap<u64, Connection>,
    by_link: BTreeMap<(usize, LinkId), (u64, usize)>,
    last: u64,
}

impl Network {
    pub fn open(&mut self, from: usize, link: LinkId, to: usize) -> u64 {
        self.last += 1;
        let end = |node, link| End { node, link, last_arrival: 0 };
        let ends = [end(from, Some(link)), end(to, None)];
        self.connections.insert(self.last, Connection { ends, is_broken: false });
        self.by_link.insert((from, link), (self.last, 0));
        self.last
    }

    pub fn accepted(&mut self, id: u64, link: LinkId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.ends[1].link = Some(link);
            self.by_link.insert((connection.ends[1].node, link), (id, 1));
        }
    }

    /// Returns the connection that a node calls by that number, and the node's end of it.
    pub fn of(&self, node: usize, link: LinkId) -> Option<(u64, usize)> {
        self.by_link.get(&(node, link)).copied()
    }

    pub fn close(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        for end in &connection.ends {
            if let Some(link) = end.link {
                self.by_link.remove(&(end.node, link));
            }
        }
        Some(connection)
    }

    pub fn of_node(&self, node: usize) -> Vec<u64> {
        let is_of = |connection: &Connection| connection.ends.iter().any(|end| end.node == node);
        self.connections.iter().filter(|(_, connection)| is_of(connection)).map(|(id, _)| *id).collect()
    }
}
