//! All links to instances, and the owners of connections.

use crate::model::effect::{ConnectionId, Millis};
use crate::model::instance::TransportId;
use crate::model::instance_transport::{Connection, Transport};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The table of links. A link that an instance names is in it.
#[derive(Debug, Default)]
pub(crate) struct Transports {
    by_id: BTreeMap<TransportId, Transport>,
    /// The link of a connection, and whether it is subscribed.
    owners: BTreeMap<ConnectionId, (TransportId, bool)>,
    last_link: TransportId,
    last_connection: u64,
}

impl Index<TransportId> for Transports {
    type Output = Transport;

    fn index(&self, id: TransportId) -> &Transport {
        &self.by_id[&id]
    }
}

impl IndexMut<TransportId> for Transports {
    fn index_mut(&mut self, id: TransportId) -> &mut Transport {
        self.by_id.get_mut(&id).expect("a link that is named is there")
    }
}

impl Transports {
    /// Adds a link with one user.
    pub fn add(&mut self, now: Millis) -> TransportId {
        self.last_link += 1;
        self.by_id.insert(self.last_link, Transport::new(now));
        self.last_link
    }

    /// Removes a link, which has no user.
    pub fn remove(&mut self, id: TransportId) {
        self.by_id.remove(&id);
    }

    /// Returns a connection that is about to be opened.
    pub fn connection(&mut self, link: TransportId, pubsub: bool, now: Millis) -> Connection {
        self.last_connection += 1;
        let id = ConnectionId(self.last_connection);
        self.owners.insert(id, (link, pubsub));
        Connection::new(id, now)
    }

    /// Returns the slot of a connection, if it is there.
    pub fn slot(&mut self, connection: ConnectionId) -> Option<(TransportId, bool, &mut Option<Connection>)> {
        let (link, pubsub) = *self.owners.get(&connection)?;
        let found = self.by_id.get_mut(&link)?;
        Some((link, pubsub, if pubsub { &mut found.pubsub } else { &mut found.command }))
    }

    /// Forgets a closed connection.
    pub fn forget(&mut self, connection: ConnectionId) {
        if let Some((link, _, slot)) = self.slot(connection) {
            *slot = None;
            self[link].disconnected = true;
        }
        self.owners.remove(&connection);
    }
}
