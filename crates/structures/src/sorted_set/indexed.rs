//! A big sorted set: a ranked tree of the pairs in order, and a hash table of the members.
//!
//! Both point to the members' blocks, which hold names and scores. The tree's elements carry the upper 48 bits of the
//! score, so that a search compares words that lie side by side in a node and follows a pointer only where these bits
//! are equal:
//!
//! ```text
//!  tree leaf        | score, upper 48 bits | pointer, 48 bits | score ... | pointer ... |      12 bytes a pair
//!                                             |
//!  member's block   | score as f64 | length | name |                                           24 for 15 bytes
//!                                             |
//!  index bucket     | tags of nine | pointer, 48 bits | pointer | ...                          8 to 11 a pair
//! ```
//!
//! 48 bits hold the sign, the exponent and 36 bits of fraction: integers up to 2^37 are distinguished without a look
//! behind the pointer, milliseconds of the present day when they are 16 apart.
//!
//! Only the order of ZSCAN depends on the hash of the index.
//!
//! # Invariants (asserted by `check` in the tests)
//!
//! - Tree and index hold the same members, except while the set is drained: then the index goes first, and nothing but
//!   [`Indexed::drain_step`] is asked of the set any more.
//! - The score bits in a tree element are those of the score in its block.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::Inserted;
use super::scored_member::{MemberBlocks, ScoredMember};
use crate::hashtable::{self, HashTable};
use crate::member_hash::{self, member_hash};
use crate::ranked_tree::{self, RankedTree};
use crate::snapshot_iterator::{RankedSnapshotIterator, Seen, SnapshotIterators, Step};
use crate::snapshot_sweep::SnapshotSweep;

pub(super) struct Indexed {
    tree: RankedTree<Element>,
    index: HashTable<ScoredMember>,
    blocks: MemberBlocks,
    walks: SnapshotIterators<RankedSnapshotIterator>,
}

impl Indexed {
    /// Makes a set of pairs that ascend, and whether their names were distinct; of two with the same name it has the
    /// first.
    pub(super) fn from_sorted<'a>(pairs: impl ExactSizeIterator<Item = (&'a [u8], f64)> + Clone) -> (Self, bool) {
        /// Pairs whose buckets are prefetched.
        const AHEAD: usize = 8;
        let (mut index, mut blocks) = (HashTable::<ScoredMember>::new(), MemberBlocks::new());
        index.reserve(pairs.len());
        index.set_resizing(false);
        let mut later = pairs.clone();
        later.by_ref().take(AHEAD).for_each(|(name, _)| index.prefetch(member_hash(name)));
        let mut distinct = true;
        let elements = pairs.filter_map(|(name, score)| {
            if let Some((name, _)) = later.next() {
                index.prefetch(member_hash(name));
            }
            match index.entry(member_hash(name), |member| member.name() == name, hash_of) {
                hashtable::TableEntry::Vacant(place) => {
                    let member = blocks.add(name, score);
                    place.insert(member);
                    Some(Element::new(order_key(score), member))
                }
                hashtable::TableEntry::Occupied(_) => {
                    distinct = false;
                    None
                }
            }
        });
        let tree = RankedTree::from_sorted(elements);
        index.set_resizing(true);
        (Indexed { tree, index, blocks, walks: SnapshotIterators::default() }, distinct)
    }

    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    pub(super) fn table_stats(&self) -> hashtable::TableStats {
        self.index.stats()
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<ScoredMember> {
        self.index.find(member_hash(name), |member| member.name() == name).map(|found| *found)
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        Some(self.find(name)?.score())
    }

    pub(super) fn rank_and_score(&self, name: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(name)?;
        let key = order_key(score);
        let (rank, _) = self.tree.find(|element| element.cmp_pair(key, name))?;
        Some((rank, score))
    }

    pub(super) fn rank_of_bound(&self, score: f64, name: &[u8]) -> usize {
        let key = order_key(score);
        self.tree.lower_bound(|element| element.cmp_pair(key, name))
    }

    pub(super) fn partition_by_name(&self, mut before: impl FnMut(&[u8]) -> bool) -> usize {
        let side = |before| if before { Ordering::Less } else { Ordering::Greater };
        self.tree.lower_bound(|element| side(before(element.member().name())))
    }

    pub(super) fn rank_of_score(&self, score: f64) -> usize {
        let key = order_key(score);
        self.tree.lower_bound(|element| element.cmp_score(key))
    }

    pub(super) fn rank_after_score(&self, score: f64) -> usize {
        let key = order_key(score);
        self.tree.upper_bound(|element| element.cmp_score(key))
    }

    pub(super) fn range(&self, ranks: Range<usize>) -> Iter<'_> {
        Iter(self.tree.range(ranks))
    }

    /// Gives `name` this score.
    pub(super) fn insert(&mut self, name: &[u8], score: f64) -> Inserted {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            let index = &self.index;
            self.walks.touch(hash, |at, visit| scan_index(index, at, visit));
        }
        let Some(found) = self.index.find(hash, |member| member.name() == name).map(|found| *found) else {
            let member = self.blocks.add(name, score);
            self.index.insert_unique(hash, member, hash_of);
            let key = order_key(score);
            if !self.walks.is_empty() {
                self.walks.tell(|walk| walk.leave_out(key, name));
            }
            self.tree.insert(Element::new(key, member), |present, _| present.cmp_pair(key, name));
            return Inserted::Added;
        };
        let old = found.score();
        if old == score {
            return Inserted::Same;
        }
        let (old_key, key) = (order_key(old), order_key(score));
        if !self.walks.is_empty() {
            self.walks.tell(|walk| {
                walk.keep(old_key, name, old);
                walk.leave_out(key, name);
            });
        }
        let moved = self.tree.update(
            |element| element.cmp_pair(old_key, name),
            Element::new(key, found),
            |present, _| present.cmp_pair(key, name),
        );
        debug_assert!(moved.is_some(), "the tree holds every member");
        // SAFETY: blocks are reached through `self` only, which is borrowed exclusively, and no reference into this one
        // is left.
        unsafe { found.set_score(score) };
        Inserted::Moved
    }

    /// Removes `name` and returns the score that it had.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            let index = &self.index;
            self.walks.touch(hash, |at, visit| scan_index(index, at, visit));
        }
        let found = self.index.remove(hash, |member| member.name() == name, hash_of)?;
        let score = found.score();
        let key = order_key(score);
        if !self.walks.is_empty() {
            self.walks.tell(|walk| walk.keep(key, name, score));
        }
        let taken = self.tree.remove(|element| element.cmp_pair(key, name));
        debug_assert!(taken.is_some(), "the tree holds every member");
        // SAFETY: neither the index nor the tree has the member any more.
        unsafe { self.blocks.free(found) };
        Some(score)
    }

    /// Removes the pairs at these ranks, handing them to `visit` before.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>, mut visit: impl FnMut(&[u8], f64)) -> usize {
        let Indexed { tree, index, blocks, walks } = self;
        tree.remove_range(ranks, |element| {
            let member = element.member();
            if !walks.is_empty() {
                let index = &*index;
                walks.touch(hash_of(&member), |at, visit| scan_index(index, at, visit));
                walks.tell(|walk| walk.keep(order_key(member.score()), member.name(), member.score()));
            }
            visit(member.name(), member.score());
            index.remove(hash_of(&member), |present| *present == member, hash_of);
            // SAFETY: the tree has given up its copy, and the index has it no more.
            unsafe { blocks.free(member) };
        })
    }

    /// Begins a walk over the pairs at these ranks, of which there is one at least.
    pub(super) fn begin_walk(&mut self, ranks: Range<usize>, reverse: bool) -> Option<Arc<RankedSnapshotIterator>> {
        let len = ranks.len();
        let mut pairs = self.range(ranks);
        let (name, score) = if reverse { pairs.next_back() } else { pairs.next() }?;
        let walk = RankedSnapshotIterator::new(reverse, len, order_key(score), name);
        Some(self.walks.begin(walk))
    }

    /// See [`RankedSnapshotIterator::piece`].
    pub(super) fn walk_piece(&self, walk: &RankedSnapshotIterator, max: usize, show: impl FnMut(&[u8], f64)) -> bool {
        walk.piece(
            max,
            |place, take| {
                let order = |element: &Element| element.cmp_pair(place.key, &place.member);
                // If the pair itself is still to be shown, it is on the side that is walked.
                let before = place.is_done == walk.is_reverse();
                let rank = if before { self.tree.lower_bound(order) } else { self.tree.upper_bound(order) };
                let mut more = |(name, score): (&[u8], f64)| matches!(take(order_key(score), name, score), Step::More);
                if walk.is_reverse() {
                    self.range(0..rank).rev().all(&mut more);
                } else {
                    self.range(rank..self.len()).all(&mut more);
                }
            },
            show,
        )
    }

    /// Begins a sweep over all pairs.
    pub(super) fn begin_snapshot_sweep(&mut self, sink: Box<dyn FnMut(Seen<'_>) + Send>) -> Arc<SnapshotSweep> {
        self.walks.begin_snapshot_sweep(SnapshotSweep::new(self.index.len(), 0, sink))
    }

    /// See [`SnapshotSweep::step`].
    pub(super) fn sweep_step(&self, sweep: &SnapshotSweep, show: impl FnMut(Seen<'_>)) -> bool {
        sweep.step(|at, visit| scan_index(&self.index, at, visit), show)
    }

    /// Does one step of a walk over all members that begins at 0; returns the position of the next step, which is not
    /// 0, or None at the end.
    pub(super) fn scan(&self, position: u64, mut visit: impl FnMut(&[u8], f64)) -> Option<u64> {
        self.index.scan(position, |member| visit(member.name(), member.score()))
    }

    pub(super) fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        member_hash::prefetch(&self.index, names);
    }

    /// Returns the bytes on the heap.
    pub(super) fn memory_usage(&self) -> usize {
        size_of::<Self>() - size_of_val(&self.tree)
            + self.tree.memory_usage()
            + self.index.memory_usage()
            + self.blocks.allocated()
    }

    /// Frees a part of a set that is not used any more; returns whether it is empty.
    pub(super) fn drain_step(&mut self, max: usize) -> bool {
        if !self.index.is_empty() {
            self.index.drain_step(max);
            return false;
        }
        if !self.tree.is_empty() {
            let Indexed { tree, blocks, .. } = self;
            tree.drain_step(max, |element| {
                // Members in pages are not even looked at.
                if blocks.has_long() {
                    // SAFETY: the tree has given up its copy, and the index is empty.
                    unsafe { blocks.free(element.member()) };
                }
            });
            return false;
        }
        // SAFETY: neither the tree nor the index has a member any more.
        unsafe { self.blocks.drop_pages(max) }
    }
}

impl Drop for Indexed {
    fn drop(&mut self) {
        while !self.drain_step(usize::MAX) {}
    }
}

/// Pairs in order, from either end.
#[derive(Clone)]
pub(super) struct Iter<'a>(ranked_tree::Iter<'a, Element>);

/// Returns the pair of an element of a set that is borrowed as long as the result.
#[inline]
fn pair<'a>(element: Element) -> (&'a [u8], f64) {
    let member = element.member();
    // SAFETY: an `Iter` borrows the set whose tree holds the member, and blocks are freed through `&mut` only.
    (unsafe { member.name_unbounded() }, member.score())
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        self.0.next().map(pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(pair)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Element of the tree for a pair.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Element {
    /// The upper 48 bits of the order key, above the upper 16 of the pointer.
    high: u64,
    /// The lower 32 bits of the pointer.
    low: u32,
}

/// Bits of the order key that an element leaves out.
const DROPPED_BITS: u32 = 16;

impl Element {
    fn new(key: u64, member: ScoredMember) -> Self {
        let bits = member.bits();
        Element { high: key >> DROPPED_BITS << DROPPED_BITS | bits >> 32, low: bits as u32 }
    }

    #[inline]
    fn member(self) -> ScoredMember {
        let upper = self.high & ((1 << DROPPED_BITS) - 1);
        // SAFETY: these are the bits of the member that `new` was given, put together again. The tree holds no element
        // of a member that is freed.
        unsafe { ScoredMember::from_own_bits(upper << 32 | u64::from(self.low)) }
    }

    /// Returns the position of this pair relative to the score with this order key.
    #[inline]
    fn cmp_score(self, key: u64) -> Ordering {
        let high = self.high;
        (high >> DROPPED_BITS).cmp(&(key >> DROPPED_BITS)).then_with(|| order_key(self.member().score()).cmp(&key))
    }

    /// Returns the position of this pair relative to another.
    #[inline]
    fn cmp_pair(self, key: u64, name: &[u8]) -> Ordering {
        self.cmp_score(key).then_with(|| self.member().name().cmp(name))
    }
}

/// Returns a number that orders as the score does.
#[inline]
fn order_key(score: f64) -> u64 {
    // The sum turns -0.0 into 0.0.
    let bits = (score + 0.0).to_bits();
    // Negative numbers come first, and descend by magnitude.
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Visits the members of a bucket, as sweeps see them.
fn scan_index(index: &HashTable<ScoredMember>, at: u64, visit: &mut dyn FnMut(Seen<'_>)) -> Option<u64> {
    index.scan(at, |member| {
        let score = member.score().to_le_bytes();
        visit(Seen { hash: hash_of(member), name: member.name(), value: &score, expiry: None });
    })
}

fn hash_of(member: &ScoredMember) -> u64 {
    member_hash(member.name())
}

/// Asserts the invariants.
#[cfg(test)]
pub(super) fn check(set: &Indexed) {
    for element in &set.tree {
        assert_eq!(element.high >> DROPPED_BITS, order_key(element.member().score()) >> DROPPED_BITS);
        let found = set.find(element.member().name());
        assert!(found == Some(element.member()));
    }
    assert_eq!(set.index.len(), set.tree.len());
}
