//! Places at the admin port: few connections at a time, and none that waits for its peer keeps others out.
//!
//! ```text
//!   accepted -> waits for its head (a second; the first to go when all places are taken)
//!                 -> a probe: answered at once
//!                 -> anything else: works, if fewer than `WORKING_MAX` do, of which an address has a part
//! ```
//!
//! So work never takes some of the places, and a silent connection loses its place to a new one: the connection of the
//! address with the most of them, the oldest first.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// Connections at a time. They need files beside those of clients.
pub const CONNECTIONS_MAX: usize = 24;
/// Connections whose requests are being answered, but for probes; and those of one address.
const WORKING_MAX: usize = 16;
const WORKING_OF_ADDRESS_MAX: usize = 12;

/// All places.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    /// The oldest first.
    connections: Vec<Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    address: IpAddr,
    is_working: bool,
    /// Handle that ends the connection, once it runs.
    task: Option<AbortHandle>,
}

/// The place of one connection, which is free when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection from this address. None: all are at work.
    pub fn enter(self: &Arc<Places>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        if taken.connections.len() >= CONNECTIONS_MAX {
            let idle = taken.first_to_go()?;
            if let Some(task) = taken.connections.remove(idle).task {
                task.abort();
            }
        }
        let number = taken.next;
        taken.next += 1;
        taken.connections.push(Connection { number, address: network(address), is_working: false, task: None });
        Some(Place { places: Arc::clone(self), number })
    }

    /// Records the task of the connection.
    pub fn runs(&self, number: u64, task: AbortHandle) {
        if let Some(connection) = self.taken().find(number) {
            connection.task = Some(task);
        }
    }
}

impl Taken {
    fn find(&mut self, number: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.number == number)
    }

    /// Returns the oldest connection that has sent no head, of the address that has the most of these.
    fn first_to_go(&self) -> Option<usize> {
        let idle = || self.connections.iter().enumerate().filter(|(_, connection)| !connection.is_working);
        let of = |address| idle().filter(|(_, connection)| connection.address == address).count();
        // The last of several that are alike is found.
        idle().rev().max_by_key(|(_, connection)| of(connection.address)).map(|(index, _)| index)
    }
}

impl Place {
    /// Returns the number for [`Places::runs`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Marks the connection's request as being answered, which may take some time. False: too many are.
    pub fn work(&self) -> bool {
        let mut taken = self.places.taken();
        let Some(address) = taken.find(self.number).map(|connection| connection.address) else { return false };
        let working = || taken.connections.iter().filter(|connection| connection.is_working);
        let of_address = working().filter(|connection| connection.address == address).count();
        if working().count() >= WORKING_MAX || of_address >= WORKING_OF_ADDRESS_MAX {
            return false;
        }
        if let Some(connection) = taken.find(self.number) {
            connection.is_working = true;
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().connections.retain(|connection| connection.number != self.number);
    }
}

/// Returns the network that counts as one address: a host may choose among 2^64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn numbers(places: &Places) -> Vec<u64> {
        places.taken().connections.iter().map(|connection| connection.number).collect()
    }

    #[test]
    fn a_silent_connection_loses_its_place_to_a_new_one() {
        let places = Arc::<Places>::default();
        let enter = |last| places.enter(ip(last)).expect("a place");
        let mut held: Vec<Place> = (0..3).map(|_| enter(1)).collect();
        held.extend((3..CONNECTIONS_MAX).map(|_| enter(2)));
        held.push(enter(3));
        assert_eq!(numbers(&places).len(), CONNECTIONS_MAX);
        assert!(!numbers(&places).contains(&3) && numbers(&places).contains(&0), "the oldest of who has the most");
        assert!(!held[3].work(), "its place is gone");
        // Each address in turn gets as many as the first has.
        held.extend((0..40).map(|_| enter(4)));
        assert!((0..3).all(|number| numbers(&places).contains(&number)), "who has few keeps them");
        held.clear();
        assert!(numbers(&places).is_empty());
    }

    #[test]
    fn work_leaves_places_for_probes() {
        let places = Arc::<Places>::default();
        let mut held = Vec::new();
        let mut works = |last| {
            let place = places.enter(ip(last)).expect("a place");
            let works = place.work();
            held.push(place);
            works
        };
        assert_eq!((0..20).filter(|_| works(1)).count(), WORKING_OF_ADDRESS_MAX);
        assert_eq!((0..20).filter(|_| works(2)).count(), WORKING_MAX - WORKING_OF_ADDRESS_MAX);
        assert!(!works(3));
        assert_eq!(numbers(&places).len(), CONNECTIONS_MAX);
        held.drain(..);
        assert!(places.enter(ip(3)).is_some_and(|place| place.work()));
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let network = |text: &str| super::network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!((network("::ffff:10.0.0.1"), network("10.0.0.1")), (ip(1), ip(1)));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
