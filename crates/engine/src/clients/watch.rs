//! Watched keys, and the clients that watch them: a flag that a write raises.
//!
//! WATCH registers a flag under the key, in the key's shard and database. A change of the key raises the flags under
//! the shard's lock; EXEC looks at its own flag while it holds the locks of the watched keys, so that nothing is missed
//! in between.
//!
//! A key that had expired when it was watched counts as missing: the removal of its entry is no change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flag of a client: a key that it watches was changed.
#[derive(Debug, Default)]
pub struct WatchFlag(AtomicBool);

impl WatchFlag {
    /// Marks that one of the keys has changed.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether one of the keys has changed.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// One client at one key.
struct Watch {
    flag: Arc<WatchFlag>,
    /// Whether the entry had expired when the client looked, and is still there.
    stale: bool,
}

/// State of a key before or after a database is emptied or exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is no entry.
    Missing,
    /// There is an entry, but it has expired.
    Stale,
    /// There is an entry that has not expired.
    Live,
}

/// The watchers of one database in one shard.
#[derive(Default)]
pub struct Watchers {
    by_key: HashMap<Box<[u8]>, Vec<Watch>>,
}

impl Watchers {
    /// Registers the flag; false: the client watches the key already. `stale`: the key has an expired entry.
    pub fn watch(&mut self, key: &[u8], flag: &Arc<WatchFlag>, stale: bool) -> bool {
        let watches = self.by_key.entry(key.into()).or_default();
        let is_new = !watches.iter().any(|known| Arc::ptr_eq(&known.flag, flag));
        if is_new {
            watches.push(Watch { flag: Arc::clone(flag), stale });
        }
        is_new
    }

    /// Takes the flag away from the key.
    pub fn unwatch(&mut self, key: &[u8], flag: &Arc<WatchFlag>) {
        if let Some(watches) = self.by_key.get_mut(key) {
            watches.retain(|known| !Arc::ptr_eq(&known.flag, flag));
            if watches.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// Whether this client knows that the key's entry has no time left.
    pub fn knows_stale(&self, key: &[u8], flag: &Arc<WatchFlag>) -> bool {
        let watches = self.by_key.get(key).into_iter().flatten();
        watches.into_iter().any(|known| known.stale && Arc::ptr_eq(&known.flag, flag))
    }

    /// Raises the flags of the key, which was changed, and `exists` now or does not.
    #[inline]
    pub fn touch(&mut self, key: &[u8], exists: bool) {
        if !self.by_key.is_empty()
            && let Some(watches) = self.by_key.get_mut(key)
        {
            let now = if exists { Presence::Live } else { Presence::Missing };
            watches.iter_mut().for_each(|watch| watch.see(Presence::Stale, now));
        }
    }

    /// Raises flags after everything was changed at once (FLUSHALL, SWAPDB): `change` returns what a key was and what
    /// it is.
    pub fn touch_all(&mut self, mut change: impl FnMut(&[u8]) -> (Presence, Presence)) {
        for (key, watches) in &mut self.by_key {
            let (before, after) = change(key);
            if (before, after) != (Presence::Missing, Presence::Missing) {
                watches.iter_mut().for_each(|watch| watch.see(before, after));
            }
        }
    }

    /// Returns how many keys are watched.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether none is watched.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

impl Watch {
    fn see(&mut self, before: Presence, after: Presence) {
        match (self.stale, before, after) {
            // The key counted as missing and is missing now.
            (true, _, Presence::Missing) => self.stale = false,
            (true, _, Presence::Stale) => {}
            (false, Presence::Missing, Presence::Stale) => self.stale = true,
            _ => self.flag.raise(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Presence::{Live, Missing, Stale};

    #[test]
    fn only_the_watched_key_raises_the_flag() {
        let mut watchers = Watchers::default();
        let (one, two) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
        watchers.watch(b"a", &one, false);
        watchers.watch(b"a", &one, false);
        watchers.watch(b"b", &two, false);
        watchers.touch(b"b", true);
        assert!(!one.is_raised() && two.is_raised());
        watchers.unwatch(b"a", &one);
        watchers.touch(b"a", true);
        assert!(!one.is_raised());
        assert_eq!(watchers.len(), 1);
    }

    #[test]
    fn a_flush_raises_what_it_changes() {
        let mut watchers = Watchers::default();
        let (one, two) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
        watchers.watch(b"there", &one, false);
        watchers.watch(b"missing", &two, false);
        watchers.touch_all(|key| (if key == b"there" { Live } else { Missing }, Missing));
        assert!(one.is_raised() && !two.is_raised());
    }

    #[test]
    fn a_stale_key_counts_as_missing() {
        for (stale, before, after, raised) in [
            (true, Stale, Missing, false),
            (true, Stale, Stale, false),
            (true, Stale, Live, true),
            (false, Missing, Stale, false),
            (false, Missing, Live, true),
            (false, Live, Missing, true),
            (false, Stale, Missing, true),
        ] {
            let (mut watchers, flag) = (Watchers::default(), Arc::new(WatchFlag::default()));
            watchers.watch(b"k", &flag, stale);
            watchers.touch_all(|_| (before, after));
            assert_eq!(flag.is_raised(), raised, "{stale} {before:?} {after:?}");
        }
        let (mut watchers, flag) = (Watchers::default(), Arc::new(WatchFlag::default()));
        watchers.watch(b"k", &flag, true);
        watchers.touch(b"k", false);
        assert!(!flag.is_raised() && !watchers.knows_stale(b"k", &flag));
        watchers.touch(b"k", true);
        assert!(flag.is_raised());
    }
}
