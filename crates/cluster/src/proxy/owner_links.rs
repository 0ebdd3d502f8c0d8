//! Connections to other nodes, and the choice of one for each part of a question.
//!
//! Replies arrive in the order of the requests, so a slow request holds up all that were sent behind it. Commands that
//! may be slow have connections of their own, one for each in progress, up to a bound. A connection without a reply for
//! a while gets no further parts while there is another one.

use crate::Millis;
use crate::proxy::owner_link::OwnerLink;
use crate::proxy::proxy_request::Context;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Greatest number of connections of a kind to a node.
const LINKS_MAX: usize = 8;
/// Milliseconds without a reply after which a connection gets no further parts, if there is another one.
const LATE: Millis = 50;
/// Milliseconds without questions after which a connection is closed.
const IDLE: Millis = 60_000;

/// A connection to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProxyLink(pub u64);

/// Order about a connection's socket.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkOrder {
    /// Connect to that address; [`opened`](super::Proxy::opened) or [`lost`](super::Proxy::lost) follows.
    Connect(ProxyLink, SocketAddr),
    /// Close the connection.
    Close(ProxyLink),
}

/// A node and a kind of connections to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub to: SocketAddr,
    pub context: Context,
    /// Whether the connections are for commands that may be slow.
    pub is_for_long: bool,
}

#[derive(Default)]
pub(super) struct OwnerLinks {
    links: BTreeMap<ProxyLink, OwnerLink>,
    places: BTreeMap<Place, Vec<ProxyLink>>,
}

impl OwnerLinks {
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub fn get(&self, id: ProxyLink) -> Option<&OwnerLink> {
        self.links.get(&id)
    }

    pub fn get_mut(&mut self, id: ProxyLink) -> Option<&mut OwnerLink> {
        self.links.get_mut(&id)
    }

    /// Returns the connection for the next part to a place. None: another one is to be opened.
    pub fn choose(&self, place: &Place, now: Millis) -> Option<ProxyLink> {
        let ids = self.places.get(place)?;
        let links = || ids.iter().filter_map(|id| Some((*id, self.links.get(id)?)));
        let in_time = || links().filter(|(_, link)| !link.is_late(now, LATE));
        let free = in_time().find(|(_, link)| !place.is_for_long || link.load() == 0);
        if free.is_some() || ids.len() < LINKS_MAX {
            return free.map(|(id, _)| id);
        }
        let least = in_time().min_by_key(|(_, link)| link.load());
        least.or_else(|| links().min_by_key(|(_, link)| link.load())).map(|(id, _)| id)
    }

    pub fn add(&mut self, id: ProxyLink, place: Place, now: Millis) {
        self.places.entry(place.clone()).or_default().push(id);
        self.links.insert(id, OwnerLink::new(place, now));
    }

    pub fn remove(&mut self, id: ProxyLink) -> Option<OwnerLink> {
        let link = self.links.remove(&id)?;
        if let Some(ids) = self.places.get_mut(&link.place) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.places.remove(&link.place);
            }
        }
        Some(link)
    }

    /// Returns the connections to close: unused for long, not established in time, or with outstanding replies of a
    /// node that is silent on all of its connections.
    pub fn over(&self, now: Millis, timeout: Millis, is_silent: impl Fn(SocketAddr) -> bool) -> Vec<ProxyLink> {
        let is_over = |link: &OwnerLink| {
            let silence = now - link.active_at;
            match (link.is_ready(), link.is_busy()) {
                (true, false) => silence > IDLE,
                (true, true) => silence > timeout && is_silent(link.place.to),
                (false, _) => silence > timeout,
            }
        };
        self.links.iter().filter(|(_, link)| is_over(link)).map(|(id, _)| *id).collect()
    }

    #[cfg(test)]
    pub fn first(&self, to: SocketAddr) -> ProxyLink {
        *self.places.iter().find(|(place, _)| place.to == to).and_then(|(_, ids)| ids.first()).expect("a connection")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::owner_link::Credentials;

    const TO: &str = "10.0.0.1:7000";

    fn place(is_for_long: bool) -> Place {
        Place { to: TO.parse().unwrap(), context: Context::default(), is_for_long }
    }

    /// Sends a part over the chosen connection, which is opened if there is none. Returns its number.
    fn send(links: &mut OwnerLinks, is_long: bool, now: Millis) -> u64 {
        let id = links.choose(&place(is_long), now).unwrap_or_else(|| {
            let id = ProxyLink(links.links.len() as u64);
            links.add(id, place(is_long), now);
            let link = links.get_mut(id).unwrap();
            link.opened(&Credentials::default(), now);
            receive_ok(link, now);
            id
        });
        links.get_mut(id).unwrap().send((1, 0), b"x", 1, false, now);
        id.0
    }

    fn reply(links: &mut OwnerLinks, id: u64, now: Millis) {
        receive_ok(links.get_mut(ProxyLink(id)).unwrap(), now);
    }

    fn receive_ok(link: &mut OwnerLink, now: Millis) {
        let input = link.receive(b"+OK\r\n", now);
        let start = link.take_all(&input, &mut Vec::new()).unwrap();
        link.keep_rest(input, start);
    }

    #[test]
    fn short_commands_share_a_connection_until_a_reply_is_late() {
        let mut links = OwnerLinks::default();
        assert_eq!([0, 1, LATE].map(|now| send(&mut links, false, now)), [0, 0, 0]);
        assert_eq!(send(&mut links, false, LATE + 1), 1, "the reply is late");
        reply(&mut links, 0, LATE + 2);
        assert_eq!(send(&mut links, false, LATE + 3), 0);
        for late in 1..20 {
            send(&mut links, false, 1000 * late);
        }
        assert_eq!(links.places[&place(false)].len(), LINKS_MAX);
    }

    #[test]
    fn commands_that_may_take_long_have_connections_of_their_own() {
        let mut links = OwnerLinks::default();
        assert_eq!(send(&mut links, false, 0), 0);
        assert_eq!([0, 0, 0].map(|now| send(&mut links, true, now)), [1, 2, 3]);
        reply(&mut links, 2, 1);
        assert_eq!(send(&mut links, true, 1), 2);
        for _ in 4..=LINKS_MAX {
            send(&mut links, true, 1);
        }
        assert_eq!(send(&mut links, true, LATE + 1), 2, "the first of those in time");
        assert_eq!(send(&mut links, true, 1000), 1, "the first with the fewest");
    }

    #[test]
    fn a_connection_is_over_when_its_node_is_silent_or_nobody_uses_it() {
        let mut links = OwnerLinks::default();
        send(&mut links, false, 0);
        assert!(links.over(100_000, 1000, |_| false).is_empty(), "the reply comes yet");
        assert!(links.over(1000, 1000, |_| true).is_empty());
        assert_eq!(links.over(1001, 1000, |_| true), [ProxyLink(0)]);
        reply(&mut links, 0, 5);
        assert!(links.over(IDLE + 5, 1000, |_| true).is_empty());
        assert_eq!(links.over(IDLE + 6, 1000, |_| false), [ProxyLink(0)]);
        links.add(ProxyLink(1), place(true), IDLE);
        assert_eq!(links.over(IDLE + 1001, 1000, |_| false), [ProxyLink(0), ProxyLink(1)], "it cannot be had");
        assert!(links.remove(ProxyLink(0)).is_some() && links.remove(ProxyLink(1)).is_some());
        assert!(links.is_empty() && links.places.is_empty());
    }
}
