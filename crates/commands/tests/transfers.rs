//! The data given to another server: a snapshot of all slots, or of some, and the log from the snapshot's offset on.
//! Together they lead to the state of the giver.
//!
//! ```text
//!   commands ->  .  .  | cut  .  .  .  .  .  .  .  | end          commands of all kinds go on while it is walked,
//!                      |<-- log since its offset ->|              and other cuts begin and end in between
//!   another      cut loaded, log run  ------------> the same keys, of its slots
//! ```
//!
//! Each line of commands has its keys under one tag, so that a snapshot of slots has all or nothing of the keys that it
//! reads and writes. `CINNABAR_TRANSFER_CASES=3000` makes it thorough.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "faults/disk.rs"]
#[allow(dead_code, reason = "its faults are for others")]
mod disk;
#[path = "replays/grammar.rs"]
#[allow(dead_code, reason = "all of its lines are for others")]
mod grammar;
#[path = "replays/state.rs"]
mod state;

use cluster::slot_set::SlotSet;
use commands::core::dispatch;
use commands::persistence::aof::load_and_begin;
use commands::{Args, Flow, Now, Session};
use disk::Disk;
use engine::data::slot::slot_of;
use engine::host::clock::Clock;
use engine::host::files::{Files, NewFile};
use engine::host::threads::Server;
use engine::propagation::effects::Record;
use engine::propagation::log_batch::{put_command, put_select};
use engine::snapshot::open_snapshots::Purpose;
use engine::testing::MemoryLog;
use engine::time::UnixUs;
use engine::{Engine, Options};
use fastrand::Rng;
use persistence::Style;
use persistence::aof::Aof;
use persistence::aof::storage::Storage;
use persistence::format::Family;
use persistence::save::{Marks, SaveOptions, SnapshotFile};
use proptest::prelude::*;
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Has files on the disk, and a clock that is moved.
struct Keeper(Disk, Arc<AtomicI64>);

impl Clock for Keeper {
    fn unix_us(&self, _: UnixUs) -> UnixUs {
        UnixUs(self.1.load(SeqCst) * 1000)
    }
}

impl Files for Keeper {
    fn create_file(&self, path: &[u8], _: bool) -> io::Result<Box<dyn NewFile>> {
        self.0.create(path)
    }

    fn open_file(&self, path: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.0.open(path)
    }
}

engine::host_defaults!(Keeper: Threads, Memory, Peers, Process, Log, Connections, Delivery, EffectSink);

const BEGIN: i64 = 1_700_000_000_000;
const TAGS: [&str; 5] = ["{a}", "{b}", "{c}", "{d}", "{e}"];
/// Runs commands, each with the number of its words before them.
const SCRIPT: &[u8] = b"local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.pcall(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end";

/// One client on an engine.
struct Machine {
    engine: Arc<Engine>,
    clock: Arc<AtomicI64>,
    session: Session,
}

impl Machine {
    fn new(disk: Disk, clock: Arc<AtomicI64>) -> Machine {
        commands::install(&[]);
        let options = Options { shards: 16, databases: 2, hash_seed: 7, workers: 1, counts_slots: true };
        let engine = Arc::new(Engine::new(&options, Arc::new(Keeper(disk, Arc::clone(&clock)))));
        Machine { engine, clock, session: Session::local() }
    }

    /// Runs a command to its end; None when it waits.
    fn ask(&mut self, words: &[&[u8]]) -> Option<Value> {
        let now = Now { unix_us: UnixUs(self.clock.load(SeqCst) * 1000) };
        let (mut args, mut reply): (Args<'_>, _) = (words.iter().copied().collect(), Reply::default());
        if let Flow::Wait(_) = dispatch::execute(&self.engine, &mut self.session, &mut args, now, &mut reply) {
            return None;
        }
        Some(Decoder::new().decode(&reply.take()).unwrap().unwrap().0)
    }

    fn run(&mut self, words: &[Vec<u8>]) {
        self.ask(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// Returns a command on keys of this tag; None if it would wait, or needs a value that does not exist.
    fn line(&mut self, random: &mut Rng, tag: &str) -> Option<Vec<Vec<u8>>> {
        let words = grammar::line(random, self.clock.load(SeqCst));
        if words[0].starts_with('B') && words[0] != "BITOP" && words[0] != "BITFIELD" {
            return None;
        }
        let is_key =
            |word: &str| matches!(word.as_bytes(), [b's' | b'h' | b'l' | b't' | b'z' | b'x' | b'p', b'0' | b'1']);
        let mut fill = |word: String| match word.strip_prefix("{dump}") {
            Some(key) => match self.ask(&[b"DUMP", format!("{tag}{key}").as_bytes()]) {
                Some(Value::Bulk(bytes)) => Some(bytes),
                _ => None,
            },
            None if is_key(&word) => Some(format!("{tag}{word}").into_bytes()),
            None => Some(word.into_bytes()),
        };
        words.into_iter().map(&mut fill).collect()
    }

    /// Runs some commands, alone, in a transaction or in a script, at a clock that may have moved on.
    fn go_on(&mut self, random: &mut Rng) {
        let passes = [0, 0, 0, 1, 700, 2000, 11_000];
        self.clock.fetch_add(passes[random.usize(..passes.len())], SeqCst);
        let tag = TAGS[random.usize(..TAGS.len())];
        match random.u32(..10) {
            0 => self.expire(),
            1 => self.session.db = random.u32(..2),
            2 => {
                let lines: Vec<_> = (0..3).filter_map(|_| self.line(random, tag)).collect();
                self.ask(&[b"MULTI"]);
                lines.iter().for_each(|line| self.run(line));
                self.ask(&[b"EXEC"]);
            }
            3 => {
                let mut script = vec![b"EVAL".to_vec(), SCRIPT.to_vec(), b"0".to_vec()];
                for line in (0..3).filter_map(|_| self.line(random, tag)).collect::<Vec<_>>() {
                    script.push(line.len().to_string().into_bytes());
                    script.extend(line);
                }
                self.run(&script);
            }
            _ => {
                if let Some(line) = self.line(random, tag) {
                    self.run(&line);
                }
            }
        }
    }

    /// Removes keys that have expired by now.
    fn expire(&self) {
        let server = Server { worker: 0, now_us: UnixUs(self.clock.load(SeqCst) * 1000) };
        while self.engine.expire_due(0..self.engine.locks().len(), server, 1000) {}
    }

    /// Returns the live keys in these slots, a line each.
    fn state(&mut self, slots: &SlotSet) -> Vec<String> {
        self.expire();
        let mut lines = Vec::new();
        for db in 0..2 {
            self.session.db = db;
            let mut ask = |words: &[&str]| {
                let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                self.ask(&words).expect("it does not wait")
            };
            lines.extend(state::state(&mut ask).iter().map(|line| format!("{db} {line}")));
        }
        lines.retain(|line| tag_in(line.as_bytes()).is_some_and(|tag| slots.contains(slot_of(tag))));
        lines
    }
}

/// Returns the first tag in some words, with its braces.
fn tag_in(text: &[u8]) -> Option<&[u8]> {
    let open = text.iter().position(|byte| *byte == b'{')?;
    text.get(open..open + 3)
}

/// A snapshot that is written.
struct Transfer {
    slots: SlotSet,
    bytes: Vec<u8>,
    /// The log after it.
    log: MemoryLog,
}

/// The giver, while snapshots of it are written.
struct Giver {
    machine: Machine,
    random: Rng,
    cuts: Vec<Transfer>,
    open: usize,
    /// Commands that are still to run.
    left: usize,
}

/// Lets commands run, and other snapshots be written, between two steps of a walk.
struct Meddler<'g>(&'g Mutex<Giver>, Vec<u8>);

impl Write for Meddler<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        meddle(self.0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn meddle(giver: &Mutex<Giver>) {
    let begins = {
        let giver = &mut *giver.lock().unwrap();
        for _ in 0..giver.random.usize(..3).min(giver.left) {
            giver.left -= 1;
            giver.machine.go_on(&mut giver.random);
        }
        giver.open < 3 && giver.left > 0 && giver.random.u32(..12) == 0
    };
    if begins {
        transfer(giver);
    }
}

/// Writes a snapshot from its beginning to its end.
fn transfer(giver: &Mutex<Giver>) {
    let (engine, slots) = {
        let mut giver = giver.lock().unwrap();
        giver.open += 1;
        let (first, len) = (giver.random.u16(..16384), giver.random.u16(1..9000));
        let some = [first..=first.saturating_add(len).min(16383), 15_000..=15_500];
        let slots = if giver.random.bool() { SlotSet::all() } else { SlotSet::of(some) };
        (Arc::clone(&giver.machine.engine), slots)
    };
    let options = SaveOptions {
        data: true,
        functions: true,
        slots: slots.clone(),
        purpose: Purpose::Transfer,
        style: Style { compress: true, family: Family::Valkey },
        sum: true,
        fields: Vec::new(),
        marks: Marks::None,
        // With a delay each step is written by itself.
        delay: Duration::from_nanos(1),
    };
    let mut log = None;
    let file = SnapshotFile::begin(&engine, &options, || log = Some(MemoryLog::of(&engine)), || false).unwrap();
    let log = log.unwrap();
    assert_eq!(file.offset(), log.log().appended());
    let mut to = Meddler(giver, Vec::new());
    file.write(&mut to).unwrap();
    let bytes = to.1;
    let mut giver = giver.lock().unwrap();
    giver.open -= 1;
    giver.cuts.push(Transfer { slots, bytes, log });
}

/// Returns the part of the log for these slots.
fn log_of(records: Vec<(u32, Record)>, slots: &SlotSet) -> Vec<u8> {
    let mut out = Vec::new();
    for (db, record) in records {
        let is_frame = matches!(&record[0][..], b"MULTI" | b"EXEC");
        let tag = record.iter().skip(1).find_map(|word| tag_in(word));
        if !is_frame && tag.is_none_or(|tag| slots.contains(slot_of(tag))) {
            put_select(&mut out, db);
            put_command(&mut out, record.iter().map(Vec::as_slice));
        }
    }
    out
}

/// Returns the machine that has a snapshot and the log after it.
fn receiver(clock: Arc<AtomicI64>, cut: &[u8], log: &[u8]) -> Machine {
    let disk = Disk::default();
    let manifest = b"file log.aof.1.base.rdb seq 1 type b\nfile log.aof.1.incr.aof seq 1 type i\n";
    for (name, content) in [("manifest", &manifest[..]), ("1.base.rdb", cut), ("1.incr.aof", log)] {
        disk.replace(format!("logs/log.aof.{name}").as_bytes(), content).unwrap();
    }
    let machine = Machine::new(disk.clone(), clock);
    Aof::install(&machine.engine, Arc::new(disk), b"logs", b"log.aof");
    machine.engine.persistence_status().set_loading(true);
    load_and_begin(&machine.engine).unwrap();
    machine.engine.persistence_status().set_loading(false);
    machine
}

fn check(seed: u64) {
    let clock = Arc::new(AtomicI64::new(BEGIN));
    let machine = Machine::new(Disk::default(), Arc::clone(&clock));
    let giver = Giver { machine, random: Rng::with_seed(seed), cuts: Vec::new(), open: 0, left: 400 };
    let giver = Mutex::new(giver);
    while giver.lock().unwrap().left > 0 {
        meddle(&giver);
    }
    let mut giver = giver.into_inner().unwrap();
    let all = giver.machine.state(&SlotSet::all());
    for Transfer { slots, bytes, log } in &giver.cuts {
        let expected = giver.machine.state(slots);
        assert!(expected.len() == all.len() || !slots.is_all());
        let found = receiver(Arc::clone(&clock), bytes, &log_of(log.take(), slots)).state(&SlotSet::all());
        assert!(found == expected, "{slots:?}:\n{found:#?}\nwhat was given:\n{expected:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CINNABAR_TRANSFER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_cut_and_the_log_after_it_are_the_end(seed in any::<u64>().no_shrink()) {
        check(seed);
    }
}
