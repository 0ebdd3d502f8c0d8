//! A sorted set: members (byte strings), each with a score, in order of score.
//!
//! Pairs are ordered by score, then by the member's bytes, a prefix first. -0.0 and 0.0 are the same score to
//! the order. Scores are never NaN. A member's place in the order is its rank, from 0.
//!
//! A set has one of two forms, which clients know by the names of Valkey's:
//!
//! | form | name | how |
//! | --- | --- | --- |
//! | [`packed`] | listpack | all pairs in one run of bytes, read from the front |
//! | [`indexed`] | skiplist | a ranked tree and a hash table over [`scored_member`] blocks |
//!
//! A set begins packed and becomes indexed, once and for all, when it gets more members or longer ones than its
//! [`Limits`], which come with every change because they can be configured at any time. While it is packed, -0.0
//! becomes 0.0, as in Valkey; afterwards the sign is kept.
//!
//! The struct is two words, so that a key with a small set is its entry and one more allocation.

mod indexed;
mod packed;
mod scored_member;
#[cfg(test)]
mod tests;

use crate::member_hash::member_hash;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::hashtable;
use crate::snapshot_iterator::{RankedSnapshotIterator, Seen};
use crate::snapshot_sweep::SnapshotSweep;

use self::indexed::Indexed;
use self::packed::Packed;

/// Limits of the packed form: `zset-max-listpack-entries` and `zset-max-listpack-value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members of the set.
    pub members: usize,
    /// Bytes of a member.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { members: 128, bytes: 64 }
    }
}

/// Fewer pairs than this are removed one by one, in any case.
const PARTED_MIN: usize = 1000;
/// Factor by which the removed pairs must outnumber the remaining ones for a new set to be built of these.
const OTHERS_SHARE: usize = 4;

/// Members with scores, in order of (score, member).
pub struct SortedSet(Form);

enum Form {
    Packed(Packed),
    Indexed(Box<Indexed>),
}

const _: () = assert!(size_of::<SortedSet>() == 16);

/// Result of [`SortedSet::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The member is new.
    Added,
    /// The member had another score.
    Moved,
    /// The member had that score already.
    Same,
}

impl SortedSet {
    /// Makes a set of pairs that ascend and have distinct members, in the form that `limits` require.
    pub fn from_sorted<'a>(pairs: impl ExactSizeIterator<Item = (&'a [u8], f64)> + Clone, limits: Limits) -> Self {
        let (set, distinct) = SortedSet::from_sorted_unsure(pairs, limits);
        debug_assert!(distinct, "members are distinct");
        set
    }

    /// Makes a set of pairs that ascend and whose members may not be distinct, and returns whether they are. A small
    /// set with two equal members is packed as it is.
    pub fn from_sorted_unsure<'a>(
        pairs: impl ExactSizeIterator<Item = (&'a [u8], f64)> + Clone,
        limits: Limits,
    ) -> (Self, bool) {
        let fits = pairs.len() <= limits.members && pairs.clone().all(|(member, _)| member.len() <= limits.bytes);
        if fits {
            let distinct = are_distinct(pairs.clone().map(|(member, _)| member));
            (SortedSet(Form::Packed(Packed::from_sorted(pairs))), distinct)
        } else {
            let (set, distinct) = Indexed::from_sorted(pairs);
            (SortedSet(Form::Indexed(Box::new(set))), distinct)
        }
    }

    /// Makes a copy; `each` is called for each member, if they are not packed.
    pub fn copy(&self, each: impl Fn()) -> Self {
        SortedSet(match &self.0 {
            Form::Packed(set) => Form::Packed(set.clone()),
            Form::Indexed(set) => {
                let pairs = set.range(0..set.len()).inspect(|_| each());
                Form::Indexed(Box::new(Indexed::from_sorted(pairs).0))
            }
        })
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(set) => set.len(),
            Form::Indexed(set) => set.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the member's score.
    #[inline]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Packed(set) => set.find(member).map(|(_, score)| score),
            Form::Indexed(set) => set.score(member),
        }
    }

    /// Returns the member's rank in ascending order.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.rank_and_score(member).map(|(rank, _)| rank)
    }

    /// Returns the member's rank in ascending order, and its score.
    #[inline]
    pub fn rank_and_score(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.0 {
            Form::Packed(set) => set.find(member),
            Form::Indexed(set) => set.rank_and_score(member),
        }
    }

    /// Returns the number of pairs before (`score`, `member`), whether that is present or not.
    pub fn rank_of_bound(&self, score: f64, member: &[u8]) -> usize {
        match &self.0 {
            Form::Packed(set) => {
                set.partition_point(|name, present| present < score || (present == score && name < member))
            }
            Form::Indexed(set) => set.rank_of_bound(score, member),
        }
    }

    /// Returns the number of pairs before the first whose member `before` does not hold for, if it holds for a first
    /// part only.
    pub fn partition_by_member(&self, mut before: impl FnMut(&[u8]) -> bool) -> usize {
        match &self.0 {
            Form::Packed(set) => set.partition_point(|name, _| before(name)),
            Form::Indexed(set) => set.partition_by_name(before),
        }
    }

    /// Returns the number of pairs below this score.
    pub fn rank_of_score(&self, score: f64) -> usize {
        match &self.0 {
            Form::Packed(set) => set.partition_point(|_, present| present < score),
            Form::Indexed(set) => set.rank_of_score(score),
        }
    }

    /// Returns the number of pairs up to this score.
    pub fn rank_after_score(&self, score: f64) -> usize {
        match &self.0 {
            Form::Packed(set) => set.partition_point(|_, present| present <= score),
            Form::Indexed(set) => set.rank_after_score(score),
        }
    }

    /// Returns the pairs whose ranks lie in `ranks`, from either end. Ranks past the end are ignored.
    pub fn range(&self, ranks: Range<usize>) -> Iter<'_> {
        let ranks = self.clamp(ranks);
        match &self.0 {
            Form::Packed(set) => Iter(Either::Packed(set.range(ranks))),
            Form::Indexed(set) => Iter(Either::Indexed(set.range(ranks))),
        }
    }

    /// Returns all pairs, from either end.
    pub fn iter(&self) -> Iter<'_> {
        self.range(0..usize::MAX)
    }

    /// Does one step of a walk over all pairs, in no promised order, that begins at 0; returns the position of the next
    /// step, which is not 0, or None at the end. A member that is there from the first step to the last is visited,
    /// perhaps more than once.
    pub fn scan(&self, position: u64, mut visit: impl FnMut(&[u8], f64)) -> Option<u64> {
        match &self.0 {
            Form::Packed(set) => {
                set.range(0..set.len()).for_each(|(member, score)| visit(member, score));
                None
            }
            Form::Indexed(set) => set.scan(position, visit),
        }
    }

    /// Begins a walk over the pairs whose ranks lie in `ranks`, which shows them as they are at this moment whatever
    /// changes later; None of a packed set, which may become an indexed one meanwhile.
    pub fn begin_walk(&mut self, ranks: Range<usize>, reverse: bool) -> Option<Arc<RankedSnapshotIterator>> {
        if let Form::Indexed(set) = &mut self.0 { set.begin_walk(ranks, reverse) } else { None }
    }

    /// Shows up to `max` more pairs of a walk that began here; true at the end.
    pub fn walk_piece(&self, walk: &RankedSnapshotIterator, max: usize, show: impl FnMut(&[u8], f64)) -> bool {
        let Form::Indexed(set) = &self.0 else { return true };
        set.walk_piece(walk, max, show)
    }

    /// Begins a sweep over the pairs; the value of each is its score's bytes, lowest first. None of a packed set.
    pub fn begin_snapshot_sweep(&mut self, sink: Box<dyn FnMut(Seen<'_>) + Send>) -> Option<Arc<SnapshotSweep>> {
        if let Form::Indexed(set) = &mut self.0 { Some(set.begin_snapshot_sweep(sink)) } else { None }
    }

    /// See [`SnapshotSweep::step`].
    pub fn sweep_step(&self, sweep: &SnapshotSweep, show: impl FnMut(Seen<'_>)) -> bool {
        if let Form::Indexed(set) = &self.0 { set.sweep_step(sweep, show) } else { true }
    }

    /// Prefetches the memory that lookups of these members will read.
    pub fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        if let Form::Indexed(set) = &self.0 {
            set.prefetch(names);
        }
    }

    /// Makes the set indexed if a packed one would not take so many members, the longest of them having `longest`
    /// bytes: a caller that inserts several at once calls it before the first.
    #[inline]
    pub fn reserve(&mut self, members: usize, longest: usize, limits: Limits) {
        if let Form::Packed(_) = self.0
            && (members > limits.members || longest > limits.bytes)
        {
            self.make_indexed();
        }
    }

    /// Gives `member` this score, which is not NaN.
    #[inline]
    pub fn insert(&mut self, member: &[u8], score: f64, limits: Limits) -> Inserted {
        debug_assert!(!score.is_nan(), "a score is a number");
        match &mut self.0 {
            Form::Indexed(set) => set.insert(member, score),
            Form::Packed(set) => match set.find(member) {
                Some((_, old)) if old == score => Inserted::Same,
                Some(_) => {
                    set.remove(member);
                    set.add(member, score);
                    Inserted::Moved
                }
                None if set.len() >= limits.members || member.len() > limits.bytes => {
                    self.make_indexed();
                    self.insert(member, score, limits)
                }
                None => {
                    set.add(member, score);
                    Inserted::Added
                }
            },
        }
    }

    /// Removes `member` and returns the score that it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Packed(set) => set.remove(member),
            Form::Indexed(set) => set.remove(member),
        }
    }

    /// Removes the pairs whose ranks lie in `ranks`, handing each to `visit` in order before it goes, and returns how
    /// many.
    pub fn remove_range(&mut self, ranks: Range<usize>, visit: impl FnMut(&[u8], f64)) -> usize {
        let ranks = self.clamp(ranks);
        match &mut self.0 {
            Form::Packed(set) => set.remove_range(ranks, visit),
            Form::Indexed(set) => set.remove_range(ranks, visit),
        }
    }

    /// Removes the pairs at these ranks and returns the set as it was, for a caller that frees it in the background, if
    /// the others are so few that a new set of them is soon built. None, and nothing is done, if they are not.
    pub fn part_with(&mut self, ranks: Range<usize>) -> Option<SortedSet> {
        let ranks = self.clamp(ranks);
        let Form::Indexed(set) = &self.0 else { return None };
        let others = set.len() - ranks.len();
        if ranks.len() < PARTED_MIN || others.saturating_mul(OTHERS_SHARE) > ranks.len() {
            return None;
        }
        let others: Vec<_> = set.range(0..ranks.start).chain(set.range(ranks.end..set.len())).collect();
        let (others, _) = Indexed::from_sorted(others.into_iter());
        Some(std::mem::replace(self, SortedSet(Form::Indexed(Box::new(others)))))
    }

    /// Returns how full the table of its members is, if it has one.
    pub fn table_stats(&self) -> Option<hashtable::TableStats> {
        if let Form::Indexed(indexed) = &self.0 { Some(indexed.table_stats()) } else { None }
    }

    /// Whether the set is not packed.
    pub fn is_indexed(&self) -> bool {
        matches!(self.0, Form::Indexed(_))
    }

    /// Returns the name of the form, as clients know it.
    pub fn encoding(&self) -> &'static str {
        match self.0 {
            Form::Packed(_) => "listpack",
            Form::Indexed(_) => "skiplist",
        }
    }

    /// Returns the bytes of the set, its own struct included, without what the allocator adds.
    pub fn memory_usage(&self) -> usize {
        let heap = match &self.0 {
            Form::Packed(set) => set.allocated(),
            Form::Indexed(set) => set.memory_usage(),
        };
        size_of::<Self>() + heap
    }

    /// Frees a part of the set, `max` pieces of it (at least one); returns whether nothing is left.
    ///
    /// For freeing a large set little by little: after the first call, the set must not be used otherwise.
    pub fn drain_step(&mut self, max: usize) -> bool {
        match &mut self.0 {
            Form::Packed(_) => {
                *self = SortedSet::default();
                true
            }
            Form::Indexed(set) => set.drain_step(max.max(1)),
        }
    }

    /// Returns how many pieces freeing it takes.
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Form::Packed(_) => 1,
            Form::Indexed(set) => set.len(),
        }
    }

    /// Takes the indexed form, whatever the limits of the packed one.
    pub fn make_indexed(&mut self) {
        if self.is_indexed() {
            return;
        }
        let (set, _) = Indexed::from_sorted(self.iter());
        self.0 = Form::Indexed(Box::new(set));
    }

    fn clamp(&self, ranks: Range<usize>) -> Range<usize> {
        let end = ranks.end.min(self.len());
        ranks.start.min(end)..end
    }
}

impl Default for SortedSet {
    fn default() -> Self {
        SortedSet(Form::Packed(Packed::default()))
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> Self {
        self.copy(|| {})
    }
}

impl fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a SortedSet {
    type Item = (&'a [u8], f64);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Pairs in order, from either end.
#[derive(Clone)]
pub struct Iter<'a>(Either<'a>);

#[derive(Clone)]
enum Either<'a> {
    Packed(packed::Iter<'a>),
    Indexed(indexed::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        match &mut self.0 {
            Either::Packed(pairs) => pairs.next(),
            Either::Indexed(pairs) => pairs.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::Packed(pairs) => pairs.size_hint(),
            Either::Indexed(pairs) => pairs.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Packed(pairs) => pairs.next_back(),
            Either::Indexed(pairs) => pairs.next_back(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Whether no member comes twice.
fn are_distinct<'a>(members: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> bool {
    /// In so short a list each member is compared with all before it.
    const FEW: usize = 128;
    if members.len() <= FEW {
        // Short hashes side by side are compared many at a time.
        let mut hashes = [0u32; FEW];
        let looks_distinct = members.clone().enumerate().all(|(at, member)| {
            hashes[at] = member_hash(member) as u32;
            !hashes[..at].iter().fold(false, |found, hash| found | (*hash == hashes[at]))
        });
        if looks_distinct {
            return true;
        }
    }
    let mut members: Vec<&[u8]> = members.collect();
    members.sort_unstable();
    members.windows(2).all(|two| two[0] != two[1])
}
