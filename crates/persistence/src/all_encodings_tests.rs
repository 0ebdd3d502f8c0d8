//! Every type of value and every opcode that servers have written, as bytes put together by hand, is read or refused by
//! name. `tests/compat/rdb_files.py` reads files that real servers write; these tests cover the forms that no server at
//! hand writes any more, or yet.

use crate::decode::{self, Decoded};
use crate::format::Family;
use crate::load::{self, LoadedKey, Sink};
use crate::rdb_reader::{Fault, Source};
use engine::config::Config;
use engine::data::value::{Object, Value, ValueExt};
use engine::keyspace::encoding_limits::EncodingLimits;
use structures::hash::Hash;
use structures::intset::Intset;
use structures::listpack::Listpack;
use structures::stream::Id;

fn string(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::encode::put_string(&mut out, bytes, false);
    out
}

fn listpack(words: &[&str]) -> Vec<u8> {
    let pack: Listpack = words.iter().map(|word| word.as_bytes()).collect();
    string(pack.as_bytes())
}

/// Returns a ziplist of short words.
fn ziplist(words: &[&str]) -> Vec<u8> {
    let (mut entries, mut before, mut tail) = (Vec::new(), 0, 10);
    for word in words {
        tail = 10 + entries.len() as u32;
        entries.push(before);
        entries.push(word.len() as u8);
        entries.extend_from_slice(word.as_bytes());
        before = word.len() as u8 + 2;
    }
    let mut out = (entries.len() as u32 + 11).to_le_bytes().to_vec();
    out.extend_from_slice(&tail.to_le_bytes());
    out.extend_from_slice(&(words.len() as u16).to_le_bytes());
    out.extend_from_slice(&entries);
    out.push(255);
    string(&out)
}

fn read(kind: u8, family: Family, body: &[u8]) -> Result<Decoded, Fault> {
    let mut bytes = body;
    let mut source = Source::new(&mut bytes, false);
    let value = decode::value(&mut source, kind, family, &EncodingLimits::new(&Config::default()))?;
    assert!(source.is_at_end().expect("bytes in memory"), "type {kind} left bytes behind");
    Ok(value)
}

/// Describes a value in one line.
fn told(value: Decoded) -> String {
    let entry = value.into_entry(b"key", None, 0);
    let value = entry.value();
    let mut words = Vec::new();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match &value {
        Value::Packed(_) | Value::Payload(Object::Hash(_)) => {
            value.as_collection::<Hash>().expect("a hash").visit_all(|field, value, at| {
                let until = at.map_or(String::new(), |at| format!("@{at}"));
                words.push(format!("{}={}{until}", text(field.to_vec()), text(value.to_vec())));
            });
        }
        Value::Payload(Object::Set(set)) => words.extend(set.iter().map(|member| text(member.to_vec()))),
        Value::Payload(Object::SortedSet(set)) => {
            words.extend(set.iter().map(|(member, score)| format!("{}:{score}", String::from_utf8_lossy(member))));
        }
        Value::Payload(Object::List(list)) => list.each(0..usize::MAX, false, |item| words.push(text(item.to_vec()))),
        other => return format!("{other:?}"),
    }
    if !matches!(value, Value::Payload(Object::List(_))) {
        words.sort();
    }
    format!("{} {}", value.encoding(), words.join(" "))
}

#[test]
fn every_collection_there_has_been() {
    let pairs = |count: u8, words: &[&str]| {
        [vec![count], words.iter().flat_map(|word| string(word.as_bytes())).collect()].concat()
    };
    let ints: Intset = {
        let mut ints = Intset::new();
        [3, -70000].iter().for_each(|n| _ = ints.insert(*n));
        ints
    };
    let cases: Vec<(u8, Family, Vec<u8>, &str)> = vec![
        (0, Family::Common, string(b"text"), "Inline([116, 101, 120, 116])"),
        (1, Family::Common, pairs(2, &["a", "b"]), "listpack a b"),
        (2, Family::Common, pairs(2, &["a", "b"]), "listpack a b"),
        (
            3,
            Family::Common,
            [&pairs(2, &["a"])[..], b"\x032.5", &string(b"b"), b"\xff"].concat(),
            "listpack a:2.5 b:-inf",
        ),
        (4, Family::Common, pairs(1, &["f", "v"]), "listpack f=v"),
        (5, Family::Common, [&pairs(1, &["a"])[..], &1.5f64.to_le_bytes()].concat(), "listpack a:1.5"),
        (9, Family::Common, string(b"\x02\x01a\x01\x002\x01b\x02\x01xy?\xff"), "listpack a=2 b=xy"),
        (10, Family::Common, ziplist(&["a", "bc"]), "listpack a bc"),
        (11, Family::Common, string(ints.as_bytes()), "intset -70000 3"),
        (12, Family::Common, ziplist(&["a", "1.5", "b", "2"]), "listpack a:1.5 b:2"),
        (13, Family::Common, ziplist(&["f", "v"]), "listpack f=v"),
        (14, Family::Common, [vec![2], ziplist(&["a"]), ziplist(&["b"])].concat(), "quicklist a b"),
        (16, Family::Common, listpack(&["f", "v"]), "listpack f=v"),
        (17, Family::Common, listpack(&["a", "1.5"]), "listpack a:1.5"),
        (18, Family::Common, [vec![2, 1], string(b"plain"), vec![2], listpack(&["x"])].concat(), "quicklist plain x"),
        (20, Family::Common, listpack(&["a", "1"]), "listpack 1 a"),
        (22, Family::Valkey, [&pairs(1, &["f", "v"])[..], &77i64.to_le_bytes()].concat(), "listpack f=v@77"),
        (22, Family::Redis, [&[1, 9][..], &string(b"f"), &string(b"v")].concat(), "listpack f=v@9"),
        (23, Family::Redis, listpack(&["f", "v", "9", "g", "w", "0"]), "listpack f=v@9 g=w"),
        (
            24,
            Family::Redis,
            [&100i64.to_le_bytes()[..], &[1, 6], &string(b"f"), &string(b"v")].concat(),
            "listpack f=v@105",
        ),
        (25, Family::Redis, [&9i64.to_le_bytes()[..], &listpack(&["f", "v", "9"])].concat(), "listpack f=v@9"),
    ];
    for (kind, family, body, expected) in cases {
        let found =
            told(read(kind, family, &body).unwrap_or_else(|fault| panic!("type {kind} of {family:?}: {fault}")));
        // A hash whose fields have expiries may be a table where another server packs it.
        assert_eq!(found.replace("hashtable", "listpack"), expected, "type {kind} of {family:?}");
        for cut in 0..body.len() {
            assert!(read(kind, family, &body[..cut]).is_err(), "type {kind} without its end");
        }
    }
    for (kind, family) in
        [(22, Family::Common), (24, Family::Valkey), (26, Family::Valkey), (28, Family::Redis), (8, Family::Common)]
    {
        let fault = read(kind, family, &[0; 40]).expect_err("nobody's type");
        assert!(fault.to_string().starts_with(&format!("Unknown RDB encoding type {kind}")), "{fault}");
    }
}

/// Returns a stream of one entry, 5-1, and a group with a consumer that has it; from the fifth version on no consumer
/// has it.
fn stream(version: u8) -> Vec<u8> {
    let id = |ms: u64, seq: u64| [ms.to_be_bytes(), seq.to_be_bytes()].concat();
    let mut out =
        [&[1][..], &string(&id(5, 1)), &listpack(&["1", "0", "1", "f", "0", "2", "0", "0", "v", "4"]), &[1, 5, 1]]
            .concat();
    if version >= 2 {
        out.extend_from_slice(&[5, 1, 4, 0, 7]);
    }
    out.push(1);
    out.extend_from_slice(&string(b"group"));
    out.extend_from_slice(&[5, 1]);
    if version >= 2 {
        out.push(3);
    }
    out.push(1);
    out.extend_from_slice(&id(5, 1));
    out.extend_from_slice(&1000i64.to_le_bytes());
    out.extend_from_slice(&[2, 1]);
    out.extend_from_slice(&string(b"alice"));
    out.extend_from_slice(&900i64.to_le_bytes());
    if version >= 3 {
        out.extend_from_slice(&800i64.to_le_bytes());
    }
    if version < 5 {
        out.push(1);
        out.extend_from_slice(&id(5, 1));
    } else {
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(&id(5, 1));
    }
    if version >= 4 {
        let producer = [&[100, 50, 1][..], &string(b"producer"), &[1], &string(b"its-id"), &[5, 1, 9, 2]].concat();
        // 100 takes two bytes as a length.
        out.extend_from_slice(&[&[0x40][..], &producer].concat());
    }
    out
}

#[test]
fn every_version_of_streams() {
    for (version, kind, family) in [
        (1, 15, Family::Common),
        (2, 19, Family::Common),
        (3, 21, Family::Common),
        (4, 26, Family::Redis),
        (5, 27, Family::Redis),
    ] {
        let body = stream(version);
        let value = read(kind, family, &body).unwrap_or_else(|fault| panic!("version {version}: {fault}"));
        let Decoded::Object(Object::Stream(stream)) = value else { panic!("a stream") };
        let (name, group) = stream.groups().next().expect("a group");
        let pending = group.pending(Id::new(5, 1)).expect("pending");
        assert_eq!((stream.len(), stream.last_id, name), (1, Id::new(5, 1), &b"group"[..]));
        assert_eq!((pending.delivered_at, pending.deliveries, pending.consumer.is_some()), (1000, 2, version < 5));
        assert_eq!(stream.entries_added, if version == 1 { 1 } else { 7 });
        let (consumer, _) = group.consumers().next().expect("a consumer");
        assert_eq!((consumer.seen_at, consumer.active_at), (900, Some(if version < 3 { 900 } else { 800 })));
        for cut in 0..body.len() {
            assert!(read(kind, family, &body[..cut]).is_err(), "version {version} without its end");
        }
    }
}

#[test]
fn fields_that_come_twice_are_refused() {
    for count in [2, 64, 127, 128, 129, 200] {
        let names: Vec<String> = (0..count).map(|n| if n % 2 == 0 { n.to_string() } else { format!("f{n}") }).collect();
        let pack = |last: usize| {
            let fields = names[..count - 1].iter().chain([&names[last]]);
            listpack(&fields.flat_map(|field| [field.as_str(), "v"]).collect::<Vec<_>>())
        };
        let is_read = |last| read(16, Family::Common, &pack(last)).is_ok();
        assert!(is_read(count - 1) && !is_read(0) && !is_read(count / 2 - 1), "{count}");
    }
}

#[test]
fn members_that_come_twice_are_refused() {
    let twice = listpack(&["a", "b", "a"]);
    assert!(read(20, Family::Common, &twice).is_err());
    let many: Vec<String> = (0..200).map(|n| format!("m{}", n % 199)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(read(20, Family::Common, &listpack(&many)).is_err());
    assert!(read(16, Family::Common, &listpack(&["a", "1", "a", "2"])).is_err());
}

/// The events of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct All(Vec<String>);

impl Sink for All {
    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        let LoadedKey { db, name, expiry, idle, frequency, .. } = found;
        self.0.push(format!("key {db} {} {expiry:?} {idle:?} {frequency:?}", String::from_utf8_lossy(&name)));
        Ok(())
    }

    fn skipped_module(&mut self, name: &str) {
        self.0.push(format!("skipped {name}"));
    }

    fn function(&mut self, code: Vec<u8>) -> Result<(), String> {
        self.0.push(format!("function {}", String::from_utf8_lossy(&code)));
        Ok(())
    }
}

fn file(head: &str, body: &[u8]) -> Result<Vec<String>, String> {
    let bytes = [head.as_bytes(), body, &[255], &[0; 8]].concat();
    let mut input = &bytes[..];
    let mut all = All::default();
    let options = load::LoadOptions { relaxed: false, check_sum: true };
    load::load(&mut Source::new(&mut input, true), options, &EncodingLimits::new(&Config::default()), &mut all)
        .map(|()| all.0)
        .map_err(|fault| fault.to_string())
}

/// Returns the module `name`, in a length of eight bytes.
fn module(name: &str) -> Vec<u8> {
    const CHARACTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let id = name.chars().fold(0u64, |id, c| id << 6 | CHARACTERS.find(c).expect("one of 64") as u64) << 10;
    [&[0x81][..], &id.to_be_bytes()].concat()
}

#[test]
fn everything_that_stands_beside_values() {
    let key = |name: &str| [&[0][..], &string(name.as_bytes()), &string(b"v")].concat();
    let body = [
        &[254, 3, 251, 4, 2, 244, 1, 2, 0][..],
        &[&[253][..], &7i32.to_le_bytes(), &key("seconds")].concat(),
        &[&[252][..], &7001i64.to_le_bytes(), &[249, 200], &key("often")].concat(),
        &[&[248, 60][..], &key("idle")].concat(),
        &[&[245][..], &string(b"#!lua name=l")].concat(),
        // An unsigned number, a float, a double and a string of a module's, then its end.
        &[&[247][..], &module("graphdata"), &[2, 2, 2, 5, 3, 0, 0, 0, 0, 4], &[0; 8], &[5], &string(b"x"), &[0]]
            .concat(),
    ]
    .concat();
    for head in ["REDIS0011", "REDIS0012", "VALKEY080"] {
        let expected = [
            "key 3 seconds Some(7000) None None",
            "key 3 often Some(7001) None Some(200)",
            "key 3 idle None Some(60) None",
            "function #!lua name=l",
            "skipped graphdata",
        ];
        assert_eq!(file(head, &body).expect(head), expected);
    }
    let metadata = |flags: u32| {
        let class = 0x0420_c300 | flags;
        [&[243, 1][..], &class.to_le_bytes(), &[2, 9, 0], &key("marked")].concat()
    };
    assert_eq!(
        file("REDIS0013", &metadata(1)).expect("may be ignored"),
        ["skipped BCDD", "key 0 marked None None None"]
    );
    assert!(file("REDIS0013", &metadata(0)).expect_err("must not be ignored").contains("'BCDD'"));
    let import = |name: &[u8]| [&[243][..], &string(name), &[1, 0, 9], &key("k")].concat();
    for head in ["REDIS0011", "VALKEY080"] {
        assert_eq!(file(head, &import(&[b'a'; 40])).expect("slots"), ["key 0 k None None None"]);
        assert!(file(head, &import(b"a")).expect_err("a short name").contains("job name length"));
    }
}

#[test]
fn values_that_cannot_be_kept_are_named() {
    let module_key = [&[7][..], &string(b"k"), &module("graphdata"), &[0]].concat();
    assert!(file("REDIS0011", &module_key).expect_err("a module's").contains("'graphdata'"));
    let pre_ga = [&[246][..], &string(b"lua"), &string(b"lib")].concat();
    assert!(
        file("REDIS0010", &pre_ga).expect_err("of a candidate").contains("Pre-release function format not supported")
    );
    for head in ["REDIS0015", "REDIS0080", "VALKEY011", "VALKEY082", "RUBIS0011"] {
        assert!(file(head, &[]).is_err(), "{head}");
    }
}
