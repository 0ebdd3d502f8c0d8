//! A set in the form of a table, with the walks through it that must show what it held when they began.

use crate::hashtable::{self, HashTable};
use crate::listpack::Item;
use crate::member::Member;
use crate::member_hash::member_hash as hash;
use crate::snapshot_iterator::{Seen, SnapshotIterators, TableSnapshotIterator};

/// The members of a set in the form of a table.
#[derive(Default)]
pub struct Members {
    pub(super) table: HashTable<Member>,
    /// Bytes of the members' blocks.
    pub(super) block_bytes: usize,
    pub(super) walks: SnapshotIterators<TableSnapshotIterator>,
}

impl Members {
    /// Makes the table of so many members, no two of which are equal, for all of them at once.
    pub(super) fn of_distinct<'a>(len: usize, items: impl Iterator<Item = Item<'a>>) -> Self {
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

    /// Makes a copy; `each` is called for each member.
    pub(super) fn copy(&self, mut each: impl FnMut()) -> Self {
        let members = self.table.iter().inspect(|_| each());
        Members::of_distinct(self.table.len(), members.map(|member| Item::Bytes(member.bytes())))
    }

    #[inline]
    pub(super) fn contains(&self, member: &[u8]) -> bool {
        self.table.find(hash(member), |present| present.bytes() == member).is_some()
    }

    #[inline]
    pub(super) fn insert(&mut self, member: &[u8]) -> bool {
        if !self.walks.is_empty() {
            self.touch(hash(member));
        }
        let same = |present: &Member| present.bytes() == member;
        match self.table.entry(hash(member), same, hash_of) {
            hashtable::TableEntry::Occupied(_) => false,
            hashtable::TableEntry::Vacant(place) => {
                if !self.walks.is_empty() {
                    self.walks.tell(|walk| walk.leave_out(hash(member), member));
                }
                self.block_bytes += place.insert(Member::new(member)).allocated();
                true
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        if !self.walks.is_empty() {
            self.touch(hash(member));
        }
        let removed = self.table.remove(hash(member), |present| present.bytes() == member, hash_of);
        self.lost(&removed);
        removed.is_some()
    }

    pub(super) fn take_random(&mut self, random: u64) -> Option<Member> {
        let chosen = self.table.random(random)?.bytes();
        let (hash, at) = (hash(chosen), chosen.as_ptr());
        if !self.walks.is_empty() {
            self.touch(hash);
        }
        let taken = self.table.remove(hash, |present| std::ptr::eq(present.bytes().as_ptr(), at), hash_of);
        self.lost(&taken);
        taken
    }

    /// Prepares walks for a change at this place.
    #[cold]
    fn touch(&mut self, hash: u64) {
        let table = &self.table;
        self.walks.touch(hash, |at, visit| table.scan(at, |member| visit(seen(member))));
    }

    pub(super) fn scan(&self, at: u64, visit: &mut dyn FnMut(Seen<'_>)) -> Option<u64> {
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
        // The bytes are an estimate after a drain that was not carried to its end.
        self.block_bytes = self.block_bytes.saturating_sub(bytes);
    }
}

fn seen(member: &Member) -> Seen<'_> {
    Seen { hash: hash_of(member), name: member.bytes(), value: b"", expiry: None }
}

pub(super) fn hash_of(member: &Member) -> u64 {
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
        self.copy(|| {})
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.table.iter().map(|member| member.bytes())).finish()
    }
}
