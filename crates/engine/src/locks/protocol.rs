//! The lock protocol of the keyspace.
//!
//! There are N shard locks and a gate, which guards no data: a few read-write locks, its lanes, so that threads that
//! pass do not all write to one cache line. A reader of the gate takes any one lane, a writer takes all of them in
//! ascending order. Every thread follows one of three ways, and takes no second way while inside of one:
//!
//! | way | takes | for |
//! |---|---|---|
//! | [`one`](LockSet::one) | one shard lock | a command with one key; a step of a walk over the keyspace |
//! | [`several`](LockSet::several) | the gate as reader, then shard locks, ascending | commands with known keys |
//! | [`escalated`](LockSet::escalated) | the gate as writer, any shard lock | commands without declared keys; cuts |
//!
//! No deadlock: a thread on the first way waits for one lock and holds none. Threads on the second way wait only for
//! locks above the ones that they hold. While a thread is inside the third way, none is on the second, so the holder of
//! a shard lock that it waits for is on the first way and waits for nothing.
//!
//! A thread on the first or second way may need one more lock after it has begun to change things ([`Several::add`]: a
//! script that meets a key it did not declare). A thread that is certain not to need one holds its locks and ends. Any
//! other thread prepares: before its first change it [claims](LockSet::claim) the right to that, which one thread has
//! at a time and the third way takes, too. A thread that holds anything else does not wait for the right: a script that
//! does not get it releases its locks, for it has changed nothing, and begins again on the third way. A thread that
//! uses the right sets a flag, and threads on the second way that do not have all of their locks yet release them and
//! begin again when the flag is down. Every other holder of a lock ends without waiting. So a script that has changed
//! something always gets the lock. A thread that was not prepared and needs a lock all the same may claim the right as
//! late as that, but must do without if it is not free: the holder of the right may wait for one of its locks.
//!
//! No starvation: a thread with a short timeout releases its locks when one is not free in time, and retries later,
//! longer for each lock the more often it has failed ([`LockTimeout`](crate::keyspace::held_locks::LockTimeout)). A
//! lock whose holder only has no processor becomes free in that time, and the lock's queue is served in order. A lock
//! of a command that runs for long does not, and then it is right to retry later.
//!
//! Atomic: only the holder of the locks of a set of shards reads and writes the data in them. Two commands whose sets
//! overlap are ordered by the locks of the overlap, and the order is the same in every shard that both touch, because
//! all locks of a command are held until it has ended.

use crate::locks::sync::{
    AtomicBool, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, lock_briefly, lock_soon, read_soon,
    write_briefly, write_soon,
};
use crossbeam_utils::CachePadded;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use structures::tagged_pointer::prefetch_to_change;

/// Lanes of the gate.
const LANES: usize = if cfg!(feature = "shuttle") { 2 } else { 16 };

/// How often the claim is tried: most holders change a key or two.
const CLAIM_ATTEMPTS: usize = if cfg!(feature = "shuttle") { 2 } else { 200 };

/// N locked values and the gate, each lock on cache lines of its own, so that neighbours do not disturb each other.
/// `W`: words beside each lock, which all threads may look at.
pub struct LockSet<T, W = ()> {
    gate: Box<[CachePadded<RwLock<()>>]>,
    slots: Box<[CachePadded<Slot<T, W>>]>,
    /// The right to take more locks.
    claim: CachePadded<Mutex<()>>,
    /// Whether the holder of the right needs a lock.
    in_need: CachePadded<AtomicBool>,
}

/// In this order: the last of the words may share a line with the lock, which its holder has in its cache already.
#[repr(C)]
struct Slot<T, W> {
    words: W,
    lock: Mutex<T>,
}

/// The right to take further locks: [`LockSet::claim`].
pub struct GrowRight<'l>(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'l, ()>);

/// Reason for which not all locks were taken.
enum Obstacle {
    /// A thread that has begun to change things waits for one of them.
    Need,
    GivenUp,
}

type Guards<'l, T> = SmallVec<[(usize, MutexGuard<'l, T>); 8]>;

/// Shard locks that were taken together.
pub struct Several<'l, T> {
    guards: Guards<'l, T>,
    // Dropped last: the gate opens when no lock is held any more.
    _gate: RwLockReadGuard<'l, ()>,
}

/// The right to take any shard lock at any time.
pub struct Escalated<'l, T, W = ()> {
    set: &'l LockSet<T, W>,
    /// In ascending order.
    guards: Guards<'l, T>,
    _gate: Vec<RwLockWriteGuard<'l, ()>>,
    _claim: GrowRight<'l>,
}

impl<T, W: Default> LockSet<T, W> {
    /// Makes a lock for each of these.
    pub fn new(values: impl IntoIterator<Item = T>) -> Self {
        let slot = |value| CachePadded::new(Slot { words: W::default(), lock: Mutex::new(value) });
        let slots = values.into_iter().map(slot).collect();
        let gate = (0..LANES).map(|_| CachePadded::new(RwLock::new(()))).collect();
        LockSet {
            gate,
            slots,
            claim: CachePadded::new(Mutex::new(())),
            in_need: CachePadded::new(AtomicBool::new(false)),
        }
    }
}

impl<T, W> LockSet<T, W> {
    /// Returns how many locks there are, without the gate.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the words beside a lock.
    #[inline(always)]
    pub fn words(&self, index: usize) -> &W {
        &self.slots[index].words
    }

    /// Returns the words beside all locks.
    pub fn all_words(&self) -> impl Iterator<Item = &W> {
        self.slots.iter().map(|slot| &slot.words)
    }

    /// Takes one lock, for a thread that holds none.
    #[inline]
    pub fn one(&self, index: usize) -> MutexGuard<'_, T> {
        self.slots[index].lock.lock()
    }

    /// Prefetches the lock's cache line, which other threads may have changed last.
    #[inline(always)]
    pub fn ask_for(&self, index: usize) {
        prefetch_to_change(&self.slots[index].lock);
    }

    /// Returns the lock, or None when it is not free yet and `give_up` says that it will not be soon.
    #[inline]
    pub fn one_unless(&self, index: usize, give_up: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
        match self.slots[index].lock.try_lock() {
            Some(guard) => Some(guard),
            None => self.wait_for_one(index, give_up),
        }
    }

    #[cold]
    fn wait_for_one(&self, index: usize, give_up: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
        let lock = &self.slots[index].lock;
        obtain(|| lock_soon(lock), || lock_briefly(lock), give_up)
    }

    /// As [`several`](Self::several), or None when one of them is not free and the closure that `begin` returns for
    /// that wait says that it will not be soon.
    pub fn several_unless<G: Fn() -> bool>(
        &self,
        indices: &mut SmallVec<[usize; 8]>,
        begin: impl Fn() -> G,
    ) -> Option<Several<'_, T>> {
        indices.sort_unstable();
        indices.dedup();
        // Any lane is right; the sum spreads threads that want different shards.
        let lane = &self.gate[indices.iter().sum::<usize>() % LANES];
        let gate = match lane.try_read() {
            Some(gate) => gate,
            None => obtain(|| read_soon(lane), || lane.try_read(), begin())?,
        };
        loop {
            match self.all_of(indices, &begin) {
                Ok(guards) => return Some(Several { guards, _gate: gate }),
                Err(Obstacle::GivenUp) => return None,
                Err(Obstacle::Need) => {
                    let give_up = begin();
                    while self.in_need.load(Relaxed) {
                        if give_up() {
                            return None;
                        }
                        crate::locks::sync::spin();
                    }
                }
            }
        }
    }

    fn all_of<G: Fn() -> bool>(&self, indices: &[usize], begin: impl Fn() -> G) -> Result<Guards<'_, T>, Obstacle> {
        let lock = |index: usize| match self.slots[index].lock.try_lock() {
            Some(guard) => Ok(guard),
            None => self.wait_unless_needed(index, begin()),
        };
        indices.iter().map(|&index| Ok((index, lock(index)?))).collect()
    }

    #[cold]
    fn wait_unless_needed(&self, index: usize, give_up: impl Fn() -> bool) -> Result<MutexGuard<'_, T>, Obstacle> {
        loop {
            if give_up() {
                return lock_briefly(&self.slots[index].lock).ok_or(Obstacle::GivenUp);
            }
            if let Some(guard) = lock_soon(&self.slots[index].lock) {
                return Ok(guard);
            }
            if self.in_need.load(Relaxed) {
                return Err(Obstacle::Need);
            }
        }
    }

    /// Returns the lock, if it is free. For work that may be left out.
    #[inline]
    pub fn try_one(&self, index: usize) -> Option<MutexGuard<'_, T>> {
        self.slots[index].lock.try_lock()
    }

    /// Takes the locks of all these shards; the indices are sorted and freed of repetitions here.
    pub fn several(&self, indices: &mut SmallVec<[usize; 8]>) -> Several<'_, T> {
        self.several_unless(indices, || || false).expect("nobody gives up")
    }

    /// Claims the right to take more locks later, for a thread that holds some and is about to change the data under
    /// them. None when another thread has it: then those locks have to be released. A thread that has changed things
    /// may claim it, too, and must do without when it gets None.
    pub fn claim(&self) -> Option<GrowRight<'_>> {
        for _ in 0..CLAIM_ATTEMPTS {
            if let Some(guard) = self.claim.try_lock() {
                return Some(GrowRight(guard));
            }
            crate::locks::sync::spin();
        }
        None
    }

    /// Makes the lock of one shard the first of several, which are added by [`Several::add`].
    pub fn joined<'l>(&'l self, _: &GrowRight<'_>, index: usize, guard: MutexGuard<'l, T>) -> Several<'l, T> {
        // No thread writes: a writer would need the claim.
        let gate = self.gate[index % LANES].read();
        Several { guards: smallvec::smallvec![(index, guard)], _gate: gate }
    }

    /// Takes the right to any lock, for a thread that holds none.
    pub fn escalated(&self) -> Escalated<'_, T, W> {
        self.escalated_unless(|| || false).expect("nobody gives up")
    }

    /// As [`escalated`](Self::escalated), or None when that takes a while and the closure that `begin` returns for the
    /// wait for the claim, or for a lane, says that it will take longer.
    pub fn escalated_unless<G: Fn() -> bool>(&self, begin: impl Fn() -> G) -> Option<Escalated<'_, T, W>> {
        let claim = GrowRight(obtain(|| lock_soon(&self.claim), || lock_briefly(&self.claim), begin())?);
        let lane = |lane| obtain(|| write_soon(lane), || write_briefly(lane), begin());
        let gate = self.gate.iter().map(|padded| lane(padded)).collect::<Option<_>>()?;
        Some(Escalated { set: self, guards: SmallVec::new(), _gate: gate, _claim: claim })
    }
}

#[cfg(test)]
thread_local! {
    /// Waits of the thread that it has given up.
    pub(crate) static GIVEN_UP: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Waits with `soon` again and again until `give_up` is true, then tries `at_once`.
fn obtain<G>(soon: impl Fn() -> Option<G>, at_once: impl Fn() -> Option<G>, give_up: impl Fn() -> bool) -> Option<G> {
    loop {
        if give_up() {
            #[cfg(test)]
            GIVEN_UP.set(GIVEN_UP.get() + 1);
            return at_once();
        }
        if let Some(guard) = soon() {
            return Some(guard);
        }
    }
}

impl<'l, T> Several<'l, T> {
    /// Adds a lock, for a thread with the claim. Calls `meanwhile` now and then while it waits.
    pub fn add<W>(&mut self, set: &'l LockSet<T, W>, _: &GrowRight<'_>, index: usize, mut meanwhile: impl FnMut()) {
        let Err(at) = self.guards.binary_search_by_key(&index, |(held, _)| *held) else { return };
        let guard = set.try_one(index).unwrap_or_else(|| {
            set.in_need.store(true, SeqCst);
            let guard = loop {
                match lock_soon(&set.slots[index].lock) {
                    Some(guard) => break guard,
                    None => meanwhile(),
                }
            };
            set.in_need.store(false, SeqCst);
            guard
        });
        self.guards.insert(at, (index, guard));
    }

    /// Returns the value behind lock `index`, if that is held.
    pub fn held_mut(&mut self, index: usize) -> Option<&mut T> {
        let at = self.guards.binary_search_by_key(&index, |(held, _)| *held).ok()?;
        Some(&mut self.guards[at].1)
    }

    /// Returns the value behind lock `index`.
    ///
    /// # Panics
    /// When the shard was not among the requested ones.
    pub fn get(&mut self, index: usize) -> &mut T {
        let at = self.guards.binary_search_by_key(&index, |(held, _)| *held);
        &mut self.guards[at.expect("a command touches declared keys only")].1
    }

    /// Visits all values whose locks are held.
    pub fn each(&self, mut visit: impl FnMut(usize, &T)) {
        self.guards.iter().for_each(|(index, guard)| visit(*index, guard));
    }

    /// Visits all values whose locks are held, to change them.
    pub fn each_mut(&mut self, mut visit: impl FnMut(&mut T)) {
        self.guards.iter_mut().for_each(|(_, guard)| visit(guard));
    }

    /// Returns the value behind lock `index`, if that was among the requested ones.
    pub fn held(&self, index: usize) -> Option<&T> {
        let at = self.guards.binary_search_by_key(&index, |(held, _)| *held).ok()?;
        Some(&self.guards[at].1)
    }
}

impl<T, W> Escalated<'_, T, W> {
    /// Returns the value behind lock `index`, which is taken now unless it is held already.
    pub fn get(&mut self, index: usize) -> &mut T {
        let set = self.set;
        let at = self.place(index).unwrap_or_else(|at| {
            self.guards.insert(at, (index, set.one(index)));
            at
        });
        &mut self.guards[at].1
    }

    /// Returns the value behind lock `index`, if that is held already.
    pub fn held(&self, index: usize) -> Option<&T> {
        let at = self.place(index).ok()?;
        Some(&self.guards[at].1)
    }

    /// Takes lock `index` now, unless it is held already. False when that takes a while and `give_up`, which is called
    /// now and then, says so.
    pub fn take(&mut self, index: usize, give_up: impl Fn() -> bool) -> bool {
        let Err(at) = self.place(index) else { return true };
        let Some(guard) = self.set.one_unless(index, give_up) else { return false };
        self.guards.insert(at, (index, guard));
        true
    }

    /// Takes all locks now. False when one of them is not free and the closure that `begin` returns says that it will
    /// not be soon.
    pub fn take_all<G: Fn() -> bool>(&mut self, begin: impl Fn() -> G) -> bool {
        self.guards.reserve(self.set.len() - self.guards.len());
        (0..self.set.len()).all(|index| self.take(index, begin()))
    }

    /// Visits all values whose locks are held.
    pub fn each(&self, mut visit: impl FnMut(usize, &T)) {
        self.guards.iter().for_each(|(index, guard)| visit(*index, guard));
    }

    /// Visits all values whose locks are held, to change them.
    pub fn each_mut(&mut self, mut visit: impl FnMut(&mut T)) {
        self.guards.iter_mut().for_each(|(_, guard)| visit(guard));
    }

    fn place(&self, index: usize) -> Result<usize, usize> {
        // All of them are held, or those before this one.
        match self.guards.get(index) {
            Some((held, _)) if *held == index => return Ok(index),
            None if self.guards.last().is_none_or(|(held, _)| *held < index) => return Err(self.guards.len()),
            _ => {}
        }
        self.guards.binary_search_by_key(&index, |(held, _)| *held)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn several_sorts_and_drops_repetitions() {
        let set = LockSet::<_>::new(0..8);
        let mut indices: SmallVec<[usize; 8]> = smallvec![5, 1, 5, 3];
        let mut held = set.several(&mut indices);
        assert_eq!(indices[..], [1, 3, 5]);
        *held.get(5) += 10;
        assert!(set.try_one(3).is_none() && set.try_one(2).is_some());
        drop(held);
        assert_eq!(*set.one(5), 15);
    }

    #[test]
    fn a_lock_more_is_given_back_by_who_has_not_all_of_his() {
        let set = LockSet::<_>::new(0..8);
        let mut held = set.several(&mut smallvec![5]);
        std::thread::scope(|scope| {
            // It holds shard 1 while it waits for 5.
            scope.spawn(|| drop(set.several(&mut smallvec![1, 5])));
            while set.try_one(1).is_some() {
                std::thread::yield_now();
            }
            let claim = set.claim().expect("nobody else wants it");
            held.add(&set, &claim, 1, || {});
            held.add(&set, &claim, 1, || {});
            assert_eq!((*held.get(1), *held.get(5)), (1, 5));
            assert!(!set.in_need.load(Relaxed) && set.claim().is_none());
            assert!(set.escalated_unless(|| || true).is_none());
            drop(held);
        });
        assert!(set.claim().is_some());
    }

    #[test]
    fn a_waiting_thread_may_give_up() {
        let set = LockSet::<_>::new(0..4);
        let held = set.several(&mut smallvec![1, 2]);
        assert!(set.one_unless(1, || true).is_none() && set.several_unless(&mut smallvec![0, 1], || || true).is_none());
        assert!(set.escalated_unless(|| || true).is_none() && set.claim().is_some(), "nothing is left behind");
        drop(held);
        let one = set.one(1);
        let mut any = set.escalated_unless(|| || true).expect("nobody is in");
        assert!(!any.take(1, || true) && any.take(2, || true));
        drop(one);
        assert!(any.take(1, || true));
    }

    #[test]
    fn escalation_takes_locks_as_they_are_needed() {
        let set = LockSet::<_>::new(0..4);
        let mut held = set.escalated();
        assert!(set.try_one(2).is_some());
        *held.get(2) = 7;
        assert_eq!(*held.get(2), 7);
        assert!(set.try_one(2).is_none() && set.try_one(0).is_some());
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use super::*;
    use shuttle::{sync::Arc, thread};
    use smallvec::smallvec;

    /// Moves one from a shard to another under both locks.
    fn transfer(held: &mut Several<'_, i64>, from: usize, to: usize) {
        *held.get(from) -= 1;
        thread::yield_now();
        *held.get(to) += 1;
    }

    /// A script that takes from the first shard before it learns that it needs the second; it begins again with the
    /// right to any lock if the claim fails.
    fn script(set: &LockSet<i64>, [first, second]: [usize; 2], amount: i64) {
        let guard = set.one(first);
        let Some(claim) = set.claim() else {
            drop(guard);
            let mut held = set.escalated();
            *held.get(first) -= amount;
            thread::yield_now();
            *held.get(second) += amount;
            return;
        };
        let mut held = set.joined(&claim, first, guard);
        *held.get(first) -= amount;
        thread::yield_now();
        held.add(set, &claim, second, || {});
        *held.get(second) += amount;
    }

    /// A script that is wrongly expected to need the first shard only: it changes that without the right to more, and
    /// does half of its work if it cannot get that later.
    fn misjudged(set: &LockSet<i64>, [first, second]: [usize; 2]) {
        let mut guard = set.one(first);
        *guard -= 1;
        thread::yield_now();
        let Some(claim) = set.claim() else {
            *guard += 1;
            return;
        };
        let mut held = set.joined(&claim, first, guard);
        held.add(set, &claim, second, || {});
        *held.get(second) += 1;
    }

    fn spawn(set: &Arc<LockSet<i64>>, run: impl FnOnce(&LockSet<i64>) + Send + 'static) -> thread::JoinHandle<()> {
        let set = Arc::clone(set);
        thread::spawn(move || run(&set))
    }

    /// Scripts that want each other's shards, with threads that hold several locks or want all: all of them end.
    fn rivals() {
        let set = Arc::new(LockSet::<_>::new([10i64, 10, 10]));
        let threads = [
            spawn(&set, |set| script(set, [0, 1], 1)),
            spawn(&set, |set| script(set, [1, 0], 2)),
            spawn(&set, |set| transfer(&mut set.several(&mut smallvec![0, 1, 2]), 2, 0)),
            spawn(&set, |set| {
                let mut all = set.escalated();
                let total: i64 = (0..3).rev().map(|index| *all.get(index)).sum();
                assert_eq!(total, 30, "a script was seen half done");
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
        let amounts: Vec<i64> = (0..3).map(|index| *set.one(index)).collect();
        assert_eq!(amounts, [12, 9, 9]);
    }

    /// Scripts that are certain of their locks, and so take no right to more, beside scripts that may need their
    /// shards: all of them end, and no thread sees one half done.
    fn confined() {
        let set = Arc::new(LockSet::new([10i64, 10, 10]));
        let threads = [
            spawn(&set, |set| transfer(&mut set.several(&mut smallvec![0, 1]), 0, 1)),
            spawn(&set, |set| {
                let mut guard = set.one(2);
                *guard -= 5;
                thread::yield_now();
                *guard += 5;
            }),
            spawn(&set, |set| script(set, [1, 2], 2)),
            spawn(&set, |set| misjudged(set, [2, 0])),
            spawn(&set, |set| {
                let mut all = set.escalated();
                let total: i64 = (0..3).rev().map(|index| *all.get(index)).sum();
                assert_eq!(total, 30, "a script was seen half done");
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
        let amounts: Vec<i64> = (0..3).map(|index| *set.one(index)).collect();
        let moved = 12 - amounts[2];
        assert!((0..2).contains(&moved), "{amounts:?}");
        assert_eq!(amounts, [9 + moved, 9, 12 - moved]);
    }

    #[test]
    fn a_thread_that_is_certain_of_its_locks_needs_no_right_to_more() {
        shuttle::check_random(confined, 20_000);
        shuttle::check_pct(confined, 20_000, 4);
    }

    #[test]
    fn rivals_both_get_what_they_need() {
        shuttle::check_random(rivals, 20_000);
        shuttle::check_pct(rivals, 20_000, 4);
    }

    /// A thread that wants all locks and times out when one is not free, waiting longer the next time, among threads
    /// that take one lock after the other and threads that take two.
    fn impatient() {
        let set = Arc::new(LockSet::<_>::new([10i64, 10, 10]));
        let singles = |set: &LockSet<i64>| {
            for index in [0, 1, 2, 0, 1, 2] {
                *set.one(index) += 1;
                thread::yield_now();
            }
        };
        let threads = [
            spawn(&set, singles),
            spawn(&set, |set| transfer(&mut set.several(&mut smallvec![0, 2]), 2, 0)),
            spawn(&set, |set| {
                let mut tries = 0u32;
                loop {
                    let begin = || {
                        let left = std::cell::Cell::new(tries);
                        move || left.replace(left.get().saturating_sub(1)) == 0
                    };
                    if let Some(mut held) = set.several_unless(&mut smallvec![0, 1, 2], begin) {
                        return transfer(&mut held, 0, 1);
                    }
                    tries += 1;
                    assert!(tries < 100, "it never gets through");
                    thread::yield_now();
                }
            }),
        ];
        threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
        let amounts: Vec<i64> = (0..3).map(|index| *set.one(index)).collect();
        assert_eq!(amounts, [12, 13, 11]);
    }

    #[test]
    fn a_thread_that_gives_up_gets_through_in_the_end() {
        shuttle::check_random(impatient, 20_000);
        shuttle::check_pct(impatient, 20_000, 4);
    }

    fn protocol() {
        const SHARDS: usize = 4;
        let set = Arc::new(LockSet::<_>::new(std::iter::repeat_n(10i64, SHARDS)));
        let mut threads = Vec::new();
        for n in 0..2 {
            let set = Arc::clone(&set);
            threads.push(thread::spawn(move || {
                for turn in 0..3 {
                    let (from, to) = ((n + turn) % SHARDS, (n * 2 + turn + 1) % SHARDS);
                    if from != to {
                        let mut indices: SmallVec<[usize; 8]> = smallvec![to, from];
                        transfer(&mut set.several(&mut indices), from, to);
                    }
                }
            }));
        }
        let walker = Arc::clone(&set);
        threads.push(thread::spawn(move || {
            // Locks in descending order and as it goes: right only because of the gate.
            let mut held = walker.escalated();
            for index in (1..SHARDS).rev() {
                *held.get(index) -= 1;
                thread::yield_now();
                *held.get(index - 1) += 1;
            }
            let total: i64 = (0..SHARDS).map(|index| *held.get(index)).sum();
            assert_eq!(total, 10 * SHARDS as i64, "a transfer was seen half done");
        }));
        threads.push(spawn(&set, |set| script(set, [2, 0], 3)));
        let single = Arc::clone(&set);
        threads.push(thread::spawn(move || {
            for index in 0..SHARDS {
                let mut guard = single.one(index);
                let before = *guard;
                *guard += 5;
                thread::yield_now();
                assert_eq!(*guard, before + 5, "two inside of one lock");
                *guard -= 5;
            }
        }));
        for thread in threads {
            thread.join().expect("no thread fails");
        }
        let total: i64 = (0..SHARDS).map(|index| *set.one(index)).sum();
        assert_eq!(total, 10 * SHARDS as i64);
    }

    #[test]
    fn random_schedules_neither_deadlock_nor_tear() {
        shuttle::check_random(protocol, 20_000);
    }

    #[test]
    fn adversarial_schedules_neither_deadlock_nor_tear() {
        shuttle::check_pct(protocol, 20_000, 4);
    }
}
