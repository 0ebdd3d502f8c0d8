//! Unions, intersections and differences of sets that are lent at the same time: membership, and the form of a result
//! that is stored.
//!
//! An intersection walks over the smallest and looks its members up in the others. A union shows the largest, and from
//! the others the members that were not shown yet. A difference looks each member of the first up in the other sets,
//! or, if that would be more work, collects (references to) the members to be left out.
//!
//! A result that is stored is built by the steps of Valkey, since its form, which clients can see, depends on them.

use crate::core::yielding::Yielding;
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::ControlFlow;
use structures::listpack::Item;
use structures::set::{Limits, Set};

/// The sets that a command names; None for missing keys.
pub type Sets<'k> = SmallVec<[Option<&'k Set>; 4]>;

/// Visits the members that all sets have, with the smallest set; nothing if one is missing.
pub fn intersect<'k>(
    sets: Sets<'k>,
    yielding: &Yielding<'_>,
    mut visit: impl FnMut(&'k Set, Item<'k>) -> ControlFlow<()>,
) {
    let Some(mut sets) = sets.into_iter().collect::<Option<SmallVec<[&Set; 4]>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    let others: SmallVec<[&Set; 4]> = others.iter().copied().filter(|set| !std::ptr::eq(*set, *smallest)).collect();
    each_batch(smallest, &others, yielding, |member| {
        if others.iter().all(|set| set.contains_item(member)) {
            visit(smallest, member)
        } else {
            ControlFlow::Continue(())
        }
    });
}

/// Members whose lookups wait for memory together.
const BATCH: usize = 16;

/// Visits the members of a set; the memory that lookups of them in the others will read is prefetched before.
fn each_batch<'k>(
    set: &'k Set,
    others: &[&Set],
    yielding: &Yielding<'_>,
    mut visit: impl FnMut(Item<'k>) -> ControlFlow<()>,
) {
    let mut members = set.iter();
    loop {
        let batch: SmallVec<[Item<'k>; BATCH]> = members.by_ref().take(BATCH).collect();
        yielding.steps(batch.len() * (others.len() + 1));
        let names =
            || batch.iter().filter_map(|member| if let Item::Bytes(name) = member { Some(*name) } else { None });
        others.iter().for_each(|other| other.prefetch(names()));
        if batch.is_empty() || batch.iter().try_for_each(|member| visit(*member)).is_break() {
            return;
        }
    }
}

/// Returns a set of these members, no two of which are equal, in the form that it gets when they are put one by one
/// into `empty`.
pub fn build(mut empty: Set, members: &[Item<'_>], limits: &Limits, yielding: &Yielding<'_>) -> Set {
    let each = members.iter().inspect(|_| yielding.step());
    if members.len() > limits.intset_entries.max(limits.listpack_entries) {
        return Set::of_distinct(members.len(), each.copied());
    }
    each.for_each(|member| _ = empty.insert_item(*member, limits));
    empty
}

/// Visits each member of any of the sets once.
pub fn unite<'k>(sets: Sets<'k>, mut visit: impl FnMut(Item<'k>) -> ControlFlow<()>) {
    let mut sets: SmallVec<[&Set; 4]> = sets.into_iter().flatten().collect();
    sets.sort_by_key(|set| Reverse(set.len()));
    let Some((largest, others)) = sets.split_first() else { return };
    if largest.iter().try_for_each(&mut visit).is_break() {
        return;
    }
    let mut seen = MemberRefs::default();
    // A member of only the last set cannot occur again.
    let last = others.len().saturating_sub(1);
    for (at, set) in others.iter().enumerate().filter(|(_, set)| !std::ptr::eq(**set, *largest)) {
        for member in set.iter().filter(|member| !largest.contains_item(*member)) {
            let new = if at == last && seen.is_empty() { true } else { seen.insert(member) };
            if new && visit(member).is_break() {
                return;
            }
        }
    }
}

/// The members of the first set that the others do not have.
pub struct Difference<'k> {
    first: &'k Set,
    /// The other sets, from the largest to the smallest for lookups.
    others: SmallVec<[&'k Set; 4]>,
    /// Whether it is less work to look each member of the first up in the others than to go through all of them.
    asks: bool,
}

impl<'k> Difference<'k> {
    /// Returns the difference; None if it is empty whatever the members are.
    pub fn of(sets: &Sets<'k>) -> Option<Self> {
        let (first, others) = sets.split_first()?;
        let first = (*first)?;
        let mut others: SmallVec<[&Set; 4]> = others.iter().copied().flatten().collect();
        if others.iter().any(|set| std::ptr::eq(*set, first)) {
            return None;
        }
        // Lookups end at the first set that has a member, and move nothing: half of the count, as Valkey estimates it.
        let asking = first.len() * (others.len() + 1) / 2;
        let asks = asking <= first.len() + others.iter().map(|set| set.len()).sum::<usize>();
        if asks {
            others.sort_by_key(|set| Reverse(set.len()));
        }
        Some(Difference { first, others, asks })
    }

    /// Returns the number of members that are looked up or gone through.
    pub fn effort(&self) -> usize {
        let others: usize = self.others.iter().map(|set| set.len()).sum();
        if self.asks { self.first.len().saturating_mul(self.others.len()) } else { self.first.len() + others }
    }

    pub fn visit(&self, yielding: &Yielding<'_>, mut visit: impl FnMut(Item<'k>) -> ControlFlow<()>) {
        if self.asks {
            each_batch(self.first, &self.others, yielding, |member| {
                let is_out = self.others.iter().any(|set| set.contains_item(member));
                if is_out { ControlFlow::Continue(()) } else { visit(member) }
            });
        } else {
            let out = self.left_out(yielding);
            let mut members = self.first.iter().inspect(|_| yielding.step()).filter(|member| !out.contains(*member));
            // The place where it ended does not matter.
            let _ = members.try_for_each(visit);
        }
    }

    pub fn to_set(&self, limits: &Limits, yielding: &Yielding<'_>) -> Set {
        if !self.asks {
            return self.by_removal(limits, yielding);
        }
        let mut members = Vec::new();
        self.visit(yielding, |member| {
            members.push(member);
            ControlFlow::Continue(())
        });
        build(Set::default(), &members, limits, yielding)
    }

    /// Returns a result that held all of the first set for a moment, and has the form of that.
    fn by_removal(&self, limits: &Limits, yielding: &Yielding<'_>) -> Set {
        let first = self.first.iter().inspect(|_| yielding.step());
        if self.first.len() > limits.intset_entries.max(limits.listpack_entries) {
            let out = self.left_out(yielding);
            let members: Vec<Item<'_>> = first.filter(|member| !out.contains(*member)).collect();
            return Set::of_distinct(members.len(), members.iter().copied().inspect(|_| yielding.step()));
        }
        let mut result = Set::default();
        first.for_each(|member| _ = result.insert_item(member, limits));
        for set in &self.others {
            for member in set.iter() {
                yielding.step();
                result.remove_item(member);
            }
        }
        result
    }

    fn left_out(&self, yielding: &Yielding<'_>) -> MemberRefs<'k> {
        let mut out = MemberRefs::default();
        for member in self.others.iter().flat_map(|set| set.iter()) {
            yielding.step();
            out.insert(member);
        }
        out
    }
}

/// References to members of sets of any form.
#[derive(Default)]
pub struct MemberRefs<'k> {
    ints: HashSet<i64, RandomState>,
    strings: HashSet<&'k [u8], RandomState>,
}

impl<'k> MemberRefs<'k> {
    /// Inserts a member; false if it was there already.
    pub fn insert(&mut self, member: Item<'k>) -> bool {
        match normal(member) {
            Item::Int(n) => self.ints.insert(n),
            Item::Bytes(bytes) => self.strings.insert(bytes),
        }
    }

    fn contains(&self, member: Item<'_>) -> bool {
        match normal(member) {
            Item::Int(n) => self.ints.contains(&n),
            Item::Bytes(bytes) => self.strings.contains(bytes),
        }
    }

    fn is_empty(&self) -> bool {
        self.ints.is_empty() && self.strings.is_empty()
    }
}

/// Returns the canonical form of a member, which a table shows as a string even if it is an integer.
pub fn normal(member: Item<'_>) -> Item<'_> {
    match member {
        Item::Bytes(bytes) => Item::of(bytes),
        int => int,
    }
}
