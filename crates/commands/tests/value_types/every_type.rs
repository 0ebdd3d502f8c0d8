//! Tests over the table of value types: each sample of each type goes through all that a server does with a value
//! whatever its type. A crate of types includes this file beside a function `install`.

use commands::core::dispatch;
use commands::{Args, Flow, Now, Session};
use engine::data::value::{KeyEntry, Object, Value, ValueExt};
use engine::data::value_type::{self, ValueType};
use engine::keyspace::encoding_limits::EncodingLimits;
use engine::time::UnixUs;
use engine::{Engine, NullHost, Options};
use fastrand::Rng;
use persistence::aof::rewrite::{self, RewriteOptions};
use persistence::dump::{self, ChunkedDump};
use persistence::format::Family;
use persistence::load::{LoadOptions, LoadedKey, Sink, load};
use persistence::save::{Marks, SaveOptions, save};
use persistence::{Decoded, Source, Style};
use resp::Reply;
use resp::reply_value::{Decoder, Value as Answer};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// The time of all commands, in microseconds.
const NOW: UnixUs = UnixUs(1_700_000_000_000_000);
/// The form of values that nothing is lost in.
const WHOLE: Style = Style { compress: true, family: Family::Valkey };

/// One client on an engine.
pub struct Machine {
    pub engine: Arc<Engine>,
    session: Session,
}

impl Machine {
    pub fn new() -> Machine {
        super::install();
        let options = Options { shards: 4, databases: 2, ..Options::default() };
        Machine { engine: Arc::new(Engine::new(&options, Arc::new(NullHost))), session: Session::local() }
    }

    /// Runs a command to its end.
    fn ask(&mut self, words: &[&[u8]]) -> Answer {
        let (mut args, mut reply): (Args<'_>, _) = (words.iter().copied().collect(), Reply::default());
        let flow = dispatch::execute(&self.engine, &mut self.session, &mut args, Now { unix_us: NOW }, &mut reply);
        assert!(matches!(flow, Flow::Next | Flow::More(_)), "the command ends");
        Decoder::new().decode(&reply.take()).unwrap().map_or(Answer::Null, |(answer, _)| answer)
    }

    pub fn text(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        shown(&self.ask(&words))
    }

    pub fn put(&mut self, key: &str, object: &Object) {
        let payload = dump::dump(&Value::Payload(object), &WHOLE);
        assert_eq!(shown(&self.ask(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"])), "OK");
    }

    /// Returns the digest of a key's value.
    fn digest(&mut self, key: &str) -> String {
        self.text(&format!("DEBUG DIGEST-VALUE {key}"))
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Bulk(bytes) | Answer::Simple(bytes) | Answer::Error(bytes) => String::from_utf8_lossy(bytes).into(),
        Answer::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}

/// Calls `test` with each sample of each type.
fn each_sample(mut test: impl FnMut(&'static ValueType, usize, Object)) {
    super::install();
    for known in value_type::all() {
        let samples = (known.samples)();
        assert!(!samples.is_empty(), "{known:?} has samples");
        samples.into_iter().enumerate().for_each(|(number, sample)| test(known, number, sample));
    }
}

fn limits() -> EncodingLimits {
    EncodingLimits::new(&engine::config::Config::default())
}

fn restored(payload: &[u8]) -> KeyEntry {
    let read = dump::restore(dump::verify(payload, false, false).expect("a footer of our own"), &limits());
    read.expect("a value of our own").into_entry(b"key", None, 0)
}

#[test]
fn names_numbers_and_classes_are_found() {
    let mut machine = Machine::new();
    for known in value_type::all() {
        assert_eq!(value_type::named(known.name.to_uppercase().as_bytes()), Some(known));
        let categories = machine.text("ACL CAT");
        assert!(categories.split(' ').any(|name| name == known.acl_category), "{known:?} in {categories}");
        let commands = machine.text(&format!("COMMAND LIST FILTERBY ACLCAT {}", known.acl_category));
        assert!(!commands.is_empty(), "{known:?} has commands");
        let docs = machine.text(&format!("COMMAND DOCS {}", commands.split([' ', '|']).next().unwrap()));
        assert!(docs.contains("group"), "{docs}");
        match &known.module {
            Some(module) => {
                assert_eq!(known.number, value_type::MODULE_NUMBER);
                assert!(machine.text("MODULE LIST").contains(module.module));
                assert!(!machine.text(&format!("COMMAND LIST FILTERBY MODULE {}", module.module)).is_empty());
            }
            None => assert!(value_type::BUILT_IN.contains(&known)),
        }
    }
}

#[test]
fn keys_answer_their_type_encoding_and_size() {
    let mut machine = Machine::new();
    each_sample(|known, number, sample| {
        let key = format!("{}:{number}", known.name);
        machine.put(&key, &sample);
        assert_eq!(machine.text(&format!("TYPE {key}")), known.name);
        assert!(!machine.text(&format!("OBJECT ENCODING {key}")).is_empty());
        let Answer::Int(bytes) = machine.ask(&[b"MEMORY", b"USAGE", key.as_bytes()]) else { panic!("a number") };
        assert!(bytes as usize >= sample.memory_usage(0) / 8, "{known:?} {number}: {bytes}");
    });
    for known in value_type::all() {
        let found = machine.text(&format!("SCAN 0 COUNT 1000 TYPE {}", known.name));
        assert_eq!(found.split(' ').skip(1).count(), (known.samples)().len(), "{known:?}: {found}");
        assert!(found.split(' ').skip(1).all(|key| key.starts_with(&format!("{}:", known.name))));
        if let Some(sizes) = known.sizes {
            assert!(machine.text("INFO keysizes").contains(sizes), "{known:?}");
        }
    }
}

#[test]
fn a_dump_is_restored() {
    let mut machine = Machine::new();
    each_sample(|known, number, sample| {
        machine.put("a", &sample);
        let Answer::Bulk(payload) = machine.ask(&[b"DUMP", b"a"]) else { panic!("a dump") };
        machine.ask(&[b"RESTORE", b"b", b"0", &payload, b"REPLACE"]);
        assert_eq!(machine.digest("a"), machine.digest("b"), "{known:?} {number}");
        assert_eq!(machine.text("TYPE b"), known.name);
        let entry = restored(&payload);
        assert_eq!((entry.value().value_type(), entry.value().length()), (known, Value::Payload(&sample).length()));
    });
}

#[test]
fn a_dump_in_pieces_is_restored() {
    let mut machine = Machine::new();
    each_sample(|known, number, sample| {
        machine.put("a", &sample);
        let value = Value::Payload(&sample);
        let Some(mut pieces) = ChunkedDump::begin(&value, &WHOLE) else { return };
        while !pieces.step(&value, 1000) {}
        machine.ask(&[b"RESTORE", b"b", b"0", &pieces.finish(), b"REPLACE"]);
        assert_eq!(machine.digest("a"), machine.digest("b"), "{known:?} {number}");
    });
}

#[test]
fn copies_are_equal_and_independent() {
    let mut machine = Machine::new();
    each_sample(|known, number, sample| {
        machine.put("a", &sample);
        machine.ask(&[b"COPY", b"a", b"b", b"REPLACE"]);
        let digest = machine.digest("a");
        assert_eq!(machine.digest("b"), digest, "{known:?} {number}");
        machine.text("UNLINK a");
        assert_eq!(machine.digest("b"), digest, "{known:?} {number}");
        machine.text("RENAME b a");
        machine.text("MOVE a 1");
        assert_eq!(machine.text("TYPE a"), "none");
        machine.text("SELECT 1");
        assert_eq!(machine.digest("a"), digest, "{known:?} {number}");
        machine.text("DEL a");
        machine.text("SELECT 0");
    });
}

#[test]
fn a_value_is_freed_in_pieces() {
    each_sample(|known, number, mut sample| {
        let effort = sample.free_effort();
        let mut steps = 0;
        while !sample.drain_step(64) {
            steps += 1;
            assert!(steps <= effort + 1, "{known:?} {number}: {effort}");
        }
    });
}

/// Receives keys of a file.
#[derive(Default)]
struct Keys(Vec<(Vec<u8>, Decoded)>);

impl Sink for Keys {
    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        self.0.push((found.name, found.value));
        Ok(())
    }
}

/// Returns each key of a file with its value's type and length.
fn keys_of(mut file: &[u8]) -> Vec<(String, &'static str, usize)> {
    let mut keys = Keys::default();
    let options = LoadOptions { relaxed: false, check_sum: true };
    load(&mut Source::new(&mut file, true), options, &limits(), &mut keys).unwrap();
    let seen = |(name, value): (Vec<u8>, Decoded)| {
        let entry = value.into_entry(&name, None, 0);
        (String::from_utf8(name).unwrap(), entry.value().value_type().name, entry.value().length())
    };
    let mut found: Vec<_> = keys.0.into_iter().map(seen).collect();
    found.sort();
    found
}

pub fn options(family: Family) -> SaveOptions {
    SaveOptions {
        data: true,
        functions: false,
        slots: cluster::slot_set::SlotSet::all(),
        purpose: engine::snapshot::open_snapshots::Purpose::Rewrite,
        style: Style { compress: true, family },
        sum: true,
        fields: Vec::new(),
        marks: Marks::None,
        // With a delay each step is written by itself.
        delay: Duration::from_nanos(1),
    }
}

/// Puts all samples into a machine, and returns what a file of them is to have.
fn filled(machine: &mut Machine) -> Vec<(String, &'static str, usize)> {
    let mut expected = Vec::new();
    each_sample(|known, number, sample| {
        let key = format!("{}:{number}", known.name);
        machine.put(&key, &sample);
        expected.push((key, known.name, Value::Payload(&sample).length()));
    });
    expected.sort();
    expected
}

#[test]
fn a_file_for_each_family_of_replicas_has_all_values() {
    let mut machine = Machine::new();
    let expected = filled(&mut machine);
    for family in [Family::Common, Family::Redis, Family::Valkey] {
        let mut file = Vec::new();
        save(&machine.engine, &options(family), &mut file).unwrap();
        assert_eq!(keys_of(&file), expected, "{family:?}");
    }
}

/// A file during whose writing keys are changed.
struct Changing<'m> {
    machine: &'m mut Machine,
    keys: Vec<String>,
    bytes: Vec<u8>,
}

impl Write for Changing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if let Some(key) = self.keys.pop() {
            match self.keys.len() % 3 {
                0 => self.machine.text(&format!("DEL {key}")),
                1 => self.machine.text(&format!("RENAME {key} renamed:{key}")),
                _ => self.machine.text(&format!("SET {key} another")),
            };
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_is_of_its_moment_while_keys_change() {
    let mut machine = Machine::new();
    let expected = filled(&mut machine);
    let engine = Arc::clone(&machine.engine);
    let keys = expected.iter().map(|(key, ..)| key.clone()).collect();
    let mut file = Changing { machine: &mut machine, keys, bytes: Vec::new() };
    save(&engine, &options(Family::Valkey), &mut file).unwrap();
    assert_eq!(keys_of(&file.bytes), expected);
}

#[test]
fn a_log_of_commands_makes_the_same_values() {
    let mut machine = Machine::new();
    let mut log = Vec::new();
    let expected = filled(&mut machine);
    rewrite::write(&machine.engine, &RewriteOptions::default(), &mut || (), &mut log).unwrap();
    let (mut replayed, mut rest) = (Machine::new(), &log[..]);
    while !rest.is_empty() {
        let (command, len) = Decoder::new().decode(rest).unwrap().expect("whole commands");
        let Answer::Array(words) = command else { panic!("a command") };
        let words: Vec<&[u8]> =
            words.iter().map(|word| if let Answer::Bulk(word) = word { &word[..] } else { b"" }).collect();
        let reply = replayed.ask(&words);
        assert!(!matches!(reply, Answer::Error(_)), "{}", shown(&reply));
        rest = &rest[len..];
    }
    for (key, name, _) in expected {
        assert_eq!(replayed.text(&format!("TYPE {key}")), name);
        assert_eq!(replayed.digest(&key), machine.digest(&key), "{key}");
    }
}

#[test]
fn mutated_payloads_are_refused_or_are_values() {
    let mut random = Rng::with_seed(7);
    each_sample(|_, _, sample| {
        let payload = dump::dump(&Value::Payload(&sample), &WHOLE);
        // A change of a large value is most likely one of an element's bytes.
        let cases = if payload.len() > 10_000 { 5 } else { 300 };
        for _ in 0..cases {
            let mut changed = payload.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..changed.len() - 10);
                changed[at] = random.u8(..);
            }
            let Some(verified) = dump::verify(&changed, true, true) else { continue };
            if let Ok(value) = dump::restore(verified, &limits()) {
                let entry = value.into_entry(b"key", None, 0);
                let again = restored(&dump::dump(&entry.value(), &WHOLE));
                assert_eq!(again.value().length(), entry.value().length());
            }
        }
    });
}
