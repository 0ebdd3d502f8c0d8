//! Written data is read again: values of every type in random contents, files, and inputs with random damage.

use crate::decode::Decoded;
use crate::dump::{ChunkedDump, dump, dump_widely, fuzz, restore, verify};
use crate::encode::Style;
use crate::format::{Family, VERSION_OLDER, kind};
use crate::load::{self, LoadedKey, Sink};
use crate::rdb_reader::Source;
use crate::save::{self, Marks};
use cluster::slot_set::SlotSet;
use engine::config::Config;
use engine::data::value::{KeyEntry, Object, Value, ValueExt};
use engine::keyspace::caller::ExecContext;
use engine::keyspace::encoding_limits::EncodingLimits;
use engine::snapshot::open_snapshots::Purpose;
use engine::time::{SteadyMs, UnixMs};
use engine::{Engine, NullHost, Options};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use structures::entry::NewValue;
use structures::hash::{FieldTtl, Hash};
use structures::list::List;
use structures::quicklist::End;
use structures::set::Set;
use structures::sorted_set::SortedSet;
use structures::stream::{ConsumerGroup, Id, Pending, Stream};

pub(crate) fn test_limits() -> EncodingLimits {
    EncodingLimits::new(&Config::default())
}

pub(crate) fn style(family: Family) -> Style {
    Style { compress: true, family }
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..20),
        4 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        2 => (-300i64..300).prop_map(|n| n.to_string().into_bytes()),
        2 => (any::<u8>(), 20..400usize).prop_map(|(byte, n)| vec![byte; n]),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::INFINITY),
        Just(-0.0),
        (-9i32..9).prop_map(f64::from),
        any::<f64>().prop_filter("", |n| !n.is_nan())
    ]
}

fn stream(ids: Vec<u64>, names: Vec<Vec<u8>>, limits: &EncodingLimits) -> Stream {
    let mut stream = Stream::default();
    for step in ids {
        let id = Id::new(stream.last_id.ms + 1 + step, step);
        let pairs = names.iter().map(|name| (&name[..], &b"value"[..]));
        stream.append(id, pairs, limits.stream());
    }
    let mut group = ConsumerGroup::new(stream.last_id, Some(1));
    let (consumer, _) = group.find_or_add(b"consumer", 5);
    if let Some(consumer) = group.consumer_mut(consumer) {
        consumer.active_at = Some(4);
    }
    group.find_or_add(b"idle", 7);
    let first = stream.first_id().expect("an entry");
    group.assign(first, Pending { delivered_at: 3, deliveries: 2, consumer: Some(consumer) });
    // Half of the streams have state that only the newest types express, as a whole or in part.
    if stream.len() % 2 == 0 {
        group.assign(stream.last_id, Pending { delivered_at: 0, deliveries: 9, consumer: None });
    }
    if stream.len() % 4 < 2 {
        let message = names[0].as_slice().into();
        let entry = stream.last_id;
        stream.idempotency_mut().remember(b"producer", message, entry, entry.ms as i64);
    }
    stream.add_group(b"group", group);
    stream
}

fn value() -> impl Strategy<Value = Decoded> {
    let limits = test_limits();
    let (list, set, zset, hash) = (limits.list(), limits.set(), limits.sorted_set(), limits.hash());
    prop_oneof![
        word().prop_map(|bytes| match resp::number::parse_i64(&bytes) {
            Some(n) => Decoded::Int(n),
            None => Decoded::Bytes(bytes),
        }),
        vec(word(), 1..300).prop_map(move |words| {
            let mut all = List::default();
            for word in words {
                all.reserve(1, word.len(), &list);
                all.push(End::Tail, Cow::Owned(word), &list);
            }
            Decoded::Object(Object::List(all))
        }),
        btree_set(word(), 1..200).prop_map(move |words| {
            let words: Vec<_> = words.into_iter().collect();
            let mut all = Set::for_members(&words[0], words.len(), &set);
            words.iter().for_each(|word| _ = all.insert(word, &set));
            Decoded::Object(Object::Set(all))
        }),
        btree_set(any::<i16>(), 1..90).prop_map(move |numbers| {
            let mut all = Set::for_members(b"1", numbers.len(), &set);
            numbers.iter().for_each(|n| _ = all.insert(n.to_string().as_bytes(), &set));
            Decoded::Object(Object::Set(all))
        }),
        btree_map(word(), score(), 1..200).prop_map(move |pairs| {
            let mut all = SortedSet::default();
            pairs.iter().for_each(|(member, score)| _ = all.insert(member, *score, zset));
            Decoded::Object(Object::SortedSet(all))
        }),
        (btree_map(word(), (word(), any::<Option<u32>>()), 1..200), any::<bool>()).prop_map(move |(fields, timed)| {
            let mut all = Hash::default();
            for (field, (value, at)) in &fields {
                let ttl = at.filter(|_| timed).map_or(FieldTtl::Clear, |at| FieldTtl::At(at.into()));
                all.set(field, value, ttl, 0, hash);
            }
            Decoded::Object(Object::Hash(all))
        }),
        (vec(0..3u64, 1..150), vec(word(), 1..4))
            .prop_map(move |(ids, names)| { Decoded::Object(Object::Stream(Box::new(stream(ids, names, &limits)))) }),
    ]
}

/// Describes the whole content of a value, independent of the order of its table.
pub(crate) fn told(value: &Value<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    match value {
        Value::Packed(_) | Value::Payload(Object::Hash(_)) => {
            let hash = value.as_collection::<Hash>().expect("a hash");
            hash.visit_all(|field, value, at| lines.push(format!("{:?} {:?} {at:?}", field.to_vec(), value.to_vec())));
        }
        Value::Payload(Object::Set(set)) => set.iter().for_each(|member| lines.push(format!("{:?}", member.to_vec()))),
        Value::Payload(Object::SortedSet(set)) => return format!("{:?}", set.iter().collect::<Vec<_>>()),
        Value::Payload(Object::List(list)) => {
            list.each(0..usize::MAX, false, |item| lines.push(format!("{:?}", item.to_vec())));
            return lines.join(",");
        }
        Value::Payload(Object::Stream(stream)) => return told_stream(stream),
        other => return format!("{other:?}"),
    }
    lines.sort();
    lines.join(",")
}

/// Describes a stream, independent of its nodes.
fn told_stream(stream: &Stream) -> String {
    let mut lines = Vec::new();
    let mut entries = stream.range(Id::MIN, Id::MAX);
    while let Some(id) = entries.next() {
        let fields: Vec<_> =
            std::iter::from_fn(|| entries.field()).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        lines.push(format!("{id:?} {fields:?}"));
    }
    let Stream { last_id, max_deleted_id, entries_added, .. } = stream;
    lines.push(format!("{last_id:?} {max_deleted_id:?} {entries_added}"));
    lines.push(format!("{:?} {:?}", stream.groups().collect::<Vec<_>>(), stream.idempotency()));
    lines.join(",")
}

#[test]
fn a_dump_without_its_checksum_is_refused() {
    let text = b"\x00\x03abc\x0b\x00\xb0s\x8dN\xbc\xedKk";
    assert!(verify(text, false, false).is_some());
    let mut without = text.to_vec();
    without[text.len() - 8..].fill(0);
    for relaxed in [false, true] {
        assert!(verify(&without, relaxed, false).is_none());
        assert!(verify(&without, relaxed, true).is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_dump_restores_the_value(value in value()) {
        let entry = value.into_entry(b"key", Some(9), 7);
        for (family, dump) in [(Family::Valkey, dump as fn(&_, &_) -> _), (Family::Redis, dump), (Family::Redis, dump_widely)] {
            let bytes: Vec<u8> = dump(&entry.value(), &style(family));
            let payload = verify(&bytes, false, false).expect("a footer that is right");
            let again = restore(payload, &test_limits()).expect("what was written").into_entry(b"key", Some(9), 7);
            prop_assert_eq!(told(&again.value()), told(&entry.value()));
            use engine::data::value::ValueExt;
            // The last element may take a list's bytes over the limit, where it is read as a quicklist; as in Valkey.
            let is_near = matches!(entry.value(), Value::Payload(Object::List(_))) && told(&entry.value()).len() > 7000;
            prop_assert!(is_near || again.value().encoding() == entry.value().encoding());
        }
    }

    #[test]
    fn a_dump_in_pieces_restores_the_value(value in value(), max in 1..3000usize) {
        let entry = value.into_entry(b"key", None, 7);
        if let Some(mut gradual) = ChunkedDump::of(&entry.value(), &style(Family::Valkey)) {
            while !gradual.step(&entry.value(), max) {}
            let bytes = gradual.finish();
            let payload = verify(&bytes, false, false).expect("a footer that is right");
            let again = restore(payload, &test_limits()).expect("what was written").into_entry(b"key", None, 7);
            prop_assert_eq!(told(&again.value()), told(&entry.value()));
            prop_assert_eq!(bytes[bytes.len() - 10..][..2].to_vec(), {
                let wide = dump_widely(&entry.value(), &style(Family::Valkey));
                wide[wide.len() - 10..][..2].to_vec()
            });
        }
    }

    #[test]
    fn values_that_an_older_server_knows_are_dumped_for_it(value in value()) {
        let entry = value.into_entry(b"key", None, 0);
        let is_new = match entry.value() {
            Value::Payload(Object::Stream(_)) => true,
            Value::Payload(Object::Hash(hash)) => hash.view().volatile_len() > 0,
            _ => false,
        };
        let bytes = dump_widely(&entry.value(), &style(Family::Valkey));
        prop_assert_eq!(bytes[0] >= kind::SET_LISTPACK, is_new);
        let (_, footer) = bytes.split_at(bytes.len() - 10);
        prop_assert_eq!(footer[..2] == VERSION_OLDER.to_le_bytes(), !is_new);
    }

    #[test]
    fn damage_is_an_error_or_another_value(value in value(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let entry = value.into_entry(b"key", None, 0);
        let mut bytes = dump(&entry.value(), &style(Family::Valkey));
        bytes.truncate(bytes.len() - 10);
        let at = at.index(bytes.len());
        fuzz(&[&[2], &bytes[..at]].concat());
        bytes[at] ^= 1 << bit;
        fuzz(&[&[2], &bytes[..]].concat());
    }

    #[test]
    fn nothing_breaks_the_loader(bytes in vec(any::<u8>(), 0..300)) {
        load::fuzz(&[b"REDIS0011", &bytes[..]].concat());
        load::fuzz(&[b"VALKEY080\xfe\x00", &bytes[..]].concat());
        fuzz(&bytes);
    }
}

/// Collects the items of a file.
#[derive(Default)]
pub(crate) struct Collected(pub(crate) Vec<(u64, Vec<u8>, String, Option<i64>)>);

impl Sink for Collected {
    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        let entry = found.value.into_entry(&found.name, None, 0);
        self.0.push((found.db, found.name, told(&entry.value()), found.expiry));
        Ok(())
    }
}

pub(crate) fn options() -> save::SaveOptions {
    save::SaveOptions {
        data: true,
        functions: true,
        slots: SlotSet::all(),
        purpose: Purpose::Save,
        style: style(Family::Valkey),
        sum: true,
        fields: vec![("cinnabar-ver", "1".to_owned())],
        marks: Marks::None,
        delay: Duration::ZERO,
    }
}

fn engine() -> Engine {
    Engine::new(&Options { shards: 4, databases: 4, ..Options::default() }, Arc::new(NullHost))
}

pub(crate) fn put(engine: &Engine, db: u32, entry: KeyEntry) {
    use engine::keyspace::held_locks::HeldLocks;
    use engine::keyspace::keys::Keys;
    let name = entry.key().to_vec();
    let hash = engine.hasher().hash(&name);
    let mut keys =
        Keys::new(engine, HeldLocks::keys(engine, std::iter::once(hash)), db, ExecContext::client(UnixMs(1)));
    let key = keys.key(&name);
    let mut edit = keys.edit(key);
    edit.put(entry);
    edit.commit_silently(1);
    keys.unlock();
}

pub(crate) fn read(bytes: &[u8]) -> Result<Collected, crate::rdb_reader::Fault> {
    let mut input = bytes;
    let mut source = Source::new(&mut input, true);
    let mut all = Collected::default();
    load::load(&mut source, load::LoadOptions { relaxed: false, check_sum: true }, &test_limits(), &mut all)?;
    all.0.sort();
    Ok(all)
}

/// Returns a name so long that the file has many blocks, and that cannot be compressed.
fn name(n: u32) -> String {
    let hash = |salt: u64| (u64::from(n) + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt as u32);
    (0..15).fold(format!("key:{n}:"), |name, salt| name + &format!("{:016x}", hash(salt)))
}

fn text(n: u32) -> KeyEntry {
    KeyEntry::new(name(n).as_bytes(), NewValue::Int(n.into()), n.is_multiple_of(2).then_some(5_000_000), 0)
}

#[test]
fn a_file_is_of_one_moment_while_others_write() {
    struct Meddler<'e>(&'e Engine, Vec<u8>);
    impl std::io::Write for Meddler<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Between two steps old keys change and go, and new ones come.
            let n = self.1.len() as u32;
            for step in 0..200 {
                let changed = (n + step * 37) % 2000;
                put(self.0, changed % 2, KeyEntry::new(name(changed).as_bytes(), NewValue::Int(-1), None, 0));
                put(self.0, 0, KeyEntry::new(format!("new:{n}:{step}").as_bytes(), NewValue::Int(-2), None, 0));
            }
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let engine = engine();
    (0..2000).for_each(|n| put(&engine, n % 2, text(n)));
    let mut meddler = Meddler(&engine, Vec::new());
    let written = save::save(&engine, &options(), &mut meddler).expect("saved");
    let bytes = meddler.1;
    assert_eq!(written.bytes, bytes.len() as u64);
    let found = read(&bytes).expect("what was written").0;
    assert_eq!((found.len(), written.keys), (2000, 2000));
    for (db, name, value, expiry) in found {
        let text = String::from_utf8_lossy(&name);
        let n: u32 = text.split(':').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert_eq!((db, value), (u64::from(n % 2), format!("Int({n})")));
        assert_eq!(expiry, n.is_multiple_of(2).then_some(5_000_000));
    }
    for cut in (0..bytes.len()).step_by(4001).chain(0..100) {
        assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        let mut bad = bytes.clone();
        bad[cut] ^= 16;
        assert!(read(&bad).is_err(), "flipped at {cut}");
    }
}

#[test]
fn a_cancelled_save_says_so_and_leaves_no_trace() {
    struct Cancel<'e>(&'e Engine);
    impl std::io::Write for Cancel<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.persistence_status().cancel();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let engine = engine();
    put(&engine, 0, text(1));
    assert!(engine.persistence_status().begin(None));
    let error = save::save(&engine, &options(), &mut Cancel(&engine)).expect_err("cancelled");
    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    engine.persistence_status().end(UnixMs(1), SteadyMs(1), None, true);
    let mut bytes = Vec::new();
    save::save(&engine, &options(), &mut bytes).expect("the next one");
    assert_eq!(read(&bytes).expect("whole").0.len(), 1);
}

/// Returns a value of each type that is written a piece at a time.
pub(crate) fn large_values(limits: &EncodingLimits) -> Vec<(&'static str, Decoded)> {
    let (list_rules, set_limits, zset_limits, hash_limits) =
        (limits.list(), limits.set(), limits.sorted_set(), limits.hash());
    let (mut list, mut set, mut zset) = (List::default(), Set::big(), SortedSet::default());
    let (mut hash, mut timed) = (Hash::default(), Hash::default());
    for n in 0..6000u64 {
        let word = format!("a word that is the {n}th").repeat(1 + n as usize % 5);
        list.reserve(1, 3 * word.len(), &list_rules);
        list.push(End::Tail, Cow::Owned(word.repeat(3).into_bytes()), &list_rules);
        set.insert(word.as_bytes(), &set_limits);
        zset.insert(word.as_bytes(), (n / 3) as f64, zset_limits);
        hash.set(word.as_bytes(), b"value", FieldTtl::Clear, 0, hash_limits);
        let ttl = if n.is_multiple_of(3) { FieldTtl::At(1000 + n) } else { FieldTtl::Clear };
        timed.set(word.as_bytes(), b"value", ttl, 0, hash_limits);
    }
    let stream = stream(vec![1; 9000], vec![b"name".to_vec()], limits);
    vec![
        ("string", Decoded::Bytes(b"a long string ".repeat(100_000))),
        ("list", Decoded::Object(Object::List(list))),
        ("set", Decoded::Object(Object::Set(set))),
        ("zset", Decoded::Object(Object::SortedSet(zset))),
        ("hash", Decoded::Object(Object::Hash(hash))),
        ("timed", Decoded::Object(Object::Hash(timed))),
        ("stream", Decoded::Object(Object::Stream(Box::new(stream)))),
    ]
}
