//! The cuts that are being read of one database in one shard, from the side of commands that change it.
//!
//! A cut is the keyspace, or some slots of it, as it was at one moment, read while others go on writing. It is begun
//! under the locks of its shards, which takes as long as touching each once. From then on a walk goes through every
//! table, a few buckets under one hold of a lock, and encodes what it finds. A command that is about to change a key
//! ahead of the walk first has the whole [cell](structures::snapshot_sweep) of that key encoded as it is; the walk
//! passes over cells that are done.
//!
//! ```text
//!   full cut, begun first    | walked .......................... | next    [done]  [cell]       has what it needs
//!   full cut, begun later    | walked ..... | next    [cell]     [cell]    [cell]  [cell]       each its own cells,
//!   cut of slots             | walked ... | next                 [cell]                         keys of its slots only
//! ```
//!
//! Several may be open. Each has [its own marks](crate::snapshot::capture) and old values; a key that more than one has
//! not reached is encoded once for all that write it alike. Without a cut all of this costs one look at a word.
//!
//! SWAPDB swaps the cuts with the tables.

use crate::data::key_hash::KeyHasher;
use crate::data::table::{ExpiryIndex, Table};
use crate::data::value::{KeyEntry, Object};
use crate::snapshot::capture::{Capture, LeftTable};
use crate::snapshot::encoder::Encode;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use structures::hashtable::{class, position};
use structures::snapshot_sweep::each_bucket;

/// See the module's documentation. A word where there is none.
#[derive(Default)]
pub struct Captures(#[expect(clippy::box_collection, reason = "a word in each database")] Option<Box<Vec<Capture>>>);

/// Cuts that have not reached a key, and where in the table the rest of its cell lies.
type InNeed<'c> = SmallVec<[(&'c mut Capture, Range<u64>); 2]>;

impl Captures {
    /// Whether a cut has still to read something here.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Writes down the cell of an entry of this name, before it is changed and before a new key of this name is added.
    #[inline]
    pub fn touch(&mut self, table: &Table, hasher: &KeyHasher, name: &[u8], local: u64) {
        if let Some(all) = &mut self.0 {
            touch(all, table, hasher, name, local, None);
        }
    }

    /// Writes down the cell of an entry after it was taken out of the table. Its value goes to [`adopt`](Self::adopt)
    /// or to [`write_down`](Self::write_down) if a cut [wants](Self::wants) it.
    #[inline]
    pub fn removed(&mut self, table: &Table, hasher: &KeyHasher, local: u64, entry: &KeyEntry) {
        if let Some(all) = &mut self.0 {
            touch(all, table, hasher, entry.key(), local, Some(entry));
            all.iter_mut().for_each(|capture| capture.begin(entry));
        }
    }

    /// Whether values may have to report that they are changed.
    #[inline]
    pub fn has_large(&self) -> bool {
        self.all().iter().any(Capture::has_large)
    }

    /// To be called after [`touch`](Self::touch), before anything of an entry is changed but its value, or that is
    /// taken out as a whole.
    pub fn begin(&mut self, entry: &KeyEntry) {
        self.all_mut().iter_mut().for_each(|capture| capture.begin(entry));
    }

    /// To be called after [`touch`](Self::touch), before the value of an entry is changed, if there are large ones.
    /// `bytes`: which ones of a string.
    #[cold]
    pub fn follow(&mut self, entry: &mut KeyEntry, bytes: Option<&Range<usize>>) {
        self.all_mut().iter_mut().for_each(|capture| capture.follow(entry, bytes));
    }

    /// Whether the value of this name is to be left to a cut when it is removed.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.all().iter().any(|capture| capture.wants(name))
    }

    /// Takes a wanted value, which is not changed any more.
    #[cold]
    pub fn adopt(&mut self, name: &[u8], object: &Arc<Object>) {
        self.all_mut().iter_mut().for_each(|capture| capture.adopt(name, object));
    }

    /// Writes down a value that may be wanted, before it moves to a place where it will be changed.
    #[inline]
    pub fn write_down(&mut self, entry: &KeyEntry) {
        self.all_mut().iter_mut().for_each(|capture| capture.write_down(entry));
    }

    /// Gives the table to the cuts when the database gets a new one. Returns the table if no cut needs it any more.
    pub fn detach(&mut self, table: Table, expiry: ExpiryIndex) -> Option<LeftTable> {
        if !self.all().iter().any(Capture::wants_table) {
            return Some((table, expiry));
        }
        let left = Arc::new((table, expiry));
        self.all_mut().iter_mut().filter(|capture| capture.wants_table()).for_each(|capture| capture.detach(&left));
        None
    }

    fn all(&self) -> &[Capture] {
        self.0.as_ref().map_or(&[], |all| all)
    }

    fn all_mut(&mut self) -> &mut [Capture] {
        self.0.as_mut().map_or(&mut [], |all| all)
    }

    /// Adds one.
    pub(crate) fn add(&mut self, capture: Capture) {
        self.0.get_or_insert_default().push(capture);
    }

    /// Returns a cut's capture, of the database which had this number when it began.
    pub(crate) fn of(&mut self, cut: u64, home: u32) -> Option<&mut Capture> {
        self.all_mut().iter_mut().find(|capture| capture.is_of(cut, home))
    }

    /// Takes out the captures for which `is_over` is true.
    pub(crate) fn end(&mut self, is_over: impl Fn(&Capture) -> bool) -> Vec<Capture> {
        let Some(all) = &mut self.0 else { return Vec::new() };
        let ended = all.extract_if(.., |capture| is_over(capture)).collect();
        if all.is_empty() {
            self.0 = None;
        }
        ended
    }
}

/// Writes the cell of a place down for captures that need it; an entry of it may have been taken out already.
fn touch(all: &mut [Capture], table: &Table, hasher: &KeyHasher, name: &[u8], local: u64, taken: Option<&KeyEntry>) {
    let in_need = |capture| -> Option<(&mut Capture, Range<u64>)> {
        let capture: &mut Capture = capture;
        let range = capture.take_cell(name, local)?;
        Some((capture, range))
    };
    let mut needs: InNeed<'_> = all.iter_mut().filter_map(in_need).collect();
    // All have the place in them, so no gap is between two.
    let Some(from) = needs.iter().map(|(_, range)| range.start).min() else { return };
    let to = needs.iter().map(|(_, range)| range.end).max().unwrap_or(from);
    each_bucket(from..to, |at| {
        table.scan_class(at, class(local), |entry| keep(&mut needs, hasher.local_of(entry.key()), entry))
    });
    if let Some(entry) = taken {
        keep(&mut needs, local, entry);
    }
}

/// Writes an entry down for captures in whose cells it is, once for all that write it alike.
fn keep(needs: &mut InNeed<'_>, local: u64, entry: &KeyEntry) {
    let is_single = needs.len() == 1;
    let mut made: Option<(Encode, Vec<u8>)> = None;
    let is_in = |(capture, range): &&mut (&mut Capture, Range<u64>)| {
        range.contains(&position(local)) && capture.holds(entry.key())
    };
    for (capture, _) in needs.iter_mut().filter(is_in) {
        capture.keep(local, entry, |encode, out| match &made {
            _ if is_single => encode.keep(out, entry),
            Some((other, bytes)) if other.keeps_like(&**encode) => out.extend_from_slice(bytes),
            _ => {
                let mut bytes = Vec::new();
                encode.keep(&mut bytes, entry);
                out.extend_from_slice(&bytes);
                made = Some((Arc::clone(encode), bytes));
            }
        });
    }
}
