//! A list: a sequence of byte strings that is used at its ends.
//!
//! ```text
//!  Small    one listpack           8 bytes and the elements
//!  Quick    a quicklist            many listpacks, see `quicklist`
//! ```
//!
//! A list begins small. Before it grows, the caller tells [`List::reserve`] how much, which changes to a quicklist when
//! that would exceed the size of one node; after it has shrunk, [`List::shrunk`] changes back when one node is left
//! that is half of that at most, so that a list does not go to and fro. Valkey does both at the same sizes, which
//! OBJECT ENCODING shows.
//!
//! Asserted by tests: in either form, and through all changes of form, it equals a `VecDeque`.

use crate::listpack::{Item, Listpack};
use crate::quicklist::{End, ListSnapshot, ListStats, NodeView, Quicklist, Rules, remove_equal_items, visit_listpack};
use std::borrow::Cow;
use std::fmt;
use std::ops::{ControlFlow, Range};

/// A list of byte strings.
#[derive(Clone)]
pub enum List {
    /// A few short elements.
    Small(Listpack),
    /// Anything else.
    Quick(Box<Quicklist>),
}

impl Default for List {
    fn default() -> Self {
        List::Small(Listpack::new())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("encoding", &self.encoding()).field("len", &self.len()).finish()
    }
}

/// Reading. Indices are from 0 at the head.
impl List {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            List::Small(listpack) => listpack.len(),
            List::Quick(quicklist) => quicklist.len(),
        }
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self {
            List::Small(listpack) => listpack.is_empty(),
            List::Quick(quicklist) => quicklist.is_empty(),
        }
    }

    /// Makes a list of these nodes, small if it is as short as a small one may be.
    pub fn from_quicklist(mut quicklist: Quicklist, rules: &Rules) -> List {
        let fits = quicklist
            .only_listpack()
            .is_some_and(|listpack| !rules.fill.is_exceeded(listpack.byte_len(), listpack.len()));
        match if fits { quicklist.take_only_listpack() } else { None } {
            Some(listpack) => List::Small(listpack),
            None => List::Quick(Box::new(quicklist)),
        }
    }

    /// Returns the name that OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self {
            List::Small(_) => "listpack",
            List::Quick(_) => "quicklist",
        }
    }

    /// Returns how many pieces it takes to free the list.
    pub fn free_effort(&self) -> usize {
        match self {
            List::Small(_) => 1,
            List::Quick(quicklist) => quicklist.node_count(),
        }
    }

    /// Returns the bytes on the heap, near enough.
    pub fn memory_usage(&self) -> usize {
        match self {
            List::Small(listpack) => listpack.memory_usage(),
            List::Quick(quicklist) => quicklist.memory_usage(),
        }
    }

    /// Shows the nodes with their numbers, if it is a quicklist.
    pub fn each_node(&self, mut see: impl FnMut(usize, NodeView<'_>)) {
        if let List::Quick(quicklist) = self {
            quicklist.nodes().enumerate().for_each(|(number, node)| see(number, node));
        }
    }

    /// Returns the statistics for DEBUG OBJECT, if it is a quicklist.
    pub fn stats(&self) -> Option<ListStats> {
        match self {
            List::Small(_) => None,
            List::Quick(quicklist) => Some(quicklist.stats()),
        }
    }

    /// Returns the element at an end.
    #[inline]
    pub fn edge(&self, end: End) -> Option<Item<'_>> {
        match self {
            List::Small(listpack) => {
                let pos = if end == End::Head { listpack.first() } else { listpack.last() };
                pos.map(|pos| listpack.at(pos))
            }
            List::Quick(quicklist) => quicklist.edge(end),
        }
    }

    /// Shows the elements at these indices (beyond the end there are none) to `see` until it has enough; in reverse
    /// from the last of them.
    #[inline]
    pub fn visit(&self, range: Range<usize>, reverse: bool, see: impl FnMut(Item<'_>) -> ControlFlow<()>) {
        let range = range.start..range.end.min(self.len());
        if range.is_empty() {
            return;
        }
        let _ = match self {
            List::Small(listpack) => visit_listpack(listpack, range, reverse, see),
            List::Quick(quicklist) => quicklist.visit(range, reverse, see),
        };
    }

    /// Shows all of these elements to `see`.
    #[inline]
    pub fn each(&self, range: Range<usize>, reverse: bool, mut see: impl FnMut(Item<'_>)) {
        self.visit(range, reverse, |item| {
            see(item);
            ControlFlow::Continue(())
        });
    }

    /// Returns the elements at these indices as they are now, to be read later; None where reading them at once is as
    /// cheap.
    pub fn snapshot(&self, range: Range<usize>) -> Option<ListSnapshot> {
        let range = range.start..range.end.min(self.len());
        match self {
            List::Quick(quicklist) if !range.is_empty() => Some(quicklist.snapshot(range)),
            _ => None,
        }
    }

    /// Returns the index of the first element that equals this one.
    pub fn position(&self, element: &[u8]) -> Option<usize> {
        let wanted = Item::of(element);
        let (mut index, mut found) = (0, None);
        self.visit(0..self.len(), false, |item| {
            if item == wanted {
                found = Some(index);
                return ControlFlow::Break(());
            }
            index += 1;
            ControlFlow::Continue(())
        });
        found
    }
}

/// Changes. They keep the form; [`reserve`](List::reserve) goes before what adds, [`shrunk`](List::shrunk) after what
/// removes.
impl List {
    /// Prepares for `count` new elements of `bytes` together.
    #[inline]
    pub fn reserve(&mut self, count: usize, bytes: usize, rules: &Rules) {
        if let List::Small(listpack) = self
            && rules.fill.is_exceeded(listpack.byte_len() + bytes, listpack.len() + count)
        {
            let mut quicklist = Quicklist::new(rules);
            quicklist.append_listpack(std::mem::take(listpack));
            *self = List::Quick(Box::new(quicklist));
        }
    }

    /// Changes the form after elements were removed, or replaced by others.
    #[inline]
    pub fn shrunk(&mut self, rules: &Rules) {
        if let List::Quick(quicklist) = self
            && let Some(listpack) = quicklist.only_listpack()
            && rules.fill.is_half(listpack.byte_len(), listpack.len())
            && let Some(listpack) = quicklist.take_only_listpack()
        {
            *self = List::Small(listpack);
        }
    }

    /// Adds an element at an end.
    #[inline]
    pub fn push(&mut self, end: End, element: Cow<'_, [u8]>, rules: &Rules) {
        match self {
            List::Small(listpack) if end == End::Head => listpack.push_front(&element),
            List::Small(listpack) => listpack.push_back(&element),
            List::Quick(quicklist) => quicklist.push(end, element, rules),
        }
    }

    /// Removes the element at an end.
    #[inline]
    pub fn pop(&mut self, end: End) {
        match self {
            List::Small(listpack) if end == End::Head => listpack.pop_front(),
            List::Small(listpack) => {
                listpack.last().map(|pos| listpack.remove(pos));
            }
            List::Quick(quicklist) => quicklist.pop(end),
        }
    }

    /// Inserts an element before or after the one at `pivot`; false when there is none.
    pub fn insert(&mut self, pivot: usize, after: bool, element: Cow<'_, [u8]>, rules: &Rules) -> bool {
        if pivot >= self.len() {
            return false;
        }
        match self {
            List::Small(listpack) => {
                let Some(pos) = listpack.seek(pivot as isize) else { return false };
                if after {
                    listpack.insert_after(pos, &element);
                } else {
                    listpack.insert_before(pos, &element);
                }
            }
            List::Quick(quicklist) => quicklist.insert(pivot, after, element, rules),
        }
        true
    }

    /// Puts an element in the place of the one at `index`; false when there is none.
    pub fn replace(&mut self, index: usize, element: Cow<'_, [u8]>, rules: &Rules) -> bool {
        if index >= self.len() {
            return false;
        }
        match self {
            List::Small(listpack) => {
                let Some(pos) = listpack.seek(index as isize) else { return false };
                listpack.replace(pos, &element);
            }
            List::Quick(quicklist) => quicklist.replace(index, element, rules),
        }
        true
    }

    /// Removes the elements at these indices; beyond the end there are none.
    pub fn remove_range(&mut self, range: Range<usize>) {
        let range = range.start..range.end.min(self.len());
        if range.is_empty() {
            return;
        }
        match self {
            List::Small(listpack) => listpack.remove_range(range.start as isize, range.len()),
            List::Quick(quicklist) => quicklist.remove_range(range),
        }
    }

    /// Removes up to `limit` elements that equal this one, from an end on. Returns how many there were.
    pub fn remove_equal(&mut self, element: &[u8], limit: usize, from: End) -> usize {
        match self {
            List::Small(listpack) => {
                let wanted = Item::of(element);
                let total = listpack.iter().filter(|item| *item == wanted).count();
                let removed = total.min(limit);
                let skipped = if from == End::Head { 0 } else { total - removed };
                remove_equal_items(listpack, wanted, skipped, removed);
                removed
            }
            List::Quick(quicklist) => quicklist.remove_equal(element, limit, from),
        }
    }

    /// Frees up to `pieces` (at least one) of the list, which is of no use afterwards; returns whether nothing is left.
    pub fn drain_step(&mut self, pieces: usize) -> bool {
        match self {
            List::Small(_) => true,
            List::Quick(quicklist) => quicklist.drain_step(pieces),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quicklist::Fill;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn rules(fill: i64) -> Rules {
        Rules { fill: Fill::new(fill), ..Rules::default() }
    }

    #[test]
    fn a_list_is_sixteen_bytes() {
        assert_eq!(size_of::<List>(), 16);
    }

    #[test]
    fn the_form_changes_at_a_node_and_back_at_half_of_one() {
        let rules = rules(4);
        let mut list = List::default();
        for n in 0..4 {
            list.reserve(1, 1, &rules);
            list.push(End::Tail, Cow::Borrowed(&[b'a' + n]), &rules);
            assert_eq!(list.encoding(), "listpack");
        }
        list.reserve(1, 1, &rules);
        assert_eq!(list.encoding(), "quicklist");
        list.push(End::Tail, Cow::Borrowed(b"e"), &rules);
        for (left, encoding) in [(4, "quicklist"), (3, "quicklist"), (2, "listpack"), (1, "listpack")] {
            list.pop(End::Tail);
            list.shrunk(&rules);
            assert_eq!((list.len(), list.encoding()), (left, encoding));
        }
        assert_eq!(list.edge(End::Head).map(Item::to_vec), Some(b"a".to_vec()));
    }

    #[test]
    fn sizes_count_what_the_elements_bring() {
        let rules = rules(-1);
        let mut list = List::default();
        list.reserve(1, 4096 - 7, &rules);
        assert_eq!(list.encoding(), "listpack");
        list.reserve(1, 4096 - 6, &rules);
        assert_eq!(list.encoding(), "quicklist");
        assert!(list.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(End, Vec<u8>, usize),
        Pop(End),
        Insert(prop::sample::Index, bool, Vec<u8>),
        Replace(prop::sample::Index, Vec<u8>),
        RemoveRange(prop::sample::Index, usize),
        RemoveEqual(prop::sample::Index, usize, End),
    }

    fn end() -> impl Strategy<Value = End> {
        prop_oneof![Just(End::Head), Just(End::Tail)]
    }

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            6 => (0..20u32).prop_map(|n| n.to_string().into_bytes()),
            4 => (0..6u8, 1..60usize).prop_map(|(byte, n)| vec![b'a' + byte; n]),
            1 => (0..3u8, 3000..9000usize).prop_map(|(byte, n)| vec![b'a' + byte; n]),
            2 => proptest::collection::vec(any::<u8>(), 0..80),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = any::<prop::sample::Index>;
        prop_oneof![
            4 => (end(), element(), 1..12usize).prop_map(|(end, element, n)| Step::Push(end, element, n)),
            2 => end().prop_map(Step::Pop),
            4 => (at(), any::<bool>(), element()).prop_map(|(at, after, element)| Step::Insert(at, after, element)),
            3 => (at(), element()).prop_map(|(at, element)| Step::Replace(at, element)),
            1 => (at(), 0..40usize).prop_map(|(at, n)| Step::RemoveRange(at, n)),
            2 => (at(), prop_oneof![1..4usize, Just(usize::MAX)], end()).prop_map(|(at, n, end)| Step::RemoveEqual(at, n, end)),
        ]
    }

    fn apply(list: &mut List, model: &mut VecDeque<Vec<u8>>, step: Step, rules: &Rules) {
        let len = model.len();
        match step {
            Step::Push(end, element, n) => {
                list.reserve(n, n * element.len(), rules);
                for _ in 0..n {
                    list.push(end, Cow::Borrowed(&element), rules);
                    match end {
                        End::Head => model.push_front(element.clone()),
                        End::Tail => model.push_back(element.clone()),
                    }
                }
            }
            Step::Pop(end) => {
                let gone = if end == End::Head { model.pop_front() } else { model.pop_back() };
                assert_eq!(list.edge(end).map(Item::to_vec), gone);
                list.pop(end);
                list.shrunk(rules);
            }
            Step::Insert(at, after, element) if len > 0 => {
                let at = at.index(len);
                list.reserve(1, element.len(), rules);
                assert!(list.insert(at, after, Cow::Borrowed(&element), rules));
                model.insert(at + usize::from(after), element);
            }
            Step::Replace(at, element) if len > 0 => {
                let at = at.index(len);
                list.reserve(1, element.len(), rules);
                assert!(list.replace(at, Cow::Borrowed(&element), rules));
                list.shrunk(rules);
                model[at] = element;
            }
            Step::RemoveRange(at, n) => {
                let at = at.index(len + 1);
                list.remove_range(at..at + n);
                list.shrunk(rules);
                model.drain(at..(at + n).min(len));
            }
            Step::RemoveEqual(at, limit, from) if len > 0 => {
                let element = model[at.index(len)].clone();
                assert_eq!(list.position(&element), model.iter().position(|other| *other == element));
                let total = model.iter().filter(|other| **other == element).count();
                let removed = total.min(limit);
                assert_eq!(list.remove_equal(&element, limit, from), removed);
                list.shrunk(rules);
                let mut keep = if from == End::Head { 0 } else { total - removed };
                let mut left = removed;
                model.retain(|other| {
                    let goes = *other == element && keep == 0 && left > 0;
                    if goes {
                        left -= 1
                    } else if *other == element {
                        keep = keep.saturating_sub(1)
                    }
                    !goes
                });
            }
            Step::Insert(..) | Step::Replace(..) | Step::RemoveEqual(..) => {
                assert!(
                    !list.insert(len, true, Cow::Borrowed(b"x"), rules)
                        && !list.replace(len, Cow::Borrowed(b"x"), rules)
                );
            }
        }
    }

    fn read(list: &List, range: Range<usize>, reverse: bool) -> Vec<Vec<u8>> {
        let mut elements = Vec::new();
        list.each(range, reverse, |item| elements.push(item.to_vec()));
        elements
    }

    proptest! {
        #[test]
        fn a_list_is_a_deque(
            steps in proptest::collection::vec(step(), 0..80),
            fill in prop_oneof![Just(-1i64), Just(-2), 0..8i64],
            compress_depth in 0..4u16,
            large_from in prop_oneof![3 => Just(0usize), 1 => 1..40usize],
            (a, b) in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let rules = Rules { fill: Fill::new(fill), compress_depth, large_from };
            let (mut list, mut model) = (List::default(), VecDeque::new());
            for step in steps {
                apply(&mut list, &mut model, step, &rules);
                if let List::Quick(quicklist) = &list {
                    quicklist.check();
                }
                prop_assert_eq!(list.len(), model.len());
            }
            let model = Vec::from(model);
            prop_assert_eq!(&read(&list.clone(), 0..usize::MAX, false), &model);
            let (from, to) = (a.index(model.len() + 1), b.index(model.len() + 2));
            let expected = model.get(from..to.min(model.len())).unwrap_or_default();
            prop_assert_eq!(&read(&list, from..to, false), expected);
            let reversed: Vec<_> = expected.iter().rev().cloned().collect();
            prop_assert_eq!(&read(&list, from..to, true), &reversed);
            let snapshot = list.snapshot(from..to);
            let backwards = list.snapshot(from..to);
            let copy = list.clone();
            // A snapshot or a copy does not see later changes of the list.
            list.replace(from, Cow::Borrowed(b"other"), &rules);
            list.remove_range(0..to / 2);
            prop_assert_eq!(list.len(), model.len() - (to / 2).min(model.len()));
            list.remove_equal(b"1", usize::MAX, End::Head);
            while !list.drain_step(3) {}
            if let Some(mut snapshot) = snapshot {
                let mut seen = Vec::new();
                prop_assert_eq!(snapshot.len(), expected.len());
                while snapshot.next_node(|item| seen.push(item.to_vec())) {}
                prop_assert!(snapshot.is_empty());
                prop_assert_eq!(&seen[..], expected);
            }
            if let Some(mut backwards) = backwards {
                let mut seen = Vec::new();
                while backwards.next_node_back(|item| seen.push(item.to_vec())) {}
                prop_assert_eq!((seen, backwards.len()), (reversed, 0));
            }
            prop_assert_eq!(&read(&copy, 0..usize::MAX, false), &model);
        }
    }
}
