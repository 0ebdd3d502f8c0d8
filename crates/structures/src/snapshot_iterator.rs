//! Iterators over a collection as it is at one moment, while it changes.
//!
//! A walk goes through the collection a piece at a time. In between other commands may change elements ahead of it: the
//! collection notifies its walks before it does ([`SnapshotIterators`]), and each retains the old state of that element
//! and remembers to pass over the new one. So a change costs every walk one element at most, and none of them a copy of
//! the rest.
//!
//! ```text
//!   elements in the order of the walk    | walked ........ | next          ahead: kept before it is changed |
//!                                          changes are free  walk          `seen`: names passed over later
//! ```
//!
//! [`TableSnapshotIterator`] is for hash tables, whose order is the line of hashes and is not changed by resizes;
//! [`RankedSnapshotIterator`] for sorted sets, in whose order it merges the retained pairs.
//!
//! A thread that changes the collection or takes a piece owns it or has locked it; a walk's own lock is held for a
//! moment only and is never waited for. A walk that was dropped is forgotten at the next change.
//!
//! Asserted by tests: a walk shows the collection at its beginning, whatever is changed between the pieces.

use crate::hashtable::position;
use crate::snapshot_sweep::SnapshotSweep;
use crate::ttl_index::is_due;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The walks through a collection, and the [sweeps](crate::snapshot_sweep) over it; nearly always none.
pub struct SnapshotIterators<W>(Option<Box<Running<W>>>);

struct Running<W> {
    walks: Vec<Weak<W>>,
    sweeps: Vec<Weak<SnapshotSweep>>,
}

impl<W> Default for SnapshotIterators<W> {
    fn default() -> Self {
        SnapshotIterators(None)
    }
}

impl<W> SnapshotIterators<W> {
    /// Whether there is none. To be called before every change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Begins a walk; it ends when the last reference to it is dropped.
    pub fn begin(&mut self, walk: W) -> Arc<W> {
        let walk = Arc::new(walk);
        self.running().walks.push(Arc::downgrade(&walk));
        walk
    }

    /// Begins a sweep, beside the ones that are under way; it ends likewise.
    pub fn begin_snapshot_sweep(&mut self, sweep: SnapshotSweep) -> Arc<SnapshotSweep> {
        let sweep = Arc::new(sweep);
        self.running().sweeps.push(Arc::downgrade(&sweep));
        sweep
    }

    /// Returns the walks without ended ones.
    fn running(&mut self) -> &mut Running<W> {
        let running = self.0.get_or_insert_with(|| Box::new(Running { walks: Vec::new(), sweeps: Vec::new() }));
        running.walks.retain(|walk| walk.strong_count() > 0);
        running.sweeps.retain(|sweep| sweep.strong_count() > 0);
        running
    }

    /// Prepares walks for a change, an insertion or a removal at this place. `scan` visits a bucket of the table.
    #[cold]
    pub fn touch(&mut self, hash: u64, mut scan: impl FnMut(u64, &mut dyn FnMut(Seen<'_>)) -> Option<u64>) {
        let Some(running) = &mut self.0 else { return };
        running.sweeps.retain(|sweep| sweep.upgrade().inspect(|sweep| sweep.touch(hash, &mut scan)).is_some());
        self.forget_if_empty();
    }

    /// Notifies all walks that are still under way.
    #[cold]
    pub fn tell(&mut self, tell: impl Fn(&W)) {
        let Some(running) = &mut self.0 else { return };
        running.walks.retain(|walk| walk.upgrade().inspect(|walk| tell(walk)).is_some());
        self.forget_if_empty();
    }

    fn forget_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|running| running.walks.is_empty() && running.sweeps.is_empty()) {
            self.0 = None;
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    // The queue is only ever pushed to and popped from.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A walk through a hash table of elements with names, and values where they have some.
pub struct TableSnapshotIterator {
    /// Elements whose expiries are not after this are not shown.
    now: u64,
    state: Mutex<Ahead>,
}

type NameAndValue = (Box<[u8]>, Box<[u8]>);

#[derive(Default)]
struct Ahead {
    /// The position from which nothing is walked yet; None at the end.
    next: Option<u64>,
    /// Elements ahead that were changed, as they were.
    kept: VecDeque<NameAndValue>,
    /// Names ahead to be passed over: of changed elements, which were there at the beginning, and of new ones, which
    /// were not.
    seen: HashMap<Box<[u8]>, bool>,
}

/// An element as a walk sees it.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The hash of its name.
    pub hash: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Its value; empty where there are none.
    pub value: &'a [u8],
    /// Unix time in milliseconds.
    pub expiry: Option<u64>,
}

impl TableSnapshotIterator {
    /// Makes a walk over all elements that have not expired by `now`, in Unix milliseconds.
    pub fn new(now: u64) -> Self {
        TableSnapshotIterator { now, state: Mutex::new(Ahead { next: Some(0), ..Ahead::default() }) }
    }

    /// Retains an element that is about to be changed or removed.
    pub fn keep(&self, old: Seen<'_>) {
        let mut state = lock(&self.state);
        if state.is_ahead(old.hash) && !state.seen.contains_key(old.name) {
            let shown = self.shows(old.expiry);
            state.seen.insert(old.name.into(), shown);
            if shown {
                state.kept.push_back((old.name.into(), old.value.into()));
            }
        }
    }

    /// Leaves out an element that is about to be inserted.
    pub fn leave_out(&self, hash: u64, name: &[u8]) {
        let mut state = lock(&self.state);
        if state.is_ahead(hash) {
            state.seen.entry(name.into()).or_insert(false);
        }
    }

    /// Whether an element was there when the walk began; `is_there`: whether it is there now. Only of a walk that has
    /// shown nothing yet.
    pub fn had(&self, name: &[u8], is_there: bool) -> bool {
        lock(&self.state).seen.get(name).copied().unwrap_or(is_there)
    }

    /// Shows the name and value of about `max` elements; true at the end. `scan` visits some elements from a position
    /// on and returns the next position, as [`HashTable::scan`](crate::hashtable::HashTable::scan).
    pub fn piece(
        &self,
        max: usize,
        mut scan: impl FnMut(u64, &mut dyn FnMut(Seen<'_>)) -> Option<u64>,
        mut show: impl FnMut(&[u8], &[u8]),
    ) -> bool {
        let mut state = lock(&self.state);
        let mut shown = 0;
        while shown < max {
            if let Some((name, value)) = state.kept.pop_front() {
                show(&name, &value);
                shown += 1;
                continue;
            }
            let Some(next) = state.next else {
                state.seen = HashMap::new();
                return true;
            };
            state.next = scan(next, &mut |seen| {
                // A bucket that was resized meanwhile may begin before the position of the walk.
                if position(seen.hash) >= next && self.shows(seen.expiry) && !state.seen.contains_key(seen.name) {
                    show(seen.name, seen.value);
                    shown += 1;
                }
            });
        }
        false
    }

    fn shows(&self, expiry: Option<u64>) -> bool {
        !is_due(expiry, self.now)
    }
}

impl Ahead {
    fn is_ahead(&self, hash: u64) -> bool {
        self.next.is_some_and(|next| position(hash) >= next)
    }
}

/// A walk through pairs in the order of (score, member), or against it.
pub struct RankedSnapshotIterator {
    reverse: bool,
    state: Mutex<RankedKept>,
}

struct RankedKept {
    place: WalkPosition,
    /// How many pairs are still to be shown.
    left: usize,
    /// Pairs ahead that were removed, as they were.
    kept: BTreeMap<Pair, f64>,
    /// Pairs ahead that have come in.
    new: HashSet<Pair>,
}

/// An order key and a member.
type Pair = (u64, Box<[u8]>);

/// Position of a walk: at a pair, which may have been removed.
#[derive(Clone, Debug)]
pub struct WalkPosition {
    /// The pair's order key.
    pub key: u64,
    /// The pair's member.
    pub member: Box<[u8]>,
    /// Whether that pair was shown.
    pub is_done: bool,
}

/// Reply of a walk to a pair ahead of it.
pub enum Step {
    /// The walk wants the next pair.
    More,
    /// The piece is complete.
    Enough,
}

impl RankedSnapshotIterator {
    /// Makes a walk over `left` pairs, of which this is the first.
    pub fn new(reverse: bool, left: usize, key: u64, member: &[u8]) -> Self {
        let place = WalkPosition { key, member: member.into(), is_done: false };
        let state = RankedKept { place, left, kept: BTreeMap::new(), new: HashSet::new() };
        RankedSnapshotIterator { reverse, state: Mutex::new(state) }
    }

    /// Whether it goes from the last pair to the first.
    pub fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Retains a pair that is about to be removed.
    pub fn keep(&self, key: u64, member: &[u8], score: f64) {
        let mut state = lock(&self.state);
        if self.is_ahead(&state.place, key, member) {
            let pair = (key, member.into());
            if !state.new.contains(&pair) {
                state.kept.insert(pair, score);
            }
        }
    }

    /// Leaves out a pair that is about to be inserted.
    pub fn leave_out(&self, key: u64, member: &[u8]) {
        let mut state = lock(&self.state);
        if self.is_ahead(&state.place, key, member) {
            state.new.insert((key, member.into()));
        }
    }

    /// Shows up to `max` pairs; true at the end. `visit` gets the position of the walk and hands out the pairs from
    /// there on, in the direction of the walk, as order key, member and score, until the walk has enough.
    pub fn piece(
        &self,
        max: usize,
        visit: impl FnOnce(&WalkPosition, &mut dyn FnMut(u64, &[u8], f64) -> Step),
        mut show: impl FnMut(&[u8], f64),
    ) -> bool {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let mut wanted = max.min(state.left);
        let mut last: Option<Pair> = None;
        let place = state.place.clone();
        if wanted > 0 {
            visit(&place, &mut |key, member, score| {
                while wanted > 0
                    && let Some((pair, score)) = self.pop_kept(&mut state.kept, Some((key, member)))
                {
                    show(&pair.1, score);
                    wanted -= 1;
                    state.left -= 1;
                    last = Some(pair);
                }
                if wanted == 0 {
                    return Step::Enough;
                }
                if state.new.is_empty() || !state.new.contains(&(key, member.into())) {
                    show(member, score);
                    wanted -= 1;
                    state.left -= 1;
                    last = Some((key, member.into()));
                }
                if wanted == 0 { Step::Enough } else { Step::More }
            });
        }
        // Past the last pair that is there.
        while wanted > 0
            && let Some((pair, score)) = self.pop_kept(&mut state.kept, None)
        {
            show(&pair.1, score);
            wanted -= 1;
            state.left -= 1;
            last = Some(pair);
        }
        if let Some((key, member)) = last {
            state.place = WalkPosition { key, member, is_done: true };
        }
        debug_assert!(wanted == 0, "the pairs of the beginning are there or were kept");
        state.left == 0 || wanted > 0
    }

    /// Takes the next retained pair, if it comes before the given one or is the same.
    fn pop_kept(&self, kept: &mut BTreeMap<Pair, f64>, limit: Option<(u64, &[u8])>) -> Option<(Pair, f64)> {
        if kept.is_empty() {
            return None;
        }
        let (pair, _) = if self.reverse { kept.last_key_value() } else { kept.first_key_value() }?;
        if limit.is_some_and(|(key, member)| self.order(pair.0, &pair.1, key, member).is_gt()) {
            return None;
        }
        if self.reverse { kept.pop_last() } else { kept.pop_first() }
    }

    fn is_ahead(&self, place: &WalkPosition, key: u64, member: &[u8]) -> bool {
        match self.order(key, member, place.key, &place.member) {
            Ordering::Greater => true,
            Ordering::Equal => !place.is_done,
            Ordering::Less => false,
        }
    }

    /// Compares two pairs, in the direction of the walk.
    fn order(&self, key: u64, member: &[u8], other: u64, other_member: &[u8]) -> Ordering {
        let order = key.cmp(&other).then_with(|| member.cmp(other_member));
        if self.reverse { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use crate::hash::{self, FieldTtl, Hash};
    use crate::listpack::Item;
    use crate::set::{self, Set};
    use crate::sorted_set::{Limits, SortedSet};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A change of the element with this number: whether it is written, and a number to write.
    fn changes() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
        proptest::collection::vec((0..600u16, 0..6u8, any::<u8>()), 0..600)
    }

    fn name(n: u16) -> Vec<u8> {
        format!("element:{n}").into_bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn fields_are_those_of_the_beginning(len in 1..500u16, piece in 1..80usize, changes in changes()) {
            const LIMITS: hash::Limits = hash::Limits { fields: 0, bytes: 64 };
            let mut hash = Hash::default();
            let mut expected = BTreeMap::new();
            for n in 0..len {
                // Every tenth has expired when the walk begins, every other tenth will have soon.
                let ttl = match n % 10 { 0 => FieldTtl::At(5), 1 => FieldTtl::At(15), _ => FieldTtl::Clear };
                hash.set(&name(n), b"old", ttl, 0, LIMITS);
                if n % 10 != 0 { expected.insert(name(n), b"old".to_vec()); }
            }
            let walk = hash.begin_walk(10).expect("a large hash");
            let other = hash.begin_walk(10);
            let (mut shown, mut done) = (BTreeMap::new(), false);
            for (at, (n, kind, value)) in changes.into_iter().enumerate() {
                match kind {
                    0 => { hash.remove(&name(n), 20); }
                    1 => hash.set_expiry(&name(n), Some(u64::from(value) + 1)),
                    2 => { hash.pop_due(u64::from(value), |_| ()); }
                    3 => hash.set_expiry(&name(n), None),
                    _ => { hash.set(&name(n), &[value], FieldTtl::Clear, 20, LIMITS); }
                }
                if at % 8 == 0 && !done {
                    done = hash.view().walk_piece(&walk, piece, |name, value| assert!(shown.insert(name.to_vec(), value.to_vec()).is_none()));
                }
            }
            while !done {
                done = hash.view().walk_piece(&walk, piece, |name, value| assert!(shown.insert(name.to_vec(), value.to_vec()).is_none()));
            }
            prop_assert_eq!(&shown, &expected);
            let mut late = BTreeMap::new();
            while !hash.view().walk_piece(other.as_ref().expect("a large hash"), piece, |name, value| _ = late.insert(name.to_vec(), value.to_vec())) {}
            prop_assert_eq!(&late, &expected);
            drop((walk, other));
            hash.set(b"x", b"y", FieldTtl::Clear, 0, LIMITS);
        }

        #[test]
        fn members_are_those_of_the_beginning(len in 1..500u16, piece in 1..80usize, changes in changes()) {
            const LIMITS: set::Limits = set::Limits { intset_entries: 0, listpack_entries: 0, listpack_value: 0 };
            let mut set = Set::big();
            let mut expected: Vec<Vec<u8>> = (0..len).map(name).collect();
            expected.iter().for_each(|member| _ = set.insert(member, &LIMITS));
            expected.sort();
            let walk = set.begin_walk().expect("a table");
            let still = set.begin_walk().expect("a table");
            let (mut shown, mut done) = (Vec::new(), false);
            for (at, (n, kind, value)) in changes.into_iter().enumerate() {
                match kind {
                    0 | 1 => { set.remove(&name(n)); }
                    2 => { set.take_random(u64::from(value) << 56); }
                    _ => { set.insert(&name(n), &LIMITS); }
                }
                if at % 8 == 0 && !done {
                    done = set.walk_piece(&walk, piece, |member: Item<'_>| shown.push(member.to_vec()));
                }
            }
            while !done {
                done = set.walk_piece(&walk, piece, |member: Item<'_>| shown.push(member.to_vec()));
            }
            shown.sort();
            prop_assert_eq!(&shown, &expected);
            let had = |n: &u16| still.had(&name(*n), set.contains(&name(*n)));
            let mut had: Vec<Vec<u8>> = (0..600).filter(had).map(name).collect();
            had.sort();
            prop_assert_eq!(&had, &expected);
        }

        #[test]
        fn pairs_are_those_of_the_beginning(
            len in 1..500u16, piece in 1..80usize, reverse: bool, ends in (any::<u16>(), any::<u16>()), changes in changes(),
        ) {
            const LIMITS: Limits = Limits { members: 0, bytes: 0 };
            let mut set = SortedSet::default();
            (0..len).for_each(|n| _ = set.insert(&name(n), f64::from(n % 40) - 20.0, LIMITS));
            let ends = (usize::from(ends.0 % len), usize::from(ends.1 % len));
            let ranks = ends.0.min(ends.1)..ends.0.max(ends.1) + 1;
            let mut expected: Vec<(Vec<u8>, f64)> =
                set.range(ranks.clone()).map(|(member, score)| (member.to_vec(), score)).collect();
            if reverse { expected.reverse(); }
            let walk = set.begin_walk(ranks, reverse).expect("an indexed set");
            let (mut shown, mut done) = (Vec::new(), false);
            for (at, (n, kind, value)) in changes.into_iter().enumerate() {
                match kind {
                    0 | 1 => { set.remove(&name(n)); }
                    2 => { set.remove_range(usize::from(n)..usize::from(n) + usize::from(value % 8), |_, _| ()); }
                    _ => { set.insert(&name(n), f64::from(value % 40) - 20.0, LIMITS); }
                }
                if at % 8 == 0 && !done {
                    done = set.walk_piece(&walk, piece, |member, score| shown.push((member.to_vec(), score)));
                }
            }
            while !done {
                done = set.walk_piece(&walk, piece, |member, score| shown.push((member.to_vec(), score)));
            }
            prop_assert_eq!(shown, expected);
        }
    }
}
