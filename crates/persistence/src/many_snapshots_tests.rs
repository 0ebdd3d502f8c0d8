//! Several snapshots at once, of all slots and of some, each walked a step at a time while keys of all types change:
//! every file is of its own moment and its own slots.

use crate::decode::Decoded;
use crate::fan_out::{FanOut, Pace};
use crate::save::{SaveOptions, SnapshotFile};
use crate::save_under_writes_tests::change;
use crate::tests::{large_values, options, put, read, test_limits, told};
use cluster::slot_set::SlotSet;
use engine::data::slot::slot_of;
use engine::data::table::{ExpiryIndex, Table};
use engine::data::value::KeyEntry;
use engine::keyspace::shard::Db;
use engine::propagation::change_log::RecordHead;
use engine::propagation::log_batch::put_command;
use engine::snapshot::open_snapshots::Purpose;
use engine::testing::MemoryLog;
use engine::{Engine, NullHost, Options};
use proptest::prelude::*;
use std::io::{self, Write};
use std::mem::{swap, take};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use structures::entry::NewValue;

type State = Vec<(u64, Vec<u8>, String, Option<i64>)>;

/// Returns all keys of these slots, as they lie in the tables.
fn state(engine: &Engine, slots: &SlotSet) -> State {
    let mut all = State::new();
    for index in 0..engine.locks().len() {
        for (number, db) in engine.locks().one(index).dbs.iter() {
            let mut next = Some(0);
            while let Some(at) = next {
                next = db.table.scan(at, |entry| {
                    if slots.contains(slot_of(entry.key())) {
                        let expiry = entry.expiry().map(|at| at as i64);
                        all.push((number.into(), entry.key().to_vec(), told(&entry.value()), expiry));
                    }
                });
            }
        }
    }
    all.sort();
    all
}

/// Lets its thread write as often as the test allows, or fail.
struct Gate {
    permits: Receiver<bool>,
    written: Sender<Option<io::Result<Vec<u8>>>>,
    bytes: Vec<u8>,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.written.send(None);
        if !self.permits.recv().unwrap_or(false) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that another thread writes step by step, with its expected content.
struct Written {
    permits: Sender<bool>,
    written: Receiver<Option<io::Result<Vec<u8>>>>,
    expected: State,
    ended: Option<io::Result<Vec<u8>>>,
}

impl Written {
    fn begin<'s>(scope: &'s thread::Scope<'s, '_>, engine: &'s Engine, slots: SlotSet) -> Written {
        let (permits, wanted) = channel();
        let (report, written) = channel();
        let expected = state(engine, &slots);
        // With a delay each step is written by itself.
        let delay = Duration::from_nanos(1);
        let options = SaveOptions { slots, purpose: Purpose::Transfer, delay, ..options() };
        let file = SnapshotFile::begin(engine, &options, || (), || false).expect("not too many");
        scope.spawn(move || {
            let mut gate = Gate { permits: wanted, written: report.clone(), bytes: Vec::new() };
            let result = file.write(&mut gate);
            let _ = report.send(Some(result.map(|_| gate.bytes)));
        });
        let mut walk = Written { permits, written, expected, ended: None };
        walk.wait();
        walk
    }

    /// Waits until the thread is about to write, or has ended.
    fn wait(&mut self) {
        self.ended = self.written.recv().expect("it tells of its end");
    }

    fn step(&mut self, goes_on: bool) {
        if self.ended.is_none() {
            self.permits.send(goes_on).expect("it waits");
            self.wait();
        }
    }

    /// Returns the bytes written, once the thread has reached its end.
    fn finish(mut self) -> (io::Result<Vec<u8>>, State) {
        while self.ended.is_none() {
            self.step(true);
        }
        (self.ended.expect("the end"), self.expected)
    }
}

#[derive(Clone, Debug)]
enum Action {
    Change(usize, u8, u32),
    Put(u32, u32, u32),
    Flush(u32),
    Swap,
    Begin(Vec<(u16, u16)>),
    Step(usize, usize),
    Abandon(usize),
}

fn action() -> impl Strategy<Value = Action> {
    let ranges = proptest::collection::vec((0..16384u16, 1..9000u16), 0..4);
    prop_oneof![
        30 => (any::<usize>(), 0..40u8, any::<u32>()).prop_map(|(key, how, n)| Action::Change(key, how, n)),
        20 => (0..2u32, 0..80u32, any::<u32>()).prop_map(|(db, key, n)| Action::Put(db, key, n)),
        1 => (0..2u32).prop_map(Action::Flush),
        1 => Just(Action::Swap),
        6 => ranges.prop_map(Action::Begin),
        20 => (any::<usize>(), 1..12usize).prop_map(|(walk, steps)| Action::Step(walk, steps)),
        1 => any::<usize>().prop_map(Action::Abandon),
    ]
}

/// Returns the slots of the ranges; no range stands for all slots.
fn slots(ranges: &[(u16, u16)]) -> SlotSet {
    match ranges {
        [] => SlotSet::all(),
        some => SlotSet::of(some.iter().map(|(first, len)| *first..=first.saturating_add(len - 1).min(16383))),
    }
}

/// Changes tables as the commands of these names do.
fn flush(engine: &Engine, number: u32) {
    for index in 0..engine.locks().len() {
        let mut shard = engine.locks().one(index);
        let Db { table, expiry, captures, .. } = &mut shard.dbs[number];
        engine.keys_went(index, number);
        let left: Option<(Table, ExpiryIndex)> = captures.detach(take(table), take(expiry));
        drop(left);
    }
}

fn swap_databases(engine: &Engine) {
    let mut locks = engine.locks().escalated();
    for index in 0..engine.locks().len() {
        let dbs = &mut locks.get(index).dbs;
        let mut apart = take(&mut dbs[1]);
        engine.keys_swapped(index, (0, dbs[0].table.len()), (1, apart.table.len()));
        swap(&mut dbs[0].captures, &mut apart.captures);
        swap(&mut dbs[0].table, &mut apart.table);
        swap(&mut dbs[0].expiry, &mut apart.expiry);
        dbs[1] = apart;
    }
}

fn run(shards: usize, actions: Vec<Action>) -> Result<(), TestCaseError> {
    let engine = Engine::new(&Options { shards, databases: 2, ..Options::default() }, Arc::new(NullHost));
    let mut names: Vec<String> = Vec::new();
    for (name, value) in large_values(&test_limits()) {
        put(&engine, 0, value.into_entry(name.as_bytes(), None, 0));
        names.push(name.to_owned());
    }
    names.extend(["other 0", "other 1", "other 2", "key 1", "key 2"].map(str::to_owned));
    let result = thread::scope(|scope| {
        let mut walks: Vec<Written> = Vec::new();
        for action in actions {
            let count = walks.len();
            match action {
                Action::Change(key, how, n) => change(&engine, &names[key % names.len()], how, n.into()),
                Action::Put(db, key, n) => {
                    let ttl = n.is_multiple_of(3).then_some(u64::from(n) + 10);
                    let name = format!("key {key}");
                    put(&engine, db, KeyEntry::new(name.as_bytes(), NewValue::Int(n.into()), ttl, 0));
                }
                Action::Flush(db) => flush(&engine, db),
                Action::Swap => swap_databases(&engine),
                Action::Begin(ranges) if count < 6 => walks.push(Written::begin(scope, &engine, slots(&ranges))),
                Action::Step(walk, steps) if count > 0 => (0..steps).for_each(|_| walks[walk % count].step(true)),
                Action::Abandon(walk) if count > 0 => walks.swap_remove(walk % count).step(false),
                Action::Begin(_) | Action::Step(..) | Action::Abandon(_) => {}
            }
        }
        walks.into_iter().map(Written::finish).collect::<Vec<_>>()
    });
    for (bytes, expected) in result {
        let found = read(&bytes.expect("all is written")).expect("what was written").0;
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!(found == expected, "{} is another", String::from_utf8_lossy(&expected.1));
        }
        prop_assert_eq!(found.len(), expected.len());
    }
    prop_assert!(engine.open_snapshots().is_empty());
    for index in 0..shards {
        prop_assert!(engine.locks().one(index).dbs.iter().all(|(_, db)| !db.captures.is_open()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 60, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn each_file_is_of_its_moment_and_its_slots(
        shards in prop_oneof![Just(1usize), Just(8), Just(256)],
        actions in proptest::collection::vec(action(), 0..250),
    ) {
        run(shards, actions)?;
    }
}

/// Replicas that ask together get the same bytes, and know the offset from which the log is theirs.
#[test]
fn several_who_join_a_file_get_the_same_bytes() {
    let engine = Engine::new(&Options { shards: 8, databases: 1, ..Options::default() }, Arc::new(NullHost));
    let log = MemoryLog::of(&engine);
    for n in 0..5000u32 {
        put(&engine, 0, Decoded::Bytes(vec![n as u8; 200]).into_entry(format!("key {n}").as_bytes(), None, 0));
    }
    let mut command = Vec::new();
    put_command(&mut command, [&b"PING"[..]].into_iter());
    engine.change_log().append(RecordHead::command(0, None), &command);
    let expected = state(&engine, &SlotSet::all());
    let options = SaveOptions { purpose: Purpose::Transfer, ..options() };
    let file = SnapshotFile::begin(&engine, &options, || (), || false).expect("the first");
    engine.change_log().append(RecordHead::command(0, None), &command);
    assert_eq!((file.offset(), log.take().len()), (command.len() as u64, 2));
    let mut fan_out = FanOut::new(Pace { bytes: 100_000, patience: Duration::from_secs(3600) });
    let takers: Vec<_> = (0..3).map(|_| fan_out.join().expect("nothing is written")).collect();
    let files: Vec<Vec<u8>> = thread::scope(|scope| {
        let pour = |taker: crate::fan_out::Taker| {
            let mut bytes = Vec::new();
            taker.pour(&mut bytes).map(|_| bytes)
        };
        let takers: Vec<_> = takers.into_iter().map(|taker| scope.spawn(move || pour(taker))).collect();
        file.write(&mut fan_out).expect("written");
        put(&engine, 0, KeyEntry::new(b"key 1", NewValue::Int(5), None, 0));
        fan_out.finish().expect("all are there");
        takers.into_iter().map(|taker| taker.join().expect("it ends").expect("all bytes")).collect()
    });
    assert!(files.iter().all(|file| *file == files[0]));
    assert!(read(&files[0]).expect("what was written").0 == expected);
}
