//! Saves while others write: whatever happens to large values between two pieces, the file is of the moment at which it
//! was begun, and memory stays bounded.

use crate::decode::Decoded;
use crate::format::Family;
use crate::load::{self, LoadedKey, Sink};
use crate::rdb_reader::Source;
use crate::save;
use crate::tests::{large_values, options, put, read, style, test_limits, told};
use engine::data::value::{KeyEntry, NewString, Object};
use engine::host::clock::Clock;
use engine::host::files::{Files, Scratch};
use engine::host::threads::Threads;
use engine::keyspace::caller::ExecContext;
use engine::keyspace::edit::{self, Edit};
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::Keys;
use engine::time::{Nanos, SteadyMs, UnixMs};
use engine::{Engine, NullHost, Options};
use proptest::prelude::*;
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use structures::entry::NewValue;
use structures::hash::{FieldTtl, Hash};
use structures::list::List;
use structures::quicklist::End;
use structures::set::Set;
use structures::sorted_set::SortedSet;
use structures::stream::{Bound, Id, References, Stream};

/// Calls a function whenever a piece has been written.
struct OnPiece<F>(F, Vec<u8>);

impl<F: FnMut(usize)> Write for OnPiece<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        (self.0)(self.1.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn with_keys<R>(engine: &Engine, names: &[&[u8]], now: UnixMs, work: impl FnOnce(&mut Keys<'_>) -> R) -> R {
    let hashes = names.iter().map(|name| engine.hasher().hash(name));
    let mut keys = Keys::new(engine, HeldLocks::keys(engine, hashes), 0, ExecContext::client(now));
    let result = work(&mut keys);
    keys.unlock();
    result
}

/// Changes a key in one of many ways; `n` selects the elements.
pub(crate) fn change(engine: &Engine, name: &str, how: u8, n: u64) {
    let other = format!("other {}", n % 3);
    let names = [name.as_bytes(), other.as_bytes()];
    with_keys(engine, &names, UnixMs(1), |keys| {
        let (key, other) = (keys.key(names[0]), keys.key(names[1]));
        let word = format!("a word that is the {}th", n % 7000).repeat(1 + (n % 7000) as usize % 5);
        let word = word.as_bytes();
        let mut edit = keys.edit(key);
        match how {
            0 => _ = edit.remove(),
            1 => edit.put(KeyEntry::new(names[0], NewValue::Int(5), None, 0)),
            2 => edit.set_expiry(Some(UnixMs(n as i64 + 10))),
            4 => edit.set_string(NewString::encode(Cow::Borrowed(word)), edit::Ttl::Keep),
            5 => edit.set_object(Object::String(word.repeat(3000).into()), edit::Ttl::At(UnixMs(n as i64 + 10))),
            3 => {
                if let Some((entry, readers)) = edit.take() {
                    edit.commit_silently(1);
                    let mut target = keys.edit(other);
                    target.put_with(edit::renamed(entry, names[1]), readers);
                    target.commit_silently(1);
                }
                return;
            }
            _ => change_within(&mut edit, word, n),
        }
        edit.commit_silently(1);
    });
}

/// Changes elements of a value, whichever type it has; `n` selects them.
fn change_within(edit: &mut Edit<'_>, word: &[u8], n: u64) {
    let limits = test_limits();
    // Most of a set goes at once, as with SPOP, and its reader continues with the old content.
    let replaced = edit.with(|set: &mut Set| match n % 4 {
        0 => (set.remove(word), None).1,
        1 => (set.take_random(n << 40).is_some(), None).1,
        2 => (set.insert(&[word, b"new"].concat(), &limits.set()), None).1,
        _ => {
            let copy = set.clone();
            Some(std::mem::replace(set, copy))
        }
    });
    if let Ok(Some(old)) = replaced {
        edit.discard(Object::Set(old));
    }
    let _ = edit.with(|set: &mut SortedSet| match n % 3 {
        0 => _ = set.remove(word),
        1 => _ = set.insert(word, (n % 4000) as f64, limits.sorted_set()),
        _ => _ = set.remove_range(n as usize % 6000..n as usize % 6000 + 3, |_, _| ()),
    });
    let _ = edit.with(|hash: &mut Hash| match n % 4 {
        0 => _ = hash.remove(word, 0),
        1 => hash.set_expiry(word, Some(n)),
        2 => _ = hash.pop_due(n, |_| ()),
        _ => _ = hash.set(word, b"another", FieldTtl::Clear, 0, limits.hash()),
    });
    let _ = edit.with(|list: &mut List| match n % 4 {
        0 => list.pop(End::Head),
        1 => list.remove_range(n as usize % 5000..n as usize % 5000 + 20),
        2 => _ = list.replace(n as usize % 1000, Cow::Borrowed(b"another"), &limits.list()),
        _ => list.push(End::Tail, Cow::Borrowed(word), &limits.list()),
    });
    let _ = edit.with(|stream: &mut Stream| match n % 3 {
        0 => _ = stream.trim(Bound::MaxLen(stream.len().saturating_sub(5)), true, u64::MAX, References::Keep),
        1 => _ = stream.delete(Id::new(n % 9000 * 3, 1)),
        _ => {
            let id = Id::new(stream.last_id.ms + 1, 0);
            stream.append(id, [(word, word)].into_iter(), limits.stream());
        }
    });
    if edit.string().is_ok_and(|text| text.is_some()) {
        let _ = edit.with_bytes(1000 + n as usize % 2_000_000, |bytes| bytes[n as usize % 1000] = 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..ProptestConfig::with_cases(6) })]

    #[test]
    fn large_values_are_of_one_moment(
        family in prop_oneof![Just(Family::Valkey), Just(Family::Redis)],
        shards in prop_oneof![Just(1usize), Just(4)],
        every in 1..60_000usize,
        changes in proptest::collection::vec((0..7usize, 0..40u8, any::<u32>()), 0..400),
    ) {
        let engine = Engine::new(&Options { shards, databases: 2, ..Options::default() }, Arc::new(NullHost));
        let mut expected = Vec::new();
        let values = large_values(&test_limits());
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        for (name, value) in values {
            let entry = value.into_entry(name.as_bytes(), None, 0);
            assert!(crate::chunked_values::is_large(&entry.value()), "{name}");
            expected.push((0, name.as_bytes().to_vec(), told(&entry.value()), None));
            put(&engine, 0, entry);
        }
        expected.sort();
        let (mut changes, mut done) = (changes.into_iter(), 0);
        let mut file = OnPiece(
            |len| {
                while len / every > done {
                    done += 1;
                    if let Some((at, how, n)) = changes.next() {
                        change(&engine, names[at], how, n.into());
                    }
                }
            },
            Vec::new(),
        );
        let options = save::SaveOptions { style: style(family), ..options() };
        let written = save::save(&engine, &options, &mut file).expect("saved");
        let found = read(&file.1).expect("what was written").0;
        prop_assert_eq!(written.keys, expected.len() as u64);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!(found == expected, "{} is another", String::from_utf8_lossy(&expected.1));
        }
        prop_assert_eq!(found.len(), expected.len());
        prop_assert!(engine.open_snapshots().is_empty());
    }
}

/// A host with a scratch file in memory, which is not counted.
#[derive(Default)]
struct WithScratch {
    spilled: Arc<AtomicU64>,
}

struct InMemory(Mutex<Vec<u8>>, Arc<AtomicU64>);

impl Scratch for InMemory {
    fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.0.lock().unwrap();
        all.truncate(end as usize);
        all.extend_from_slice(bytes);
        self.1.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()> {
        to.copy_from_slice(&self.0.lock().unwrap()[from as usize..from as usize + to.len()]);
        Ok(())
    }
}

impl Files for WithScratch {
    fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(InMemory(Mutex::default(), Arc::clone(&self.spilled))))
    }
}

engine::host_defaults!(WithScratch: Clock, Memory, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

/// Two hashes of so many fields with values of so many bytes, and so many strings of so many bytes.
const FIELDS: u32 = 5000;
const VALUE: usize = 16 << 10;
const TEXTS: usize = 200;
const TEXT: usize = 200 << 10;

#[test]
fn memory_for_old_values_is_bounded_while_a_large_one_is_written() {
    let host = WithScratch::default();
    let spilled = Arc::clone(&host.spilled);
    let engine = Engine::new(&Options { shards: 1, databases: 1, ..Options::default() }, Arc::new(host));
    let limits = test_limits().hash();
    for name in ["first", "second"] {
        let mut hash = Hash::default();
        for n in 0..FIELDS {
            hash.set(&n.to_be_bytes(), &[n as u8; VALUE], FieldTtl::Clear, 0, limits);
        }
        put(&engine, 0, Decoded::Object(Object::Hash(hash)).into_entry(name.as_bytes(), None, 0));
    }
    for n in 0..TEXTS {
        put(&engine, 0, Decoded::Bytes(vec![n as u8; TEXT]).into_entry(n.to_string().as_bytes(), None, 0));
    }
    let mut at = 0;
    let mut file = OnPiece(
        |len| {
            // Faster than the file grows, and by far more than may be held.
            while at * VALUE < len * 4 && at < 2 * FIELDS as usize {
                let name: &[u8] = if at.is_multiple_of(2) { b"first" } else { b"second" };
                let field = (at as u32 / 2).wrapping_mul(2_654_435_761) % FIELDS;
                with_keys(&engine, &[name], UnixMs(1), |keys| {
                    let mut edit = keys.edit(keys.key(name));
                    edit.with(|hash: &mut Hash| hash.set(&field.to_be_bytes(), b"new", FieldTtl::Clear, 0, limits))
                        .unwrap();
                    edit.commit_silently(1);
                });
                if at < TEXTS {
                    put(&engine, 0, KeyEntry::new(at.to_string().as_bytes(), NewValue::Int(5), None, 0));
                }
                at += 1;
            }
        },
        Vec::new(),
    );
    let mut save_options = options();
    save_options.style.compress = false;
    save_options.sum = false;
    save::save(&engine, &save_options, &mut file).expect("saved");
    let (mut input, mut found) = (&file.1[..], Unchanged::default());
    let options = load::LoadOptions { relaxed: false, check_sum: false };
    load::load(&mut Source::new(&mut input, false), options, &test_limits(), &mut found).expect("what was written");
    assert_eq!(at, 2 * FIELDS as usize, "everything was changed");
    let peak = engine.persistence_status().progress.copied_peak.load(Relaxed);
    assert!(peak <= 64 << 20, "{peak} bytes were held");
    assert!(spilled.load(Relaxed) > 0, "more was changed than may be held");
    assert_eq!((found.hashes, found.texts), (2, TEXTS));
}

/// Counts values that are unchanged since the beginning.
#[derive(Default)]
struct Unchanged {
    hashes: usize,
    texts: usize,
}

impl Sink for Unchanged {
    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        match found.value {
            Decoded::Object(Object::Hash(hash)) => {
                let mut fields = 0;
                hash.view().visit_all(|field, value, _| {
                    let number = field.to_vec()[3];
                    fields += u32::from(value.to_vec() == [number; VALUE]);
                });
                self.hashes += usize::from(fields == FIELDS);
            }
            Decoded::Bytes(text) => self.texts += usize::from(text == vec![text[0]; TEXT]),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn expiries_are_changed_and_values_replaced_without_a_copy_of_a_large_one() {
    const TEXT: usize = 56 << 20;
    let host = WithScratch::default();
    let spilled = Arc::clone(&host.spilled);
    let engine = Engine::new(&Options { shards: 1, databases: 1, ..Options::default() }, Arc::new(host));
    let mut stream = Stream::default();
    for n in 1..=30_000 {
        stream.append(Id::new(n, 0), [(&b"field"[..], &b"a value"[..])].into_iter(), test_limits().stream());
    }
    let names: [&[u8]; 2] = [b"stream", b"text"];
    let mut expected = Vec::new();
    for (name, object) in
        names.into_iter().zip([Object::Stream(Box::new(stream)), Object::String(vec![7; TEXT].into())])
    {
        let entry = Decoded::Object(object).into_entry(name, Some(1 << 40), 0);
        assert!(crate::chunked_values::is_large(&entry.value()));
        expected.push((0, name.to_vec(), told(&entry.value()), Some(1 << 40)));
        put(&engine, 0, entry);
    }
    let mut save_options = options();
    save_options.style.compress = false;
    save_options.sum = false;
    // The changes come right after the snapshot began, and when some of each was written.
    for (from, replaces) in [(1, false), (TEXT / 2, false), (1, true)] {
        let mut left = true;
        let mut file = OnPiece(
            |len| {
                if len < from || !std::mem::take(&mut left) {
                    return;
                }
                for name in names {
                    with_keys(&engine, &[name], UnixMs(1), |keys| {
                        let mut edit = keys.edit(keys.key(name));
                        [Some(9 << 40), None, Some(1 << 40)].into_iter().for_each(|at| edit.set_expiry(at.map(UnixMs)));
                        if replaces {
                            edit.set_string(NewString::encode(Cow::Borrowed(b"another")), edit::Ttl::Clear);
                        }
                        edit.commit_silently(1);
                    });
                }
            },
            Vec::new(),
        );
        save::save(&engine, &save_options, &mut file).expect("saved");
        let bytes = file.1;
        assert!(!left);
        let copied = engine.persistence_status().progress.copied.load(Relaxed);
        assert!(replaces || copied < 1 << 10, "{copied} bytes were copied");
        assert_eq!(spilled.load(Relaxed), 0, "what is replaced is left to the save");
        assert!(read(&bytes).expect("what was written").0 == expected, "a file of another moment");
        engine.persistence_status().progress.reset();
    }
}

/// A host with three spare threads. A reading of its clock is a long time later, so that each look finds out anew
/// whether clients are busy.
#[derive(Default)]
struct Crowd(AtomicU64);

impl Clock for Crowd {
    fn nanos(&self) -> Nanos {
        Nanos(self.0.fetch_add(1 << 30, Relaxed))
    }
}

impl Threads<Engine> for Crowd {
    fn alongside(&self, help: &(dyn Fn() + Sync), work: &mut dyn FnMut()) {
        std::thread::scope(|scope| {
            (0..3).for_each(|_| _ = scope.spawn(help));
            work();
        });
    }
}

engine::host_defaults!(Crowd: Memory, Files, Peers, Process, Log, Connections, Delivery, EffectSink);

/// Each key once, however many threads write, which stop in the middle when clients are busy, and come back.
#[test]
fn a_save_that_others_help_with_is_complete() {
    let options = Options { shards: 100, databases: 3, ..Options::default() };
    let engine = Engine::new(&options, Arc::new(Crowd::default()));
    let mut expected = Vec::new();
    for n in 0..30_000u32 {
        let (db, name) = (n % 3, format!("key {n}"));
        let entry = Decoded::Bytes(format!("value {n} ").repeat(9).into_bytes()).into_entry(name.as_bytes(), None, 0);
        expected.push((u64::from(db), name.into_bytes(), told(&entry.value()), None));
        put(&engine, db, entry);
    }
    for (_, value) in large_values(&test_limits()).into_iter().take(2) {
        let entry = value.into_entry(format!("large {}", expected.len()).as_bytes(), None, 0);
        expected.push((1, entry.key().to_vec(), told(&entry.value()), None));
        put(&engine, 1, entry);
    }
    expected.sort();
    for round in 0..4 {
        let mut blocks = 0;
        let busy = |_| {
            blocks += 1;
            if blocks % 3 == round % 3 {
                engine.metrics()[0].turn_nanos.add(1 << 34);
            }
        };
        let mut file = OnPiece(busy, Vec::new());
        let written = save::save(&engine, &crate::tests::options(), &mut file).expect("saved");
        assert_eq!(written.keys, expected.len() as u64);
        assert!(read(&file.1).expect("what was written").0 == expected, "round {round}");
        let error = save::save(&engine, &crate::tests::options(), &mut Full(round * 200_000)).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(engine.open_snapshots().is_empty());
    }
}

/// A host whose clock advances by a tenth of a millisecond at a time, and that counts rests.
#[derive(Default)]
struct Resting {
    clock: AtomicU64,
    rested: Arc<AtomicU64>,
}

impl Clock for Resting {
    fn nanos(&self) -> Nanos {
        Nanos(self.clock.fetch_add(100_000, Relaxed))
    }

    fn rest(&self, time: std::time::Duration) {
        self.rested.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

engine::host_defaults!(Resting: Memory, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

#[test]
fn a_save_that_a_client_waits_for_rests_less() {
    let host = Resting::default();
    let rested = Arc::clone(&host.rested);
    let engine = Engine::new(&Options { shards: 4, databases: 1, ..Options::default() }, Arc::new(host));
    for n in 0..20_000u32 {
        put(&engine, 0, Decoded::Bytes(vec![7; 200]).into_entry(n.to_string().as_bytes(), None, 0));
    }
    let rests = [Some(1), None].map(|background| {
        assert!(engine.persistence_status().begin(background.map(SteadyMs)));
        let busy = |_| engine.metrics()[0].turn_nanos.add(1 << 30);
        save::save(&engine, &options(), &mut OnPiece(busy, Vec::new())).expect("saved");
        engine.persistence_status().end(UnixMs(1), SteadyMs(1), Some(0), false);
        rested.swap(0, Relaxed)
    });
    assert!(rests[1] > 0 && rests[0] > 3 * rests[1], "{rests:?}");
}

/// A file that takes so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
