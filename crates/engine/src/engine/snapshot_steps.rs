//! A snapshot from its beginning to its end: under all locks at first, then step by step, a shard's lock at a time.

use crate::data::table::Table;
use crate::engine::Engine;
use crate::keyspace::shard::Db;
use crate::locks::sync::unlock_fairly;
use crate::propagation::effects::Garbage;
use crate::snapshot::before_images::{BeforeImages, Copies};
use crate::snapshot::capture::{BegunSnapshot, Cancelled, Capture, Encode, Part, SnapshotStep};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Old values may take one in so many bytes of the data, or so many bytes if that is more. A quarter is left to what is
/// about it: bits, the room of vectors, blocks on their way to the file.
const HELD_SHARE: u64 = 20;
const HELD_MIN: u64 = 64 << 20;

impl Engine {
    /// Begins a cut at this moment; `then` runs in it, under all locks.
    ///
    /// # Errors
    /// `ResourceBusy`: one is under way. `WouldBlock`: not all locks are free, and `give_up` says that they will not be
    /// soon.
    pub fn begin_snapshot(
        &self,
        encode: Encode,
        then: impl FnOnce(),
        give_up: impl Fn() -> bool,
    ) -> io::Result<BegunSnapshot> {
        let limit = (self.host().memory().allocated / HELD_SHARE).max(HELD_MIN) / 4 * 3;
        let mut locks = self.locks().escalated_unless(|| &give_up).ok_or(io::ErrorKind::WouldBlock)?;
        if !locks.take_all(|| &give_up) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let began = self.host().nanos();
        if self.snapshot_open.swap(true, Relaxed) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let copies = Arc::new(Copies::new(self.host_handle(), limit));
        let mut begun = BegunSnapshot {
            timed: false,
            keys: 0,
            databases: BTreeMap::new(),
            libraries: self.scripts().libraries(),
            copies: Arc::clone(&copies),
        };
        for index in 0..self.locks().len() {
            for (home, db) in locks.get(index).dbs.iter_mut() {
                if db.table.is_empty() {
                    continue;
                }
                begun.timed |= !db.expiry.elements.is_empty();
                begun.keys += db.table.len() as u64;
                let (keys, expiries) = begun.databases.entry(home).or_default();
                *keys += db.table.len() as u64;
                *expiries += db.expiry.keys.len() as u64;
                db.capture = Capture::open(&encode, home, db.table.len(), &copies);
            }
        }
        then();
        self.persistence_status().snapshot_nanos.store(self.host().nanos().since(began), Relaxed);
        Ok(begun)
    }

    /// Ends the cut, also when it was not walked through. Takes each lock once.
    pub fn end_snapshot(&self) {
        for index in 0..self.locks().len() {
            let mut shard = self.locks().one(index);
            let open: Vec<Capture> = shard.dbs.iter_mut().map(|(_, db)| std::mem::take(&mut db.capture)).collect();
            drop(shard);
            // Without the lock: there may be much to free.
            self.free_left(open.into_iter().flat_map(Capture::into_garbage).collect());
        }
        self.snapshot_open.store(false, Relaxed);
    }

    fn free_left(&self, garbage: Vec<Garbage>) {
        if !garbage.is_empty() {
            self.host().free(garbage);
        }
    }

    /// Whether there is a cut, and the save that it is for was not
    /// [cancelled](crate::status::persistence_status::PersistenceStatus::cancel).
    pub fn snapshot_is_open(&self) -> bool {
        self.snapshot_open.load(Relaxed) && !self.persistence_status().is_cancelled()
    }

    /// Appends some of the keys of a database in a shard as they were at the cut, and hands out those that were kept.
    ///
    /// # Errors
    /// The cut was ended by another thread.
    pub fn snapshot_step(
        &self,
        part: Part,
        shard: usize,
        db: u32,
        out: &mut Vec<u8>,
    ) -> Result<SnapshotStep, Cancelled> {
        let worked = self.with_snapshot(shard, db, |capture, table| capture.step(part, table, self.hasher(), out))?;
        let (step, ended) = worked.unwrap_or_default();
        let garbage = ended.finish(out);
        self.free_left(garbage);
        Ok(step)
    }

    /// Hands out what was kept of a database in a shard, wherever the walk is. Not while large values are written.
    ///
    /// # Errors
    /// The cut was ended by another thread.
    pub fn snapshot_drain(&self, shard: usize, db: u32) -> Result<Option<BeforeImages>, Cancelled> {
        Ok(self.with_snapshot(shard, db, |capture, _| capture.take_kept())?.flatten())
    }

    /// None: the database was empty at the cut.
    fn with_snapshot<R>(
        &self,
        shard: usize,
        db: u32,
        work: impl FnOnce(&mut Capture, &Table) -> R,
    ) -> Result<Option<R>, Cancelled> {
        if !self.snapshot_is_open() {
            return Err(Cancelled);
        }
        let mut guard = self.locks().one(shard);
        let is_it = |slot: &(u32, &mut Db)| slot.1.capture.is_of(db);
        let Some((_, Db { table, capture, .. })) = guard.dbs.iter_mut().find(is_it) else { return Ok(None) };
        let result = work(capture, table);
        // A waiting thread gets the lock now: the walk comes back too soon for that thread to win a race for it.
        unlock_fairly(guard);
        Ok(Some(result))
    }
}
