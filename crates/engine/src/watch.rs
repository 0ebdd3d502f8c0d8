//! Which clients watch which keys: a flag that a write raises.
//!
//! WATCH registers a flag under the key, in the key's shard and database. Whoever changes the key raises
//! the flags under the shard's lock; EXEC looks at its own flag while it holds the locks of the watched
//! keys, so that nothing is missed in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client's mark: something that it watches was changed.
#[derive(Debug, Default)]
pub struct WatchFlag(AtomicBool);

impl WatchFlag {
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The watchers of one database in one shard.
#[derive(Default)]
pub struct Watchers {
    by_key: HashMap<Box<[u8]>, Vec<Arc<WatchFlag>>>,
}

impl Watchers {
    pub fn watch(&mut self, key: &[u8], flag: &Arc<WatchFlag>) {
        let flags = self.by_key.entry(key.into()).or_default();
        if !flags.iter().any(|known| Arc::ptr_eq(known, flag)) {
            flags.push(Arc::clone(flag));
        }
    }

    pub fn unwatch(&mut self, key: &[u8], flag: &Arc<WatchFlag>) {
        if let Some(flags) = self.by_key.get_mut(key) {
            flags.retain(|known| !Arc::ptr_eq(known, flag));
            if flags.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// The key was changed.
    #[inline]
    pub fn touch(&self, key: &[u8]) {
        if !self.by_key.is_empty() {
            self.by_key.get(key).into_iter().flatten().for_each(|flag| flag.raise());
        }
    }

    /// Every watched key that `changed` says yes to was changed (FLUSHALL, SWAPDB).
    pub fn touch_if(&self, mut changed: impl FnMut(&[u8]) -> bool) {
        for (key, flags) in &self.by_key {
            if changed(key) {
                flags.iter().for_each(|flag| flag.raise());
            }
        }
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_watched_key_raises_the_flag() {
        let mut watchers = Watchers::default();
        let (one, two) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
        watchers.watch(b"a", &one);
        watchers.watch(b"a", &one);
        watchers.watch(b"b", &two);
        watchers.touch(b"b");
        assert!(!one.is_raised() && two.is_raised());
        watchers.unwatch(b"a", &one);
        watchers.touch(b"a");
        assert!(!one.is_raised());
        assert_eq!(watchers.len(), 1);
    }

    #[test]
    fn a_flush_raises_what_it_changes() {
        let mut watchers = Watchers::default();
        let (one, two) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
        watchers.watch(b"there", &one);
        watchers.watch(b"missing", &two);
        watchers.touch_if(|key| key == b"there");
        assert!(one.is_raised() && !two.is_raised());
    }
}
