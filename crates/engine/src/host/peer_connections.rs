//! Connections to other servers that are retained for a while, and keys that are on their way there (MIGRATE).
//!
//! A connection that is in use is taken out, so that no other command uses it meanwhile, and one of each address is
//! retained. A command that sends keys away claims them: two commands that sent the same key would each take the
//! other's change for a client's.

use crate::host::peers::Peer;
use crate::locks::sync::assert_unlocked;
use crate::time::SteadyMs;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Milliseconds for which an unused connection is retained.
const KEPT_FOR: i64 = 10_000;

/// Connections that are retained at most; one more takes the place of any.
const KEPT_MAX: usize = 64;

/// Address of a server, as a client names it: host and port.
pub type Address = (Vec<u8>, Vec<u8>);

/// A key by its database and name.
pub type MovingKey = (u32, Vec<u8>);

/// A connection to another server.
pub struct PeerConnection {
    /// The connection itself.
    pub peer: Box<dyn Peer>,
    /// The database that is selected there, if that is known.
    pub db: Option<i64>,
}

struct Idle {
    link: PeerConnection,
    /// Unix time in milliseconds.
    since: SteadyMs,
}

/// See the module.
#[derive(Default)]
pub struct PeerConnections {
    kept: Mutex<HashMap<Address, Idle>>,
    moving: Mutex<HashSet<MovingKey>>,
    moved: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PeerConnections {
    /// Takes the connection to this server out, if there is one.
    pub fn take(&self, address: &Address) -> Option<PeerConnection> {
        lock(&self.kept).remove(address).map(|kept| kept.link)
    }

    /// Retains a connection for the next command. `now`: the time of a clock that never goes back.
    pub fn keep(&self, address: &Address, link: PeerConnection, now: SteadyMs) {
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT_MAX
            && !kept.contains_key(address)
            && let Some(any) = kept.keys().next().cloned()
        {
            kept.remove(&any);
        }
        kept.insert(address.clone(), Idle { link, since: now });
    }

    /// Closes connections that were not used for ten seconds.
    pub fn close_idle(&self, now: SteadyMs) {
        lock(&self.kept).retain(|_, kept| now.since(kept.since) <= KEPT_FOR);
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Claims all of these keys, when no other command has one of them any more. No lock of the keyspace may be held.
    pub fn claim(&self, keys: Vec<MovingKey>) -> Moving<'_> {
        let is_free = |moving: &HashSet<MovingKey>| !keys.iter().any(|key| moving.contains(key));
        assert_unlocked();
        let mut moving = lock(&self.moving);
        while !is_free(&moving) {
            moving = self.moved.wait(moving).unwrap_or_else(PoisonError::into_inner);
        }
        moving.extend(keys.iter().cloned());
        Moving { links: self, keys }
    }

    /// Whether a command has claimed this key.
    pub fn is_moving(&self, db: u32, name: &[u8]) -> bool {
        let moving = lock(&self.moving);
        !moving.is_empty() && moving.contains(&(db, name.to_vec()))
    }
}

/// The right to send keys away, until it is dropped.
pub struct Moving<'l> {
    links: &'l PeerConnections,
    keys: Vec<MovingKey>,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut moving = lock(&self.links.moving);
        self.keys.iter().for_each(|key| _ = moving.remove(key));
        self.links.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read, Write};
    use std::sync::mpsc;
    use std::time::Duration;

    struct Nobody;

    impl Read for Nobody {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Nobody {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Peer for Nobody {
        fn set_patience(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn link(db: i64) -> PeerConnection {
        PeerConnection { peer: Box::new(Nobody), db: Some(db) }
    }

    fn address(port: usize) -> Address {
        (b"host".to_vec(), port.to_string().into_bytes())
    }

    #[test]
    fn connections_are_kept_for_ten_seconds_and_not_too_many() {
        let links = PeerConnections::default();
        links.keep(&address(1), link(7), SteadyMs(1000));
        assert!(links.take(&address(2)).is_none());
        links.close_idle(SteadyMs(11_000));
        assert_eq!(links.take(&address(1)).and_then(|link| link.db), Some(7));
        assert!(links.is_empty());
        links.keep(&address(1), link(7), SteadyMs(1000));
        links.close_idle(SteadyMs(11_001));
        assert!(links.is_empty());
        (0..KEPT_MAX + 9).for_each(|port| links.keep(&address(port), link(0), SteadyMs(0)));
        assert_eq!(links.len(), KEPT_MAX);
        assert!(links.take(&address(KEPT_MAX + 8)).is_some(), "the newest is there");
    }

    #[test]
    fn a_key_is_sent_by_one_at_a_time() {
        let links = PeerConnections::default();
        let key = |name: &str| (3, name.as_bytes().to_vec());
        let first = links.claim(vec![key("a"), key("b")]);
        assert!(links.is_moving(3, b"a") && !links.is_moving(2, b"a") && !links.is_moving(3, b"c"));
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = links.claim(vec![key("c"), key("b")]);
                tell.send(links.is_moving(3, b"a")).unwrap();
            });
            assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "it waits");
            drop(first);
            assert_eq!(told.recv(), Ok(false));
        });
        assert!(!links.is_moving(3, b"b") && !links.is_moving(3, b"c"));
    }
}
