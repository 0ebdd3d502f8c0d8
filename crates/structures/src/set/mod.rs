//! A set of byte strings in one of three forms.
//!
//! ```text
//!  form     name       holds                                       where
//!  Ints     intset     integers only                               sorted array         2, 4 or 8 bytes each
//!  Small    listpack   few members, none of them long              one run of bytes     2 more than its own
//!  Big      hashtable  anything                                    table of blocks      11 more than its block
//! ```
//!
//! Clients can see the form of a set, so it follows Valkey's rules to the letter: a form is chosen by the first member
//! and by how many are about to be inserted, it changes when a member does not fit or the [limits](Limits) are
//! exceeded, and never goes back by itself. Everything else is the same in all three.
//!
//! Members that are canonical decimal integers are shown as integers where the form holds them so; [`Item`]s that stand
//! for the same bytes are equal.
//!
//! # Invariants (asserted by `check` in the tests)
//! - A set in the form of a listpack or a table has no two equal members.
//! - `block_bytes` of a table is the sum of its members' blocks; once it is being drained, an estimate.

mod members;

pub use self::members::Members;

use self::members::hash_of;
use crate::decimal;
use crate::hashtable::{self, position};
use crate::intset::{self, Intset};
use crate::listpack::{self, Item, Listpack};
use crate::member::Member;
use crate::member_hash;
use crate::snapshot_iterator::{Seen, TableSnapshotIterator};
use crate::snapshot_sweep::SnapshotSweep;
use std::sync::Arc;

/// A set; its form depends on its members.
#[derive(Clone, Debug)]
pub enum Set {
    /// Integers only.
    Ints(Intset),
    /// A few short members.
    Small(Listpack),
    /// Anything else.
    Big(Box<Members>),
}

/// Limits of the compact forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Members of an intset.
    pub intset_entries: usize,
    /// Members of a listpack.
    pub listpack_entries: usize,
    /// Bytes of a listpack's longest member.
    pub listpack_value: usize,
}

impl Set {
    /// Makes an empty set in the form in which a set begins whose first member is `first`, with `expected` members
    /// about to come.
    pub fn for_members(first: &[u8], expected: usize, limits: &Limits) -> Set {
        if expected <= limits.intset_entries && decimal::parse(first).is_some() {
            Set::Ints(Intset::new())
        } else if expected <= limits.listpack_entries {
            Set::Small(Listpack::new())
        } else {
            Set::Big(Box::default())
        }
    }

    /// Makes an empty set in the form of a listpack.
    pub fn small() -> Set {
        Set::Small(Listpack::new())
    }

    /// Makes an empty set in the form of a table.
    pub fn big() -> Set {
        Set::Big(Box::default())
    }

    /// Makes a table of these `len` members, no two of which are equal.
    pub fn of_distinct<'a>(len: usize, members: impl Iterator<Item = Item<'a>>) -> Set {
        Set::Big(Box::new(Members::of_distinct(len, members)))
    }

    /// Makes a copy; `each` is called for each member of a table.
    pub fn copy(&self, each: impl FnMut()) -> Set {
        match self {
            Set::Big(members) => Set::Big(Box::new(members.copy(each))),
            small => small.clone(),
        }
    }

    /// Makes room in an empty table for so many members, which are about to come; until they have [come](Set::settle)
    /// it does not change its size.
    pub fn reserve_table(&mut self, members: usize) {
        if let Set::Big(big) = self {
            big.table.reserve(members);
            big.table.set_resizing(false);
        }
    }

    /// Ends the reservation: the members have come.
    pub fn settle(&mut self) {
        if let Set::Big(big) = self {
            big.table.set_resizing(true);
        }
    }

    /// Makes it a table when a set of so many members could not have its form: a caller that inserts several calls it
    /// before.
    pub fn reserve(&mut self, members: usize, limits: &Limits) {
        let fits = match self {
            Set::Ints(_) => members <= limits.intset_entries,
            Set::Small(_) => members <= limits.listpack_entries,
            Set::Big(_) => true,
        };
        if !fits {
            self.make_big();
        }
    }

    /// Makes it an intset, if it does not have too many members for one. All of them must be integers.
    pub fn make_ints(&mut self, limits: &Limits) {
        if matches!(self, Set::Ints(_)) || self.len() > limits.intset_max() {
            return;
        }
        let mut ints = Intset::new();
        for member in self.iter() {
            match integer(member) {
                Some(n) => ints.insert(n),
                None => return,
            };
        }
        *self = Set::Ints(ints);
    }

    /// Returns the name that OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self {
            Set::Ints(_) => "intset",
            Set::Small(_) => "listpack",
            Set::Big(_) => "hashtable",
        }
    }

    /// Returns the number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Set::Ints(ints) => ints.len(),
            Set::Small(listpack) => listpack.len(),
            Set::Big(members) => members.table.len(),
        }
    }

    /// Whether there are no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how full its table is, if it is one.
    pub fn table_stats(&self) -> Option<hashtable::TableStats> {
        if let Set::Big(members) = self { Some(members.table.stats()) } else { None }
    }

    /// Returns the bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        match self {
            Set::Ints(ints) => ints.memory_usage(),
            Set::Small(listpack) => listpack.memory_usage(),
            Set::Big(members) => size_of::<Members>() + members.table.memory_usage() + members.block_bytes,
        }
    }

    /// Whether these bytes are a member.
    #[inline]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self {
            Set::Ints(ints) => decimal::parse(member).is_some_and(|n| ints.contains(n)),
            Set::Small(listpack) => listpack.find(member, 0).is_some(),
            Set::Big(members) => members.contains(member),
        }
    }

    /// As [`contains`](Self::contains).
    #[inline]
    pub fn contains_item(&self, member: Item<'_>) -> bool {
        match (self, member) {
            (Set::Ints(ints), Item::Int(n)) => ints.contains(n),
            _ => self.contains(member.bytes(&mut itoa::Buffer::new())),
        }
    }

    /// Inserts a member; false if it was there already.
    #[inline]
    pub fn insert(&mut self, member: &[u8], limits: &Limits) -> bool {
        match self {
            Set::Big(members) => members.insert(member),
            Set::Ints(ints) => match decimal::parse(member) {
                Some(n) => {
                    let added = ints.insert(n);
                    if ints.len() > limits.intset_max() {
                        self.make_big();
                    }
                    added
                }
                None => self.insert_first_string(member, limits),
            },
            Set::Small(listpack) => {
                if listpack.find(member, 0).is_some() {
                    return false;
                }
                if limits.takes(listpack.len(), member.len()) && listpack.has_room(member.len()) {
                    listpack.push_back(member);
                    return true;
                }
                self.make_big().insert(member)
            }
        }
    }

    /// As [`insert`](Self::insert).
    #[inline]
    pub fn insert_item(&mut self, member: Item<'_>, limits: &Limits) -> bool {
        match (&mut *self, member) {
            (Set::Ints(ints), Item::Int(n)) if ints.len() < limits.intset_max() => ints.insert(n),
            _ => self.insert(member.bytes(&mut itoa::Buffer::new()), limits),
        }
    }

    /// Removes a member; false if it was not there.
    #[inline]
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Set::Ints(ints) => decimal::parse(member).is_some_and(|n| ints.remove(n)),
            Set::Small(listpack) => match listpack.find(member, 0) {
                Some(pos) => {
                    listpack.remove(pos);
                    true
                }
                None => false,
            },
            Set::Big(members) => members.remove(member),
        }
    }

    /// As [`remove`](Self::remove).
    pub fn remove_item(&mut self, member: Item<'_>) -> bool {
        self.remove(member.bytes(&mut itoa::Buffer::new()))
    }

    /// Returns the member that `random`, a uniformly distributed number, chooses; each is as likely as another.
    pub fn random(&self, random: u64) -> Option<Item<'_>> {
        let index = ((u128::from(random) * self.len() as u128) >> 64) as usize;
        match self {
            Set::Ints(ints) => ints.get(index).map(Item::Int),
            Set::Small(listpack) => Some(listpack.at(listpack.seek(isize::try_from(index).ok()?)?)),
            Set::Big(members) => Some(Item::Bytes(members.table.random(random)?.bytes())),
        }
    }

    /// Takes out the member that `random` chooses.
    pub fn take_random(&mut self, random: u64) -> Option<TakenMember> {
        let taken = match self {
            Set::Big(members) => return members.take_random(random).map(TakenMember::Member),
            _ => match self.random(random)? {
                Item::Int(n) => TakenMember::Int(n),
                Item::Bytes(bytes) => TakenMember::Member(Member::new(bytes)),
            },
        };
        self.remove_item(taken.item());
        Some(taken)
    }

    /// Returns how many pieces freeing it takes.
    pub fn free_effort(&self) -> usize {
        match self {
            Set::Big(members) => members.table.len(),
            _ => 1,
        }
    }

    /// Returns all members in no particular order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        match self {
            Set::Ints(ints) => Iter::Ints(ints.iter()),
            Set::Small(listpack) => Iter::Small(listpack.iter()),
            Set::Big(members) => Iter::Big(members.table.iter()),
        }
    }

    /// Prefetches the memory that lookups of these members will read.
    pub fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        if let Set::Big(members) = self {
            member_hash::prefetch(&members.table, names);
        }
    }

    /// Does one step of a scan that begins at position 0: visits some members and returns the position of the next
    /// step, or None at the end. Positions and guarantees are those of [`HashTable::scan`](hashtable::HashTable::scan);
    /// a compact form is visited in one step. Members before position `done` are passed over: a walk that knows that it
    /// has seen them visits none twice.
    pub fn scan(&self, at: u64, done: u64, mut visit: impl FnMut(Item<'_>)) -> Option<u64> {
        match self {
            Set::Big(members) => members.table.scan(at, |member| {
                if done == 0 || position(hash_of(member)) >= done {
                    visit(Item::Bytes(member.bytes()));
                }
            }),
            _ => {
                self.iter().for_each(visit);
                None
            }
        }
    }

    /// Begins a walk over all members, which shows the members of this moment whatever changes later; None of a compact
    /// set, which may become a table meanwhile.
    pub fn begin_walk(&mut self) -> Option<Arc<TableSnapshotIterator>> {
        if let Set::Big(members) = self { Some(members.walks.begin(TableSnapshotIterator::new(0))) } else { None }
    }

    /// Shows about `max` more members of a walk that began here; true at the end.
    pub fn walk_piece(&self, walk: &TableSnapshotIterator, max: usize, mut show: impl FnMut(Item<'_>)) -> bool {
        let Set::Big(members) = self else { return true };
        walk.piece(max, |at, visit| members.scan(at, visit), |member, _| show(Item::Bytes(member)))
    }

    /// Begins a sweep over the members, of which the ones before position `next` are done; None of a compact set.
    pub fn begin_snapshot_sweep(
        &mut self,
        next: u64,
        sink: Box<dyn FnMut(Seen<'_>) + Send>,
    ) -> Option<Arc<SnapshotSweep>> {
        let Set::Big(members) = self else { return None };
        Some(members.walks.begin_snapshot_sweep(SnapshotSweep::new(members.table.len(), next, sink)))
    }

    /// See [`SnapshotSweep::step`].
    pub fn sweep_step(&self, sweep: &SnapshotSweep, show: impl FnMut(Seen<'_>)) -> bool {
        let Set::Big(members) = self else { return true };
        sweep.step(|at, visit| members.scan(at, visit), show)
    }

    /// Drops about `max` members and frees the memory that they leave behind, to free a large set step by step;
    /// returns whether nothing is left.
    pub fn drain_step(&mut self, max: usize) -> bool {
        match self {
            Set::Big(members) => {
                // The removed members are not looked at, so the bytes of the rest are estimated by its share.
                let before = members.table.len();
                let done = members.table.drain_step(max);
                let left = members.block_bytes as u128 * members.table.len() as u128;
                members.block_bytes = left.checked_div(before as u128).unwrap_or(0) as usize;
                done
            }
            compact => {
                *compact = Set::default();
                true
            }
        }
    }

    /// Inserts the first member that is no integer into a set of integers.
    fn insert_first_string(&mut self, member: &[u8], limits: &Limits) -> bool {
        let Set::Ints(ints) = &*self else { unreachable!("the set is one of integers") };
        // The ends have the most digits.
        let ends = || [ints.get(0), ints.iter().next_back()].into_iter().flatten().map(Item::Int);
        let longest = ends().map(Item::len).max().unwrap_or(0).max(member.len());
        let entry = ends().map(Listpack::item_size).max().unwrap_or(0);
        let mut listpack = Listpack::new();
        let room = entry.checked_mul(ints.len()).and_then(|bytes| bytes.checked_add(member.len()));
        if limits.takes(ints.len(), longest) && room.is_some_and(|bytes| listpack.has_room(bytes)) {
            ints.iter().for_each(|n| listpack.push_item(Item::Int(n)));
            listpack.push_back(member);
            *self = Set::Small(listpack);
            true
        } else {
            self.make_big().insert(member)
        }
    }

    fn make_big(&mut self) -> &mut Members {
        if !matches!(self, Set::Big(_)) {
            let members = self.iter().collect();
            *self = Set::Big(Box::new(members));
        }
        match self {
            Set::Big(members) => members,
            _ => unreachable!("it was just made a table"),
        }
    }
}

impl Limits {
    fn intset_max(&self) -> usize {
        self.intset_entries.min(intset::MAX)
    }

    /// Whether a listpack of `len` members takes another, when the longest would have `longest` bytes.
    fn takes(&self, len: usize, longest: usize) -> bool {
        len < self.listpack_entries && longest <= self.listpack_value
    }
}

/// An intset, as which a set of unknown members begins.
impl Default for Set {
    fn default() -> Self {
        Set::Ints(Intset::new())
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = Item<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Returns the integer that a member is.
fn integer(member: Item<'_>) -> Option<i64> {
    match member {
        Item::Int(n) => Some(n),
        Item::Bytes(bytes) => decimal::parse(bytes),
    }
}

/// A member that was taken out.
pub enum TakenMember {
    /// It was held as an integer.
    Int(i64),
    /// It was held as bytes.
    Member(Member),
}

impl TakenMember {
    /// Returns the member, as the set showed it.
    pub fn item(&self) -> Item<'_> {
        match self {
            TakenMember::Int(n) => Item::Int(*n),
            TakenMember::Member(member) => Item::Bytes(member.bytes()),
        }
    }
}

/// An iterator over members.
pub enum Iter<'a> {
    /// The members of an intset.
    Ints(intset::Iter<'a>),
    /// The members of a listpack.
    Small(listpack::Iter<'a>),
    /// The members of a table.
    Big(hashtable::Iter<'a, Member>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        match self {
            Iter::Ints(ints) => ints.next().map(Item::Int),
            Iter::Small(items) => items.next(),
            Iter::Big(members) => members.next().map(|member| Item::Bytes(member.bytes())),
        }
    }
}

#[cfg(test)]
mod tests;
