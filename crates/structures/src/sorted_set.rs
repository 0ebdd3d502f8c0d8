//! A sorted set: members (byte strings), each with a score, in order of score.
//!
//! Pairs are ordered by score, then by the member's bytes, a prefix first. -0.0 and 0.0 are the same score to
//! the order. Scores are never NaN. While clients know the set as a listpack, -0.0 becomes 0.0, because a listpack
//! holds whole numbers as integers; afterwards the sign is kept.
//!
//! # How the bytes lie
//!
//! A member and its score are one allocation, an [`Entry`], which a ranked tree (for order and rank) and a hash
//! table (for looking a member up) both point to. The tree's elements carry the upper 48 bits of the score, so
//! that a search compares what lies side by side in a node and follows a pointer only where these bits are equal:
//!
//! ```text
//!  tree leaf        | score, upper 48 bits | pointer, 48 bits | score ... | pointer ... |      12 bytes a pair
//!                                             |
//!  member block     | header | score as f64 | m e m b e r |                                32 for 15 bytes
//!                                             |
//!  index bucket     | tags of nine | pointer, 48 bits | pointer | ...                       8 to 11 a pair
//! ```
//!
//! 48 bits hold the sign, the exponent and 36 bits of fraction: integers up to 2^37 are told apart without a look
//! behind the pointer, milliseconds of the present day when they are 16 apart.
//!
//! A set of up to [`UNINDEXED_MAX`] members has no index. Its tree is one leaf, a sorted array that is searched
//! from end to end.
//!
//! # Hashing
//!
//! The index hashes under a seed that is drawn once for the process. Nothing that a caller sees depends on it:
//! every order that the set shows is the order of scores.
//!
//! # Invariants (asserted by `check` in the tests)
//!
//! - The tree owns the blocks. The index has no pointer to a block that the tree does not hold.
//! - An index with as many entries as the tree has elements has all of them; any other is incomplete (it is being
//!   drained) and is not asked.
//! - The score bits in a tree element are those of the score in its block.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use self::member::Member;
use crate::hashtable::HashTable;
use crate::ranked_tree::RankedTree;

/// A set of up to so many members is searched without an index.
const UNINDEXED_MAX: usize = 16;
/// An indexed set that shrinks to so many members gives its index up.
const UNINDEX_AT: usize = UNINDEXED_MAX / 2;
/// What clients know as a listpack has at most so many members ...
const LISTPACK_MAX_MEMBERS: usize = 128;
/// ... and none longer than so many bytes.
const LISTPACK_MAX_BYTES: usize = 64;

/// Members with scores, in order of (score, member).
///
/// A rank is a position in that order, from 0.
#[derive(Default)]
pub struct SortedSet {
    tree: RankedTree<Element>,
    index: Option<Box<Index>>,
    /// Bytes allocated for member blocks.
    block_bytes: usize,
    /// Was at some time more than what clients know as a listpack.
    outgrown: bool,
}

type Index = HashTable<Member>;

/// What [`SortedSet::insert`] did.
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
    /// Number of members.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        Some(self.find(member)?.score())
    }

    /// The member's rank in ascending order.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        let key = order_key(self.score(member)?);
        Some(self.tree.find(|element| element.cmp_pair(key, member))?.0)
    }

    /// Number of pairs before (`score`, `member`), whether that is present or not.
    pub fn rank_of_bound(&self, score: f64, member: &[u8]) -> usize {
        let key = order_key(score);
        self.tree.lower_bound(|element| element.cmp_pair(key, member))
    }

    /// The ranks of the members with this score.
    pub fn ranks_of_score(&self, score: f64) -> Range<usize> {
        let key = order_key(score);
        let start = self.tree.lower_bound(|element| element.cmp_score(key));
        start..self.tree.upper_bound(|element| element.cmp_score(key))
    }

    /// The pairs whose ranks lie in `ranks`, from either end. Ranks past the end are ignored.
    pub fn range(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = (&[u8], f64)> + ExactSizeIterator {
        self.tree.range(ranks).map(|element| {
            let member = element.member();
            // SAFETY: the tree holds the member, and blocks are freed through `&mut self` only, while the result
            // borrows `self`.
            (unsafe { member.bytes_unbounded() }, member.score())
        })
    }

    /// Makes it what clients know as a skiplist if a listpack would not take so many members, the longest of them
    /// having `longest` bytes: whoever inserts several at once says so before the first.
    pub fn expect_insertions(&mut self, members: usize, longest: usize) {
        self.outgrown |= members > LISTPACK_MAX_MEMBERS || longest > LISTPACK_MAX_BYTES;
    }

    /// Gives `member` this score, which is not NaN.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Inserted {
        debug_assert!(!score.is_nan(), "a score is a number");
        match self.find(member) {
            Some(found) if found.score() == score => Inserted::Same,
            Some(found) => {
                self.give_score(found, self.kept_score(score));
                Inserted::Moved
            }
            None => {
                self.outgrown |= self.len() >= LISTPACK_MAX_MEMBERS || member.len() > LISTPACK_MAX_BYTES;
                self.add(member, self.kept_score(score));
                Inserted::Added
            }
        }
    }

    fn kept_score(&self, score: f64) -> f64 {
        if self.outgrown { score } else { score + 0.0 }
    }

    fn give_score(&mut self, member: Member, score: f64) {
        self.take_from_tree(member.score(), member.bytes());
        // SAFETY: the member is in the set, whose blocks are reached through `self` only; that is borrowed exclusively,
        // and no reference into the block is left.
        unsafe { member.set_score(score) };
        self.put_into_tree(member, score);
    }

    fn add(&mut self, member: &[u8], score: f64) {
        let new = Member::new(member, score);
        let indexed = self.complete_index().is_some();
        self.block_bytes += new.allocated();
        self.put_into_tree(new, score);
        if !indexed && self.len() > UNINDEXED_MAX {
            self.build_index();
        } else if let Some(index) = self.index.as_mut().filter(|_| indexed) {
            index.insert_unique(hash(member), new, hash_of);
        }
    }

    /// Removes `member` and returns the score that it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let found = if self.complete_index().is_some() {
            let index = self.index.as_mut()?;
            let found = index.remove(hash(member), |entry| entry.bytes() == member, hash_of)?;
            if index.len() <= UNINDEX_AT {
                self.index = None;
            }
            found
        } else {
            let found = self.find(member)?;
            // An incomplete index may still point to the block.
            self.index = None;
            found
        };
        let score = found.score();
        self.take_from_tree(score, member);
        self.free(found);
        Some(score)
    }

    /// The name of the encoding, as clients know it.
    pub fn encoding(&self) -> &'static str {
        if self.outgrown { "skiplist" } else { "listpack" }
    }

    /// Bytes of the set, its own struct included, without what the allocator adds.
    pub fn memory_usage(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| size_of::<Index>() + index.memory_usage());
        size_of::<Self>() - size_of::<RankedTree<Element>>() + self.tree.memory_usage() + index + self.block_bytes
    }

    /// Frees a part of the set, `max` pieces of it (at least one); returns whether it is empty now.
    ///
    /// For freeing a large set little by little. In between it is a sorted set with fewer members, but looking one
    /// up takes long.
    pub fn drain_step(&mut self, max: usize) -> bool {
        let max = max.max(1);
        if let Some(index) = &mut self.index {
            if index.drain_step(max) {
                self.index = None;
            }
            return self.is_empty();
        }
        let mut freed = 0;
        let empty = self.tree.drain_step(max, |element| {
            freed += element.member().allocated();
            // SAFETY: the tree has given up its copy and there is no index.
            unsafe { element.member().free() };
        });
        self.block_bytes -= freed;
        empty
    }

    #[inline]
    fn find(&self, member: &[u8]) -> Option<Member> {
        match self.complete_index() {
            Some(index) => index.find(hash(member), |entry| entry.bytes() == member).map(|found| *found),
            None => self.tree.iter().map(|element| element.member()).find(|entry| entry.bytes() == member),
        }
    }

    /// The index, if it has every member.
    #[inline]
    fn complete_index(&self) -> Option<&Index> {
        self.index.as_deref().filter(|index| index.len() == self.tree.len())
    }

    fn build_index(&mut self) {
        let mut index = Index::new();
        for element in &self.tree {
            let member = element.member();
            index.insert_unique(hash_of(&member), member, hash_of);
        }
        self.index = Some(Box::new(index));
    }

    fn put_into_tree(&mut self, member: Member, score: f64) {
        let key = order_key(score);
        let bytes = member.bytes();
        self.tree.insert(Element::new(key, member), |present, _| present.cmp_pair(key, bytes));
    }

    fn take_from_tree(&mut self, score: f64, member: &[u8]) {
        let key = order_key(score);
        let taken = self.tree.remove(|element| element.cmp_pair(key, member));
        debug_assert!(taken.is_some(), "the tree holds every member");
    }

    /// Frees the block of a member that is in the tree and the index no more.
    fn free(&mut self, member: Member) {
        self.block_bytes -= member.allocated();
        // SAFETY: callers have taken the member out of the tree and the index.
        unsafe { member.free() };
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> Self {
        let mut block_bytes = 0;
        let copies = self.range(0..self.len()).map(|(bytes, score)| {
            let member = Member::new(bytes, score);
            block_bytes += member.allocated();
            Element::new(order_key(score), member)
        });
        let tree = RankedTree::from_sorted(copies);
        let mut clone = SortedSet { tree, index: None, block_bytes, outgrown: self.outgrown };
        if clone.len() > UNINDEXED_MAX {
            clone.build_index();
        }
        clone
    }
}

impl Drop for SortedSet {
    fn drop(&mut self) {
        self.index = None;
        for element in &self.tree {
            // SAFETY: the index is gone, and nothing reads the tree's elements any more.
            unsafe { element.member().free() };
        }
    }
}

impl fmt::Debug for SortedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.range(0..self.len())).finish()
    }
}

/// What the tree holds for a pair.
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
    fn new(key: u64, member: Member) -> Self {
        let bits = member.bits();
        Element { high: key >> DROPPED_BITS << DROPPED_BITS | bits >> 32, low: bits as u32 }
    }

    #[inline]
    fn member(self) -> Member {
        let upper = self.high & ((1 << DROPPED_BITS) - 1);
        // SAFETY: these are the bits of the member that `new` was given, put together again.
        unsafe { Member::from_own_bits(upper << 32 | u64::from(self.low)) }
    }

    /// Where this pair stands relative to the score with this order key.
    #[inline]
    fn cmp_score(self, key: u64) -> Ordering {
        let high = self.high;
        (high >> DROPPED_BITS).cmp(&(key >> DROPPED_BITS)).then_with(|| order_key(self.member().score()).cmp(&key))
    }

    /// Where this pair stands relative to another.
    #[inline]
    fn cmp_pair(self, key: u64, member: &[u8]) -> Ordering {
        self.cmp_score(key).then_with(|| self.member().bytes().cmp(member))
    }
}

/// A number that orders as the score does.
#[inline]
fn order_key(score: f64) -> u64 {
    // The sum turns -0.0 into 0.0.
    let bits = (score + 0.0).to_bits();
    // Negative numbers come first, and descend by magnitude.
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn hash(member: &[u8]) -> u64 {
    static STATE: OnceLock<SeedableRandomState> = OnceLock::new();
    let state = STATE.get_or_init(|| {
        let seed = std::hash::RandomState::new().hash_one(0);
        SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
    });
    let mut hasher = state.build_hasher();
    hasher.write(member);
    hasher.finish()
}

fn hash_of(member: &Member) -> u64 {
    hash(member.bytes())
}

/// All unsafe code of the sorted set but its promises.
mod member {
    use std::convert::Infallible;
    use std::mem::ManuallyDrop;

    use crate::entry::{Entry, NewValue, ValueRef};
    use crate::handle::Handle;

    /// A pointer to a member's block: an entry whose key is the member and whose value the score's bits.
    ///
    /// Copies are free to be made. The block lives until [`Member::free`], whose caller promises that none of them is
    /// used afterwards; that makes the other methods safe.
    #[derive(Clone, Copy)]
    pub(super) struct Member {
        bits: u64,
    }

    impl Member {
        pub(super) fn new(member: &[u8], score: f64) -> Self {
            let score = NewValue::Int(score.to_bits() as i64);
            Member { bits: Entry::<Infallible>::new(member, score, None, 0).into_bits() }
        }

        /// Below 2^48.
        pub(super) fn bits(self) -> u64 {
            self.bits
        }

        /// # Safety
        /// `bits` are those of a member that is not freed.
        #[inline]
        pub(super) unsafe fn from_own_bits(bits: u64) -> Self {
            Member { bits }
        }

        /// Frees the block.
        ///
        /// # Safety
        /// Neither a copy of this nor bytes borrowed from one are used from now on.
        pub(super) unsafe fn free(self) {
            drop(ManuallyDrop::into_inner(self.entry()));
        }

        #[inline]
        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: `self` is borrowed, hence not freed, as long as the result lives.
            unsafe { self.bytes_unbounded() }
        }

        /// # Safety
        /// The block is not freed as long as the result lives.
        #[inline]
        pub(super) unsafe fn bytes_unbounded<'a>(self) -> &'a [u8] {
            let bytes: *const [u8] = self.entry().key();
            // SAFETY: a key's bytes lie in the block and never change; the caller keeps it.
            unsafe { &*bytes }
        }

        #[inline]
        pub(super) fn score(self) -> f64 {
            match self.entry().value() {
                ValueRef::Int(bits) => f64::from_bits(bits as u64),
                ValueRef::Inline(_) | ValueRef::Payload(_) => {
                    unreachable!("a member's value is its score")
                }
            }
        }

        /// # Safety
        /// Nobody else uses the block meanwhile.
        pub(super) unsafe fn set_score(self, score: f64) {
            // An integer takes the place of an integer, so the block stays where it is.
            self.entry().set_value(NewValue::Int(score.to_bits() as i64));
        }

        /// Bytes of the block.
        pub(super) fn allocated(self) -> usize {
            self.entry().allocated()
        }

        #[inline]
        fn entry(self) -> ManuallyDrop<Entry<Infallible>> {
            // SAFETY: the bits are from `into_bits` in `new`, and the block is not freed, as the caller of `free`
            // promised. The copy is not dropped, except by `free` itself.
            ManuallyDrop::new(unsafe { Entry::from_bits(self.bits) })
        }
    }

    // SAFETY: the bits are an entry's, hence not zero and below 2^48. A member owns nothing, so that nothing is given up
    // or taken over with the bits, and copies read only. The block may be used on any thread, as `Entry` is `Sync`.
    unsafe impl Handle for Member {
        #[inline]
        fn into_bits(self) -> u64 {
            self.bits
        }

        #[inline]
        unsafe fn from_bits(bits: u64) -> Self {
            Member { bits }
        }

        #[inline]
        fn prefetch(&self) {
            self.entry().prefetch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Scores by member, and pairs sorted when asked.
    #[derive(Default)]
    struct Model(BTreeMap<Vec<u8>, f64>);

    impl Model {
        fn sorted(&self) -> Vec<(&[u8], f64)> {
            let mut pairs: Vec<_> = self.0.iter().map(|(member, score)| (&member[..], *score)).collect();
            pairs.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then(a.0.cmp(b.0)));
            pairs
        }
    }

    /// Asserts the invariants and that the set shows what the model does.
    fn check(set: &SortedSet, model: &Model) {
        let pairs = model.sorted();
        let shown: Vec<_> = set.range(0..usize::MAX).collect();
        assert_eq!(shown, pairs);
        // To the sign of zero.
        assert!(shown.iter().zip(&pairs).all(|(a, b)| a.1.to_bits() == b.1.to_bits()));
        assert_eq!(set.len(), pairs.len());
        for element in &set.tree {
            assert_eq!(element.high >> DROPPED_BITS, order_key(element.member().score()) >> DROPPED_BITS);
        }
        let blocks: usize = set.tree.iter().map(|element| element.member().allocated()).sum();
        assert_eq!(set.block_bytes, blocks);
        if let Some(index) = &set.index {
            let held: Vec<u64> = set.tree.iter().map(|element| element.member().bits()).collect();
            assert!(index.iter().all(|member| held.contains(&member.bits())));
        }
    }

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => (0u8..90).prop_map(|n| format!("member:{n}").into_bytes()),
            1 => proptest::collection::vec(any::<u8>(), 0..80),
            1 => proptest::collection::vec(Just(0u8), 0..6),
        ]
    }

    fn score() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (-4i32..4).prop_map(f64::from),
            1 => Just(-0.0),
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
            // Equal in the bits that the tree holds.
            2 => (0u32..4).prop_map(|n| 1.7e12 + f64::from(n)),
            2 => (0u32..4).prop_map(|n| -1.7e12 - f64::from(n)),
            1 => any::<f64>().prop_filter("a score is a number", |score| !score.is_nan()),
        ]
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(Vec<u8>, f64),
        Remove(Vec<u8>),
        RemoveAt(usize),
        Drain(usize),
        Clone,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            60 => (member(), score()).prop_map(|(member, score)| Op::Insert(member, score)),
            10 => member().prop_map(Op::Remove),
            30 => any::<usize>().prop_map(Op::RemoveAt),
            1 => (0usize..40).prop_map(Op::Drain),
            1 => Just(Op::Clone),
        ]
    }

    fn apply(set: &mut SortedSet, model: &mut Model, op: &Op) {
        match op {
            Op::Insert(member, score) => {
                let expected = match model.0.get(member) {
                    None => Inserted::Added,
                    Some(old) if old == score => Inserted::Same,
                    Some(_) => Inserted::Moved,
                };
                assert_eq!(set.insert(member, *score), expected);
                if expected != Inserted::Same {
                    // The set keeps the sign of zero once it has outgrown the listpack.
                    let kept = if set.outgrown { *score } else { *score + 0.0 };
                    model.0.insert(member.clone(), kept);
                }
            }
            Op::Remove(member) => assert_eq!(set.remove(member), model.0.remove(member)),
            Op::RemoveAt(at) => {
                let member = model.0.keys().nth(at % model.0.len().max(1)).cloned();
                if let Some(member) = member {
                    assert_eq!(set.remove(&member), model.0.remove(&member));
                }
            }
            Op::Drain(max) => {
                assert_eq!(set.drain_step(*max), set.is_empty());
                model.0.retain(|member, _| set.score(member).is_some());
            }
            Op::Clone => *set = set.clone(),
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_list(
            ops in proptest::collection::vec(op(), 0..400),
            probes in proptest::collection::vec((member(), score()), 10),
        ) {
            let (mut set, mut model) = (SortedSet::default(), Model::default());
            for op in &ops {
                apply(&mut set, &mut model, op);
                check(&set, &model);
            }
            let pairs = model.sorted();
            for (rank, (member, score)) in pairs.iter().enumerate() {
                prop_assert_eq!(set.rank(member), Some(rank));
                prop_assert_eq!(set.score(member), Some(*score));
                prop_assert_eq!(set.rank_of_bound(*score, member), rank);
            }
            for (member, score) in &probes {
                prop_assert_eq!(set.score(member), model.0.get(member).copied());
                prop_assert_eq!(set.rank(member).is_some(), model.0.contains_key(member));
                let before = pairs.partition_point(|pair| (pair.1, pair.0) < (*score, &member[..]));
                prop_assert_eq!(set.rank_of_bound(*score, member), before);
                let less = pairs.partition_point(|pair| pair.1 < *score);
                let up_to = pairs.partition_point(|pair| pair.1 <= *score);
                prop_assert_eq!(set.ranks_of_score(*score), less..up_to);
            }
            let (start, end) = (pairs.len() / 3, pairs.len() * 2 / 3);
            let reversed: Vec<_> = set.range(start..end).rev().collect();
            prop_assert!(reversed.iter().eq(pairs[start..end].iter().rev()));
            while !set.drain_step(7) {}
            prop_assert!(set.is_empty() && set.block_bytes == 0);
        }
    }

    #[test]
    fn the_encoding_changes_once_and_for_all() {
        let mut set = SortedSet::default();
        (0..128u32).for_each(|n| {
            set.insert(&n.to_le_bytes(), 0.0);
        });
        assert_eq!(set.encoding(), "listpack");
        set.insert(b"one more", 0.0);
        assert_eq!(set.encoding(), "skiplist");
        set.remove(b"one more");
        assert_eq!((set.encoding(), set.clone().encoding()), ("skiplist", "skiplist"));
        let mut set = SortedSet::default();
        set.insert(&[b'x'; 64], 0.0);
        assert_eq!(set.encoding(), "listpack");
        set.insert(&[b'x'; 65], 0.0);
        assert_eq!(set.encoding(), "skiplist");
        for (members, longest, encoding) in [(128, 64, "listpack"), (129, 64, "skiplist"), (1, 65, "skiplist")] {
            let mut set = SortedSet::default();
            set.expect_insertions(members, longest);
            set.insert(b"first", -0.0);
            assert_eq!(set.encoding(), encoding);
            let keeps_sign = set.score(b"first").is_some_and(f64::is_sign_negative);
            assert_eq!(keeps_sign, encoding == "skiplist");
        }
    }

    #[test]
    fn a_hundred_thousand_members_stay_small_and_go_away() {
        let mut set = SortedSet::default();
        for n in 0..100_000u32 {
            let scattered = n.wrapping_mul(0x9e37_79b1);
            set.insert(format!("member:{n:08}").as_bytes(), f64::from(scattered));
        }
        assert!(set.memory_usage() <= 58 * set.len(), "{}", set.memory_usage() / set.len());
        let all = set.clone();
        while !set.drain_step(1000) {}
        assert_eq!(all.len(), 100_000);
        assert_eq!(all.rank(b"member:00000000"), Some(0));
    }

    #[test]
    fn a_small_set_has_no_index() {
        let mut set = SortedSet::default();
        let names: Vec<[u8; 1]> = (0..=UNINDEXED_MAX as u8).map(|n| [n]).collect();
        names[1..].iter().for_each(|name| assert_eq!(set.insert(name, 1.0), Inserted::Added));
        assert!(set.index.is_none());
        set.insert(&names[0], 1.0);
        assert!(set.index.is_some());
        names[UNINDEX_AT..].iter().for_each(|name| assert_eq!(set.remove(name), Some(1.0)));
        assert!(set.index.is_none());
        assert_eq!(set.len(), UNINDEX_AT);
    }

    #[test]
    fn a_set_can_go_to_another_thread() {
        fn is_send<T: Send + Sync>() {}
        is_send::<SortedSet>();
    }
}
