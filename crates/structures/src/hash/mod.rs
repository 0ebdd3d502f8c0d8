//! A hash: fields with values, some of which may expire.
//!
//! It is a [`Listpack`] while it is small, and a hash table of fields ([`BigHash`]) from then on:
//!
//! ```text
//!  small     | field | value | field | value | ... |          in the order in which fields came
//!  big       table of entries, with an index of expiries if there are any     see `big`
//! ```
//!
//! A hash leaves the small form when it would have more fields than [`Limits`] allow, a name or value longer than they
//! allow, or a field with an expiry; it never goes back. Valkey does the same, so that OBJECT ENCODING has the same
//! reply.
//!
//! Reading is done through a [`View`], because a small hash may lie in the block of its key.
//!
//! # Time
//! The hash reads no clock: callers pass the time, in the unit of the expiries (milliseconds). A field whose expiry is
//! not after `now` has expired: [`get`](View::get), [`visit`](View::visit) and the rest do not show it, and writing to
//! it is like adding it. It stays in [`len`](View::len) until [`pop_due`](Hash::pop_due) takes it out. `now` = 0 shows
//! everything.

mod big;
#[cfg(test)]
mod tests;
mod view;

pub use self::view::View;

use self::big::{BigHash, FoundField};
use crate::hashtable;
use crate::listpack::{Item, Listpack, Pos};
use crate::snapshot_iterator::{Seen, TableSnapshotIterator};
use crate::snapshot_sweep::SnapshotSweep;
use crate::ttl_index::is_due;
use std::fmt;
use std::sync::Arc;

/// How large the small form may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fields of the hash.
    pub fields: usize,
    /// Bytes of a name or a value.
    pub bytes: usize,
}

/// Treatment of a field's expiry when its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldTtl {
    /// The field does not expire.
    Clear,
    /// The expiry stays.
    Keep,
    /// Unix time in milliseconds.
    At(u64),
}

impl FieldTtl {
    fn resolve(self, old: Option<u64>) -> Option<u64> {
        match self {
            FieldTtl::Clear => None,
            FieldTtl::Keep => old,
            FieldTtl::At(at) => Some(at),
        }
    }
}

/// Result of [`Hash::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// There was no such field.
    Added,
    /// The field took the place of one that had expired.
    AddedOverDue,
    /// The field has another value now.
    Replaced,
}

/// Fields with values.
#[derive(Clone)]
pub struct Hash(Form);

#[derive(Clone)]
enum Form {
    Small(Listpack),
    Big(Box<BigHash>),
}

use Form::{Big, Small};

const _: () = assert!(size_of::<Hash>() == 16);

impl Default for Hash {
    fn default() -> Self {
        Hash(Small(Listpack::new()))
    }
}

impl Hash {
    /// Makes a copy; `each` is called for each field of a table.
    pub fn copy(&self, each: impl FnMut()) -> Hash {
        Hash(match &self.0 {
            Small(pack) => Small(pack.clone()),
            Big(fields) => Big(Box::new(fields.copy(each))),
        })
    }

    /// Takes over fields and values in turns; None if they do not come in pairs. The caller makes sure that no field
    /// comes twice, and checks the limits ([`reserve`](Self::reserve)).
    pub fn from_listpack(pack: Listpack) -> Option<Hash> {
        pack.len().is_multiple_of(2).then_some(Hash(Small(pack)))
    }

    /// Returns the bytes in which a small hash can be stored if they are not longer than `max`: see [`View::packed`]
    /// and [`unpacked`](Self::unpacked).
    #[inline]
    pub fn packed(&self, max: usize) -> Option<&[u8]> {
        match &self.0 {
            Small(pack) if pack.body().len() <= max => Some(pack.body()),
            _ => None,
        }
    }

    /// Makes the hash whose bytes [`packed`](Self::packed) returned.
    pub fn unpacked(bytes: &[u8]) -> Hash {
        Hash(Small(Listpack::from_body(bytes)))
    }

    /// Returns the hash, for reading.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::from(self)
    }

    /// Prefetches the memory that lookups of these fields will read.
    pub fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        if let Big(big) = &self.0 {
            big.prefetch(names);
        }
    }

    /// Returns the earliest expiry of a field.
    #[inline]
    pub fn next_expiry(&self) -> Option<u64> {
        self.view().next_expiry()
    }

    /// Leaves the small form if it would not take so many more fields, the longest name or value having `longest` bytes
    /// and all together `total`: a caller that adds several at once calls it before the first.
    pub fn reserve(&mut self, fields: usize, longest: usize, total: usize, limits: Limits) {
        if let Small(pack) = &self.0
            && (fields > limits.fields || longest > limits.bytes || !pack.has_room(total))
        {
            self.enlarge();
        }
    }

    /// Makes room in an empty table for so many fields, which are about to come; until they have [come](Self::settle)
    /// it does not change its size.
    pub fn reserve_table(&mut self, fields: usize) {
        if let Big(big) = &mut self.0 {
            big.reserve(fields);
        }
    }

    /// Ends the reservation: the fields have come.
    pub fn settle(&mut self) {
        if let Big(big) = &mut self.0 {
            big.settle();
        }
    }

    /// Writes a field's value, after a call of [`reserve`](Self::reserve).
    #[inline]
    pub fn set(&mut self, name: &[u8], value: &[u8], ttl: FieldTtl, now: u64, limits: Limits) -> Written {
        if matches!(ttl, FieldTtl::At(_)) || name.len() > limits.bytes || value.len() > limits.bytes {
            self.enlarge();
        }
        match &mut self.0 {
            Small(pack) => {
                let written = match value_pos(pack, name) {
                    Some(pos) => {
                        pack.replace(pos, value);
                        Written::Replaced
                    }
                    None => {
                        pack.push_all([name, value]);
                        Written::Added
                    }
                };
                // Also after a replacement: the limit may have become lower.
                if pack.len() / 2 > limits.fields {
                    self.enlarge();
                }
                written
            }
            Big(big) => big.set(name, value, ttl, now),
        }
    }

    /// Removes a field; false if it is missing or expired.
    pub fn remove(&mut self, name: &[u8], now: u64) -> bool {
        match &mut self.0 {
            Small(pack) => {
                let Some(pos) = pack.find(name, 1) else { return false };
                pack.remove_many(pos, 2);
                true
            }
            Big(big) => {
                let over =
                    is_due(big.next_expiry(), now) && big.find(name).is_some_and(|found| is_due(found.expiry, now));
                !over && big.remove(name)
            }
        }
    }

    /// Gives a field another expiry, or none; one that is missing stays so.
    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<u64>) {
        if let Small(pack) = &self.0 {
            if expiry.is_none() || pack.find(name, 1).is_none() {
                return;
            }
            self.enlarge();
        }
        if let Big(big) = &mut self.0 {
            big.set_expiry(name, expiry);
        }
    }

    /// Removes the field with the earliest expiry and shows its name; false if none has expired.
    pub fn pop_due(&mut self, now: u64, removed: impl FnOnce(&[u8])) -> bool {
        match &mut self.0 {
            Small(_) => false,
            Big(big) => big.pop_due(now, removed),
        }
    }

    /// Begins a walk over the fields that have not expired now, which shows them as they are at this moment whatever
    /// changes later; None of a small hash, which may become a large one meanwhile.
    pub fn begin_walk(&mut self, now: u64) -> Option<Arc<TableSnapshotIterator>> {
        if let Big(big) = &mut self.0 { Some(big.begin_walk(now)) } else { None }
    }

    /// Begins a sweep over all fields, expired ones included, of which the ones before position `next` are done; None
    /// of a small hash.
    pub fn begin_snapshot_sweep(
        &mut self,
        next: u64,
        sink: Box<dyn FnMut(Seen<'_>) + Send>,
    ) -> Option<Arc<SnapshotSweep>> {
        if let Big(big) = &mut self.0 { Some(big.begin_snapshot_sweep(next, sink)) } else { None }
    }

    /// See [`SnapshotSweep::step`].
    pub fn sweep_step(&self, sweep: &SnapshotSweep, show: impl FnMut(Seen<'_>)) -> bool {
        if let Big(big) = &self.0 { big.sweep_step(sweep, show) } else { true }
    }

    /// Returns how full its table is, if it is one.
    pub fn table_stats(&self) -> Option<hashtable::TableStats> {
        if let Big(big) = &self.0 { Some(big.table_stats()) } else { None }
    }

    /// Returns the listpack, in the form in which it goes to disk.
    pub fn as_listpack(&self) -> Option<&Listpack> {
        if let Small(pack) = &self.0 { Some(pack) } else { None }
    }

    /// Returns the bytes on the heap, by the size of the first `samples` fields.
    pub fn memory_usage(&self, samples: usize) -> usize {
        match &self.0 {
            Small(pack) => pack.memory_usage(),
            Big(big) => big.memory_usage(samples),
        }
    }

    /// Returns how many allocations there are to be freed, about.
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Small(_) => 1,
            Big(big) => big.len(),
        }
    }

    /// Frees a part of the hash, `max` fields of it (at least one); returns whether nothing is left. For freeing a
    /// large hash little by little; it is of no other use from then on.
    pub fn drain_step(&mut self, max: usize) -> bool {
        match &mut self.0 {
            Small(pack) => {
                *pack = Listpack::new();
                true
            }
            Big(big) => big.drain_step(max),
        }
    }

    fn enlarge(&mut self) {
        if let Small(pack) = &self.0 {
            self.0 = Big(Box::new(pairs(pack).collect()));
        }
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        self.view().visit(0, |name, value| {
            map.entry(&name, &value);
        });
        map.finish()
    }
}

fn value_pos(pack: &Listpack, name: &[u8]) -> Option<Pos> {
    pack.next(pack.find(name, 1)?)
}

fn pairs(pack: &Listpack) -> impl Iterator<Item = (Item<'_>, Item<'_>)> {
    let mut items = pack.iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}

fn items(found: FoundField<'_>) -> (Item<'_>, Item<'_>) {
    (Item::Bytes(found.name), Item::Bytes(found.value))
}
