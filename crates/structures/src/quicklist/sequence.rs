//! A sequence of things of different weight, found by position or by weight: a counted B-tree.
//!
//! A quicklist's nodes hold some hundred elements each. To find the node of the millionth element, one must not add up
//! the nodes before it; to put a node between two others, one must not move those behind them. So nodes lie in
//! the leaves of a tree that knows, for each child, how many nodes and how many elements are below it:
//!
//! ```text
//!  inner      [ 3 nodes, 600 elements | 2, 340 | 2, 500 ]
//!                   |                   |        |
//!  leaves     [ 220 180 200 ]        [ 190 150 ] [ 250 250 ]
//! ```
//!
//! Finding, inserting and removing take O(log n) steps, and move at most [`WIDTH`] entries on each level: 64 nodes a
//! leaf and 64 children above are three levels for 50 million elements.
//!
//! Invariants (asserted by `check` in the tests): all leaves are equally deep; the sizes are right; nothing but an
//! empty root is empty, and an inner root has two children; of two neighbours with one parent at least one is a quarter
//! full, because neighbours that would fill half a place together are joined when one of them shrinks.

use std::sync::Arc;

/// Most entries of a leaf, and most children.
const WIDTH: usize = 64;

/// A thing in a sequence, which has a weight.
pub(super) trait Weigh {
    fn weight(&self) -> usize;
}

impl<T: Weigh> Weigh for Arc<T> {
    fn weight(&self) -> usize {
        T::weight(self)
    }
}

/// Number and weight of things below a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    things: usize,
    weight: usize,
}

impl Size {
    fn add(self, other: Size) -> Size {
        Size { things: self.things + other.things, weight: self.weight + other.weight }
    }
}

/// The sequence.
#[derive(Clone)]
pub(super) struct Sequence<T> {
    root: Tree<T>,
    size: Size,
}

#[derive(Clone)]
enum Tree<T> {
    Leaf(Vec<T>),
    Inner(Vec<Branch<T>>),
}

#[derive(Clone)]
struct Branch<T> {
    size: Size,
    tree: Tree<T>,
}

impl<T: Weigh> Sequence<T> {
    pub(super) const fn new() -> Self {
        Sequence { root: Tree::Leaf(Vec::new()), size: Size { things: 0, weight: 0 } }
    }

    /// Returns the number of things.
    pub(super) fn len(&self) -> usize {
        self.size.things
    }

    /// Returns the weight of all together.
    pub(super) fn weight(&self) -> usize {
        self.size.weight
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let (mut tree, mut at) = (&self.root, at);
        loop {
            match tree {
                Tree::Leaf(things) => return things.get(at),
                Tree::Inner(branches) => {
                    let child = branch_of(branches, &mut at)?;
                    tree = &branches[child].tree;
                }
            }
        }
    }

    /// Returns the thing in which the weight `before` falls, and the part of `before` that lies in it.
    pub(super) fn find(&self, before: usize) -> Option<(usize, usize)> {
        let (mut tree, mut left, mut at) = (&self.root, before, 0);
        loop {
            match tree {
                Tree::Leaf(things) => {
                    for thing in things {
                        if left < thing.weight() {
                            return Some((at, left));
                        }
                        left -= thing.weight();
                        at += 1;
                    }
                    return None;
                }
                Tree::Inner(branches) => {
                    tree = branches.iter().find_map(|branch| {
                        if left < branch.size.weight {
                            return Some(&branch.tree);
                        }
                        left -= branch.size.weight;
                        at += branch.size.things;
                        None
                    })?;
                }
            }
        }
    }

    /// Lets `change` at a thing, which may weigh something else afterwards.
    ///
    /// # Panics
    /// When there is none at `at`.
    pub(super) fn update<R>(&mut self, at: usize, change: impl FnOnce(&mut T) -> R) -> R {
        let (before, after, result) = self.root.update(at, change);
        self.size.weight = self.size.weight - before + after;
        result
    }

    /// Puts a thing before the one at `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, thing: T) {
        let size = Size { things: 1, weight: thing.weight() };
        let total = self.size.add(size);
        if let Some(right) = self.root.insert(at.min(self.size.things), thing, true, true) {
            let left = std::mem::replace(&mut self.root, Tree::Inner(Vec::new()));
            self.root = Tree::Inner(vec![Branch::of(left), Branch::of(right)]);
        }
        self.size = total;
    }

    /// Takes a thing out.
    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        if at >= self.size.things {
            return None;
        }
        let thing = self.root.remove(at);
        self.size = Size { things: self.size.things - 1, weight: self.size.weight - thing.weight() };
        while let Tree::Inner(branches) = &mut self.root
            && branches.len() <= 1
        {
            self.root = branches.pop().map_or(Tree::Leaf(Vec::new()), |branch| branch.tree);
        }
        Some(thing)
    }
}

/// Returns the branch that holds the thing at `at`, which becomes its place within the branch.
fn branch_of<T>(branches: &[Branch<T>], at: &mut usize) -> Option<usize> {
    branches.iter().position(|branch| {
        let here = *at < branch.size.things;
        if !here {
            *at -= branch.size.things;
        }
        here
    })
}

impl<T: Weigh> Branch<T> {
    fn of(tree: Tree<T>) -> Self {
        Branch { size: tree.size(), tree }
    }
}

impl<T: Weigh> Tree<T> {
    fn size(&self) -> Size {
        match self {
            Tree::Leaf(things) => Size { things: things.len(), weight: things.iter().map(Weigh::weight).sum() },
            Tree::Inner(branches) => branches.iter().fold(Size::default(), |sum, branch| sum.add(branch.size)),
        }
    }

    /// Returns the number of entries of this node.
    fn width(&self) -> usize {
        match self {
            Tree::Leaf(things) => things.len(),
            Tree::Inner(branches) => branches.len(),
        }
    }

    /// Returns the thing's weight before and after, and what `change` returned.
    fn update<R>(&mut self, mut at: usize, change: impl FnOnce(&mut T) -> R) -> (usize, usize, R) {
        match self {
            Tree::Leaf(things) => {
                let before = things[at].weight();
                let result = change(&mut things[at]);
                (before, things[at].weight(), result)
            }
            Tree::Inner(branches) => {
                let child = branch_of(branches, &mut at).expect("a thing at this place");
                let (before, after, result) = branches[child].tree.update(at, change);
                let weight = &mut branches[child].size.weight;
                *weight = *weight - before + after;
                (before, after, result)
            }
        }
    }

    /// Inserts a thing. The returned tree was split off and belongs to the right of this node. `first` and `last`: the
    /// sequence begins, ends in it. There a full node stays full, so that sequences that grow at an end are dense.
    fn insert(&mut self, mut at: usize, thing: T, first: bool, last: bool) -> Option<Tree<T>> {
        match self {
            Tree::Leaf(things) => insert(things, at, thing, first, last).map(Tree::Leaf),
            Tree::Inner(branches) => {
                let child = branch_of(branches, &mut at).unwrap_or_else(|| {
                    at = branches.last().map_or(0, |branch| branch.size.things);
                    branches.len() - 1
                });
                let (first, last) = (first && child == 0, last && child + 1 == branches.len());
                let added = Size { things: 1, weight: thing.weight() };
                let split = branches[child].tree.insert(at, thing, first, last);
                let Some(right) = split else {
                    branches[child].size = branches[child].size.add(added);
                    return None;
                };
                branches[child].size = branches[child].tree.size();
                insert(branches, child + 1, Branch::of(right), first, last).map(Tree::Inner)
            }
        }
    }

    fn remove(&mut self, mut at: usize) -> T {
        match self {
            Tree::Leaf(things) => things.remove(at),
            Tree::Inner(branches) => {
                let child = branch_of(branches, &mut at).expect("a thing at this place");
                let thing = branches[child].tree.remove(at);
                let size = &mut branches[child].size;
                *size = Size { things: size.things - 1, weight: size.weight - thing.weight() };
                join(branches, child);
                thing
            }
        }
    }
}

/// Puts an entry into a node; the returned entries have been split off at its right.
fn insert<E>(entries: &mut Vec<E>, at: usize, entry: E, first: bool, last: bool) -> Option<Vec<E>> {
    if entries.len() < WIDTH {
        entries.insert(at, entry);
        return None;
    }
    if last && at == entries.len() {
        return Some(vec![entry]);
    }
    if first && at <= 1 {
        let right = entries.split_off(at);
        entries.push(entry);
        entries.shrink_to(2 * entries.len());
        return Some(right);
    }
    let half = entries.len() / 2;
    let mut right = entries.split_off(half);
    if at <= half {
        entries.insert(at, entry)
    } else {
        right.insert(at - half, entry)
    }
    Some(right)
}

/// Removes a child that is empty, or joins it with a neighbour if half a node holds both.
fn join<T>(branches: &mut Vec<Branch<T>>, child: usize)
where
    T: Weigh,
{
    if branches[child].tree.width() == 0 {
        branches.remove(child);
        return;
    }
    for left in [child.checked_sub(1), Some(child)].into_iter().flatten() {
        if left + 1 < branches.len() && branches[left].tree.width() + branches[left + 1].tree.width() <= WIDTH / 2 {
            let right = branches.remove(left + 1);
            branches[left].size = branches[left].size.add(right.size);
            match (&mut branches[left].tree, right.tree) {
                (Tree::Leaf(things), Tree::Leaf(more)) => things.extend(more),
                (Tree::Inner(children), Tree::Inner(more)) => children.extend(more),
                _ => unreachable!("all leaves are equally deep"),
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    impl Sequence<usize> {
        fn check(&self, model: &[usize]) {
            assert_eq!(self.size, self.root.size());
            assert_eq!((self.len(), self.weight()), (model.len(), model.iter().sum()));
            assert!((0..=model.len()).all(|at| self.get(at) == model.get(at)));
            check(&self.root, true);
        }
    }

    /// Returns the depth.
    fn check(tree: &Tree<usize>, is_root: bool) -> usize {
        assert!(tree.width() <= WIDTH && (is_root || tree.width() > 0));
        let Tree::Inner(branches) = tree else { return 0 };
        assert!(!is_root || branches.len() > 1);
        assert!(branches.iter().all(|branch| branch.size == branch.tree.size()));
        let widths: Vec<usize> = branches.iter().map(|branch| branch.tree.width()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] + pair[1] > WIDTH / 2));
        let depths: Vec<usize> = branches.iter().map(|branch| check(&branch.tree, false)).collect();
        assert!(depths.windows(2).all(|pair| pair[0] == pair[1]));
        depths[0] + 1
    }

    #[test]
    fn growth_at_an_end_fills_the_leaves() {
        for at_end in [true, false] {
            let (mut sequence, mut model) = (Sequence::new(), Vec::new());
            for n in 0..WIDTH * WIDTH * 2 {
                let at = if at_end { n } else { 0 };
                sequence.insert(at, n);
                model.insert(at, n);
            }
            sequence.check(&model);
            assert_eq!(check(&sequence.root, true), 2);
            let Tree::Inner(branches) = &sequence.root else { panic!("two levels") };
            assert!(branches.len() <= 3, "{}", branches.len());
            assert_eq!(sequence.remove(0), Some(model[0]));
            assert!((1..model.len()).all(|_| sequence.remove(sequence.len() - 1).is_some()));
            sequence.check(&[]);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// So many, one after the other, from a place on.
        Insert(prop::sample::Index, usize, usize),
        Remove(prop::sample::Index, usize),
        Update(prop::sample::Index, usize),
        Find(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = any::<prop::sample::Index>;
        prop_oneof![
            (at(), 0..300usize, 1..9usize).prop_map(|(at, n, weight)| Step::Insert(at, n, weight)),
            (at(), 0..250usize).prop_map(|(at, n)| Step::Remove(at, n)),
            (at(), 1..9usize).prop_map(|(at, weight)| Step::Update(at, weight)),
            at().prop_map(Step::Find),
        ]
    }

    proptest! {
        #[test]
        fn a_sequence_is_a_vector(steps in proptest::collection::vec(step(), 0..60)) {
            let (mut sequence, mut model) = (Sequence::new(), Vec::<usize>::new());
            for step in steps {
                match step {
                    Step::Insert(at, n, weight) => for _ in 0..n {
                        let at = at.index(model.len() + 1);
                        sequence.insert(at, weight);
                        model.insert(at, weight);
                    },
                    Step::Remove(at, n) => for _ in 0..n.min(model.len()) {
                        let at = at.index(model.len());
                        prop_assert_eq!(sequence.remove(at), Some(model.remove(at)));
                    },
                    Step::Update(at, weight) if !model.is_empty() => {
                        let at = at.index(model.len());
                        let old = sequence.update(at, |thing| std::mem::replace(thing, weight));
                        prop_assert_eq!(old, std::mem::replace(&mut model[at], weight));
                    }
                    Step::Find(before) => {
                        let before = before.index(sequence.weight() + 1);
                        let mut left = before;
                        let found = model.iter().position(|weight| left < *weight || { left -= weight; false });
                        prop_assert_eq!(sequence.find(before), found.map(|at| (at, left)));
                    }
                    Step::Update(..) => {}
                }
                sequence.check(&model);
            }
            prop_assert_eq!(sequence.remove(model.len()), None);
            prop_assert_eq!(sequence.clone().len(), model.len());
        }
    }
}
