//! A set of byte strings in one of three forms.
//!
//! ```text
//!  form     name       holds                                       where
//!  Ints     intset     integers only                               sorted array         2, 4 or 8 bytes each
//!  Small    listpack   few members, none of them long              one run of bytes     2 more than its own
//!  Big      hashtable  anything                                    table of blocks      11 more than its block
//! ```
//!
//! Which form a set has, clients can see, so it follows Valkey's rules to the letter: a form is chosen by the first
//! member and by how many are about to be inserted, it changes when a member does not fit or the [limits](Limits) are
//! exceeded, and never goes back by itself. Everything else is the same in all three.
//!
//! Members that are canonical decimal integers are shown as integers where the form holds them so; [`Item`]s that stand
//! for the same bytes are equal.
//!
//! # Invariants (asserted by `check` in the tests)
//! - A set in the form of a listpack or a table has no two equal members.
//! - `block_bytes` of a table is the sum of its members' blocks; once it is being drained, an estimate.

use crate::decimal;
use crate::hashtable::{self, HashTable, position};
use crate::intset::{self, Intset};
use crate::listpack::{self, Item, Listpack};
use crate::member::Member;
use crate::member_hash::{self, member_hash as hash};
use crate::snapshot_iterator::{Seen, SnapshotIterators, TableSnapshotIterator};
use crate::snapshot_sweep::SnapshotSweep;
use std::sync::Arc;

/// A set; which form it has depends on what is put into it.
#[derive(Clone, Debug)]
pub enum Set {
    Ints(Intset),
    Small(Listpack),
    Big(Box<Members>),
}

/// Up to where the compact forms go.
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
    /// An empty set in the form in which one begins whose first member is `first`, with `expected` members about to
    /// come.
    pub fn for_members(first: &[u8], expected: usize, limits: &Limits) -> Set {
        if expected <= limits.intset_entries && decimal::parse(first).is_some() {
            Set::Ints(Intset::new())
        } else if expected <= limits.listpack_entries {
            Set::Small(Listpack::new())
        } else {
            Set::Big(Box::default())
        }
    }

    /// An empty set in the form of a listpack.
    pub fn small() -> Set {
        Set::Small(Listpack::new())
    }

    /// An empty set in the form of a table.
    pub fn big() -> Set {
        Set::Big(Box::default())
    }

    /// A table of these `len` members, no two of which are equal.
    pub fn of_distinct<'a>(len: usize, members: impl Iterator<Item = Item<'a>>) -> Set {
        Set::Big(Box::new(Members::of_distinct(len, members)))
    }

    /// Makes room in an empty table for so many members, which are about to come; until they have [come](Set::settle)
    /// it does not change its size.
    pub fn reserve_table(&mut self, members: usize) {
        if let Set::Big(big) = self {
            big.table.reserve(members);
            big.table.set_resizing(false);
        }
    }

    /// What room was made for is there.
    pub fn settle(&mut self) {
        if let Set::Big(big) = self {
            big.table.set_resizing(true);
        }
    }

    /// Makes it a table when a set of so many members could not be what it is: whoever inserts several says so before.
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

    /// The name that OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self {
            Set::Ints(_) => "intset",
            Set::Small(_) => "listpack",
            Set::Big(_) => "hashtable",
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Set::Ints(ints) => ints.len(),
            Set::Small(listpack) => listpack.len(),
            Set::Big(members) => members.table.len(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full its table is, if it is one.
    pub fn table_stats(&self) -> Option<hashtable::Stats> {
        if let Set::Big(members) = self { Some(members.table.stats()) } else { None }
    }

    /// Bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        match self {
            Set::Ints(ints) => ints.memory_usage(),
            Set::Small(listpack) => listpack.memory_usage(),
            Set::Big(members) => size_of::<Members>() + members.table.memory_usage() + members.block_bytes,
        }
    }

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

    /// False if it was there already.
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

    /// False if it was not there.
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

    /// The member that `random`, a uniformly distributed number, chooses; each is as likely as another.
    pub fn random(&self, random: u64) -> Option<Item<'_>> {
        let index = ((u128::from(random) * self.len() as u128) >> 64) as usize;
        match self {
            Set::Ints(ints) => ints.get(index).map(Item::Int),
            Set::Small(listpack) => Some(listpack.at(listpack.seek(isize::try_from(index).ok()?)?)),
            Set::Big(members) => Some(Item::Bytes(members.table.random(random)?.bytes())),
        }
    }

    /// Takes out the member that `random` chooses.
    pub fn take_random(&mut self, random: u64) -> Option<Taken> {
        let taken = match self {
            Set::Big(members) => return members.take_random(random).map(Taken::Member),
            _ => match self.random(random)? {
                Item::Int(n) => Taken::Int(n),
                Item::Bytes(bytes) => Taken::Member(Member::new(bytes)),
            },
        };
        self.remove_item(taken.item());
        Some(taken)
    }

    /// How many pieces freeing it takes.
    pub fn free_effort(&self) -> usize {
        match self {
            Set::Big(members) => members.table.len(),
            _ => 1,
        }
    }

    /// All members in no particular order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        match self {
            Set::Ints(ints) => Iter::Ints(ints.iter()),
            Set::Small(listpack) => Iter::Small(listpack.iter()),
            Set::Big(members) => Iter::Big(members.table.iter()),
        }
    }

    /// Asks for the memory that lookups of these members will read.
    pub fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        if let Set::Big(members) = self {
            member_hash::prefetch(&members.table, names);
        }
    }

    /// One step of a scan that begins at position 0: visits some members and returns where to go on, or None at the
    /// end. Positions and guarantees are those of [`HashTable::scan`]; a compact form is visited in one step. Members
    /// before position `done` are passed over: a walk that knows that it has seen them visits none twice.
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

    /// Begins a walk over all members, which shows those of this moment whatever changes later; None of a compact set,
    /// which may become a table meanwhile.
    pub fn begin_walk(&mut self) -> Option<Arc<TableSnapshotIterator>> {
        if let Set::Big(members) = self { Some(members.walks.begin(TableSnapshotIterator::new(0))) } else { None }
    }

    /// Shows about `max` more members of a walk that began here; true at the end.
    pub fn walk_piece(&self, walk: &TableSnapshotIterator, max: usize, mut show: impl FnMut(Item<'_>)) -> bool {
        let Set::Big(members) = self else { return true };
        walk.piece(max, |at, visit| members.scan(at, visit), |member, _| show(Item::Bytes(member)))
    }

    /// Begins a sweep over the members, of which those before position `next` are done; None of a compact set.
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

    /// Drops about `max` members and frees the memory that they leave behind, to free a large set in pieces; returns
    /// whether nothing is left.
    pub fn drain_step(&mut self, max: usize) -> bool {
        match self {
            Set::Big(members) => {
                // Nobody looks at the members that go, so what is left is known by its share.
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

    /// The first member that is no integer, into a set of integers.
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

/// The integer that a member is.
fn integer(member: Item<'_>) -> Option<i64> {
    match member {
        Item::Int(n) => Some(n),
        Item::Bytes(bytes) => decimal::parse(bytes),
    }
}

/// A member that was taken out.
pub enum Taken {
    Int(i64),
    Member(Member),
}

impl Taken {
    pub fn item(&self) -> Item<'_> {
        match self {
            Taken::Int(n) => Item::Int(*n),
            Taken::Member(member) => Item::Bytes(member.bytes()),
        }
    }
}

/// An iterator over members.
pub enum Iter<'a> {
    Ints(intset::Iter<'a>),
    Small(listpack::Iter<'a>),
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

/// The members of a set in the form of a table.
#[derive(Default)]
pub struct Members {
    table: HashTable<Member>,
    block_bytes: usize,
    walks: SnapshotIterators<TableSnapshotIterator>,
}

impl Members {
    /// No two members are equal. The table is made for all of them at once.
    fn of_distinct<'a>(len: usize, items: impl Iterator<Item = Item<'a>>) -> Self {
        let mut members = Members::default();
        members.table.reserve(len);
        members.table.set_resizing(false);
        for item in items {
            let mut digits = itoa::Buffer::new();
            let bytes = item.bytes(&mut digits);
            let member = members.table.insert_unique(hash(bytes), Member::new(bytes), hash_of);
            members.block_bytes += member.allocated();
        }
        members.table.set_resizing(true);
        members
    }

    #[inline]
    fn contains(&self, member: &[u8]) -> bool {
        self.table.find(hash(member), |present| present.bytes() == member).is_some()
    }

    #[inline]
    fn insert(&mut self, member: &[u8]) -> bool {
        if !self.walks.is_empty() {
            self.touch(hash(member));
        }
        let same = |present: &Member| present.bytes() == member;
        match self.table.entry(hash(member), same, hash_of) {
            hashtable::Entry::Occupied(_) => false,
            hashtable::Entry::Vacant(place) => {
                if !self.walks.is_empty() {
                    self.walks.tell(|walk| walk.leave_out(hash(member), member));
                }
                self.block_bytes += place.insert(Member::new(member)).allocated();
                true
            }
        }
    }

    #[inline]
    fn remove(&mut self, member: &[u8]) -> bool {
        if !self.walks.is_empty() {
            self.touch(hash(member));
        }
        let removed = self.table.remove(hash(member), |present| present.bytes() == member, hash_of);
        self.lost(&removed);
        removed.is_some()
    }

    fn take_random(&mut self, random: u64) -> Option<Member> {
        let chosen = self.table.random(random)?.bytes();
        let (hash, at) = (hash(chosen), chosen.as_ptr());
        if !self.walks.is_empty() {
            self.touch(hash);
        }
        let taken = self.table.remove(hash, |present| std::ptr::eq(present.bytes().as_ptr(), at), hash_of);
        self.lost(&taken);
        taken
    }

    /// What lies at this place is about to be changed.
    #[cold]
    fn touch(&mut self, hash: u64) {
        let table = &self.table;
        self.walks.touch(hash, |at, visit| table.scan(at, |member| visit(seen(member))));
    }

    fn scan(&self, at: u64, visit: &mut dyn FnMut(Seen<'_>)) -> Option<u64> {
        self.table.scan(at, |member| visit(seen(member)))
    }

    #[inline]
    fn lost(&mut self, member: &Option<Member>) {
        let bytes = member.as_ref().map_or(0, Member::allocated);
        if let Some(member) = member
            && !self.walks.is_empty()
        {
            self.walks.tell(|walk| walk.keep(seen(member)));
        }
        // Less than the whole is known after a drain that was not carried to its end.
        self.block_bytes = self.block_bytes.saturating_sub(bytes);
    }
}

fn seen(member: &Member) -> Seen<'_> {
    Seen { hash: hash_of(member), name: member.bytes(), value: b"", deadline: None }
}

fn hash_of(member: &Member) -> u64 {
    hash(member.bytes())
}

impl<'a> FromIterator<Item<'a>> for Members {
    fn from_iter<I: IntoIterator<Item = Item<'a>>>(items: I) -> Self {
        let mut members = Members::default();
        for item in items {
            members.insert(item.bytes(&mut itoa::Buffer::new()));
        }
        members
    }
}

impl Clone for Members {
    fn clone(&self) -> Self {
        Members::of_distinct(self.table.len(), self.table.iter().map(|member| Item::Bytes(member.bytes())))
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.table.iter().map(|member| member.bytes())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Model = BTreeSet<Vec<u8>>;

    const LIMITS: Limits = Limits { intset_entries: 8, listpack_entries: 6, listpack_value: 10 };

    /// Asserts the invariants and that the set shows what the model does.
    fn check(set: &Set, model: &Model) {
        let shown: Vec<Vec<u8>> = set.iter().map(Item::to_vec).collect();
        assert_eq!((set.len(), shown.len()), (model.len(), model.len()));
        assert_eq!(&shown.into_iter().collect::<Model>(), model);
        if let Set::Big(members) = set {
            assert_eq!(members.block_bytes, members.table.iter().map(|member| member.allocated()).sum::<usize>());
        }
    }

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            6 => (0u8..12).prop_map(|n| n.to_string().into_bytes()),
            1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
            2 => (0u8..12).prop_map(|n| format!("m{n}").into_bytes()),
            1 => proptest::collection::vec(any::<u8>(), 0..14),
        ]
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(Vec<u8>),
        InsertItem(Vec<u8>),
        Remove(Vec<u8>),
        TakeRandom(u64),
        Reserve(usize),
        MakeInts,
        Clone,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            20 => member().prop_map(Op::Insert),
            10 => member().prop_map(Op::InsertItem),
            10 => member().prop_map(Op::Remove),
            5 => any::<u64>().prop_map(Op::TakeRandom),
            1 => (0usize..10).prop_map(Op::Reserve),
            1 => Just(Op::MakeInts),
            1 => Just(Op::Clone),
        ]
    }

    fn apply(set: &mut Set, model: &mut Model, op: &Op) {
        match op {
            Op::Insert(member) => assert_eq!(set.insert(member, &LIMITS), model.insert(member.clone())),
            Op::InsertItem(member) => {
                assert_eq!(set.insert_item(Item::of(member), &LIMITS), model.insert(member.clone()));
            }
            Op::Remove(member) => assert_eq!(set.remove(member), model.remove(member)),
            Op::TakeRandom(random) => match set.take_random(*random) {
                Some(taken) => assert!(model.remove(&taken.item().to_vec())),
                None => assert!(model.is_empty()),
            },
            Op::Reserve(members) => set.reserve(*members, &LIMITS),
            Op::MakeInts => {
                let fit = model.len() <= LIMITS.intset_entries && model.iter().all(|m| decimal::parse(m).is_some());
                set.make_ints(&LIMITS);
                assert!(!fit || set.encoding() == "intset");
            }
            Op::Clone => *set = set.clone(),
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(
            ops in proptest::collection::vec(op(), 0..120), first in member(), expected in 0usize..10, random: u64,
        ) {
            let (mut set, mut model) = (Set::for_members(&first, expected, &LIMITS), Model::new());
            for op in &ops {
                let before = set.encoding();
                apply(&mut set, &mut model, op);
                check(&set, &model);
                let compact = |encoding: &str| encoding != "hashtable";
                prop_assert!(compact(before) || !compact(set.encoding()) || matches!(op, Op::MakeInts));
                let (len, longest) = (model.len(), model.iter().map(Vec::len).max().unwrap_or(0));
                match set.encoding() {
                    "intset" => prop_assert!(len <= LIMITS.intset_entries),
                    "listpack" => prop_assert!(
                        len <= LIMITS.listpack_entries && longest <= LIMITS.listpack_value
                    ),
                    _ => {}
                }
                if let Op::Insert(member) | Op::Remove(member) = op {
                    let item = Item::of(member);
                    prop_assert_eq!(set.contains(member), model.contains(member));
                    prop_assert_eq!(set.contains_item(item), model.contains(member));
                }
            }
            match set.random(random) {
                Some(member) => prop_assert!(model.contains(&member.to_vec())),
                None => prop_assert!(model.is_empty()),
            }
            while !set.drain_step(3) {}
            prop_assert!(set.is_empty());
        }
    }

    #[test]
    fn the_form_follows_what_is_put_in() {
        let form = |members: &[&str]| {
            let mut set = Set::for_members(members[0].as_bytes(), 1, &LIMITS);
            members.iter().for_each(|member| _ = set.insert(member.as_bytes(), &LIMITS));
            set.encoding()
        };
        assert_eq!(form(&["1", "2"]), "intset");
        assert_eq!(form(&["1", "2", "3", "4", "5", "6", "7", "8"]), "intset");
        assert_eq!(form(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]), "hashtable");
        assert_eq!(form(&["1", "x"]), "listpack");
        assert_eq!(form(&["x", "1"]), "listpack");
        assert_eq!(form(&["1", "2", "3", "4", "5", "x"]), "listpack");
        assert_eq!(form(&["1", "2", "3", "4", "5", "6", "x"]), "hashtable");
        assert_eq!(form(&["1", "eleven long"]), "hashtable");
        assert_eq!(form(&["12345678901", "x"]), "hashtable", "an integer is too long for a listpack");
        assert_eq!(Set::for_members(b"1", 9, &LIMITS).encoding(), "hashtable");
        let limits = Limits { intset_entries: 0, ..LIMITS };
        assert_eq!(Set::for_members(b"1", 1, &limits).encoding(), "listpack");
    }

    #[test]
    fn a_walk_in_steps_visits_every_member_once_while_the_set_grows_and_shrinks() {
        let mut set = Set::big();
        (0..2000u32).for_each(|n| _ = set.insert(format!("stays {n}").as_bytes(), &LIMITS));
        let (mut at, mut done, mut seen, mut step) = (Some(0), 0, Vec::new(), 0u32);
        while let Some(here) = at {
            at = set.scan(here, done, |member| seen.push(member.to_vec()));
            done = at.unwrap_or(0);
            step += 1;
            for n in 0..100 {
                let other = format!("other {n} {}", step % 100);
                if step % 200 < 100 {
                    set.insert(other.as_bytes(), &LIMITS);
                } else {
                    set.remove(other.as_bytes());
                }
            }
        }
        seen.retain(|member| member.starts_with(b"stays"));
        assert_eq!(seen.len(), 2000);
        assert_eq!(seen.into_iter().collect::<Model>().len(), 2000);
    }

    #[test]
    fn members_are_chosen_evenly() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        for mut set in [Set::default(), Set::small(), Set::big()] {
            (0..6u32).for_each(|n| _ = set.insert(n.to_string().as_bytes(), &LIMITS));
            let mut counts = std::collections::HashMap::<Vec<u8>, usize>::new();
            (0..6000).for_each(|_| *counts.entry(set.random(next()).unwrap().to_vec()).or_default() += 1);
            assert!(counts.len() == 6 && counts.values().all(|n| (800..1200).contains(n)), "{counts:?}");
        }
    }

    #[test]
    fn a_large_set_takes_less_than_thirty_bytes_a_member() {
        let mut set = Set::big();
        (0..100_000u32).for_each(|n| _ = set.insert(format!("member:{n:08}").as_bytes(), &LIMITS));
        assert!(set.memory_usage() <= 28 * set.len(), "{}", set.memory_usage() / set.len());
        assert_eq!(size_of::<Set>(), 16);
    }
}
