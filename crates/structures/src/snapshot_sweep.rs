//! Snapshot sweeps: all entries of a table at one moment are handed out once, while it changes.
//!
//! The line of hashes is cut into cells of some entries each. The sweep goes along the line. A change ahead of it first
//! hands out all entries in the same cell, and marks the cell. From then on changes there are free:
//!
//! ```text
//!   line of hashes    | swept ......... | next    [cell]  [done]  [cell]  [done]  [cell]
//!                       changes are free           changes in a cell that is done are free, too
//! ```
//!
//! If entries know their hashes' classes without being read, a cell has a part for each class, and only entries in the
//! same part are handed out.
//!
//! So a change costs a cell at most, and the memory is a bit for a cell: nothing of names or old values, which go to
//! the sink. The order is of no account. A place on the line is not moved by any resize.
//!
//! [`Cells`] is the bookkeeping; a [`SnapshotSweep`] is shared by a collection, which [touches](SnapshotSweep::touch)
//! it before each change, and by the thread that sweeps.
//!
//! Asserted by tests: every entry of the beginning is handed out once and as it was, whatever is changed in between.

use crate::hashtable::{CLASSES, POSITIONS, class, position};
use crate::snapshot_iterator::Seen;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries in a cell, about: a bucket of a table has as many.
const ENTRIES: usize = 4;
const CLASS_BITS: u32 = CLASSES.trailing_zeros();

/// Marks of the parts of a table's line of hashes that are done.
pub struct Cells {
    /// Position before which everything is done.
    next: u64,
    /// Positions of a cell, as a power of two.
    shift: u32,
    /// Parts of a cell, as a power of two: classes of hashes.
    parts: u32,
    /// A bit for a part of a cell; empty until one is taken.
    done: Box<[u64]>,
}

impl Cells {
    /// Makes the marks of a table of so many entries, where only positions before `next` are done.
    pub fn new(entries: usize, next: u64) -> Cells {
        let cells = (entries / ENTRIES).clamp(1, 1 << 40).next_power_of_two();
        let shift = POSITIONS.trailing_zeros() - cells.trailing_zeros();
        Cells { next, shift, parts: 0, done: Box::default() }
    }

    /// Makes the marks with as many parts of each cell as there are [classes](class) of hashes.
    pub fn by_class(entries: usize, next: u64) -> Cells {
        Cells { parts: CLASS_BITS, ..Cells::new(entries, next) }
    }

    /// Returns the position of the sweep; None at the end.
    pub fn next(&self) -> Option<u64> {
        Some(self.next).filter(|next| *next < POSITIONS)
    }

    /// Marks everything before this position as done; None: everything is.
    pub fn advance(&mut self, next: Option<u64>) {
        self.next = next.unwrap_or(POSITIONS);
        if self.next >= POSITIONS {
            self.done = Box::default();
        }
    }

    /// Whether the entries with this hash have not been handed out.
    #[inline]
    pub fn is_ahead(&self, hash: u64) -> bool {
        position(hash) >= self.next && !self.is_done(hash)
    }

    #[inline]
    fn is_done(&self, hash: u64) -> bool {
        let part = self.part(hash);
        self.done.get((part / 64) as usize).is_some_and(|bits| bits >> (part % 64) & 1 != 0)
    }

    #[inline]
    fn part(&self, hash: u64) -> u64 {
        (position(hash) >> self.shift) << self.parts | u64::from(class(hash)) & ((1 << self.parts) - 1)
    }

    /// Marks the part of a cell that a hash belongs to. Returns the range of entries to be handed out now; None if it
    /// was done.
    pub fn take(&mut self, hash: u64) -> Option<Range<u64>> {
        if !self.is_ahead(hash) {
            return None;
        }
        if self.done.is_empty() {
            let parts = (POSITIONS >> self.shift << self.parts) as usize;
            self.done = vec![0; parts.div_ceil(64)].into();
        }
        let part = self.part(hash);
        self.done[(part / 64) as usize] |= 1 << (part % 64);
        let cell = position(hash) >> self.shift;
        Some((cell << self.shift).max(self.next)..(cell + 1) << self.shift)
    }
}

/// Visits the buckets in a range of positions. `scan` visits a bucket and returns the beginning of the next one, as
/// [`HashTable::scan`](crate::hashtable::HashTable::scan); it may show entries of other places, which `visit` has to
/// leave out.
pub fn each_bucket(range: Range<u64>, mut scan: impl FnMut(u64) -> Option<u64>) {
    let mut at = Some(range.start);
    while let Some(position) = at.filter(|at| *at < range.end) {
        at = scan(position);
    }
}

/// A sweep over a collection.
pub struct SnapshotSweep(Mutex<State>);

struct State {
    cells: Cells,
    /// Receiver of entries before they are changed.
    sink: Box<dyn FnMut(Seen<'_>) + Send>,
}

impl SnapshotSweep {
    /// Makes a sweep of a table of so many elements; the ones before position `next` are done.
    pub fn new(elements: usize, next: u64, sink: Box<dyn FnMut(Seen<'_>) + Send>) -> SnapshotSweep {
        SnapshotSweep(Mutex::new(State { cells: Cells::new(elements, next), sink }))
    }

    /// Hands out entries before a change, an insertion or a removal at this place. `scan` visits a bucket.
    pub fn touch(&self, hash: u64, mut scan: impl FnMut(u64, &mut dyn FnMut(Seen<'_>)) -> Option<u64>) {
        let mut guard = self.lock();
        let State { cells, sink } = &mut *guard;
        let Some(range) = cells.take(hash) else { return };
        each_bucket(range.clone(), |at| {
            scan(at, &mut |seen| {
                if range.contains(&position(seen.hash)) {
                    sink(seen);
                }
            })
        });
    }

    /// Hands out some more; true at the end.
    pub fn step(
        &self,
        scan: impl FnOnce(u64, &mut dyn FnMut(Seen<'_>)) -> Option<u64>,
        mut show: impl FnMut(Seen<'_>),
    ) -> bool {
        let mut state = self.lock();
        let cells = &mut state.cells;
        let Some(next) = cells.next() else { return true };
        let after = scan(next, &mut |seen| {
            if cells.is_ahead(seen.hash) {
                show(seen);
            }
        });
        cells.advance(after);
        after.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A cell is marked before it is handed out; a panic in between costs the save only.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::hash::{FieldTtl, Hash, Limits as HashLimits};
    use crate::set::{Limits as SetLimits, Set};
    use crate::snapshot_iterator::Seen;
    use crate::sorted_set::{Limits, SortedSet};
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    type Told = (Vec<u8>, Vec<u8>, Option<u64>);

    fn name(n: u16) -> Vec<u8> {
        format!("element:{n}").into_bytes()
    }

    fn told(seen: Seen<'_>) -> Told {
        (seen.name.to_vec(), seen.value.to_vec(), seen.expiry)
    }

    /// Returns the entries that a sweep shows, with a change before each step.
    fn swept<C>(
        collection: &mut C,
        begin: impl FnOnce(&mut C, Box<dyn FnMut(Seen<'_>) + Send>) -> Option<Arc<super::SnapshotSweep>>,
        step: impl Fn(&C, &super::SnapshotSweep, &mut dyn FnMut(Seen<'_>)) -> bool,
        changes: &[(u16, u8, u8)],
        change: impl Fn(&mut C, u16, u8, u8),
    ) -> Vec<Told> {
        let all = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&all);
        let sink = Box::new(move |seen: Seen<'_>| kept.lock().unwrap().push(told(seen)));
        let sweep = begin(collection, sink).expect("a table");
        let mut changes = changes.iter();
        let mut done = false;
        while !done {
            for (n, kind, value) in changes.by_ref().take(4) {
                change(collection, *n, *kind, *value);
            }
            done = step(collection, &sweep, &mut |seen| all.lock().unwrap().push(told(seen)));
        }
        // Nothing is shown once everything is.
        let len = all.lock().unwrap().len();
        (0..600).for_each(|n| change(collection, n, n as u8 % 3, 1));
        let mut all = all.lock().unwrap().clone();
        assert_eq!(all.len(), len);
        all.sort();
        all
    }

    fn changes() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
        proptest::collection::vec((0..600u16, 0..6u8, any::<u8>()), 0..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn elements_are_those_of_the_beginning(len in 1..500u16, changes in changes()) {
            let mut set = Set::big();
            let limits = SetLimits { intset_entries: 0, listpack_entries: 0, listpack_value: 0 };
            let mut expected: Vec<Told> = (0..len).map(|n| (name(n), Vec::new(), None)).collect();
            expected.iter().for_each(|(member, ..)| _ = set.insert(member, &limits));
            expected.sort();
            let all = swept(&mut set, |set, sink| set.begin_snapshot_sweep(0, sink), |set, sweep, show| set.sweep_step(sweep, show), &changes, |set, n, kind, value| match kind {
                0 | 1 => _ = set.remove(&name(n)),
                2 => _ = set.take_random(u64::from(value) << 56),
                _ => _ = set.insert(&name(n), &limits),
            });
            prop_assert_eq!(all, expected);

            let mut hash = Hash::default();
            let limits = HashLimits { fields: 0, bytes: 64 };
            let mut expected: Vec<Told> = (0..len).map(|n| (name(n), b"old".to_vec(), (n % 10 == 0).then_some(u64::from(n) + 5))).collect();
            for (field, value, at) in &expected {
                hash.set(field, value, at.map_or(FieldTtl::Clear, FieldTtl::At), 0, limits);
            }
            expected.sort();
            let all = swept(&mut hash, |hash, sink| hash.begin_snapshot_sweep(0, sink), |hash, sweep, show| hash.sweep_step(sweep, show), &changes, |hash, n, kind, value| match kind {
                0 => _ = hash.remove(&name(n), 0),
                1 => hash.set_expiry(&name(n), Some(u64::from(value) + 1)),
                2 => _ = hash.pop_due(u64::from(value), |_| ()),
                _ => _ = hash.set(&name(n), &[value], FieldTtl::Clear, 0, limits),
            });
            prop_assert_eq!(all, expected);

            let mut zset = SortedSet::default();
            let limits = Limits { members: 0, bytes: 0 };
            let score = |n: u16| f64::from(n % 40) - 20.0;
            let mut expected: Vec<Told> = (0..len).map(|n| (name(n), score(n).to_le_bytes().to_vec(), None)).collect();
            (0..len).for_each(|n| _ = zset.insert(&name(n), score(n), limits));
            expected.sort();
            let all = swept(&mut zset, |set, sink| set.begin_snapshot_sweep(sink), |set, sweep, show| set.sweep_step(sweep, show), &changes, |set, n, kind, value| match kind {
                0 | 1 => _ = set.remove(&name(n)),
                2 => _ = set.remove_range(usize::from(n)..usize::from(n) + usize::from(value % 8), |_, _| ()),
                _ => _ = set.insert(&name(n), f64::from(value % 40) - 20.0, limits),
            });
            prop_assert_eq!(all, expected);
        }
    }

    /// Each sweep shows its own beginning, however many there are.
    #[test]
    fn several_sweeps_go_over_one_collection() {
        let mut set = Set::big();
        let limits = SetLimits { intset_entries: 0, listpack_entries: 0, listpack_value: 0 };
        (0..500).for_each(|n| _ = set.insert(&name(n), &limits));
        let mut sweeps = Vec::new();
        for round in 0..4u16 {
            let mut expected: Vec<Vec<u8>> = set.iter().map(|item| item.to_vec()).collect();
            expected.sort();
            let all = Arc::new(Mutex::new(Vec::new()));
            let kept = Arc::clone(&all);
            let sink = Box::new(move |seen: Seen<'_>| kept.lock().unwrap().push(seen.name.to_vec()));
            sweeps.push((set.begin_snapshot_sweep(0, sink).expect("a table"), all, expected));
            for n in 0..60 {
                set.remove(&name(n * 8 + round));
                set.insert(&name(600 + n * 8 + round), &limits);
                let (sweep, all, _) = &sweeps[usize::from(n) % sweeps.len()];
                set.sweep_step(sweep, |seen| all.lock().unwrap().push(seen.name.to_vec()));
            }
        }
        // A sweep that is given up costs nothing more, and the others continue.
        let (_, given_up, _) = sweeps.swap_remove(1);
        (0..1200).for_each(|n| _ = set.remove(&name(n)));
        assert_eq!(Arc::strong_count(&given_up), 1);
        for (sweep, all, expected) in sweeps {
            while !set.sweep_step(&sweep, |seen| all.lock().unwrap().push(seen.name.to_vec())) {}
            let mut all = all.lock().unwrap().clone();
            all.sort();
            assert_eq!(all, expected);
        }
    }
}
