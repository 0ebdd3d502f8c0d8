//! The process is killed at random moments under load, in the middle of rewrites and saves: acknowledged writes are
//! there when it starts again, and no file that was complete before is harmed.
//!
//! ```text
//!   writers      one:n other:n list:n fields:n ... each in one transaction, and each records acknowledged numbers
//!                and their times; a field's deadline is extended before it has passed, others pass while the server
//!                is down
//!   a disturber  BGREWRITEAOF, BGSAVE - which take some hundredths of a second
//!   kill -9, start, compare, continue with the data that is there
//! ```
//!
//! `CINNABAR_CRASH_ROUNDS=50` makes it thorough; the few rounds of other runs find plain faults. With `--nocapture` it
//! prints its findings.

use crate::harness::{Server, eventually, is_peer};
use redis::{Connection, RedisResult, Value, cmd, pipe};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: usize = 4;
/// Time whose writes may be lost with `everysec`.
const SECOND: Duration = Duration::from_secs(1);

/// State of a writer's counter.
#[derive(Default)]
struct Counter {
    asked: AtomicU64,
    acknowledged: AtomicU64,
    /// The latest, with the moments when they were acknowledged.
    latest: Mutex<VecDeque<(u64, Instant)>>,
}

impl Counter {
    fn acknowledge(&self, number: u64) {
        self.acknowledged.store(number, SeqCst);
        let mut latest = self.latest.lock().expect("no writer panics here");
        latest.push_back((number, Instant::now()));
        while latest.front().is_some_and(|(_, at)| at.elapsed() > 2 * SECOND) {
            latest.pop_front();
        }
    }

    /// This is what a restart has found: what was lost before may not be asked for again.
    fn resume(&self, number: u64) {
        self.asked.store(number, SeqCst);
        self.acknowledged.store(number, SeqCst);
        *self.latest.lock().expect("no writer panics here") = VecDeque::from([(number, Instant::now())]);
    }

    /// The last one that was acknowledged before this moment, or that a restart has found since.
    fn acknowledged_before(&self, moment: Instant) -> u64 {
        let latest = self.latest.lock().expect("no writer panics here");
        let before = latest.iter().rev().find(|(_, at)| *at <= moment);
        before.or(latest.front()).map_or(0, |(number, _)| *number)
    }
}

/// Counts in two keys and a field at once, and keeps the numbers in a list. The field is given a moment to live and
/// then an hour, another one only a moment.
pub fn count(connection: &mut Connection, writer: usize) -> RedisResult<u64> {
    let key = |name: &str| format!("{name}:{writer}");
    let mut pipe = pipe();
    pipe.atomic().incr(key("one"), 1).incr(key("other"), 1).rpush(key("list"), "x");
    pipe.hincr(key("fields"), "number", 1);
    for moment in [50, 3_600_000] {
        pipe.cmd("HPEXPIRE").arg(key("fields")).arg(moment).arg("FIELDS").arg(1).arg("number").ignore();
    }
    let passing = fastrand::u8(..);
    pipe.cmd("HSETEX").arg(key("passing")).arg("PX").arg(50).arg("FIELDS").arg(1).arg(passing).arg("x").ignore();
    let counted: [u64; 4] = pipe.query(connection)?;
    assert!(counted.iter().all(|number| *number == counted[0]), "{counted:?}");
    Ok(counted[0])
}

/// Counts until the server is gone.
fn write(mut connection: Connection, counter: &Counter, writer: usize) {
    loop {
        counter.asked.fetch_add(1, SeqCst);
        match count(&mut connection, writer) {
            Ok(number) => counter.acknowledge(number),
            Err(_) => return,
        }
    }
}

/// Begins one of these now and then, until the server is gone.
fn disturb(mut connection: Connection, words: &[&str]) {
    loop {
        let word = words[fastrand::usize(..words.len())];
        if cmd(word).query::<Value>(&mut connection).is_err_and(|error| error.is_io_error()) {
            return;
        }
        thread::sleep(Duration::from_millis(fastrand::u64(..60)));
    }
}

/// Saves again and again, and records the numbers of all counters that a successful save has made safe.
fn save(mut connection: Connection, counters: &[Counter], saved: &[AtomicU64]) {
    loop {
        let before: Vec<u64> = counters.iter().map(|counter| counter.acknowledged.load(SeqCst)).collect();
        match cmd("SAVE").query::<Value>(&mut connection) {
            Ok(_) => saved.iter().zip(before).for_each(|(saved, before)| saved.store(before, SeqCst)),
            Err(error) if error.is_io_error() => return,
            Err(_) => {}
        }
        thread::sleep(Duration::from_millis(fastrand::u64(..20)));
    }
}

/// Writes that survive a process that is killed: the system survives, and with it the bytes that the process has
/// written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    All,
    AllButASecond,
    /// Writes before the last save.
    Saved,
}

struct Crashes {
    server: Server,
    counters: Vec<Counter>,
    saved: Vec<AtomicU64>,
    promise: Promise,
    lost: u64,
    busy: u64,
}

impl Crashes {
    fn start(promise: Promise, threads: usize, options: &[&str]) -> Crashes {
        // A save takes some hundredths of a second.
        let slow = ["--rdb-key-save-delay", "400", "--stop-writes-on-bgsave-error", "no"];
        let server = Server::start_with_threads(threads, &[options, &slow].concat());
        let mut pipe = pipe();
        (0..100).for_each(|number| _ = pipe.set(format!("key:{number}"), number));
        pipe.query::<()>(&mut server.client()).expect("OK");
        let counters = (0..WRITERS).map(|_| Counter::default()).collect();
        let saved = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        Crashes { server, counters, saved, promise, lost: 0, busy: 0 }
    }

    /// Lets everybody run and kills the server; answers when that was.
    fn run(&mut self) -> Instant {
        let (pid, server, counters, saved) = (self.server.pid(), &self.server, &self.counters, &self.saved);
        let (is_busy, mut killed_at) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            for (writer, counter) in counters.iter().enumerate() {
                let connection = server.client();
                scope.spawn(move || write(connection, counter, writer));
            }
            let connection = server.client();
            match self.promise {
                Promise::Saved => scope.spawn(move || save(connection, counters, saved)),
                _ => scope.spawn(move || disturb(connection, &["BGREWRITEAOF", "BGSAVE"])),
            };
            let mut connection = server.client();
            thread::sleep(Duration::from_millis(fastrand::u64(50..500)));
            let state: String = cmd("INFO").arg("persistence").query(&mut connection).expect("a text");
            is_busy.store(state.contains("in_progress:1"), SeqCst);
            killed_at = Instant::now();
            assert!(Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().expect("sh").success());
        });
        self.busy += u64::from(is_busy.load(SeqCst));
        killed_at
    }

    fn compare(&mut self, round: u64, killed_at: Instant) {
        self.check_snapshot();
        self.server.crash();
        let mut connection = self.server.client();
        assert!(
            cmd("DBSIZE").query::<usize>(&mut connection).expect("a number") >= 100 || self.promise == Promise::Saved
        );
        for (writer, counter) in self.counters.iter().enumerate() {
            let key = |name: &str| format!("{name}:{writer}");
            let one: Option<u64> = cmd("GET").arg(key("one")).query(&mut connection).expect("a number");
            let other: Option<u64> = cmd("GET").arg(key("other")).query(&mut connection).expect("a number");
            let list: u64 = cmd("LLEN").arg(key("list")).query(&mut connection).expect("a length");
            let (one, other) = (one.unwrap_or(0), other.unwrap_or(0));
            let field: Option<u64> =
                cmd("HGET").arg(key("fields")).arg("number").query(&mut connection).expect("a number");
            let field = field.unwrap_or(0);
            assert!(
                one == other && other == list && list == field,
                "round {round}: half a transaction: {one}, {other}, {list}, {field}"
            );
            let is_there = |connection: &mut Connection| cmd("EXISTS").arg(key("passing")).query(connection) == Ok(1);
            assert!(eventually(|| !is_there(&mut connection)), "round {round}: expired fields stay");
            let (asked, acknowledged) = (counter.asked.load(SeqCst), counter.acknowledged.load(SeqCst));
            let least = match self.promise {
                Promise::All => acknowledged,
                Promise::AllButASecond => counter.acknowledged_before(killed_at - SECOND),
                Promise::Saved => self.saved[writer].load(SeqCst),
            };
            assert!(one >= least, "round {round}: {least} of {acknowledged} were to last, {one} are there");
            assert!(one <= asked, "round {round}: {asked} were asked for, {one} are there");
            self.lost += acknowledged.saturating_sub(one);
            counter.resume(one);
            self.saved[writer].store(one, SeqCst);
        }
    }

    /// The snapshot is whole, if there is one.
    fn check_snapshot(&self) {
        let path = self.server.folder.path().join("dump.rdb");
        if !is_peer() && path.exists() {
            let output = Command::new(env!("CARGO_BIN_EXE_cinnabar-check-rdb")).arg(path).output().expect("the tool");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

fn crash_again_and_again(promise: Promise, options: &[&str]) {
    let rounds = std::env::var("CINNABAR_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3u64);
    for threads in [1, 4] {
        let mut crashes = Crashes::start(promise, threads, options);
        if promise == Promise::Saved {
            cmd("SAVE").query::<Value>(&mut crashes.server.client()).expect("OK");
        }
        for round in 0..rounds {
            let killed_at = crashes.run();
            crashes.compare(round, killed_at);
        }
        let written: u64 = crashes.counters.iter().map(|counter| counter.acknowledged.load(SeqCst)).sum();
        println!(
            "{options:?}, {threads} workers: {rounds} rounds, {} of them during a rewrite or save, {written} writes are there, {} were lost",
            crashes.busy, crashes.lost
        );
        assert!(crashes.server.stop().success());
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_always() {
    crash_again_and_again(Promise::All, &["--appendonly", "yes", "--appendfsync", "always"]);
}

#[test]
fn nothing_acknowledged_is_lost_by_killing_with_no() {
    crash_again_and_again(Promise::All, &["--appendonly", "yes", "--appendfsync", "no"]);
}

#[test]
fn a_second_is_lost_at_most_with_everysec() {
    crash_again_and_again(Promise::AllButASecond, &["--appendonly", "yes", "--appendfsync", "everysec"]);
}

#[test]
fn nothing_saved_is_lost_without_a_log() {
    crash_again_and_again(Promise::Saved, &[]);
}
