//! The log means the same whenever it is read: the live keys then are those that would be live without the stop.
//!
//! ```text
//!   time      T                          T + 1 h
//!   one       commands -> log -----------> looked at
//!   another                log read here > looked at: the same keys, fields, values and expiries
//! ```
//!
//! Commands of all kinds run at a clock that is moved on between them, alone, in transactions and in scripts, some for
//! a client that brings the data of another server; expired keys are removed by commands that find them, by the
//! background, or not at all before the log is read. `CINNABAR_REPLAY_CASES=3000` makes it thorough.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "faults/disk.rs"]
#[allow(dead_code, reason = "its faults are for others")]
mod disk;
#[path = "replays/grammar.rs"]
mod grammar;
#[path = "replays/state.rs"]
mod state;

use commands::core::dispatch;
use commands::persistence::aof::load_and_begin;
use commands::{Args, Flow, Now, Session};
use disk::Disk;
use engine::config::{ApplyHooks, Config, ConfigCaller, Directive};
use engine::host::clock::Clock;
use engine::host::files::{Files, NewFile};
use engine::host::threads::{Server, Task, Threads};
use engine::time::UnixUs;
use engine::{Engine, Host, Options};
use fastrand::Rng;
use persistence::aof::storage::Storage;
use persistence::aof::{Aof, of};
use proptest::prelude::*;
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use std::io::{self, Read};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{self, JoinHandle};

/// Has files on the disk, a clock that is moved, and threads for rewrites.
struct Keeper {
    disk: Disk,
    clock: Arc<AtomicI64>,
    engine: OnceLock<Weak<Engine>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Clock for Keeper {
    fn unix_us(&self, _: UnixUs) -> UnixUs {
        UnixUs(self.clock.load(SeqCst) * 1000)
    }
}

impl Files for Keeper {
    fn create_file(&self, path: &[u8], _: bool) -> io::Result<Box<dyn NewFile>> {
        self.disk.create(path)
    }

    fn open_file(&self, path: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.disk.open(path)
    }
}

impl Threads<Engine> for Keeper {
    fn in_background(&self, _: Directive, work: Task<Engine>) -> io::Result<()> {
        let engine = self.engine.get().and_then(Weak::upgrade).unwrap();
        self.threads.lock().unwrap().push(thread::spawn(move || work(&engine)));
        Ok(())
    }
}

engine::host_defaults!(Keeper: Memory, Peers, Process, Log, Connections, Delivery, EffectSink);

struct NoHooks;

impl ApplyHooks for NoHooks {
    fn apply(&self, _: Directive, _: &Config) -> Result<(), String> {
        Ok(())
    }

    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        Ok(path.to_vec())
    }
}

const BEGIN: i64 = 1_700_000_000_000;
const OPTIONS: Options = Options { shards: 4, databases: 2, hash_seed: 7, workers: 1, counts_slots: true };
/// Times at which the log is read, in milliseconds after its end.
const LATER: [i64; 5] = [0, 1500, 60_000, 3_600_000, 30 * 24 * 3_600_000];

struct Machine {
    disk: Disk,
    /// Unix time in milliseconds.
    clock: Arc<AtomicI64>,
    host: Arc<Keeper>,
    engine: Arc<Engine>,
    session: Session,
    /// A client that brings the data of another server.
    source: Session,
    /// The commands that have run, to be printed with a failure.
    history: Vec<String>,
}

impl Machine {
    /// Starts with the log that is on the disk, at this moment.
    fn start(disk: Disk, now: i64) -> Machine {
        let clock = Arc::new(AtomicI64::new(now));
        let (engine, threads) = (OnceLock::new(), Mutex::default());
        let host = Arc::new(Keeper { disk: disk.clone(), clock: Arc::clone(&clock), engine, threads });
        commands::install(&[]);
        let engine = Arc::new(Engine::new(&OPTIONS, Arc::clone(&host) as Arc<dyn Host>));
        host.engine.set(Arc::downgrade(&engine)).unwrap();
        Aof::install(&engine, Arc::new(disk.clone()), b"logs", b"log.aof");
        let caller = ConfigCaller { local: true, loading: false };
        engine.config().set(&[(b"save", b"")], caller, &NoHooks).unwrap();
        engine.persistence_status().set_loading(true);
        load_and_begin(&engine).unwrap();
        engine.persistence_status().set_loading(false);
        let (session, source) = (Session::local(), Session::local());
        Machine { disk, clock, host, engine, session, source, history: Vec::new() }
    }

    /// Returns the result of a restart of this one's log at that moment.
    fn restarted(&self, now: i64) -> Machine {
        self.join();
        let journal = &of(&self.engine).unwrap().journal;
        journal.write().unwrap();
        journal.sync().unwrap();
        Machine::start(self.disk.crash(0), now)
    }

    fn now(&self) -> i64 {
        self.clock.load(SeqCst)
    }

    /// Runs a command to its end; None when it waits.
    fn ask(&mut self, by_source: bool, words: &[&[u8]]) -> Option<Value> {
        let now = Now { unix_us: UnixUs(self.now() * 1000) };
        let (mut args, mut reply): (Args<'_>, _) = (words.iter().copied().collect(), Reply::default());
        let session = if by_source { &mut self.source } else { &mut self.session };
        if let Flow::Wait(_) = dispatch::execute(&self.engine, session, &mut args, now, &mut reply) {
            return None;
        }
        Some(Decoder::new().decode(&reply.take()).unwrap().unwrap().0)
    }

    fn answer(&mut self, words: &[&str]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(false, &words).expect("it does not wait")
    }

    /// Returns the words as bytes; a value in the place of `{dump}key`, and None when there is no such key.
    fn filled(&mut self, words: Vec<String>) -> Option<Vec<Vec<u8>>> {
        let fill = |word: String| match word.strip_prefix("{dump}") {
            None => Some(word.into_bytes()),
            Some(key) => match self.ask(false, &[b"DUMP", key.as_bytes()]) {
                Some(Value::Bulk(bytes)) => Some(bytes),
                _ => None,
            },
        };
        words.into_iter().map(fill).collect()
    }

    fn command(&mut self, random: &mut Rng) -> Option<Vec<Vec<u8>>> {
        let now = self.now();
        let words = grammar::line(random, now);
        self.history.push(format!("{now}: {}", words.join(" ")));
        self.filled(words)
    }

    /// Runs one command, or some in a transaction or a script.
    fn commands(&mut self, random: &mut Rng, by_source: bool) {
        let ask = |machine: &mut Machine, command: &[Vec<u8>]| {
            machine.ask(by_source, &command.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        match random.u32(..8) {
            0 => {
                self.history.push("MULTI".into());
                ask(self, &[b"MULTI".to_vec()]);
                for _ in 0..random.usize(1..5) {
                    // A value is taken from the state before.
                    let words = grammar::line(random, self.now());
                    self.history.push(words.join(" "));
                    if !words.iter().any(|word| word.starts_with('{')) {
                        let words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
                        ask(self, &words);
                    }
                }
                self.history.push("EXEC".into());
                ask(self, &[b"EXEC".to_vec()]);
            }
            1 => {
                self.history.push("script begins".into());
                let mut script = vec![b"EVAL".to_vec(), SCRIPT.to_vec(), b"0".to_vec()];
                for _ in 0..random.usize(1..4) {
                    let Some(command) = self.command(random) else { continue };
                    script.push(command.len().to_string().into_bytes());
                    script.extend(command);
                }
                self.history.push("script ends".into());
                ask(self, &script);
            }
            _ => {
                let command = self.command(random);
                let waits = command.as_ref().is_some_and(|words| words[0].starts_with(b"B") && words[0] != b"BITOP");
                if let Some(command) = command.filter(|_| !waits) {
                    ask(self, &command);
                }
            }
        }
    }

    /// Removes keys that have expired by now.
    fn expire(&self) {
        let server = Server { worker: 0, now_us: UnixUs(self.now() * 1000) };
        while self.engine.expire_due(0..self.engine.locks().len(), server, 1000) {}
    }

    fn join(&self) {
        let threads = std::mem::take(&mut *self.host.threads.lock().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    fn import(&mut self, on: bool) {
        let reply = self.answer(&["CONFIG", "SET", "import-mode", if on { "yes" } else { "no" }]);
        assert_eq!(state::shown(&reply), "OK");
        if on {
            self.ask(true, &[b"CLIENT", b"IMPORT-SOURCE", b"ON"]);
        }
    }

    /// Returns the live keys, a line each.
    fn state(&mut self) -> Vec<String> {
        self.expire();
        self.state_shown()
    }

    /// Returns the live keys without removing expired ones.
    fn state_shown(&mut self) -> Vec<String> {
        let (before, mut lines) = (self.session.db, Vec::new());
        for db in 0..2 {
            self.session.db = db;
            let keys = state::state(&mut |words| self.answer(words));
            lines.extend(keys.iter().map(|line| format!("{db} {line}")));
        }
        self.session.db = before;
        lines
    }

    /// Compares restarts at several moments with the running machine; time has passed when it returns.
    fn compare(&mut self, importing: bool) {
        let end = self.now();
        let mut restarted: Vec<_> = LATER.iter().map(|later| self.restarted(end + later)).collect();
        if importing {
            self.import(false);
        }
        for (later, other) in LATER.iter().zip(&mut restarted) {
            self.clock.store(end + later, SeqCst);
            let (expected, found) = (self.state(), other.state());
            assert!(
                expected == found,
                "read {later} ms later:\n{found:#?}\nwhat went on:\n{expected:#?}\nof\n{:#?}",
                self.history
            );
        }
    }
}

/// Runs commands, each with the number of its words before them.
const SCRIPT: &[u8] = b"local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.pcall(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end";

/// Returns the time that passes before a step, and the source of its random choices.
#[derive(Clone, Debug)]
struct Step {
    passes: i64,
    seed: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let passes = prop_oneof![
        6 => Just(0),
        3 => Just(1),
        2 => Just(700),
        3 => Just(2000),
        1 => Just(11_000),
        1 => Just(61_000),
    ];
    let step = (passes, any::<u64>().no_shrink()).prop_map(|(passes, seed)| Step { passes, seed });
    prop::collection::vec(step, 1..80)
}

fn check_steps(steps: &[Step], importing: bool) {
    let mut machine = Machine::start(Disk::default(), BEGIN);
    if importing {
        machine.import(true);
    }
    for step in steps {
        machine.clock.fetch_add(step.passes, SeqCst);
        let mut random = Rng::with_seed(step.seed);
        match random.u32(..50) {
            0 => {
                machine.history.push("background".into());
                machine.expire();
            }
            1 => {
                machine.history.push("rewrite".into());
                machine.answer(&["BGREWRITEAOF"]);
                machine.join();
            }
            2 => {
                let db = random.u32(..2);
                machine.history.push(format!("SELECT {db}"));
                (machine.session.db, machine.source.db) = (db, db);
            }
            3 => {
                machine.history.push("restart".into());
                let history = std::mem::take(&mut machine.history);
                machine = machine.restarted(machine.now() + step.passes);
                machine.history = history;
                if importing {
                    machine.import(true);
                }
            }
            _ => {
                // Other clients observe: expired keys are hidden from them, and shown to the source.
                if importing {
                    machine.state_shown();
                }
                machine.commands(&mut random, importing);
            }
        }
    }
    machine.compare(importing);
}

fn config() -> ProptestConfig {
    let cases = std::env::var("CINNABAR_REPLAY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_log_means_the_same_at_every_later_time(steps in steps()) {
        check_steps(&steps, false);
    }

    #[test]
    fn a_log_means_the_same_when_data_is_imported(steps in steps()) {
        check_steps(&steps, true);
    }
}

/// Runs each line after its milliseconds; then the log is read at all later times.
fn check_lines(lines: &[(i64, &str)]) {
    let mut machine = Machine::start(Disk::default(), BEGIN);
    for (passes, line) in lines {
        machine.clock.fetch_add(*passes, SeqCst);
        machine.history.push((*line).to_owned());
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        assert!(!matches!(machine.ask(false, &words), Some(Value::Error(_))), "{line}");
    }
    machine.compare(false);
}

#[test]
fn fields_whose_expiry_was_moved_on_are_there() {
    check_lines(&[(0, "HSET h f v"), (0, "HEXPIRE h 10 FIELDS 1 f"), (0, "HEXPIRE h 3600 FIELDS 1 f")]);
    check_lines(&[(0, "HSETEX h EX 10 FIELDS 1 f v"), (0, "HGETEX h EX 3600 FIELDS 1 f")]);
    check_lines(&[(0, "HSETEX h EX 10 FIELDS 1 f v"), (0, "HPERSIST h FIELDS 1 f")]);
}

#[test]
fn keys_that_a_scan_removes_are_removed_where_they_were() {
    check_lines(&[
        (0, "SET s 1 EX 1"),
        (0, "SELECT 1"),
        (0, "SET s 2"),
        (2000, "MULTI"),
        (0, "SWAPDB 0 1"),
        (0, "SCAN 0 COUNT 100"),
        (0, "EXEC"),
        (0, "GET s"),
    ]);
}

#[test]
fn an_expiry_that_was_kept_is_kept() {
    check_lines(&[(0, "HSETEX h EX 10 FIELDS 1 f v"), (0, "HSETEX h KEEPTTL FIELDS 1 f w"), (0, "HSET h g v")]);
    check_lines(&[(0, "HSETEX h EX 10 FIELDS 1 f 1"), (0, "HINCRBY h f 1"), (0, "HSET h g v")]);
    check_lines(&[(0, "SET s 1 EX 10"), (0, "SET s 2 KEEPTTL"), (0, "INCR s"), (0, "APPEND s x")]);
}

#[test]
fn fields_and_keys_that_had_expired_are_not_found_again() {
    check_lines(&[(0, "HSETEX h EX 1 FIELDS 1 f 5"), (0, "HSET h g v"), (2000, "HINCRBY h f 1")]);
    check_lines(&[(0, "HSETEX h EX 1 FIELDS 1 f 5"), (0, "HSET h g v"), (2000, "HSETNX h f w")]);
    check_lines(&[(0, "HSETEX h EX 1 FIELDS 1 f 5"), (0, "HSET h g v"), (2000, "HSETEX h FNX FIELDS 1 f 6")]);
    check_lines(&[(0, "HSETEX h EX 1 FIELDS 1 f 5"), (0, "HSET h g v"), (2000, "HSETEX h KEEPTTL FIELDS 1 f 6")]);
    let fields = [(0, "HSETEX h EX 1 FIELDS 1 f 5"), (0, "HSETEX h EX 90 FIELDS 1 g v")];
    for line in ["HPEXPIREAT h 1700000060000 FIELDS 2 f g", "HPERSIST h FIELDS 2 f g"] {
        check_lines(&[fields[0], fields[1], (2000, line)]);
    }
    check_lines(&[(0, "SET s 5 EX 1"), (2000, "INCR s")]);
}

/// Every command that writes is among those that are tried, or is named here with the reason.
#[test]
fn no_command_that_writes_is_left_out() {
    const OTHERS: [&str; 10] = [
        // Libraries have no expiries.
        "function|delete",
        "function|flush",
        "function|load",
        "function|restore",
        // There is no server to send to.
        "migrate",
        "cluster|flushslot",
        // Their effects do not depend on time (streams).
        "xcfgset",
        "xdelex",
        "xackdel",
        "xnack",
    ];
    let mut machine = Machine::start(Disk::default(), BEGIN);
    let commands = state::sorted(machine.answer(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", "write"]));
    let texts: Vec<String> = grammar::TEMPLATES.iter().map(|line| line.to_lowercase()).collect();
    let is_tried = |name: &String| {
        let words = name.replace('|', " ");
        texts.iter().any(|text| {
            text.strip_prefix(&words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
                || text.starts_with(&format!("({words}|"))
        })
    };
    let missing: Vec<_> = commands.iter().filter(|name| !is_tried(name) && !OTHERS.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
