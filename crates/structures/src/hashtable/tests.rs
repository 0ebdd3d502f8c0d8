//! Tests of the table as a whole: against a standard map, under good and bad hash functions, with operations that
//! panic, and of its promises about work, memory and scans.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::prelude::*;

use super::positions::LOW_BITS;
use super::*;

/// A key and a token; all tokens of a test are clones of one `Arc`, so its count tells leaks and double drops.
struct Item {
    key: u64,
    value: Cell<u64>,
    _token: Arc<()>,
}

type Element = std::rc::Rc<Item>;

#[derive(Clone, Copy, Debug)]
enum Hashing {
    Good,
    Constant,
    Few,
    OnlyHigh,
    OnlyLow,
}

impl Hashing {
    fn hash(self, key: u64) -> u64 {
        let good = scramble(key);
        match self {
            Hashing::Good => good,
            Hashing::Constant => 0x1234_5678_9abc_def0,
            Hashing::Few => scramble(key % 5),
            Hashing::OnlyHigh => good & !0 << 48,
            Hashing::OnlyLow => good & 0xffff,
        }
    }
}

/// A table, the model that it must agree with, and the means to make entries.
struct Subject {
    table: HashTable<Element>,
    model: HashMap<u64, u64>,
    hashing: Hashing,
    token: Arc<()>,
    hashes: Cell<usize>,
}

impl Subject {
    fn new(hashing: Hashing) -> Self {
        let (table, model, token) = Default::default();
        Subject { table, model, hashing, token, hashes: Cell::new(0) }
    }

    fn filled(keys: std::ops::Range<u64>) -> Self {
        let mut subject = Self::new(Hashing::Good);
        keys.for_each(|key| subject.insert(key, key));
        subject
    }

    fn make(&self, key: u64, value: u64) -> Element {
        Element::new(Item { key, value: Cell::new(value), _token: Arc::clone(&self.token) })
    }

    fn insert(&mut self, key: u64, value: u64) {
        let element = self.make(key, value);
        let Subject { table, hashing, hashes, .. } = self;
        let hasher = |item: &Element| {
            hashes.set(hashes.get() + 1);
            hashing.hash(item.key)
        };
        match table.entry(hashing.hash(key), |item| item.key == key, hasher) {
            TableEntry::Occupied(mut entry) => {
                assert_eq!(Some(&entry.get().value.get()), self.model.get(&key));
                assert_eq!(entry.replace(element).key, key);
                assert_eq!(entry.get().value.get(), value);
            }
            TableEntry::Vacant(entry) => {
                assert!(!self.model.contains_key(&key));
                assert_eq!(entry.insert(element).key, key);
            }
        }
        self.model.insert(key, value);
    }

    fn remove(&mut self, key: u64) {
        let Subject { table, hashing, hashes, .. } = self;
        let hasher = |item: &Element| {
            hashes.set(hashes.get() + 1);
            hashing.hash(item.key)
        };
        let removed = table.remove(hashing.hash(key), |item| item.key == key, hasher);
        assert_eq!(removed.map(|item| item.value.get()), self.model.remove(&key));
    }

    fn step(&mut self, buckets: usize) -> bool {
        let hashing = self.hashing;
        self.table.step(buckets, |item| hashing.hash(item.key))
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.table.find(self.hashing.hash(key), |item| item.key == key).map(|item| item.value.get())
    }

    /// Checks that the memory prefetched ahead of a lookup of this key, which is there, is the memory that the lookup
    /// reads.
    fn check_hints(&self, key: u64) {
        let (table, hash) = (&self.table, self.hashing.hash(key));
        let home = table.home(hash);
        assert_eq!(table.bucket_hint().address(hash), std::ptr::from_ref(home).addr());
        let hint = table.entry_hint(hash);
        let likely: Vec<u64> = home.matches(tag_of(hash)).map(|slot| home.bits(slot)).collect();
        assert_eq!(hint.bits, likely.first().copied().unwrap_or(0));
        let is_in_home = likely.iter().any(|&bits| table.borrow(bits).key == key);
        assert!(is_in_home || home.child().is_some());
        assert_eq!(hint.is_further(), likely.is_empty());
        hint.prefetch();
        table.prefetch_chain(hash);
    }

    fn scan_all(&self) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut cursor = Some(0);
        while let Some(position) = cursor {
            cursor = self.table.scan(position, |item| keys.push(item.key));
            assert!(cursor.is_none_or(|next| next > position));
        }
        keys
    }

    fn check(&self) {
        assert_eq!(self.table.len(), self.model.len());
        assert_eq!(Arc::strong_count(&self.token), self.model.len() + 1);
        let all: HashMap<u64, u64> = self.table.iter().map(|item| (item.key, item.value.get())).collect();
        assert_eq!(all, self.model);
        assert_eq!(self.table.iter().count(), self.model.len());
        let scanned: HashSet<u64> = self.scan_all().into_iter().collect();
        assert!(scanned.iter().eq(scanned.iter().filter(|key| self.model.contains_key(key))));
        assert_eq!(scanned.len(), self.model.len());
        for &key in self.model.keys() {
            assert_eq!(self.get(key), Some(self.model[&key]));
            self.check_hints(key);
        }
        let lines: usize = (0..self.table.units()).map(|unit| self.table.unit(unit).lines().count() - 1).sum();
        assert_eq!(self.table.stats().child_lines, lines);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    InsertMany(u64, u64),
    Remove(u64),
    RemoveMany(u64, u64),
    RemoveThroughEntry(u64),
    RemoveAtPosition(u64),
    Update(u64),
    Random(u64),
    Step(usize),
    AllowResizing(bool),
    Drain(usize),
}

fn hashing() -> impl Strategy<Value = Hashing> {
    prop_oneof![
        4 => Just(Hashing::Good),
        1 => Just(Hashing::Constant),
        1 => Just(Hashing::Few),
        1 => Just(Hashing::OnlyHigh),
        1 => Just(Hashing::OnlyLow),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let key = || 0..400u64;
    prop_oneof![
        8 => key().prop_map(Insert),
        2 => (key(), 1..200u64).prop_map(|(first, count)| InsertMany(first, count)),
        6 => key().prop_map(Remove),
        2 => (key(), 1..200u64).prop_map(|(first, count)| RemoveMany(first, count)),
        2 => key().prop_map(RemoveThroughEntry),
        2 => key().prop_map(RemoveAtPosition),
        2 => key().prop_map(Update),
        1 => any::<u64>().prop_map(Random),
        2 => (0..5usize).prop_map(Step),
        1 => any::<bool>().prop_map(AllowResizing),
        1 => (0..50usize).prop_map(Drain),
    ]
}

fn apply(subject: &mut Subject, operation: Operation) {
    let hashing = subject.hashing;
    match operation {
        Operation::Insert(key) => subject.insert(key, key + 1),
        Operation::InsertMany(first, count) => (first..first + count).for_each(|key| subject.insert(key, key)),
        Operation::Remove(key) => subject.remove(key),
        Operation::RemoveMany(first, count) => (first..first + count).for_each(|key| subject.remove(key)),
        Operation::RemoveThroughEntry(key) => {
            let entry = subject.table.find_mut(hashing.hash(key), |item| item.key == key);
            assert_eq!(entry.map(|entry| entry.remove().value.get()), subject.model.remove(&key));
        }
        Operation::RemoveAtPosition(key) => {
            let position = position(hashing.hash(key));
            let found = subject.table.find_at_position(position, |item| item.key == key).map(|item| item.value.get());
            let hasher = |item: &Element| hashing.hash(item.key);
            let removed = subject.table.remove_at_position(position, |item| item.key == key, hasher);
            let known = subject.model.remove(&key);
            assert_eq!((found, removed.map(|item| item.value.get())), (known, known));
        }
        Operation::Update(key) => {
            let fresh = subject.make(key, key + 7);
            if let Some(mut entry) = subject.table.find_mut(hashing.hash(key), |item| item.key == key) {
                entry.update(|item| *item = fresh);
                subject.model.insert(key, key + 7);
            }
        }
        Operation::Random(random) => {
            let chosen = subject.table.random(random).map(|item| item.key);
            assert_eq!(chosen.is_some(), !subject.model.is_empty());
            assert!(chosen.is_none_or(|key| subject.model.contains_key(&key)));
        }
        Operation::Step(buckets) => {
            subject.step(buckets);
        }
        Operation::AllowResizing(allowed) => subject.table.set_resizing(allowed),
        Operation::Drain(max) => {
            let before = subject.table.len();
            let empty = subject.table.drain_step(max);
            assert!(before - subject.table.len() <= max.max(1));
            assert!(!empty || subject.table.is_empty());
            let left: HashSet<u64> = subject.table.iter().map(|item| item.key).collect();
            subject.model.retain(|key, _| left.contains(key));
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_a_standard_map(hashing in hashing(), operations in prop::collection::vec(operation(), 1..60)) {
        let mut subject = Subject::new(hashing);
        for operation in operations {
            apply(&mut subject, operation);
            subject.check();
        }
        let token = Arc::clone(&subject.token);
        drop(subject);
        prop_assert_eq!(Arc::strong_count(&token), 1);
    }

    /// Keys 1000.. are present from the first to the last step of a scan; lower keys come and go between the steps, in
    /// numbers that resize the table both ways.
    #[test]
    fn a_scan_returns_everything_that_stays(
        hashing in hashing(),
        staying in 0..300u64,
        between in prop::collection::vec(prop::collection::vec(operation(), 0..4), 1..40),
    ) {
        let mut subject = Subject::new(hashing);
        let staying = 1000..1000 + staying;
        staying.clone().for_each(|key| subject.insert(key, key));
        let mut seen = HashSet::new();
        let mut cursor = Some(0);
        let mut between = between.into_iter();
        while let Some(position) = cursor {
            cursor = subject.table.scan(position, |item| { seen.insert(item.key); });
            for operation in between.next().unwrap_or_default() {
                if !matches!(operation, Operation::Drain(_)) {
                    apply(&mut subject, operation);
                }
            }
        }
        prop_assert!(staying.into_iter().all(|key| seen.contains(&key)));
    }
}

#[test]
fn a_new_table_holds_no_memory() {
    let table = HashTable::<Element>::new();
    assert_eq!((table.len(), table.memory_usage(), table.bucket_count()), (0, 0, 0));
    assert!(table.find(1, |_| true).is_none() && table.random(1).is_none() && table.iter().next().is_none());
    assert_eq!(table.scan(0, |_| unreachable!()), None);
    table.prefetch(1);
    table.prefetch_entry(1);
    table.prefetch_chain(1);
    table.bucket_hint().prefetch(1);
    assert!(!table.entry_hint(1).is_further());
}

/// Positions and indices are inverse: what makes a frontier and a scan exact.
#[test]
fn buckets_cover_the_positions_without_gaps() {
    for len in [1, 2, 3, 5, 7, 64, 1000, 12_345, (1 << 32) - 1] {
        assert_eq!((first_position(0, len), first_position(len, len)), (0, POSITIONS));
        for i in [0, 1, 2, len / 3, len / 2, len - 1] {
            let first = first_position(i.min(len - 1), len);
            assert_eq!(index(first << 16, len), i.min(len - 1));
            assert!(first == 0 || index((first - 1) << 16 | LOW_BITS, len) == i.min(len - 1) - 1);
        }
    }
}

/// Every operation may hash only the entries of the buckets that it moves. Eight lines are far beyond what a chain of a
/// random table ever gets.
#[test]
fn no_operation_moves_more_than_a_few_buckets() {
    let mut subject = Subject::new(Hashing::Good);
    let bound = MOVES_PER_OPERATION * 8 * SLOTS;
    let mut total = 0;
    for key in 0..30_000 {
        subject.hashes.set(0);
        subject.insert(key, 0);
        assert!(subject.hashes.get() <= bound);
        total += subject.hashes.get();
    }
    assert!(total > 30_000, "it did grow, and {total} hashes were counted");
    for key in 0..30_000 {
        subject.hashes.set(0);
        subject.remove(key);
        assert!(subject.hashes.get() <= bound);
    }
    assert_eq!(subject.table.memory_usage(), 0);
}

/// While a resize is under way, insertions finish it long before the next one is due.
#[test]
fn resizes_do_not_pile_up() {
    let mut subject = Subject::new(Hashing::Good);
    let mut worst: f64 = 0.0;
    for key in 0..50_000 {
        subject.insert(key, 0);
        let stats = subject.table.stats();
        worst = worst.max(stats.entries as f64 / stats.buckets as f64);
    }
    assert!(worst <= 9.0, "a mean of {worst} entries in a bucket");
}

#[test]
fn shrinks_with_its_contents_and_frees_everything() {
    let mut subject = Subject::filled(0..20_000);
    let full = subject.table.memory_usage();
    for key in 0..19_000 {
        subject.remove(key);
    }
    while subject.step(100) {}
    assert!(subject.table.memory_usage() < full / 10, "{} of {full}", subject.table.memory_usage());
    subject.check();
    for key in 19_000..20_000 {
        subject.remove(key);
    }
    assert_eq!((subject.table.memory_usage(), subject.table.bucket_count()), (0, 0));
}

#[test]
fn removals_through_entries_leave_shrinking_to_steps() {
    let mut subject = Subject::filled(0..5000);
    for key in 0..5000 {
        assert!(
            subject
                .table
                .find_mut(scramble(key), |item| item.key == key)
                .is_some_and(|entry| entry.remove().key == key)
        );
    }
    subject.model.clear();
    assert!(subject.table.bucket_count() > 500);
    while subject.step(16) {}
    assert_eq!(subject.table.memory_usage(), 0);
}

#[test]
fn stays_within_its_bytes_per_entry() {
    let mut subject = Subject::new(Hashing::Good);
    for key in 0..60_000u64 {
        subject.insert(key, key);
        while subject.table.is_resizing() {
            subject.step(64);
        }
        if key >= 3000 {
            let bytes = subject.table.memory_usage() as f64 / subject.table.len() as f64;
            assert!((9.5..12.2).contains(&bytes), "{bytes} bytes per entry at {}", key + 1);
        }
    }
}

/// Tables large enough for mapped arrays, of which the moved part of the old one is given back and the unused part of
/// the new one is not yet there.
#[test]
fn large_arrays_together_hold_little_more_than_one() {
    let mut subject = Subject::new(Hashing::Good);
    const HUGE_PAGE: usize = 2 << 20;
    const KEYS: u64 = 600_000;
    let (mut resized, mut largest) = (0, 0);
    for key in 0..KEYS {
        let element = subject.make(key, key);
        subject.table.insert_unique(scramble(key), element, |item| scramble(item.key));
        let table = &subject.table;
        if table.is_resizing() && table.old.len() * LINE >= HUGE_PAGE {
            resized += 1;
            let arrays = table.memory_usage() - table.counts.child_lines * LINE;
            assert!(arrays < table.new.len() * LINE + HUGE_PAGE, "{arrays} bytes");
            largest = largest.max(table.old.len() * LINE);
        }
    }
    // Two arrays in full would hold more than what is allowed above.
    assert!(resized > 1000 && largest > 3 * HUGE_PAGE / 2);
    assert!((0..KEYS).all(|key| subject.get(key) == Some(key)));
}

#[test]
fn a_stopped_resize_stays_where_it_is_and_goes_on_later() {
    let mut subject = Subject::new(Hashing::Good);
    let mut key = 0;
    while !subject.table.is_resizing() || subject.table.len() < 1000 {
        subject.insert(key, key);
        key += 1;
    }
    subject.table.set_resizing(false);
    let stopped = subject.table.stats();
    for key in key..3 * key {
        subject.insert(key, key);
        assert!(!subject.step(10));
    }
    let later = subject.table.stats();
    assert_eq!((later.buckets, later.resize), (stopped.buckets, stopped.resize));
    subject.check();
    subject.table.set_resizing(true);
    while subject.step(10) {}
    assert!(subject.table.len() < 8 * subject.table.bucket_count());
    subject.check();
}

#[test]
fn keys_are_all_there_when_one_bucket_becomes_many() {
    let mut subject = Subject::filled(0..20);
    while subject.step(10) {}
    subject.table.set_resizing(false);
    let few = subject.table.bucket_count();
    for key in 20..20_000 {
        subject.insert(key, key);
    }
    subject.table.set_resizing(true);
    while subject.step(1) {}
    assert!(subject.table.bucket_count() > 100 * few, "{few} buckets before");
    subject.check();
}

#[test]
fn draining_takes_bounded_steps_and_the_table_stays_usable() {
    let mut subject = Subject::filled(0..10_000);
    let mut steps = 0;
    while !subject.table.drain_step(100) {
        steps += 1;
        assert_eq!(Arc::strong_count(&subject.token), subject.table.len() + 1);
        if steps == 50 {
            subject.model = subject.table.iter().map(|item| (item.key, item.value.get())).collect();
            subject.insert(20_000, 1);
            subject.check();
        }
    }
    assert!((100..200).contains(&steps), "{steps} steps");
    assert_eq!((subject.table.len(), subject.table.memory_usage()), (0, 0));
    assert_eq!(Arc::strong_count(&subject.token), 1);
}

/// 400 entries, chosen often: no count may be far from the mean (8 standard deviations), also in the midst of a resize.
#[test]
fn random_choices_are_fair() {
    let mut subject = Subject::new(Hashing::Good);
    let mut key = 0;
    while subject.table.len() < 300 || subject.table.stats().resize.is_none_or(|(old, moved)| moved < old / 2) {
        subject.insert(key, key);
        key += 1;
    }
    const MEAN: usize = 400;
    let mut counts = HashMap::new();
    for i in 0..subject.table.len() * MEAN {
        let key = subject.table.random(scramble(i as u64)).map(|item| item.key);
        *counts.entry(key).or_insert(0usize) += 1;
    }
    assert_eq!(counts.len(), subject.table.len());
    for (key, count) in counts {
        assert!((MEAN - 160..MEAN + 160).contains(&count), "{key:?}: {count}");
    }
}

#[test]
fn a_panicking_hasher_loses_nothing() {
    let mut subject = Subject::filled(0..1000);
    while !subject.table.is_resizing() {
        let key = subject.table.len() as u64;
        subject.insert(key, key);
    }
    let countdown = Cell::new(20);
    let hasher = |item: &Element| {
        countdown.set(countdown.get() - 1);
        assert!(countdown.get() > 0, "on purpose");
        scramble(item.key)
    };
    let table = &mut subject.table;
    assert!(catch_unwind(AssertUnwindSafe(|| table.step(1000, hasher))).is_err());
    assert_eq!(Arc::strong_count(&subject.token), subject.table.len() + 1);
    while subject.step(10) {}
    subject.check();
}

#[test]
fn a_panicking_update_keeps_what_it_put_there() {
    let mut subject = Subject::filled(0..100);
    let fresh = subject.make(5, 77);
    let table = &mut subject.table;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut entry = table.find_mut(scramble(5), |item| item.key == 5).expect("present");
        entry.update(|item| {
            *item = fresh;
            panic!("on purpose");
        })
    }));
    assert!(outcome.is_err());
    subject.model.insert(5, 77);
    subject.check();
}

#[test]
fn comparisons_that_panic_leave_the_table_alone() {
    let mut subject = Subject::filled(0..100);
    let table = &mut subject.table;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        table.remove(scramble(5), |_| panic!("on purpose"), |item| scramble(item.key));
    }));
    assert!(outcome.is_err());
    subject.check();
}

#[test]
fn a_table_can_change_threads() {
    let mut table = HashTable::new();
    for key in 0..100u64 {
        table.insert_unique(scramble(key), Arc::new(key), |key| scramble(**key));
    }
    let sum = std::thread::spawn(move || table.iter().map(|key| **key).sum::<u64>()).join();
    assert_eq!(sum.expect("the thread ends well"), 99 * 100 / 2);
}
