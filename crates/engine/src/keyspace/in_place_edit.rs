//! An edit that is one step, of a key whose old value no snapshot needs.

use crate::Error;
use crate::data::value::{Collection, KeyEntry};
use crate::keyspace::Keyspace;
use crate::keyspace::caller::is_due;
use crate::keyspace::key_change::{ChangedDb, KeyEvent, announce};
use crate::keyspace::keys::Key;
use crate::keyspace::lru::Used;
use crate::keyspace::shard::Shard;
use crate::propagation::change_observer::{By, Change};
use crate::propagation::effects::Effects;
use crate::time::UnixMs;
use structures::entry::NewValue;

/// Context of such an edit.
pub(crate) struct InPlaceEdit<'s> {
    pub keyspace: &'s Keyspace,
    pub shard: &'s mut Shard,
    pub effects: &'s mut Effects,
    pub db: u32,
    pub key: Key<'s>,
    pub now: UnixMs,
    /// None: the access clock is left alone.
    pub used: Option<Used>,
}

impl InPlaceEdit<'_> {
    /// Replaces the key's integer by the result of `change`; the expiry stays. None, and nothing is done, where the
    /// edit takes more than one step: the key is missing or has expired, its value is not stored as an integer, or a
    /// snapshot is open.
    #[inline(always)]
    pub fn int(self, event: KeyEvent, change: impl FnOnce(i64) -> Result<i64, Error>) -> Option<Result<i64, Error>> {
        self.update(event, |entry| {
            let new = match change(entry.int()?) {
                Ok(new) => new,
                Err(error) => return Some((0, Err(error))),
            };
            entry.overwrite(&NewValue::Int(new));
            Some((1, Ok(new)))
        })
    }

    /// Passes the key's collection to `change`, which returns how many changes it made and its result. None as for
    /// [`int`](Self::int), and where the collection has elements that expire, is packed into its entry or being listed,
    /// or `change` leaves it alone. It must leave elements there.
    #[inline(always)]
    pub fn collection<C: Collection, R>(
        self,
        event: KeyEvent,
        change: impl FnOnce(&mut C) -> Option<(u64, R)>,
    ) -> Option<R> {
        if !self.shard.dbs[self.db].streamed_replies.is_empty() {
            return None;
        }
        self.update(event, |entry| {
            let collection = entry.payload_mut().and_then(C::of_mut)?;
            if collection.next_expiry().is_some() {
                return None;
            }
            let done = change(collection);
            debug_assert!(!collection.is_empty(), "what is changed in one step is not used up");
            done
        })
    }

    #[inline(always)]
    fn update<R>(self, event: KeyEvent, change: impl FnOnce(&mut KeyEntry) -> Option<(u64, R)>) -> Option<R> {
        let Shard { dbs, listeners, stats, .. } = self.shard;
        let db = &mut dbs[self.db];
        if db.captures.is_open() {
            return None;
        }
        let mut entry = db.table.find_mut(self.key.hash.local(), |entry| entry.has_key(self.key.name))?;
        if entry.get().expiry().is_some_and(|expiry| is_due(expiry, self.now)) {
            return None;
        }
        let (changes, result) = entry.update(change)?;
        if let Some(used) = self.used {
            used.mark(self.keyspace.access(), entry.get());
        }
        stats.dirty += changes;
        self.effects.dirty += changes;
        let (keyspace, shard, effects) = (self.keyspace, self.key.hash.shard(), self.effects);
        let db = ChangedDb { keyspace, shard, number: self.db, db, listeners, effects };
        if changes > 0 {
            announce(db, self.key.name, Change::Written, By::Command, event);
        }
        Some(result)
    }
}
