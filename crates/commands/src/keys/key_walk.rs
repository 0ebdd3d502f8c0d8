//! Walks over the keys of a database, some at a time.
//!
//! A [`KeyWalk`] goes through the shards in order and through each table in hash order. It consists of pieces: a piece
//! locks one shard after the other, at most for [`PIECE`] entries, and other clients are served in between. A walk's
//! position is a place on the line of all hashes, so it means the same after a table has grown or shrunk. A key that is
//! there all the time is therefore found. Keys whose expiry has passed are not shown, and those that would be are
//! removed on the way.

use engine::data::slot::slot_of;
use engine::data::value::{KeyEntry, ValueExt};
use engine::data::value_type::ValueType;
use engine::keyspace::caller::is_due;
use engine::keyspace::keys::Keys;
use engine::{Error, glob};
use std::ops::RangeInclusive;
use structures::hashtable::position;

/// Entries that are visited before others get their turn: some hundred microseconds' worth.
pub(crate) const PIECE: usize = 1000;
/// Buckets that a walk looks into for every entry that it may visit; a table that was emptied has few entries in many
/// buckets.
const BUCKETS_PER_ENTRY: usize = 10;

/// Buckets of hidden keys that count as one.
const HIDDEN_BUCKETS: usize = 16;

/// The position of a walk.
pub(crate) struct KeyWalk {
    pub shard: usize,
    /// Position in the shard's table.
    pub position: u64,
    /// The shard after the last one.
    end: usize,
    /// Keys before `position` have been visited. False for a position from a cursor, which is rounded.
    exact: bool,
    /// Whether expired keys on the way are removed: SCAN does so, KEYS only leaves them out.
    expires: bool,
}

impl KeyWalk {
    /// Returns a walk over all keys, without removing any.
    pub fn all(keys: &Keys<'_>) -> KeyWalk {
        KeyWalk { shard: 0, position: 0, end: keys.keyspace().locks().len(), exact: true, expires: false }
    }

    /// Returns this walk, with removal of expired keys.
    pub fn expiring(self) -> KeyWalk {
        KeyWalk { expires: true, ..self }
    }

    /// Returns a walk from a cursor's position.
    pub fn from_cursor(keys: &Keys<'_>, cursor: u64) -> KeyWalk {
        let end = keys.keyspace().locks().len();
        let (shard, position) = keys.keyspace().hasher().place(cursor).unwrap_or((end, 0));
        KeyWalk { shard, position, end, exact: false, expires: true }
    }

    /// Returns a walk over the shards of these slots, from a place in the first one's table on.
    pub fn of_slots(keys: &Keys<'_>, slots: &RangeInclusive<u16>, position: u64) -> KeyWalk {
        let hasher = keys.keyspace().hasher();
        let (shard, end) = (hasher.shard_of(*slots.start()), hasher.shard_of(*slots.end()) + 1);
        KeyWalk { shard, position, end, exact: position == 0, expires: true }
    }

    /// Returns the cursor with which SCAN continues; 0 at the end.
    pub fn cursor(&self, keys: &Keys<'_>) -> u64 {
        let ended = self.shard >= keys.keyspace().locks().len();
        if ended { 0 } else { keys.keyspace().hasher().cursor(self.shard, self.position) }
    }

    /// Visits at least one entry and about `max`, fewer at the end or when there are many empty buckets, and shows
    /// those that the filter accepts. Returns the used part of `max`, or None at the end. An error: nothing was
    /// visited.
    pub fn piece(
        &mut self,
        keys: &mut Keys<'_>,
        max: usize,
        filter: &Filter,
        mut show: impl FnMut(&KeyEntry),
    ) -> Result<Option<usize>, Error> {
        let (mut entries, mut buckets) = (0, 0);
        let bucket_max = max.saturating_mul(BUCKETS_PER_ENTRY);
        while self.shard < self.end {
            if entries >= max || buckets >= bucket_max {
                return Ok(Some(entries.max(buckets / BUCKETS_PER_ENTRY)));
            }
            // Keys that are there all the time are counted all the time.
            if keys.keyspace().shard_len(self.shard, keys.db_index()) == Some(0) {
                (self.shard, self.position, self.exact) = (self.shard + 1, 0, true);
                continue;
            }
            let went = self.shard_piece(keys, filter, |entry| {
                match entry {
                    Some(entry) => {
                        entries += 1;
                        if filter.shows(entry) {
                            show(entry);
                        }
                    }
                    None => buckets += 1,
                }
                entries < max && buckets < bucket_max
            });
            if went.is_err() && entries + buckets > 0 {
                return Ok(Some(entries.max(buckets / BUCKETS_PER_ENTRY)));
            }
            went?;
        }
        Ok(None)
    }

    /// Walks the part of a piece that lies in one shard. `visit` gets every entry and, with None, the end of every
    /// bucket but the table's last, so that one call gets through many small tables; it returns whether to continue.
    fn shard_piece(
        &mut self,
        keys: &mut Keys<'_>,
        filter: &Filter,
        mut visit: impl FnMut(Option<&KeyEntry>) -> bool,
    ) -> Result<(), Error> {
        let (keyspace, db, now) = (keys.keyspace(), keys.db_index(), keys.expiry_now());
        let hidden = Some(keyspace.importing_slots()).filter(|hidden| hidden.is_any());
        let (mut has_hidden, mut hidden_buckets) = (false, 0);
        let mut at = Some(self.position);
        // A bucket may have been joined with one that was visited before the lock was last released.
        let mut visited_below = if self.exact { self.position } else { 0 };
        let mut expired = Vec::new();
        keys.with_shard(self.shard, |shard, effects| {
            let table = &shard.dbs[db].table;
            while let Some(position_now) = at {
                at = table.scan(position_now, |entry| {
                    let is_new =
                        visited_below == 0 || position(keyspace.hasher().local_of(entry.key())) >= visited_below;
                    if hidden.is_some_and(|hidden| hidden.hides(slot_of(entry.key()))) {
                        // The slot's source decides when such a key is removed.
                        has_hidden = true;
                        if filter.shows_hidden && is_new {
                            visit(Some(entry));
                        }
                        return;
                    }
                    if entry.expiry().is_some_and(|expiry| is_due(expiry, now)) {
                        if self.expires && filter.shows(entry) {
                            expired.push(entry.key().to_vec());
                        }
                    } else if is_new {
                        visit(Some(entry));
                    }
                });
                visited_below = 0;
                // Hidden keys are passed quickly.
                hidden_buckets += usize::from(std::mem::take(&mut has_hidden));
                let is_passed = !hidden_buckets.is_multiple_of(HIDDEN_BUCKETS);
                if at.is_some() && !is_passed && !visit(None) {
                    break;
                }
            }
            if !expired.is_empty() {
                keyspace.remove_expired(shard, effects, db, &expired, now);
            }
        })?;
        match at {
            Some(position) => self.position = position,
            None => (self.shard, self.position) = (self.shard + 1, 0),
        }
        self.exact = true;
        Ok(())
    }
}

/// The keys to show.
#[derive(Default)]
pub(crate) struct Filter {
    /// The prefix of their names.
    pub beginning: Vec<u8>,
    /// A pattern of names; None: any name.
    pub pattern: Option<Vec<u8>>,
    /// A type; None: any type.
    pub kind: Option<&'static ValueType>,
    /// A range of slots; None: any slot.
    pub slots: Option<RangeInclusive<u16>>,
    /// Whether keys of importing slots are shown, too.
    pub shows_hidden: bool,
}

impl Filter {
    fn shows(&self, entry: &KeyEntry) -> bool {
        // A comparison with an empty vector's bytes, which lie nowhere, is slow on some processors.
        (self.beginning.is_empty() || entry.key().starts_with(&self.beginning))
            && self.kind.is_none_or(|kind| entry.value().value_type() == kind)
            && self.pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, entry.key()))
            && self.slots.as_ref().is_none_or(|slots| slots.contains(&slot_of(entry.key())))
    }
}
