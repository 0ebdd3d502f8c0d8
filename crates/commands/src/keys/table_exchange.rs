//! Tables in the place of others: empty ones in a database that is emptied, or those of a data set that was read beside
//! the one that is served.
//!
//! Readers see the old data whole until they see the new one whole: all shards' locks are held, but only to exchange
//! tables, which does not depend on their contents.

use crate::core::context::Context;
use engine::Error;
use engine::data::key_hash::KeyHasher;
use engine::data::table::{ExpiryIndex, Table};
use engine::data::value::KeyEntry;
use engine::keyspace::key_change::{ChangedDb, announce_flush};
use engine::keyspace::shard::{Databases, Db, Shard};
use engine::keyspace::slot_counts::SlotCounts;
use engine::scripts::function_libraries::{Libraries, LibraryChange};
use engine::time::UnixMs;
use std::collections::BTreeSet;
use std::mem;

/// A whole data set: tables by shards, and the functions.
pub(crate) struct DataSet<'a> {
    pub shards: Vec<Databases>,
    pub slot_counts: &'a SlotCounts,
    pub libraries: Libraries,
}

/// Puts a data set in the place of the one that is served. It is taken once all locks are held.
///
/// # Errors
/// A script has a lock for long: nothing has happened.
pub(crate) fn exchange_all<'a>(cx: &mut Context<'_>, new: impl FnOnce() -> DataSet<'a>) -> Result<(), Error> {
    let (engine, now) = (cx.engine, cx.keys.expiry_now());
    cx.keys.escalate()?;
    let DataSet { shards, slot_counts, libraries } = new();
    let mut shards = shards.into_iter();
    cx.keys.each_shard(|shard_index, shard, effects| {
        let Shard { dbs, listeners, stats, .. } = shard;
        announce_flush(engine, listeners, effects);
        let mut new = shards.next().unwrap_or_default();
        let numbers: BTreeSet<u32> = dbs.iter().chain(new.iter()).map(|(number, _)| number).collect();
        for number in numbers {
            let Db { table, expiry, .. } = mem::take(&mut new[number]);
            let db = &mut dbs[number];
            stats.dirty += (db.table.len() + table.len()) as u64;
            let at = ChangedDb { keyspace: engine, shard: shard_index, number, db, listeners, effects };
            if let Some((table, expiry)) = replace(at, (table, expiry, Some(slot_counts)), now) {
                effects.discard_table(table, expiry);
            }
        }
    })?;
    let add = libraries.iter().cloned().collect();
    cx.keys.change_libraries(|_| Ok(LibraryChange { clear: true, add, ..LibraryChange::default() }))?;
    // The exchange is no change for others.
    cx.keys.effects.dirty = 0;
    Ok(())
}

/// Puts a table in the place of a database's in a shard, whose lock is held. The returned table is not needed any more.
pub(super) fn replace(
    mut at: ChangedDb<'_>,
    new: (Table, ExpiryIndex, Option<&SlotCounts>),
    now: UnixMs,
) -> Option<(Table, ExpiryIndex)> {
    at.announce_table(&new.0, now);
    let ChangedDb { keyspace: engine, shard, number, db, .. } = at;
    let hasher = engine.hasher();
    engine.keys_went(shard, number);
    engine.slot_counts().replace(hasher.slots_of(shard), number, new.2);
    let names = db.streamed_replies.names();
    names.iter().for_each(|name| leave_to_readers(db, name, hasher));
    let (table, expiry) = (mem::replace(&mut db.table, new.0), mem::replace(&mut db.expiry, new.1));
    if !db.table.is_empty() {
        engine.table_came(shard, number, db);
    }
    db.captures.detach(table, expiry)
}

/// Leaves a collection that a reply is being written from to its readers, and does not free it yet.
fn leave_to_readers(db: &mut Db, name: &[u8], hasher: &KeyHasher) {
    let local = hasher.local_of(name);
    let local_of = |entry: &KeyEntry| hasher.local_of(entry.key());
    if let Some(entry) = db.table.remove(local, |entry| *entry.key() == *name, local_of) {
        db.captures.removed(&db.table, hasher, local, &entry);
        drop(entry.into_payload().and_then(|object| db.leave_behind(name, object)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Now;
    use crate::core::dispatch;
    use crate::testing::Client;
    use engine::keyspace::caller::{Caller, ExecContext};
    use engine::keyspace::held_locks::HeldLocks;
    use engine::keyspace::keys::Keys;
    use engine::time::UnixUs;

    #[test]
    fn keys_loaded_beside_are_there_at_once_and_earlier_keys_are_gone() {
        let mut client = Client::new();
        client.is("SET old 1", "+OK").is("SET both 1 EX 100", "+OK").select(5).is("SET fifth 1", "+OK").select(0);
        let engine = client.engine();
        let beside = engine.beside();
        for (db, name) in [(0, "both"), (0, "new"), (3, "third"), (6, "sixth")] {
            let hash = beside.hasher().hash(name.as_bytes());
            let held = HeldLocks::keys(&beside, std::iter::once(hash));
            let mut keys = Keys::new(&beside, held, db, ExecContext { caller: Caller::Replay, now: UnixMs(0) });
            let key = keys.key(name.as_bytes());
            let mut edit = keys.edit(key);
            edit.set_string(engine::data::value::NewString::Bytes(b"2"), engine::keyspace::edit::Ttl::Clear);
            edit.commit_silently(0);
            keys.unlock();
        }
        assert_eq!(engine.len(0), 2);
        let data = || DataSet {
            shards: beside.take_data(),
            slot_counts: beside.slot_counts(),
            libraries: Libraries::default(),
        };
        let now = Now { unix_us: UnixUs(0) };
        assert_eq!(dispatch::internal(engine, now, |cx| exchange_all(cx, data)), Ok(()));
        assert_eq!([0, 3, 5, 6].map(|db| client.engine().len(db)), [2, 1, 0, 1]);
        client.is("GET old", "nil").is("GET both", "2").is("TTL both", ":-1").is("GET new", "2");
        client.select(5).is("GET fifth", "nil").select(6).is("GET sixth", "2");
    }
}
