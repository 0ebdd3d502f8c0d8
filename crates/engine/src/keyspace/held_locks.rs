//! The locks that one command holds, and how long it waits for others.
//!
//! ```text
//!   HeldLocks    what the dispatcher took:   Nothing | One | Several | Anything      ways of protocol.rs
//!   Locks        what a command has:         index, one lock in place  |  others     one of the two
//! ```
//!
//! Nearly all commands have one lock. It lies apart, so that it is released in place and not moved to be dropped.

use crate::data::key_hash::KeyHash;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::Shard;
use crate::keyspace::shard_counters::Lengths;
use crate::locks::protocol::{Escalated, Several};
use crate::locks::sync::MutexGuard;
use crate::status::deny_reasons::Epoch;
use crate::time::Nanos;
use smallvec::SmallVec;
use std::cell::Cell;

/// The locks that a command holds; see [`crate::locks::protocol`] for the protocol.
pub enum HeldLocks<'e> {
    /// None for longer than a step: commands without keys, walks over the keyspace.
    Nothing,
    /// The lock of the shard with this number.
    One(usize, MutexGuard<'e, Shard>),
    /// The locks of some shards.
    Several(Box<Several<'e, Shard>>),
    /// The right to any lock, and the locks that were taken by it.
    Anything(Box<Escalated<'e, Shard, Lengths>>),
}

/// Timeout of a command for a lock that is not free, as long as it has changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockTimeout {
    /// It waits, unless a script keeps the server busy.
    #[default]
    Long,
    /// It waits for half a millisecond for each, and not at all once a script has run for so long, which may hold the
    /// lock: it is retried later.
    Short,
    /// It was retried so often in vain, and has to finish in the end: of several locks it waits longer for each.
    Tried(u8),
    /// As [`Short`](Self::Short), while another one of the same thread has waited already: it hardly waits.
    None,
}

/// Nanoseconds that a command with a short timeout waits for a lock. The holder may be in a call that does not look at
/// the clock, or have no processor.
const SHORT_WAIT: u64 = 500_000;
/// Retries after which that time doubles: up to the time that a holder without a processor needs to get one again. In
/// the other retries, of so many, the short time applies: the holder is in a long call then, and the thread has other
/// clients to serve.
const DOUBLINGS: u8 = 4;
const TRIES: u8 = 16;

impl LockTimeout {
    /// Whether a script that runs for long ends the wait.
    pub fn is_over(self, keyspace: &Keyspace) -> bool {
        match self {
            LockTimeout::Long => keyspace.scripts().is_busy(),
            _ => keyspace.scripts().is_long(),
        }
    }

    /// Returns the timeout of the next try, after one in vain. `first`: whether it is the first of its thread to be
    /// tried.
    pub fn after_failure(self, first: bool) -> LockTimeout {
        match self {
            LockTimeout::Long => LockTimeout::Long,
            LockTimeout::Tried(tries) if first => LockTimeout::Tried((tries + 1) % TRIES),
            _ if first => LockTimeout::Tried(1),
            _ => LockTimeout::None,
        }
    }

    /// Returns the check of a wait for one lock: whether it has lasted long enough, from now on.
    #[inline(always)]
    pub fn from_now(self, keyspace: &Keyspace) -> impl Fn() -> bool {
        self.wait(keyspace, SHORT_WAIT)
    }

    /// Returns the check of a wait for one lock of several, where the command releases the locks that it has.
    pub fn among_several(self, keyspace: &Keyspace) -> impl Fn() -> bool {
        self.wait(keyspace, self.nanos_among_several())
    }

    fn nanos_among_several(self) -> u64 {
        let doublings = if let LockTimeout::Tried(tries @ ..=DOUBLINGS) = self { tries } else { 0 };
        SHORT_WAIT << doublings
    }

    #[inline(always)]
    fn wait(self, keyspace: &Keyspace, nanos: u64) -> impl Fn() -> bool {
        let since = Cell::new(None);
        move || self.is_over(keyspace) || self != LockTimeout::Long && self.has_waited(keyspace, nanos, &since)
    }

    /// Whether this was first called so long ago.
    #[cold]
    fn has_waited(self, keyspace: &Keyspace, nanos: u64, since: &Cell<Option<Nanos>>) -> bool {
        if self == LockTimeout::None {
            return true;
        }
        let now = keyspace.clock().nanos();
        let began = since.get().unwrap_or(now);
        since.set(Some(began));
        now.since(began) > nanos
    }
}

impl<'e> HeldLocks<'e> {
    /// Locks the shards of these keys.
    #[inline(always)]
    pub fn keys(keyspace: &'e Keyspace, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Self {
        HeldLocks::keys_unless(keyspace, hashes, |_| || false).unwrap_or(HeldLocks::Nothing)
    }

    /// Locks the shards of these keys; None when it times out.
    #[inline(always)]
    pub fn keys_with(
        keyspace: &'e Keyspace,
        hashes: impl ExactSizeIterator<Item = KeyHash>,
        patience: LockTimeout,
    ) -> Option<Self> {
        HeldLocks::keys_unless(keyspace, hashes, |several| {
            let nanos = if several { patience.nanos_among_several() } else { SHORT_WAIT };
            patience.wait(keyspace, nanos)
        })
    }

    /// Locks the shards of these keys. `begin`: called at the beginning of each wait for a lock; its result says when
    /// that wait times out.
    #[inline(always)]
    fn keys_unless<G: Fn() -> bool>(
        keyspace: &'e Keyspace,
        mut hashes: impl ExactSizeIterator<Item = KeyHash>,
        begin: impl Fn(bool) -> G,
    ) -> Option<Self> {
        if hashes.len() <= 1 {
            let Some(only) = hashes.next().map(|hash| hash.shard()) else { return Some(HeldLocks::Nothing) };
            return Some(HeldLocks::One(only, keyspace.locks().one_unless(only, begin(false))?));
        }
        HeldLocks::many(keyspace, hashes, begin)
    }

    /// Whether a command that was admitted in this epoch may run under these locks. A command that takes the gate, and
    /// later any shard, compares the server's epoch: the [barrier](Keyspace::pass_locks) waits at the gate first.
    #[inline(always)]
    pub fn admit(&self, keyspace: &Keyspace, epoch: Epoch) -> bool {
        match self {
            HeldLocks::One(_, shard) => shard.admits(epoch),
            others => others.all_admit(keyspace, epoch),
        }
    }

    #[inline(never)]
    fn all_admit(&self, keyspace: &Keyspace, epoch: Epoch) -> bool {
        match self {
            HeldLocks::Several(several) => {
                let mut all = true;
                several.each(|_, shard| all &= shard.admits(epoch));
                all
            }
            HeldLocks::Anything(_) => keyspace.epoch() <= epoch,
            HeldLocks::One(_, shard) => shard.admits(epoch),
            HeldLocks::Nothing => true,
        }
    }

    #[inline(never)]
    fn release(self) {}

    fn many<G: Fn() -> bool>(
        keyspace: &'e Keyspace,
        hashes: impl Iterator<Item = KeyHash>,
        begin: impl Fn(bool) -> G,
    ) -> Option<Self> {
        let mut shards: SmallVec<[usize; 8]> = hashes.map(|hash| hash.shard()).collect();
        Some(match shards[..] {
            [] => HeldLocks::Nothing,
            [first, ..] if shards.iter().all(|shard| *shard == first) => {
                HeldLocks::One(first, keyspace.locks().one_unless(first, begin(false))?)
            }
            _ => HeldLocks::Several(Box::new(keyspace.locks().several_unless(&mut shards, || begin(true))?)),
        })
    }
}

/// [`HeldLocks`] in the form in which a command has them.
pub(crate) struct Locks<'e> {
    index: usize,
    one: Option<MutexGuard<'e, Shard>>,
    /// Not [`HeldLocks::One`], and nothing where there is `one`.
    others: HeldLocks<'e>,
}

impl<'e> Locks<'e> {
    #[inline(always)]
    pub fn of(held: HeldLocks<'e>) -> Self {
        match held {
            HeldLocks::One(index, guard) => Locks { index, one: Some(guard), others: HeldLocks::Nothing },
            others => Locks { index: 0, one: None, others },
        }
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> HeldLocks<'e> {
        let others = std::mem::replace(&mut self.others, HeldLocks::Nothing);
        self.one.take().map_or(others, |guard| HeldLocks::One(self.index, guard))
    }

    #[inline(always)]
    pub fn release(&mut self) {
        self.one = None;
        if !matches!(self.others, HeldLocks::Nothing) {
            std::mem::replace(&mut self.others, HeldLocks::Nothing).release();
        }
    }

    /// Returns the shard whose lock is held alone, with its number.
    #[inline(always)]
    pub fn single(&self) -> Option<(usize, &Shard)> {
        Some((self.index, self.one.as_deref()?))
    }

    /// Returns the shard whose lock is held alone, to change it, with its number.
    #[inline(always)]
    pub fn single_mut(&mut self) -> Option<(usize, &mut Shard)> {
        Some((self.index, self.one.as_deref_mut()?))
    }

    /// Calls `visit` for every shard that is locked.
    #[inline(always)]
    pub fn each_mut(&mut self, mut visit: impl FnMut(&mut Shard)) {
        match &mut self.one {
            Some(guard) => visit(guard),
            None => Self::each_other_mut(&mut self.others, &mut visit),
        }
    }

    #[inline(never)]
    fn each_other_mut(others: &mut HeldLocks<'e>, visit: &mut dyn FnMut(&mut Shard)) {
        match others {
            HeldLocks::Several(several) => several.each_mut(visit),
            HeldLocks::Anything(any) => any.each_mut(visit),
            HeldLocks::One(..) | HeldLocks::Nothing => {}
        }
    }

    /// Calls `visit` for all shards that are locked in other ways.
    pub fn each_other(&self, visit: impl FnMut(usize, &Shard)) {
        match &self.others {
            HeldLocks::Several(several) => several.each(visit),
            HeldLocks::Anything(any) => any.each(visit),
            HeldLocks::One(..) | HeldLocks::Nothing => {}
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.one.is_none() && matches!(self.others, HeldLocks::Nothing)
    }

    /// Takes this lock over. None may be held yet.
    #[inline(always)]
    pub fn begin(&mut self, index: usize, guard: MutexGuard<'e, Shard>) {
        (self.index, self.one) = (index, Some(guard));
    }

    /// Releases the lock that is held alone; returns whether there was one.
    pub fn give_up_only(&mut self) -> bool {
        self.one.take().is_some()
    }

    /// Returns the shard, if its lock is the only one.
    #[inline(always)]
    pub fn only(&mut self, index: usize) -> Option<&mut Shard> {
        self.one.as_deref_mut().filter(|_| self.index == index)
    }

    /// Returns the shard, which is one that the command may touch.
    #[inline(always)]
    pub fn get(&mut self, index: usize) -> &mut Shard {
        if let Some(guard) = &mut self.one {
            assert!(self.index == index, "a command touches declared keys only");
            return guard;
        }
        Self::among(&mut self.others, index)
    }

    #[inline(never)]
    fn among<'h>(others: &'h mut HeldLocks<'e>, index: usize) -> &'h mut Shard {
        match others {
            HeldLocks::Several(several) => several.get(index),
            HeldLocks::Anything(any) => any.get(index),
            HeldLocks::One(..) | HeldLocks::Nothing => panic!("a command touches declared keys only"),
        }
    }

    /// Returns the shard, if it is locked already.
    pub fn shared(&self, index: usize) -> Option<&Shard> {
        match (&self.one, &self.others) {
            (Some(guard), _) => Some(&**guard).filter(|_| self.index == index),
            (None, HeldLocks::Several(several)) => several.held(index),
            (None, HeldLocks::Anything(any)) => any.held(index),
            (None, _) => None,
        }
    }

    /// Returns the shard, if it is locked or the command has the right to any.
    pub fn reach(&mut self, index: usize) -> Option<&mut Shard> {
        match (&mut self.one, &mut self.others) {
            (Some(guard), _) => Some(&mut **guard).filter(|_| self.index == index),
            (None, HeldLocks::Several(several)) => several.held_mut(index),
            (None, HeldLocks::Anything(any)) => Some(any.get(index)),
            (None, _) => None,
        }
    }

    /// Whether the shard may be touched.
    #[inline]
    pub fn reaches(&self, index: usize) -> bool {
        match &self.others {
            HeldLocks::Several(several) => several.held(index).is_some(),
            HeldLocks::Anything(_) => true,
            _ => self.one.is_some() && self.index == index,
        }
    }

    /// Whether any shard may be touched.
    pub fn reaches_all(&self) -> bool {
        matches!(self.others, HeldLocks::Anything(_))
    }

    /// Returns the right to any shard, if these locks come with it.
    pub fn any(&mut self) -> Option<&mut Escalated<'e, Shard, Lengths>> {
        match &mut self.others {
            HeldLocks::Anything(any) => Some(any),
            _ => None,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::host::clock::Clock;

    use crate::{Engine, Host, Options};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::sync::{Arc, Mutex, OnceLock};

    /// A clock that waiting threads read: a third of a millisecond passes each time, and a lock becomes free.
    #[derive(Default)]
    struct Slow {
        clock: AtomicU64,
        frees: OnceLock<Mutex<(SyncSender<()>, Receiver<()>)>>,
    }

    impl Clock for Slow {
        fn nanos(&self) -> Nanos {
            if let Some(frees) = self.frees.get() {
                let (ask, done) = &*frees.lock().expect("no test panics here");
                if ask.send(()).is_ok() {
                    done.recv().expect("an answer");
                }
            }
            Nanos(self.clock.fetch_add(300_000, Relaxed))
        }
    }

    crate::host_defaults!(Slow: Memory, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

    fn engine() -> (Engine, Arc<Slow>, Vec<KeyHash>) {
        let host = Arc::new(Slow::default());
        let options = Options { shards: 8, databases: 1, hash_seed: 7, workers: 1, counts_slots: true };
        let engine = Engine::new(&options, Arc::clone(&host) as Arc<dyn Host>);
        let mut hashes = vec![];
        for n in 0.. {
            let hash = engine.hasher().hash(format!("{n}").as_bytes());
            if !hashes.iter().any(|other: &KeyHash| other.shard() == hash.shard()) {
                hashes.push(hash);
            }
            if hashes.len() == 8 {
                break;
            }
        }
        (engine, host, hashes)
    }

    #[test]
    fn each_of_many_locks_is_waited_for_by_itself() {
        let (engine, host, hashes) = engine();
        let ((ask, asked), (done, wait)) = (sync_channel(0), sync_channel(0));
        let (locked, begin) = sync_channel(0);
        std::thread::scope(|scope| {
            let engine = &engine;
            scope.spawn(move || {
                let guards: Vec<_> = (0..8).map(|index| engine.locks().one(index)).collect();
                locked.send(()).expect("a receiver");
                for guard in guards {
                    let Ok(()) = asked.recv() else { return };
                    drop(guard);
                    done.send(()).expect("a receiver");
                }
            });
            begin.recv().expect("all are locked");
            assert!(host.frees.set(Mutex::new((ask, wait))).is_ok());
            let held = HeldLocks::keys_with(engine, hashes.into_iter(), LockTimeout::Short);
            assert!(matches!(held, Some(HeldLocks::Several(_))), "all became free in time");
        });
    }

    #[test]
    fn keys_with_one_tag_take_one_lock_and_no_gate() {
        let (engine, _, hashes) = engine();
        let tagged: Vec<KeyHash> = (0..100).map(|n| engine.hasher().hash(format!("{n}{{tag}}").as_bytes())).collect();
        let shard = tagged[0].shard();
        // A thread that is about to take all locks has the gate.
        let all = engine.locks().escalated();
        let held = HeldLocks::keys(&engine, tagged.into_iter());
        assert!(matches!(held, HeldLocks::One(only, _) if only == shard));
        drop((held, all));
        let two = HeldLocks::keys(&engine, hashes[..2].iter().copied());
        assert!(matches!(two, HeldLocks::Several(_)));
    }

    #[test]
    fn lock_timeouts_grow_after_failures_of_several_locks_but_not_of_one() {
        let (engine, host, hashes) = engine();
        let _held = engine.locks().one(hashes[0].shard());
        let looks = |count: usize, patience| {
            let before = host.clock.load(Relaxed);
            assert!(HeldLocks::keys_with(&engine, hashes[..count].iter().copied(), patience).is_none());
            (host.clock.load(Relaxed) - before) / 300_000
        };
        let mut patience = LockTimeout::Short;
        let mut seen = vec![];
        for _ in 0..7 {
            seen.push((looks(8, patience), looks(1, patience)));
            patience = patience.after_failure(true);
        }
        assert_eq!(seen, [(3, 3), (5, 3), (8, 3), (15, 3), (28, 3), (3, 3), (3, 3)]);
        assert_eq!((looks(8, patience.after_failure(false)), looks(1, LockTimeout::None)), (0, 0));
        assert_eq!(LockTimeout::None.after_failure(true), LockTimeout::Tried(1));
        assert_eq!(LockTimeout::Long.after_failure(true), LockTimeout::Long);
        assert_eq!(LockTimeout::Tried(TRIES - 1).after_failure(true), LockTimeout::Tried(0));
    }
}
