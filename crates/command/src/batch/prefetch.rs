//! Asks for the memory of commands before they run, in steps that each need the memory which the one before has
//! fetched:
//!
//! ```text
//!   key's hash -> bucket -> entry whose tag is the key's
//!                        -> more lines of the bucket -> entry        (of one key in twenty)
//! ```
//!
//! A step is taken for several commands at a time, and other work is done before the next. All requests of a step are
//! made at once: a processor that has no translation of an address at hand waits for it, but finds several side by
//! side. All of this is a hint: nothing depends on it.
//!
//! A batch takes the first step while it is filled and the others while it runs, [`CHUNK`] commands at a time and
//! counted from its end:
//!
//! ```text
//!   before it runs    1        2            3
//!   chunk             runs     ask_further  ask_for_entries
//! ```

use crate::batch::item::{Asked, BatchItem, Element};
use engine::Engine;
use engine::data::table::EntryHint;
use engine::keyspace::keys::Key;
use resp::Span;

/// Commands for which memory is asked together: they take about as long as memory needs.
pub(super) const CHUNK: usize = 8;

/// Commands that the second and the third step are taken for at a time, at most.
const STEP_MAX: usize = 16;

/// Takes the first step, as soon as the hashes are known.
#[inline]
pub(super) fn ask_for_buckets<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>) {
    for (keys, db) in commands {
        keys.iter().for_each(|(_, hash)| engine.prefetch_bucket(db, *hash));
    }
}

/// Takes the second step. Returns the set of commands that need a third: bit `i` for command `i`.
#[inline]
fn ask_for_entries<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>) -> u16 {
    let mut hints = [const { EntryHint::NOWHERE }; STEP_MAX];
    let mut further = 0;
    for (index, (place, (keys, db))) in hints.iter_mut().zip(commands).enumerate() {
        match keys {
            [(_, hash)] => {
                *place = engine.entry_hint(db, *hash);
                further |= u16::from(place.is_further()) << index;
            }
            _ => keys.iter().for_each(|(_, hash)| engine.entry_hint(db, *hash).prefetch()),
        }
    }
    hints.iter().for_each(EntryHint::prefetch);
    further
}

/// Takes the third step, for those of the commands that `which` names.
#[inline]
fn ask_further<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>, which: u16) {
    if which == 0 {
        return;
    }
    for (_, (keys, db)) in commands.take(STEP_MAX).enumerate().filter(|(index, _)| which >> index & 1 == 1) {
        keys.iter().for_each(|(_, hash)| engine.prefetch_chain(db, *hash));
    }
}

/// State of the prefetching of a running batch.
#[derive(Default)]
pub struct Prefetcher {
    /// Commands of the next chunk whose entries have to be looked for further; bit 0 is the first one's.
    further: u16,
    /// Batches so far: another one chooses another command, whose key's table [shows where it
    /// lies](Engine::show_table).
    batches: usize,
}

impl Prefetcher {
    /// Begins with a batch that is going to run.
    pub(super) fn begin(&mut self, engine: &Engine, items: &[BatchItem<'_>], spans: &[Span]) {
        self.batches = self.batches.wrapping_add(1);
        if let Some(item) = items.get(self.batches % items.len().max(1)) {
            let (keys, db) = item.keys();
            keys.iter().for_each(|(_, hash)| engine.show_table(db, *hash));
        }
        let (first, later) = items.split_at(items.len().min(items.len() % CHUNK + CHUNK));
        let further = ask_for_parts(engine, first, spans);
        self.further = ask_for_parts(engine, &later[..later.len().min(CHUNK)], spans);
        ask_further(engine, keys_of(first), further);
    }

    /// Continues before the first of `items`, the rest of the batch, is going to run.
    #[inline(always)]
    pub(super) fn at(&mut self, engine: &Engine, items: &[BatchItem<'_>], spans: &[Span]) {
        if items.len().is_multiple_of(CHUNK) {
            self.go_on(engine, items, spans);
        }
    }

    #[inline(never)]
    fn go_on(&mut self, engine: &Engine, items: &[BatchItem<'_>], spans: &[Span]) {
        let Some((_, later)) = items.split_at_checked(CHUNK) else { return };
        let (next, later) = later.split_at(later.len().min(CHUNK));
        ask_further(engine, keys_of(next), self.further);
        self.further = ask_for_parts(engine, &later[..later.len().min(CHUNK)], spans);
    }
}

/// Takes the second step, of commands that follow each other about elements of one collection for these too.
fn ask_for_parts(engine: &Engine, items: &[BatchItem<'_>], spans: &[Span]) -> u16 {
    let further = ask_for_entries(engine, keys_of(items));
    let mut left = items;
    while let [item, others @ ..] = left {
        left = others;
        if let Some(element) = item.element() {
            let same =
                others.iter().take_while(|other| other.element() == Some(element) && other.db == item.db).count();
            left = &others[same..];
            if same > 0 {
                prefetch_elements(engine, &items[items.len() - others.len() - 1..][..=same], spans, element);
            }
        }
    }
    further
}

pub(super) fn keys_of<'i>(items: &'i [BatchItem<'_>]) -> impl Iterator<Item = Asked<'i>> {
    items.iter().map(BatchItem::keys)
}

/// Prefetches the elements of commands about one collection, unless two keys have the same hash.
fn prefetch_elements(engine: &Engine, items: &[BatchItem<'_>], spans: &[Span], (key, element, hash): Element) {
    let [first, ..] = items else { return };
    let Some(name) = first.argument(key, spans) else { return };
    let elements = items.iter().filter_map(|item| item.argument(element, spans));
    engine.prefetch_elements(first.db, Key { name, hash }, elements);
}
