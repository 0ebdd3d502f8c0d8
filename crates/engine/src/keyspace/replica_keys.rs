//! Keys with an expiry that clients of a writable replica have set: they expire there, as the primary knows nothing of
//! them, while all others wait for the primary's removal.

use crate::locks::sync::Mutex;
use crate::time::UnixMs;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A database and a key in it.
pub type ReplicaKey = (u32, Vec<u8>);

/// See the module's documentation. A key that was removed since, or was given another expiry by the primary, stays here
/// until its expiry has passed.
#[derive(Default)]
pub struct ReplicaKeys {
    keys: Mutex<Keys>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Keys {
    expiries: HashMap<ReplicaKey, u64>,
    due: BTreeSet<(u64, ReplicaKey)>,
}

impl ReplicaKeys {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that a client has given a key this expiry, Unix time in milliseconds.
    #[cold]
    pub fn remember(&self, db: u32, name: &[u8], expiry: u64) {
        let mut keys = self.keys.lock();
        let key = (db, name.to_vec());
        if let Some(old) = keys.expiries.insert(key.clone(), expiry) {
            keys.due.remove(&(old, key.clone()));
        }
        keys.due.insert((expiry, key));
        self.count.store(keys.expiries.len(), Relaxed);
    }

    /// Takes out one that has expired.
    pub fn pop_due(&self, now: UnixMs) -> Option<ReplicaKey> {
        let mut keys = self.keys.lock();
        keys.due.first().filter(|(expiry, _)| *expiry <= now.0.max(0) as u64)?;
        let (_, key) = keys.due.pop_first()?;
        keys.expiries.remove(&key);
        self.count.store(keys.expiries.len(), Relaxed);
        Some(key)
    }

    /// Removes all: the data set is another one, or the server follows none any more.
    pub fn clear(&self) {
        if !self.is_empty() {
            *self.keys.lock() = Keys::default();
            self.count.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_due_at_the_expiry_that_it_was_given_last() {
        let keys = ReplicaKeys::default();
        keys.remember(0, b"a", 10);
        keys.remember(0, b"a", 30);
        keys.remember(1, b"a", 20);
        assert_eq!((keys.len(), keys.pop_due(UnixMs(19))), (2, None));
        assert_eq!(keys.pop_due(UnixMs(30)), Some((1, b"a".to_vec())));
        assert_eq!((keys.pop_due(UnixMs(30)), keys.len()), (Some((0, b"a".to_vec())), 0));
        keys.remember(0, b"b", 10);
        keys.clear();
        assert!(keys.is_empty() && keys.pop_due(UnixMs(30)).is_none());
    }
}
