//! The tree against a sorted vector, its fill, and the elements that its closures see.

use std::cmp::Ordering;

use super::node::Node;
use super::*;
use proptest::prelude::*;

/// A sort key and a mark that the order ignores, to tell equal elements apart.
type Element = (u16, u32);

fn by_key(a: &Element, b: &Element) -> Ordering {
    a.0.cmp(&b.0)
}

fn at(key: u16) -> impl Fn(&Element) -> Ordering {
    move |e| e.0.cmp(&key)
}

/// Whether a node is the leftmost and the rightmost of its level.
#[derive(Clone, Copy)]
struct Edges {
    left: bool,
    right: bool,
}

impl<T: Copy + PartialEq + std::fmt::Debug> RankedTree<T> {
    /// Asserts every invariant of the module's essay.
    fn check(&self, cmp: impl Fn(&T, &T) -> Ordering) {
        let mut elements = Vec::new();
        check_node(&self.root, Edges { left: true, right: true }, true, &mut elements);
        assert_eq!(self.len, elements.len());
        assert!(elements.is_sorted_by(|a, b| cmp(a, b) != Ordering::Greater));
    }
}

/// Returns the height; appends the elements.
fn check_node<T>(node: &Node<T>, edges: Edges, is_root: bool, elements: &mut Vec<T>) -> usize
where
    T: Copy + PartialEq + std::fmt::Debug,
{
    assert!(is_root || !node.is_empty());
    assert!(edges.left || edges.right || !node.is_sparse());
    let inner = match node {
        Node::Leaf(leaf) => {
            assert!(leaf.len() <= LEAF_MAX && leaf.capacity() <= LEAF_MAX);
            assert!(leaf.capacity() - leaf.len() < 2 * STEP);
            elements.extend(leaf);
            return 0;
        }
        Node::Inner(inner) => inner,
    };
    let n = inner.children.len();
    assert!(n <= INNER_MAX && (!is_root || n >= 2));
    assert_eq!((inner.firsts.len(), inner.counts.len()), (n, n));
    let mut heights = Vec::new();
    for (i, child) in inner.children.iter().enumerate() {
        let before = elements.len();
        let below = Edges { left: edges.left && i == 0, right: edges.right && i + 1 == n };
        heights.push(check_node(child, below, false, elements));
        assert_eq!(inner.counts[i], elements.len() - before);
        assert_eq!(inner.firsts[i], elements[before]);
    }
    assert!(heights.iter().all(|h| *h == heights[0]));
    heights[0] + 1
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u16),
    /// So many elements of one key and the next ones, to reach several levels quickly.
    InsertRun(u16, u16),
    Remove(u16),
    RemoveAt(u16),
    RemoveRange(u16, u16),
    Update(u16, u16),
    PopFirst,
    PopLast,
    Drain(u16),
    Rebuild,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..5000u16;
    prop_oneof![
        6 => key.clone().prop_map(Op::Insert),
        6 => (key.clone(), 1..1500u16).prop_map(|(key, n)| Op::InsertRun(key, n)),
        4 => key.clone().prop_map(Op::Remove),
        2 => any::<u16>().prop_map(Op::RemoveAt),
        3 => (any::<u16>(), 0..2500u16).prop_map(|(start, n)| Op::RemoveRange(start, n)),
        6 => (key.clone(), 0..300u16).prop_map(|(key, by)| Op::Update(key, key.saturating_sub(150) + by)),
        1 => Just(Op::PopFirst),
        1 => Just(Op::PopLast),
        1 => (0..700u16).prop_map(Op::Drain),
        1 => Just(Op::Rebuild),
    ]
}

/// The tree beside a sorted vector that does the same.
#[derive(Default)]
struct Pair {
    tree: RankedTree<Element>,
    model: Vec<Element>,
    marks: u32,
}

impl Pair {
    fn insert(&mut self, key: u16) {
        self.marks += 1;
        let element = (key, self.marks);
        self.tree.insert(element, by_key);
        let at = self.model.partition_point(|e| e.0 <= key);
        self.model.insert(at, element);
    }

    fn remove(&mut self, key: u16) {
        let removed = self.tree.remove(at(key));
        self.removed(key, removed);
    }

    fn update(&mut self, key: u16, new: u16) {
        self.marks += 1;
        let element = (new, self.marks);
        let removed = self.tree.update(at(key), element, by_key);
        self.removed(key, removed);
        if removed.is_some() {
            let at = self.model.partition_point(|e| e.0 <= new);
            self.model.insert(at, element);
        }
    }

    /// Removes an element. The choice among several equal ones is open, so the model follows the tree.
    fn removed(&mut self, key: u16, removed: Option<Element>) {
        let equal = self.model.partition_point(|e| e.0 < key)..self.model.partition_point(|e| e.0 <= key);
        assert_eq!(removed.is_some(), !equal.is_empty());
        if let Some(removed) = removed {
            let at = equal.into_iter().find(|i| self.model[*i] == removed).expect("an equal element");
            self.model.remove(at);
        }
    }

    fn remove_range(&mut self, start: usize, n: usize) {
        let mut seen = Vec::new();
        let removed = self.tree.remove_range(start..start + n, |e| seen.push(e));
        let end = (start + n).min(self.model.len());
        let expected: Vec<_> = self.model.drain(start.min(end)..end).collect();
        assert_eq!(removed, expected.len());
        assert_eq!(seen, expected);
    }

    fn apply(&mut self, op: Op) {
        let pick = |r: u16, model: &Vec<Element>| usize::from(r) % (model.len() + 1);
        match op {
            Op::Insert(key) => self.insert(key),
            Op::InsertRun(key, n) => (0..n).for_each(|i| self.insert(key + i % 700)),
            Op::Remove(key) => self.remove(key),
            Op::Update(key, new) => self.update(key, new),
            Op::RemoveAt(r) => {
                let rank = pick(r, &self.model);
                let expected = (rank < self.model.len()).then(|| self.model.remove(rank));
                assert_eq!(self.tree.remove_at(rank), expected);
            }
            Op::RemoveRange(r, n) => self.remove_range(pick(r, &self.model), n.into()),
            Op::PopFirst => {
                let expected = (!self.model.is_empty()).then(|| self.model.remove(0));
                assert_eq!(self.tree.pop_first(), expected);
            }
            Op::PopLast => assert_eq!(self.tree.pop_last(), self.model.pop()),
            Op::Drain(max) => {
                let mut seen = Vec::new();
                let done = self.tree.drain_step(max.into(), |e| seen.push(e));
                let rest: Vec<_> = self.tree.iter().collect();
                assert_eq!(seen.len(), self.model.len().min(max.into()));
                assert_eq!(done, rest.is_empty());
                seen.extend(&rest);
                seen.sort_unstable();
                let mut all = std::mem::replace(&mut self.model, rest);
                all.sort_unstable();
                assert_eq!(seen, all);
            }
            Op::Rebuild => self.tree = RankedTree::from_sorted(self.model.iter().copied()),
        }
    }

    fn check(&self) {
        self.tree.check(by_key);
        assert_eq!(self.tree.len(), self.model.len());
        assert!(self.tree.iter().eq(self.model.iter().copied()));
        assert!(self.tree.iter().rev().eq(self.model.iter().rev().copied()));
    }

    fn check_queries(&self, key: u16, r: u16, n: u16) {
        let (tree, model) = (&self.tree, &self.model);
        let lower = model.partition_point(|e| e.0 < key);
        let upper = model.partition_point(|e| e.0 <= key);
        assert_eq!(tree.lower_bound(at(key)), lower);
        assert_eq!(tree.upper_bound(at(key)), upper);
        match tree.find(at(key)) {
            Some((rank, element)) => {
                assert!((lower..upper).contains(&rank) && model[rank] == element)
            }
            None => assert_eq!(lower, upper),
        }
        let start = usize::from(r) % (model.len() + 1);
        let end = (start + usize::from(n)).min(model.len());
        assert_eq!(tree.get(start), model.get(start).copied());
        assert_eq!((tree.first(), tree.last()), (model.first().copied(), model.last().copied()));
        let range = tree.range(start..start + usize::from(n));
        assert_eq!(range.len(), end - start);
        assert!(range.eq(model[start..end].iter().copied()));
        assert!(tree.range(start..end).rev().eq(model[start..end].iter().rev().copied()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn behaves_as_a_sorted_vector(
        ops in prop::collection::vec(op(), 1..40),
        queries in prop::collection::vec((0..6000u16, any::<u16>(), 0..3000u16), 20),
    ) {
        let mut pair = Pair::default();
        for op in ops {
            pair.apply(op);
            pair.check();
        }
        for (key, rank, n) in queries {
            pair.check_queries(key, rank, n);
        }
    }

    #[test]
    fn iterates_from_both_ends_at_once(n in 0..9000usize, turns in prop::collection::vec((any::<bool>(), 1..300usize), 40)) {
        let tree = RankedTree::from_sorted(0..n);
        let (mut ours, mut model) = (tree.iter(), 0..n);
        for (forwards, steps) in turns {
            for _ in 0..steps {
                if forwards {
                    prop_assert_eq!(ours.next(), model.next());
                } else {
                    prop_assert_eq!(ours.next_back(), model.next_back());
                }
            }
            prop_assert_eq!(ours.len(), model.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn survives_heavy_removal(mut random in any::<u64>()) {
        let mut next = |below: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        let mut pair = Pair::default();
        (0..8000).for_each(|_| pair.insert(next(20_000) as u16));
        while !pair.model.is_empty() {
            for _ in 0..pair.model.len().min(400) {
                let (key, _) = pair.model[next(pair.model.len())];
                pair.remove(key);
            }
            pair.check();
        }
        prop_assert_eq!(pair.tree.memory_usage(), size_of::<RankedTree<Element>>());
    }

    #[test]
    fn moves_of_any_distance_keep_the_order(
        moves in prop::collection::vec((0..3000u16, 0..9u32, any::<u16>()), 3000),
    ) {
        let mut pair = Pair::default();
        (0..3000).for_each(|key| pair.insert(key));
        for (i, (key, digits, to)) in moves.into_iter().enumerate() {
            // Most moves stay near, some go far.
            let distance = to % 2u16.pow(digits + 1);
            pair.update(key, key.saturating_sub(2u16.pow(digits)) + distance);
            if i % 50 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

/// Bytes per element beyond the elements themselves.
fn overhead(tree: &RankedTree<[u64; 2]>) -> f64 {
    tree.memory_usage() as f64 / tree.len() as f64 - 16.0
}

const N: u64 = 200_000;

#[test]
fn ascending_and_descending_fills_pack_the_nodes() {
    let mut ascending = RankedTree::new();
    let mut descending = RankedTree::new();
    for i in 0..N {
        ascending.insert([i, 0], Ord::cmp);
        descending.insert([N - 1 - i, 0], Ord::cmp);
    }
    for tree in [ascending, descending] {
        tree.check(Ord::cmp);
        assert!(tree.iter().map(|e| e[0]).eq(0..N));
        assert!(overhead(&tree) < 1.0, "{}", overhead(&tree));
    }
}

#[test]
fn random_fill_is_compact() {
    let mut tree = RankedTree::new();
    for i in 0..N {
        tree.insert([i.wrapping_mul(0x9E37_79B9_7F4A_7C15), i], Ord::cmp);
    }
    tree.check(Ord::cmp);
    assert!(overhead(&tree) < 3.0, "{}", overhead(&tree));
}

#[test]
fn queue_use_stays_small() {
    let mut tree = RankedTree::new();
    for i in 0..N {
        tree.insert([i, 0], Ord::cmp);
        if i >= 1000 {
            assert_eq!(tree.pop_first(), Some([i - 1000, 0]));
        }
    }
    tree.check(Ord::cmp);
    assert!(overhead(&tree) < 4.0, "{}", overhead(&tree));
}

/// A comparator may follow a handle into memory, hence must never be shown one that was removed.
#[test]
fn closures_see_only_present_elements() {
    let mut alive = vec![false; 6000];
    let mut tree = RankedTree::new();
    let mut random = 7u64;
    for _ in 0..60_000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let handle = (random >> 33) as usize % alive.len();
        let see = |e: &usize| {
            assert!(alive[*e]);
            e.cmp(&handle)
        };
        if alive[handle] && random & (1 << 20) == 0 {
            let end = tree.upper_bound(see) + 30;
            tree.remove_range(end - 30..end, |e| alive[e] = false);
        } else if alive[handle] && random & (1 << 21) == 0 {
            assert_eq!(tree.update(see, handle, |e, _| see(e)), Some(handle));
        } else if alive[handle] {
            assert_eq!(tree.remove(see), Some(handle));
            alive[handle] = false;
        } else {
            tree.insert(handle, |e, _| see(e));
            alive[handle] = true;
        }
    }
    tree.check(Ord::cmp);
    assert!(tree.iter().eq((0..alive.len()).filter(|e| alive[*e])));
}

#[test]
fn drains_in_bounded_steps() {
    let mut tree = RankedTree::from_sorted(0..100_000u32);
    let mut steps = 0;
    let mut sum = 0;
    loop {
        let mut visited = 0;
        let done = tree.drain_step(1000, |e| {
            visited += 1;
            sum += u64::from(e);
        });
        assert_eq!(visited, 1000);
        steps += 1;
        tree.check(Ord::cmp);
        if done {
            break;
        }
    }
    assert_eq!((steps, sum), (100, 99_999 * 50_000));
}

/// Building leaves a last inner node with one small child, which has no sibling to lean on when it shrinks.
#[test]
fn both_ends_wear_down() {
    let n = LEAF_MAX * INNER_MAX + STEP;
    let mut tree = RankedTree::from_sorted(0..n);
    for i in (1..n).rev() {
        assert_eq!(tree.pop_last(), Some(i));
        if i % 97 == 0 || n - i < LEAF_MAX + 2 {
            tree.check(Ord::cmp);
        }
    }
    let mut tree = RankedTree::from_sorted(0..n);
    for i in 0..n {
        assert_eq!(tree.pop_first(), Some(i));
        if i % 97 == 0 {
            tree.check(Ord::cmp);
        }
    }
}

#[test]
fn answers_at_the_limits() {
    let mut tree: RankedTree<u32> = RankedTree::new();
    assert_eq!((tree.first(), tree.last(), tree.get(0)), (None, None, None));
    assert_eq!((tree.pop_first(), tree.pop_last(), tree.remove_at(usize::MAX)), (None, None, None));
    assert_eq!(tree.remove_range(.., |_| ()), 0);
    let (start, end) = (5, 3);
    assert_eq!(tree.range(start..end).next(), None);
    assert_eq!(tree.lower_bound(|_| Ordering::Less), 0);
    assert!(tree.drain_step(1, |_| ()));
    tree.insert(1, Ord::cmp);
    assert_eq!(tree.remove_range(1..=usize::MAX, |_| ()), 0);
    assert_eq!(tree.iter().collect::<Vec<_>>(), [1]);
    assert!(!tree.drain_step(0, |_| ()));
}
