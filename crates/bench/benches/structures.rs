//! The structures against Rust's common ones: the hash table against hashbrown's and std's, the ranked tree against
//! std's BTreeSet, at a thousand, a hundred thousand and a million elements.
//!
//! The tables hold 16-byte keys with 64-byte values. Ours and hashbrown's hold the very same entries (one allocation
//! each) under the same hash, so that they differ in the table only; std's is the obvious choice of a program: a
//! HashMap of boxed keys and boxed values. hashbrown's cannot prefetch, so it has no finds in batches. The longest
//! insert reveals a table that moves everything at once; ours never does.
//!
//! The trees hold pairs of 64-bit numbers in random order. A BTreeSet does not support ranks: a caller has to count.
#![forbid(unsafe_code)]

mod common;

use common::{Call, Took, key, ns_each, print_table, time};
use hashbrown::DefaultHashBuilder;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::time::{Duration, Instant};
use structures::entry::{Entry, NewValue};
use structures::hashtable::HashTable;
use structures::ranked_tree::RankedTree;

const BATCH: usize = 16;
const VALUE: [u8; 64] = [b'v'; 64];
/// Smaller structures are built and measured several times over, until about so many elements were processed.
const ELEMENTS_MIN: usize = 200_000;
/// Elements that a bench walks over, at most, to find ranks by counting.
const COUNTED_MAX: usize = 20_000_000;

fn main() {
    let Some(call) = Call::read() else { return };
    let sizes: &[usize] = if call.measures { &[1000, 100_000, 1_000_000] } else { &[1000] };
    for &size in sizes {
        measure_maps(&call, size);
        measure_sequences(&call, size);
    }
}

/// Returns the `i`th number below `size` in an order without a pattern that a processor would follow.
fn shuffled(i: usize, size: usize) -> usize {
    // A prime that divides no size, so every number comes once.
    i * 611_953 % size
}

// ---- hash tables ---------------------------------------------------------------------------------------------------

/// A map from [`key`]s to values, under measurement. Keys are named by their numbers.
trait Map: Default {
    fn insert(&mut self, n: usize);
    fn find(&self, n: usize) -> bool;
    /// Finds that hide each other's misses; false if the map does not support them.
    fn find_batch(&self, batch: &[usize; BATCH]) -> bool;
    fn remove(&mut self, n: usize) -> bool;
    /// Reads every value, and returns their number.
    fn visit(&self) -> usize;
    /// Returns the bytes on the heap, given the bytes that the allocator reports since this was empty.
    fn bytes(&self, allocated: usize) -> usize;
}

type StringEntry = Entry<()>;

fn entry(key: &[u8; 16]) -> StringEntry {
    Entry::new(key, NewValue::Inline(&VALUE), None, 0)
}

fn value_byte(entry: &StringEntry) -> usize {
    match entry.value() {
        structures::entry::ValueRef::Inline(bytes) => usize::from(bytes[0] == VALUE[0]),
        _ => 0,
    }
}

#[derive(Default)]
struct Ours {
    table: HashTable<StringEntry>,
    state: DefaultHashBuilder,
}

impl Ours {
    fn hash(state: &DefaultHashBuilder, key: &[u8]) -> u64 {
        state.hash_one(key)
    }
}

impl Map for Ours {
    fn insert(&mut self, n: usize) {
        let (key, state) = (key(n), &self.state);
        self.table.insert_unique(Self::hash(state, &key), entry(&key), |entry| Self::hash(state, entry.key()));
    }

    fn find(&self, n: usize) -> bool {
        let key = key(n);
        self.table.find(Self::hash(&self.state, &key), |entry| entry.key() == key).is_some()
    }

    fn find_batch(&self, batch: &[usize; BATCH]) -> bool {
        let keys = batch.map(key);
        let hashes = keys.map(|key| Self::hash(&self.state, &key));
        hashes.iter().for_each(|hash| self.table.prefetch(*hash));
        hashes.iter().for_each(|hash| self.table.prefetch_entry(*hash));
        keys.iter().zip(hashes).all(|(key, hash)| self.table.find(hash, |entry| entry.key() == key).is_some())
    }

    fn remove(&mut self, n: usize) -> bool {
        let (key, state) = (key(n), &self.state);
        let hasher = |entry: &StringEntry| Self::hash(state, entry.key());
        self.table.remove(Self::hash(state, &key), |entry| entry.key() == key, hasher).is_some()
    }

    /// Visits by SCAN's cursor, a bucket a step.
    fn visit(&self) -> usize {
        let (mut values, mut position) = (0, Some(0));
        while let Some(at) = position {
            position = self.table.scan(at, |entry| values += value_byte(entry));
        }
        values
    }

    fn bytes(&self, _: usize) -> usize {
        // Large arrays of buckets are mapped and unknown to the allocator.
        self.table.memory_usage() + self.table.iter().map(|entry| entry.allocated()).sum::<usize>()
    }
}

#[derive(Default)]
struct Hashbrown {
    table: hashbrown::HashTable<StringEntry>,
    state: DefaultHashBuilder,
}

impl Map for Hashbrown {
    fn insert(&mut self, n: usize) {
        let (key, state) = (key(n), &self.state);
        self.table.insert_unique(state.hash_one(&key[..]), entry(&key), |entry| state.hash_one(entry.key()));
    }

    fn find(&self, n: usize) -> bool {
        let key = key(n);
        self.table.find(self.state.hash_one(&key[..]), |entry| entry.key() == key).is_some()
    }

    fn find_batch(&self, _: &[usize; BATCH]) -> bool {
        false
    }

    fn remove(&mut self, n: usize) -> bool {
        let key = key(n);
        self.table.find_entry(self.state.hash_one(&key[..]), |entry| entry.key() == key).map(|it| it.remove()).is_ok()
    }

    fn visit(&self) -> usize {
        self.table.iter().map(value_byte).sum()
    }

    fn bytes(&self, allocated: usize) -> usize {
        allocated
    }
}

#[derive(Default)]
struct Std(HashMap<Box<[u8]>, Box<[u8]>>);

impl Map for Std {
    fn insert(&mut self, n: usize) {
        self.0.insert(Box::new(key(n)), Box::new(VALUE));
    }

    fn find(&self, n: usize) -> bool {
        self.0.contains_key(&key(n)[..])
    }

    fn find_batch(&self, _: &[usize; BATCH]) -> bool {
        false
    }

    fn remove(&mut self, n: usize) -> bool {
        self.0.remove(&key(n)[..]).is_some()
    }

    fn visit(&self) -> usize {
        self.0.values().map(|value| usize::from(value[0] == VALUE[0])).sum()
    }

    fn bytes(&self, allocated: usize) -> usize {
        allocated
    }
}

/// The best of the rounds so far.
struct MapRow {
    name: &'static str,
    measure: fn(usize) -> MapTimes,
    best: MapTimes,
}

/// Times for all elements each.
struct MapTimes {
    insert: Took,
    find: Took,
    find_batch: Option<Took>,
    visit: Took,
    remove: Took,
    longest_insert: Duration,
    bytes: usize,
}

impl MapTimes {
    const NONE: MapTimes = MapTimes {
        insert: Took::FOREVER,
        find: Took::FOREVER,
        find_batch: None,
        visit: Took::FOREVER,
        remove: Took::FOREVER,
        longest_insert: Duration::MAX,
        bytes: usize::MAX,
    };

    fn keep_best(&mut self, other: MapTimes) {
        self.insert = self.insert.best(other.insert);
        self.find = self.find.best(other.find);
        self.find_batch = other.find_batch.map(|took| took.best(self.find_batch.unwrap_or(Took::FOREVER)));
        self.visit = self.visit.best(other.visit);
        self.remove = self.remove.best(other.remove);
        self.longest_insert = self.longest_insert.min(other.longest_insert);
        self.bytes = self.bytes.min(other.bytes);
    }
}

fn measure_maps(call: &Call, size: usize) {
    let row = |name, measure| MapRow { name, measure, best: MapTimes::NONE };
    let mut rows = vec![
        row("hashtable", measure_map::<Ours>),
        row("hashbrown", measure_map::<Hashbrown>),
        row("std HashMap", measure_map::<Std>),
    ];
    rows.retain(|row| call.wants(&format!("{} {size}", row.name)));
    for _ in 0..call.rounds() * ELEMENTS_MIN.div_ceil(size).min(if call.measures { usize::MAX } else { 1 }) {
        for row in &mut rows {
            row.best.keep_best((row.measure)(size));
        }
    }
    if call.measures && !rows.is_empty() {
        print_maps(&rows, size);
    }
}

fn measure_map<M: Map>(size: usize) -> MapTimes {
    let before = common::allocated();
    let mut map = M::default();
    let (insert, ()) = time(|| (0..size).for_each(|n| map.insert(n)));
    let bytes = map.bytes(common::allocated().saturating_sub(before));
    let mut random = fastrand::Rng::with_seed(1);
    let (find, found) = time(|| (0..size).filter(|_| map.find(random.usize(..size))).count());
    assert_eq!(found, size);
    let (find_batch, can) =
        time(|| (0..size / BATCH).all(|_| map.find_batch(&std::array::from_fn(|_| random.usize(..size)))));
    let (visit, visited) = time(|| map.visit());
    assert_eq!(visited, size);
    let (remove, removed) = time(|| (0..size).filter(|&i| map.remove(shuffled(i, size))).count());
    assert_eq!(removed, size);
    let longest_insert = longest_insert(&mut M::default(), size);
    MapTimes { insert, find, find_batch: can.then_some(find_batch), visit, remove, longest_insert, bytes }
}

fn longest_insert(map: &mut impl Map, size: usize) -> Duration {
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    for n in 0..size {
        map.insert(n);
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

fn print_maps(rows: &[MapRow], size: usize) {
    let head = ["", "insert", "find", "find in 16s", "visit", "remove", "longest insert", "bytes each"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for MapRow { name, best, .. } in rows {
        let batched = size / BATCH * BATCH;
        table.push(vec![
            (*name).to_owned(),
            each(best.insert, size),
            each(best.find, size),
            best.find_batch.map_or_else(|| "-".to_owned(), |took| each(took, batched)),
            each(best.visit, size),
            each(best.remove, size),
            in_words(best.longest_insert.as_secs_f64() * 1e9),
            format!("{:.1}", best.bytes as f64 / size as f64),
        ]);
    }
    print_table(&format!("Hash tables of {size} keys of 16 bytes with 64-byte values"), &table);
}

// ---- sorted sequences ----------------------------------------------------------------------------------------------

type Pair = (u64, u64);

/// A sorted set of pairs, under measurement.
trait Sequence: Default {
    fn insert(&mut self, pair: Pair);
    fn remove(&mut self, pair: Pair) -> bool;
    fn rank(&self, pair: Pair) -> usize;
    fn at(&self, rank: usize) -> Option<Pair>;
    /// Reads every pair.
    fn visit(&self) -> u64;
    /// Returns the number of ranks that a bench of this many elements can look up in reasonable time.
    fn ranks(size: usize) -> usize;
}

#[derive(Default)]
struct Tree(RankedTree<Pair>);

impl Sequence for Tree {
    fn insert(&mut self, pair: Pair) {
        self.0.insert(pair, Pair::cmp);
    }

    fn remove(&mut self, pair: Pair) -> bool {
        self.0.remove(|other| other.cmp(&pair)).is_some()
    }

    fn rank(&self, pair: Pair) -> usize {
        self.0.lower_bound(|other| other.cmp(&pair))
    }

    fn at(&self, rank: usize) -> Option<Pair> {
        self.0.get(rank)
    }

    fn visit(&self) -> u64 {
        self.0.iter().fold(0, |sum, pair| sum ^ pair.0)
    }

    fn ranks(size: usize) -> usize {
        size
    }
}

#[derive(Default)]
struct Btree(BTreeSet<Pair>);

impl Sequence for Btree {
    fn insert(&mut self, pair: Pair) {
        self.0.insert(pair);
    }

    fn remove(&mut self, pair: Pair) -> bool {
        self.0.remove(&pair)
    }

    fn rank(&self, pair: Pair) -> usize {
        self.0.range(..pair).count()
    }

    fn at(&self, rank: usize) -> Option<Pair> {
        self.0.iter().nth(rank).copied()
    }

    fn visit(&self) -> u64 {
        self.0.iter().fold(0, |sum, pair| sum ^ pair.0)
    }

    fn ranks(size: usize) -> usize {
        (COUNTED_MAX / size).clamp(1, size)
    }
}

struct SequenceRow {
    name: &'static str,
    measure: fn(usize) -> SequenceTimes,
    best: SequenceTimes,
}

/// Times for all elements each, but for `ranks` of them with `rank` and `at`.
struct SequenceTimes {
    insert: Took,
    rank: Took,
    at: Took,
    ranks: usize,
    visit: Took,
    remove: Took,
    bytes: usize,
}

impl SequenceTimes {
    const NONE: SequenceTimes = SequenceTimes {
        insert: Took::FOREVER,
        rank: Took::FOREVER,
        at: Took::FOREVER,
        ranks: 1,
        visit: Took::FOREVER,
        remove: Took::FOREVER,
        bytes: usize::MAX,
    };

    fn keep_best(&mut self, other: SequenceTimes) {
        self.insert = self.insert.best(other.insert);
        self.rank = self.rank.best(other.rank);
        self.at = self.at.best(other.at);
        self.ranks = other.ranks;
        self.visit = self.visit.best(other.visit);
        self.remove = self.remove.best(other.remove);
        self.bytes = self.bytes.min(other.bytes);
    }
}

fn measure_sequences(call: &Call, size: usize) {
    let row = |name, measure| SequenceRow { name, measure, best: SequenceTimes::NONE };
    let mut rows = vec![row("ranked tree", measure_sequence::<Tree>), row("std BTreeSet", measure_sequence::<Btree>)];
    rows.retain(|row| call.wants(&format!("{} {size}", row.name)));
    for _ in 0..call.rounds() {
        for row in &mut rows {
            row.best.keep_best((row.measure)(size));
        }
    }
    if call.measures && !rows.is_empty() {
        print_sequences(&rows, size);
    }
}

fn pair(n: usize) -> Pair {
    let bits = u128::from_le_bytes(key(n));
    ((bits >> 64) as u64, bits as u64)
}

fn measure_sequence<S: Sequence>(size: usize) -> SequenceTimes {
    let before = common::allocated();
    let mut sequence = S::default();
    let (insert, ()) = time(|| (0..size).for_each(|n| sequence.insert(pair(n))));
    let bytes = common::allocated().saturating_sub(before);
    let ranks = S::ranks(size);
    let mut random = fastrand::Rng::with_seed(1);
    let (rank, found) = time(|| (0..ranks).filter(|_| sequence.rank(pair(random.usize(..size))) < size).count());
    assert_eq!(found, ranks);
    let (at, found) = time(|| (0..ranks).filter(|_| sequence.at(random.usize(..size)).is_some()).count());
    assert_eq!(found, ranks);
    let (visit, _) = time(|| black_box(sequence.visit()));
    let (remove, removed) = time(|| (0..size).filter(|&i| sequence.remove(pair(shuffled(i, size)))).count());
    assert_eq!(removed, size);
    SequenceTimes { insert, rank, at, ranks, visit, remove, bytes }
}

fn print_sequences(rows: &[SequenceRow], size: usize) {
    let head = ["", "insert", "rank of", "at a rank", "visit", "remove", "bytes each"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for SequenceRow { name, best, .. } in rows {
        table.push(vec![
            (*name).to_owned(),
            each(best.insert, size),
            each(best.rank, best.ranks),
            each(best.at, best.ranks),
            each(best.visit, size),
            each(best.remove, size),
            format!("{:.1}", best.bytes as f64 / size as f64),
        ]);
    }
    print_table(&format!("Sorted sequences of {size} pairs of 64-bit numbers"), &table);
}

// ---- numbers -------------------------------------------------------------------------------------------------------

/// Returns the processor time for each of `count` elements.
fn each(took: Took, count: usize) -> String {
    in_words(ns_each(took.cpu, count))
}

fn in_words(ns: f64) -> String {
    match ns {
        ..10.0 => format!("{ns:.1} ns"),
        ..10_000.0 => format!("{ns:.0} ns"),
        ..1e7 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}
