//! Finds keys that may be evicted where nearly all others are hidden, because they are on their way from another node.
//!
//! ```text
//!   shard 0 hidden as a whole | shard 1: [h][h][h][h]|[h][h][v] ... | shard 2: [h] ...
//!                                  looked at ...... next            a part at a time, all shards in their order
//! ```
//!
//! Drawing at random finds hidden keys only. So a thread that has drawn in vain goes through the shards that have
//! others beside hidden keys, a part under one hold of a lock, and continues there the next time. A thread that reaches
//! the end without having found one knows that there is none.

use crate::data::slot::slot_of;
use crate::data::value::KeyEntry;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::{Db, Shard};
use structures::hashtable::position;

/// Keys that are looked at in one call, about.
const PART: usize = 256;

/// Position of the sweep among the shards.
#[derive(Default)]
pub(crate) struct VisibleSweep {
    shard: usize,
    db: u32,
    /// A position in the table; where only keys with an expiry may go, a rank by it.
    at: u64,
    /// Whether there was one since the beginning, or may have been: a shard was locked.
    may_be_more: bool,
}

/// Result of a part.
pub(crate) enum Swept<T> {
    /// One was found, with the result of `take`.
    Found(T),
    /// There is more to look at.
    More,
    /// There is none.
    Nothing,
}

impl VisibleSweep {
    /// Looks through a part of the keys. `volatile`: only keys with an expiry may go. `lock` returns a shard that is
    /// free, and `take` gets the database and the name of the key.
    pub fn go_on<G: std::ops::DerefMut<Target = Shard>, T>(
        &mut self,
        keyspace: &Keyspace,
        volatile: bool,
        lock: impl Fn(usize) -> Option<G>,
        take: impl FnOnce(&mut Shard, u32, &[u8]) -> T,
    ) -> Swept<T> {
        let mut left = PART;
        while self.shard < keyspace.locks().len() {
            let is_lasting = volatile && keyspace.is_shard_lasting(self.shard);
            let hides_all = || keyspace.importing_slots().hides_all(keyspace.hasher().slots_of(self.shard));
            if is_lasting || keyspace.shard_total(self.shard) == 0 || hides_all() {
                self.turn_to_shard(self.shard + 1);
                continue;
            }
            let Some(mut shard) = lock(self.shard) else {
                self.may_be_more = true;
                self.turn_to_shard(self.shard + 1);
                continue;
            };
            if let Some((db, name)) = self.look_at(keyspace, volatile, &shard, &mut left) {
                self.may_be_more = true;
                return Swept::Found(take(&mut shard, db, &name));
            }
            if left == 0 {
                return Swept::More;
            }
        }
        if std::mem::take(self).may_be_more { Swept::More } else { Swept::Nothing }
    }

    fn turn_to_shard(&mut self, shard: usize) {
        (self.shard, self.db, self.at) = (shard, 0, 0);
    }

    /// Returns the first in a part of a shard, as far as `left` goes. At its end it turns to the next shard.
    fn look_at(
        &mut self,
        keyspace: &Keyspace,
        volatile: bool,
        shard: &Shard,
        left: &mut usize,
    ) -> Option<(u32, Vec<u8>)> {
        while let Some(number) = shard.dbs.next(self.db) {
            if number != self.db {
                (self.db, self.at) = (number, 0);
            }
            while *left > 0 {
                let (found, next, looked) = match volatile {
                    true => by_expiry(keyspace, &shard.dbs[number], self.at),
                    false => by_place(keyspace, &shard.dbs[number], self.at),
                };
                *left = left.saturating_sub(looked.max(1));
                if let Some(name) = found {
                    return Some((number, name));
                }
                match next {
                    Some(next) => self.at = next,
                    None => {
                        (self.db, self.at) = (number + 1, 0);
                        break;
                    }
                }
            }
            if *left == 0 {
                return None;
            }
        }
        self.turn_to_shard(self.shard + 1);
        None
    }
}

/// The first key in a bucket that may go, the beginning of the next bucket, and how many keys were looked at.
type Looked = (Option<Vec<u8>>, Option<u64>, usize);

fn by_place(keyspace: &Keyspace, db: &Db, at: u64) -> Looked {
    let (mut found, mut looked) = (None, 0);
    let next = db.table.scan(at, |entry: &KeyEntry| {
        looked += 1;
        if found.is_none() && !keyspace.importing_slots().hides(slot_of(entry.key())) {
            found = Some(entry.key().to_vec());
        }
    });
    (found, next, looked)
}

/// Looks at one key, by the rank of its expiry.
fn by_expiry(keyspace: &Keyspace, db: &Db, rank: u64) -> Looked {
    let Some(at) = db.expiry.keys.position_at(rank as usize) else { return (None, None, 0) };
    let entry = db.table.find_at_position(at, |entry| {
        entry.expiry().is_some() && position(keyspace.hasher().local_of(entry.key())) == at
    });
    let visible = entry.filter(|entry| !keyspace.importing_slots().hides(slot_of(entry.key())));
    (visible.map(|entry| entry.key().to_vec()), Some(rank + 1), 1)
}
