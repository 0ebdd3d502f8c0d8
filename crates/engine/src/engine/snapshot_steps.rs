//! A snapshot from its beginning to its end: under the locks of its shards at first, then step by step, a shard's lock
//! at a time.

use crate::data::table::Table;
use crate::engine::Engine;
use crate::keyspace::shard::{Db, Shard};
use crate::keyspace::shard_counters::Lengths;
use crate::locks::protocol::{Escalated, Several};
use crate::locks::sync::unlock_fairly;
use crate::propagation::effects::Garbage;
use crate::snapshot::before_images::{BeforeImages, Copies};
use crate::snapshot::capture::{Capture, Part, SnapshotStep};
use crate::snapshot::encoder::Encode;
use crate::snapshot::open_snapshots::{BegunSnapshot, OpenSnapshots, Purpose, Seat};
use cluster::slot_set::SlotSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Old values of all snapshots may take one in so many bytes of the data, or so many bytes if that is more. A quarter
/// is left to what is about it: bits, the room of vectors, blocks on their way to the file.
const HELD_SHARE: u64 = 20;
const HELD_MIN: u64 = 64 << 20;

/// Slots, purpose and form of a snapshot.
pub struct SnapshotRequest {
    /// These slots, in all databases.
    pub slots: SlotSet,
    /// Its purpose.
    pub purpose: Purpose,
    /// Form in which keys are written.
    pub encode: Encode,
}

/// A snapshot that is open. It ends when it is dropped, walked through or not, which takes each of its locks once.
pub struct Snapshot<'e> {
    engine: &'e Engine,
    seat: Seat<'e>,
    /// The shards in which its slots lie.
    shards: Vec<usize>,
    begun: BegunSnapshot,
}

/// The snapshot ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl Engine {
    /// Begins a snapshot of this moment; `then` runs in it, under the locks of all its shards.
    ///
    /// # Errors
    /// `InvalidInput`: there is no slot to be read, and no command was stopped; `ResourceBusy`: there are too many
    /// snapshots, likewise. `WouldBlock`: not all locks are free, and `give_up` says that they will not be soon.
    pub fn begin_snapshot(
        &self,
        request: SnapshotRequest,
        then: impl FnOnce(),
        give_up: impl Fn() -> bool,
    ) -> io::Result<Snapshot<'_>> {
        let SnapshotRequest { slots, purpose, encode } = request;
        if slots.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let seat = self.open_snapshots.enter(purpose).ok_or(io::ErrorKind::ResourceBusy)?;
        let is_whole = slots.is_all();
        let has = |shard: usize| slots.count(self.hasher().slots_of(shard));
        let shards: Vec<usize> = (0..self.locks().len()).filter(|shard| has(*shard) > 0).collect();
        let memory = &self.open_snapshots.memory;
        memory.set_limit((self.host().memory().allocated / HELD_SHARE).max(HELD_MIN) / 4 * 3);
        let copies = Arc::new(Copies::new(self.host_handle(), Arc::clone(memory)));
        let mut locks = BeginLocks::take(self, &shards, is_whole, &give_up).ok_or(io::ErrorKind::WouldBlock)?;
        let began = self.host().nanos();
        let libraries = is_whole.then(|| self.scripts().libraries());
        let mut begun = BegunSnapshot::new(self.change_log(), libraries, Arc::clone(&copies));
        begun.hidden = self.importing_slots().coming();
        for &index in &shards {
            let (some, all) = (has(index) as u64, self.hasher().slots_of(index).len() as u64);
            let about = |keys: usize| (keys as u64 * some).div_ceil(all);
            for (home, db) in locks.shard(index).dbs.iter_mut() {
                if db.table.is_empty() {
                    continue;
                }
                begun.timed |= !db.expiry.elements.is_empty();
                begun.keys += about(db.table.len());
                let (keys, expiries) = begun.databases.entry(home).or_default();
                *keys += about(db.table.len());
                *expiries += about(db.expiry.keys.len());
                let filter = (some < all).then(|| slots.clone());
                db.captures.add(Capture::new(seat.number, home, filter, db.table.len(), &encode, &copies));
            }
        }
        then();
        drop(locks);
        self.persistence_status().snapshot_nanos.store(self.host().nanos().since(began), Relaxed);
        Ok(Snapshot { engine: self, seat, shards, begun })
    }

    /// Returns the open snapshots.
    pub fn open_snapshots(&self) -> &OpenSnapshots {
        &self.open_snapshots
    }

    fn free_left(&self, garbage: Vec<Garbage>) {
        if !garbage.is_empty() {
            self.host().free(garbage);
        }
    }
}

/// The locks under which a snapshot begins.
enum BeginLocks<'l> {
    All(Escalated<'l, Shard, Lengths>),
    Some(Several<'l, Shard>),
}

impl<'l> BeginLocks<'l> {
    /// Takes the locks. None: one is not free, and `give_up` says that it will not be soon.
    fn take(
        engine: &'l Engine,
        shards: &[usize],
        is_whole: bool,
        give_up: impl Fn() -> bool,
    ) -> Option<BeginLocks<'l>> {
        let begin = || &give_up;
        if !is_whole {
            return engine.locks().several_unless(&mut shards.into(), begin).map(BeginLocks::Some);
        }
        let mut locks = engine.locks().escalated_unless(begin)?;
        locks.take_all(begin).then_some(BeginLocks::All(locks))
    }

    fn shard(&mut self, index: usize) -> &mut Shard {
        match self {
            BeginLocks::All(locks) => locks.get(index),
            BeginLocks::Some(locks) => locks.get(index),
        }
    }
}

impl Snapshot<'_> {
    /// Returns the engine whose keyspace it is.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Returns its purpose.
    pub fn purpose(&self) -> Purpose {
        self.seat.purpose
    }

    /// Returns the state of its moment.
    pub fn begun(&self) -> &BegunSnapshot {
        &self.begun
    }

    /// Returns the shards in which its slots lie, ascending.
    pub fn shards(&self) -> &[usize] {
        &self.shards
    }

    /// Whether it is to end early.
    pub fn is_cancelled(&self) -> bool {
        let status = self.engine.persistence_status();
        match self.seat.purpose {
            Purpose::Save => status.is_cancelled(),
            Purpose::Rewrite => status.is_rewrite_cancelled(),
            Purpose::Transfer | Purpose::Slots => false,
        }
    }

    /// Appends some of the keys of a database in a shard as they were, and hands out the before-images.
    ///
    /// # Errors
    /// [`Cancelled`]: it ends early.
    pub fn step(&self, part: Part, shard: usize, db: u32, out: &mut Vec<u8>) -> Result<SnapshotStep, Cancelled> {
        let hasher = self.engine.hasher();
        let worked = self.with_capture(shard, db, |capture, table| capture.step(part, table, hasher, out))?;
        let (step, ended) = worked.unwrap_or_default();
        let garbage = ended.finish(out);
        self.engine.free_left(garbage);
        Ok(step)
    }

    /// Hands out the before-images of a database in a shard, wherever the walk is. Not while large values are written.
    ///
    /// # Errors
    /// [`Cancelled`]: it ends early.
    pub fn drain(&self, shard: usize, db: u32) -> Result<Option<BeforeImages>, Cancelled> {
        Ok(self.with_capture(shard, db, |capture, _| capture.take_kept())?.flatten())
    }

    /// Calls `work` with the capture of a database in a shard. None: the database was empty, or is read through.
    fn with_capture<R>(
        &self,
        shard: usize,
        home: u32,
        work: impl FnOnce(&mut Capture, &Table) -> R,
    ) -> Result<Option<R>, Cancelled> {
        if self.is_cancelled() {
            return Err(Cancelled);
        }
        let number = self.seat.number;
        let mut guard = self.engine.locks().one(shard);
        let has = |db: &mut Db| db.captures.of(number, home).is_some();
        let found = guard.dbs.iter_mut().map(|(_, db)| db).find_map(|db| has(db).then_some(db));
        let result = found.and_then(|Db { table, captures, .. }| {
            let capture = captures.of(number, home)?;
            let result = work(capture, table);
            if capture.is_done() {
                // Its keys are changed as if it were not there from now on.
                captures.end(|capture| capture.is_of(number, home));
            }
            Some(result)
        });
        // A waiting thread gets the lock now: the walk comes back too soon for that thread to win a race for it.
        unlock_fairly(guard);
        Ok(result)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        for &index in &self.shards {
            let mut shard = self.engine.locks().one(index);
            let is_over = |capture: &Capture| capture.is_of_cut(self.seat.number);
            let open: Vec<Capture> = shard.dbs.iter_mut().flat_map(|(_, db)| db.captures.end(is_over)).collect();
            drop(shard);
            // Without the lock: there may be much to free.
            self.engine.free_left(open.into_iter().flat_map(Capture::into_garbage).collect());
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::data::slot::slot_of;
    use crate::data::value::{KeyEntry, NewString};
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::keys::Keys;
    use crate::snapshot::encoder::Encoder;
    use crate::snapshot::open_snapshots::TRANSFERS_MAX;
    use crate::testing::MemoryLog;
    use crate::time::UnixMs;
    use crate::{NullHost, Options};
    use std::any::Any;
    use std::sync::atomic::AtomicUsize;

    /// Writes names, and counts how often one is written because it is about to be changed.
    #[derive(Default)]
    struct Names(Arc<AtomicUsize>);

    impl Encoder for Names {
        fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
            out.extend_from_slice(entry.key());
            out.push(b'\n');
        }

        fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
            self.0.fetch_add(1, Relaxed);
            self.put(out, entry);
        }

        fn keeps_like(&self, other: &dyn Encoder) -> bool {
            let other: &dyn Any = other;
            other.downcast_ref::<Names>().is_some_and(|other| Arc::ptr_eq(&other.0, &self.0))
        }
    }

    fn engine() -> Engine {
        let engine = Engine::new(&Options { shards: 16, databases: 1, ..Options::default() }, Arc::new(NullHost));
        (0..400).for_each(|n| set(&engine, &format!("key {n}")));
        engine
    }

    fn set(engine: &Engine, name: &str) {
        let name = name.as_bytes();
        let held = HeldLocks::keys(engine, std::iter::once(engine.hasher().hash(name)));
        let mut keys = Keys::new(engine, held, 0, ExecContext::client(UnixMs(1)));
        let mut edit = keys.edit(keys.key(name));
        edit.set_string(NewString::Bytes(b"v"), Ttl::Clear);
        edit.commit_silently(1);
        keys.unlock();
    }

    fn begin<'e>(engine: &'e Engine, slots: &SlotSet, encode: &Arc<AtomicUsize>) -> Snapshot<'e> {
        let encode: Encode = Arc::new(Names(Arc::clone(encode)));
        let request = SnapshotRequest { slots: slots.clone(), purpose: Purpose::Transfer, encode };
        engine.begin_snapshot(request, || (), || false).expect("not too many")
    }

    /// The names that it has, sorted.
    fn names(snapshot: &Snapshot<'_>) -> Vec<String> {
        let mut out = Vec::new();
        for &shard in snapshot.shards() {
            loop {
                let step = snapshot.step(Part::Walk, shard, 0, &mut out).expect("nobody cancels it");
                if let Some(kept) = step.kept {
                    let to = |bytes: &[u8]| {
                        out.extend_from_slice(bytes);
                        Ok(())
                    };
                    kept.pour(to).expect("in memory");
                }
                if !step.more {
                    break;
                }
            }
        }
        let mut names: Vec<String> = String::from_utf8_lossy(&out).lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The first names, of these slots.
    fn expected(slots: &SlotSet) -> Vec<String> {
        let all = (0..400).map(|n| format!("key {n}"));
        let mut names: Vec<String> = all.filter(|name| slots.contains(slot_of(name.as_bytes()))).collect();
        names.sort();
        names
    }

    #[test]
    fn a_snapshot_of_slots_is_asked_about_no_others() {
        let engine = engine();
        // The first and the last shard in part, one between as a whole.
        let slots = SlotSet::of([1500..=3100]);
        let kept = Arc::default();
        let snapshot = begin(&engine, &slots, &kept);
        assert_eq!(snapshot.shards(), [1, 2, 3]);
        assert!(snapshot.begun().libraries.is_none());
        let is_other = |n: &u32| !slots.contains(slot_of(format!("key {n}").as_bytes()));
        (0..2000).filter(is_other).for_each(|n| set(&engine, &format!("key {n}")));
        assert_eq!((kept.load(Relaxed), snapshot.begun().copies.total()), (0, 0));
        for shard in [0, 4, 15] {
            assert!(!engine.locks().one(shard).dbs[0].captures.is_open());
        }
        (0..2000).for_each(|n| set(&engine, &format!("key {n}")));
        assert_eq!(kept.load(Relaxed), expected(&slots).len());
        assert_eq!(names(&snapshot), expected(&slots));
        // A shard that is read through costs nothing more.
        assert!((0..16).all(|shard| !engine.locks().one(shard).dbs[0].captures.is_open()));
    }

    #[test]
    fn a_key_that_several_have_not_reached_is_encoded_once() {
        let engine = engine();
        let (all, some) = (SlotSet::all(), SlotSet::of([0..=8000]));
        let [shared, own] = [Arc::default(), Arc::default()];
        let snapshots =
            [(&all, &shared), (&some, &shared), (&all, &own)].map(|(slots, kept)| begin(&engine, slots, kept));
        (0..400).for_each(|n| set(&engine, &format!("key {n}")));
        assert_eq!((shared.load(Relaxed), own.load(Relaxed)), (400, 400));
        let later = begin(&engine, &all, &shared);
        (0..800).for_each(|n| set(&engine, &format!("key {n}")));
        assert_eq!((shared.load(Relaxed), own.load(Relaxed)), (800, 400));
        for (snapshot, slots) in snapshots.iter().chain([&later]).zip([&all, &some, &all, &all]) {
            assert_eq!(names(snapshot), expected(slots));
        }
        drop((snapshots, later));
        assert!(engine.open_snapshots().is_empty());
    }

    #[test]
    fn a_refused_snapshot_waits_for_no_lock() {
        let engine = engine();
        let kept = Arc::default();
        let open: Vec<_> = (0..TRANSFERS_MAX).map(|n| begin(&engine, &SlotSet::of([0..=n as u16]), &kept)).collect();
        let try_begin = |slots: SlotSet, purpose| {
            let encode: Encode = Arc::new(Names::default());
            let request = SnapshotRequest { slots, purpose, encode };
            engine
                .begin_snapshot(request, || panic!("it does not begin"), || true)
                .map(drop)
                .map_err(|error| error.kind())
        };
        let held = engine.locks().one(3);
        assert_eq!(try_begin(SlotSet::of([]), Purpose::Save), Err(io::ErrorKind::InvalidInput));
        assert_eq!(try_begin(SlotSet::all(), Purpose::Transfer), Err(io::ErrorKind::ResourceBusy));
        assert_eq!(try_begin(SlotSet::all(), Purpose::Save), Err(io::ErrorKind::WouldBlock));
        assert_eq!(try_begin(SlotSet::of([3000..=5000]), Purpose::Rewrite), Err(io::ErrorKind::WouldBlock));
        drop(held);
        assert_eq!(engine.open_snapshots().len(), open.len());
    }

    #[test]
    fn a_snapshot_knows_how_long_the_log_was() {
        let engine = engine();
        let log = MemoryLog::of(&engine);
        let kept = Arc::default();
        let offsets = [SlotSet::all(), SlotSet::of([7..=9])].map(|slots| {
            engine.record_removal(&mut engine.locks().one(0), 0, b"DEL", b"key");
            (begin(&engine, &slots, &kept).begun().offset, log.take().len())
        });
        let record = engine.change_log().appended() / 2;
        assert_eq!(offsets, [(record, 1), (2 * record, 1)]);
    }
}
