//! Reading a hash, wherever it lies: a small one may be no [`Hash`] but the bytes of its listpack in the block of its
//! key.

use super::big::BigHash;
use super::{Hash, items};
use crate::hashtable::{POSITIONS, position};
use crate::listpack::{Elements, Item};
use crate::snapshot_iterator::TableSnapshotIterator;
use crate::ttl_index::is_due;

/// A hash that is borrowed for reading.
#[derive(Clone, Copy)]
pub struct View<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Small(Elements<'a>),
    Big(&'a BigHash),
}

use Form::{Big, Small};

impl<'a> From<&'a Hash> for View<'a> {
    #[inline]
    fn from(hash: &'a Hash) -> Self {
        View(match &hash.0 {
            super::Small(pack) => Small(pack.elements()),
            super::Big(big) => Big(big),
        })
    }
}

impl<'a> View<'a> {
    /// Makes the view of a small hash from the bytes that [`Hash::packed`] returned.
    #[inline]
    pub fn packed(bytes: &'a [u8]) -> Self {
        View(Small(Elements::of(bytes)))
    }

    /// Whether all of it lies in one run of bytes.
    #[inline]
    pub fn is_small(self) -> bool {
        matches!(self.0, Small(_))
    }

    /// Returns the number of fields, including expired ones that are still there.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Small(pack) => pack.len() / 2,
            Big(big) => big.len(),
        }
    }

    /// Whether there are no fields, expired ones included.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self.0 {
            Small(pack) => pack.is_empty(),
            Big(big) => big.len() == 0,
        }
    }

    /// Returns the number of fields that have not expired.
    pub fn live_len(self, now: u64) -> usize {
        match self.0 {
            Small(_) => self.len(),
            Big(big) => big.len() - big.count_due(now),
        }
    }

    /// Returns a field's value; None for one that has expired by `now`.
    #[inline]
    pub fn get(self, name: &[u8], now: u64) -> Option<Item<'a>> {
        self.find(name, now).map(|(value, _)| value)
    }

    /// Returns a field's value and expiry.
    #[inline]
    pub fn find(self, name: &[u8], now: u64) -> Option<(Item<'a>, Option<u64>)> {
        match self.0 {
            Small(pack) => Some((pack.find(name, 1)?.nth(1)?, None)),
            Big(big) => {
                let found = big.find(name).filter(|found| !is_due(found.expiry, now))?;
                Some((Item::Bytes(found.value), found.expiry))
            }
        }
    }

    /// Whether there is a field that has not expired by `now`.
    pub fn contains(self, name: &[u8], now: u64) -> bool {
        self.find(name, now).is_some()
    }

    /// Returns the earliest expiry of a field.
    #[inline]
    pub fn next_expiry(self) -> Option<u64> {
        match self.0 {
            Small(_) => None,
            Big(big) => big.next_expiry(),
        }
    }

    /// Returns how many fields have an expiry.
    pub fn volatile_len(self) -> usize {
        match self.0 {
            Small(_) => 0,
            Big(big) => big.volatile_len(),
        }
    }

    /// Shows every field with its value and expiry, expired ones included.
    pub fn visit_all(self, mut show: impl FnMut(Item<'a>, Item<'a>, Option<u64>)) {
        match self.0 {
            Small(pack) => pairs(pack).for_each(|(name, value)| show(name, value, None)),
            Big(big) => big.iter().for_each(|found| {
                let (name, value) = items(found);
                show(name, value, found.expiry);
            }),
        }
    }

    /// Does [`visit_all`](View::visit_all) in steps, for a hash that does not change meanwhile: shows some fields, and
    /// returns the position of the next step.
    pub fn scan_all(self, at: u64, mut show: impl FnMut(Item<'_>, Item<'_>, Option<u64>)) -> Option<u64> {
        match self.0 {
            Small(_) => {
                self.visit_all(show);
                None
            }
            Big(big) => big.scan(at, |hash, found| {
                // While the table grows, two buckets may be one.
                if position(hash) >= at {
                    let (name, value) = items(found);
                    show(name, value, found.expiry);
                }
            }),
        }
    }

    /// Shows all fields that have not expired, in no particular order.
    pub fn visit(self, now: u64, mut show: impl FnMut(Item<'a>, Item<'a>)) {
        match self.0 {
            Small(pack) => pairs(pack).for_each(|(name, value)| show(name, value)),
            Big(big) => big.iter().filter(|found| !is_due(found.expiry, now)).for_each(|found| {
                let (name, value) = items(found);
                show(name, value);
            }),
        }
    }

    /// Does one step of a walk that begins at 0: shows the fields that have not expired, up to the position that it
    /// returns, where the next step begins; None at the end. A field that is there during the whole walk is shown.
    /// `from`: leave out fields before it; only for a walk whose positions were all returned by this.
    pub fn scan(self, at: u64, from: u64, now: u64, mut show: impl FnMut(Item<'_>, Item<'_>)) -> Option<u64> {
        match self.0 {
            // A walk that came from the large form has seen some part of this; all of it is shown.
            Small(pack) => {
                if at < POSITIONS {
                    pairs(pack).for_each(|(name, value)| show(name, value));
                }
                None
            }
            Big(big) => big.scan(at, |hash, found| {
                if !is_due(found.expiry, now) && position(hash) >= from {
                    let (name, value) = items(found);
                    show(name, value);
                }
            }),
        }
    }

    /// Shows about `max` more fields of a walk that began here; true at the end.
    pub fn walk_piece(
        self,
        walk: &TableSnapshotIterator,
        max: usize,
        mut show: impl FnMut(Item<'_>, Item<'_>),
    ) -> bool {
        let Big(big) = self.0 else { return true };
        big.walk_piece(walk, max, |name, value| show(Item::Bytes(name), Item::Bytes(value)))
    }

    /// Returns a field chosen by `random`, a uniformly distributed number; None if it has expired.
    pub fn random(self, random: u64, now: u64) -> Option<(Item<'a>, Item<'a>)> {
        match self.0 {
            Small(pack) => {
                let index = ((u128::from(random) * (pack.len() / 2) as u128) >> 64) as usize;
                pairs(pack).nth(index)
            }
            Big(big) => big.random(random).filter(|found| !is_due(found.expiry, now)).map(items),
        }
    }

    /// Returns the name of the encoding, as clients know it.
    pub fn encoding(self) -> &'static str {
        match self.0 {
            Small(_) => "listpack",
            Big(_) => "hashtable",
        }
    }
}

fn pairs<'a>(pack: Elements<'a>) -> impl Iterator<Item = (Item<'a>, Item<'a>)> {
    let mut items = pack.iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}
