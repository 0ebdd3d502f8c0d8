//! The whole path from commands to a disk that fails, and back after a crash.
//!
//! ```text
//!   commands - engine - log, snapshots - disk with faults            crash           a new engine reads what is left
//!   write 1, 2, 3 ... n                  d of them durable            |               it has writes 1 to p: d <= p <= n
//! ```
//!
//! Every write is a transaction that also sets its number, so that the data read shows p, the number of the last write;
//! that engine is compared with one that ran the first p writes and nothing else. Rewrites and saves run in threads of
//! their own meanwhile.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "faults/disk.rs"]
#[allow(dead_code, reason = "what writes in order is for others")]
mod disk;
#[path = "replays/state.rs"]
mod state;

use commands::core::dispatch;
use commands::persistence::aof::{load_and_begin, tick, wrote};
use commands::persistence::load;
use commands::{Args, Now, Session};
use disk::{Disk, Faults};
use engine::clients::waiters::{Delivery, Ticket};
use engine::config::{ApplyHooks, Config, ConfigCaller, Directive};
use engine::host::clock::Clock;
use engine::host::files::{Files, NewFile};
use engine::host::threads::{Server, Task, Threads, WorkerTask};
use engine::time::UnixUs;
use engine::{Engine, Host, NullHost, Options};
use persistence::aof::journal::Policy;
use persistence::aof::storage::Storage;
use persistence::aof::{Aof, State, of};
use proptest::prelude::*;
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Runs background work in threads, and has files on the disk.
struct Keeper {
    disk: Disk,
    engine: OnceLock<Weak<Engine>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The message to the client that waited.
    delivered: Mutex<Option<Vec<u8>>>,
}

impl Clock for Keeper {
    fn unix_us(&self, _: UnixUs) -> UnixUs {
        NOW.unix_us
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
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

    fn on_worker(&self, worker: usize, work: WorkerTask<Engine>) {
        let engine = self.engine.get().and_then(Weak::upgrade).unwrap();
        work(&engine, Server { worker, now_us: NOW.unix_us });
    }
}

impl Delivery for Keeper {
    fn deliver(&self, _: &Arc<Ticket>, reply: Vec<u8>) {
        *self.delivered.lock().unwrap() = Some(reply);
    }
}

engine::host_defaults!(Keeper: Memory, Peers, Process, Log, Connections, EffectSink);

struct NoHooks;

impl ApplyHooks for NoHooks {
    fn apply(&self, _: Directive, _: &Config) -> Result<(), String> {
        Ok(())
    }

    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        Ok(path.to_vec())
    }
}

/// The means by which data is to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Log(Policy),
    Snapshots,
}

const NOW: Now = Now { unix_us: UnixUs(1_700_000_000_000_000) };
const OPTIONS: Options = Options { shards: 8, databases: 2, hash_seed: 7, workers: 1, counts_slots: true };

fn run(engine: &Engine, session: &mut Session, words: &[&str]) -> String {
    run_at(engine, session, words, NOW)
}

fn run_at(engine: &Engine, session: &mut Session, words: &[&str], now: Now) -> String {
    let (mut args, mut reply): (Args<'_>, _) = (words.into(), Reply::default());
    dispatch::execute(engine, session, &mut args, now, &mut reply);
    String::from_utf8(reply.take()).unwrap()
}

fn decoded(reply: &str) -> Value {
    Decoder::new().decode(reply.as_bytes()).unwrap().unwrap().0
}

/// One write: its kind and its key.
type Write = (u8, u8);

/// Runs write number `number`; false if it is refused.
fn run_write(engine: &Engine, session: &mut Session, number: usize, (kind, key): Write) -> bool {
    let (number, key) = (number.to_string(), format!("{}:{key}", kind % 5));
    let command = match kind % 5 {
        0 => vec!["SET", &key, &number],
        1 => vec!["INCRBY", &key, &number],
        2 => vec!["RPUSH", &key, &number, "x"],
        3 => vec!["HSET", &key, &number, "value"],
        _ => vec!["ZADD", &key, &number, "member"],
    };
    run(engine, session, &["MULTI"]);
    let queued = [run(engine, session, &["SET", "last", &number]), run(engine, session, &command)];
    let reply = run(engine, session, &["EXEC"]);
    if reply.starts_with("*2\r\n") {
        return true;
    }
    // A save in the background may fail between any two of these.
    let (refused, left): (Vec<_>, Vec<_>) = queued.iter().partition(|reply| reply.starts_with("-MISCONF "));
    assert!(left.iter().all(|reply| *reply == "+QUEUED\r\n"), "{queued:?}");
    assert!(reply.starts_with("-EXECABORT") && (!refused.is_empty() || reply.contains("MISCONF")), "{reply}");
    false
}

struct Machine {
    mode: Mode,
    disk: Disk,
    host: Arc<Keeper>,
    engine: Arc<Engine>,
    session: Session,
    /// The writes that ran.
    writes: Vec<Write>,
    /// The log's length after each of them, since the machine was started, and the number of writes before.
    offsets: Vec<u64>,
    before: usize,
    /// Writes that survive in any case.
    durable: usize,
    /// Writes that a save in the background will make durable, if it succeeds.
    saving: Option<usize>,
}

impl Machine {
    fn start(mode: Mode, disk: Disk) -> Machine {
        let host = Arc::new(Keeper {
            disk: disk.clone(),
            engine: OnceLock::new(),
            threads: Mutex::default(),
            delivered: Mutex::default(),
        });
        commands::install(&[]);
        let engine = Arc::new(Engine::new(&OPTIONS, Arc::clone(&host) as Arc<dyn Host>));
        host.engine.set(Arc::downgrade(&engine)).unwrap();
        Aof::install(&engine, Arc::new(disk.clone()), b"logs", b"log.aof");
        let saves = if mode == Mode::Snapshots { "3600 1" } else { "" };
        let caller = ConfigCaller { local: true, loading: false };
        engine.config().set(&[(b"save", saves.as_bytes())], caller, &NoHooks).unwrap();
        engine.persistence_status().set_loading(true);
        match mode {
            Mode::Log(policy) => {
                of(&engine).unwrap().journal.set_policy(policy);
                if load_and_begin(&engine).is_err() {
                    disk.repair();
                    drop((engine, host));
                    return Machine::start(mode, disk);
                }
            }
            Mode::Snapshots => drop(load::load_file(&engine, false).unwrap()),
        }
        assert!(engine.persistence_status().deny_reasons().is_loading(), "until its caller has done the rest");
        engine.persistence_status().set_loading(false);
        let session = Session::local();
        let (writes, offsets) = (Vec::new(), Vec::new());
        Machine { mode, disk, host, engine, session, writes, offsets, before: 0, durable: 0, saving: None }
    }

    fn aof(&self) -> &Aof {
        of(&self.engine).unwrap()
    }

    fn run(&mut self, words: &[&str]) -> String {
        let reply = run(&self.engine, &mut self.session, words);
        if !reply.is_empty() {
            return reply;
        }
        // The client waits for a thread, which may have begun another one.
        loop {
            let thread = self.host.threads.lock().unwrap().pop();
            let is_last = thread.is_none();
            thread.into_iter().for_each(|thread| thread.join().unwrap());
            if let Some(reply) = self.host.delivered.lock().unwrap().take() {
                return String::from_utf8(reply).unwrap();
            }
            assert!(!is_last, "no thread has replied");
        }
    }

    fn write(&mut self, write: Write) -> bool {
        let ran = run_write(&self.engine, &mut self.session, self.writes.len() + 1, write);
        if ran {
            self.writes.push(write);
            self.offsets.push(self.aof().journal.appended());
        }
        ran
    }

    /// Takes the steps before replies are sent.
    fn end_turn(&mut self) {
        let Mode::Log(policy) = self.mode else { return };
        let (journal, attempt) = (&self.aof().journal, self.aof().attempt());
        let result = match policy {
            Policy::Always => journal.commit(journal.appended(), Duration::MAX).unwrap(),
            _ => journal.write(),
        };
        wrote(&self.engine, self.aof(), attempt, &result);
        self.note_durable();
    }

    /// Does the work of the log's thread once a second.
    fn tend(&mut self) {
        let Mode::Log(_) = self.mode else { return };
        let (journal, attempt) = (&self.aof().journal, self.aof().attempt());
        let result = journal.write().and_then(|()| journal.sync().map(drop));
        wrote(&self.engine, self.aof(), attempt, &result);
        self.note_durable();
        tick(&self.engine, NOW.unix_ms(), self.engine.steady_now());
    }

    fn note_durable(&mut self) {
        let synced = self.aof().journal.synced();
        let durable = self.before + self.offsets.iter().filter(|offset| **offset <= synced).count();
        assert!(durable >= self.durable, "what was durable is so no more");
        self.durable = durable;
    }

    fn save(&mut self) {
        let reply = self.run(&["SAVE"]);
        if reply == "+OK\r\n" && self.mode == Mode::Snapshots {
            self.durable = self.writes.len();
        }
    }

    fn save_in_background(&mut self) {
        self.note_saved();
        if self.run(&["BGSAVE"]).starts_with('+') {
            self.saving = Some(self.writes.len());
        }
    }

    fn note_saved(&mut self) {
        let saves = self.engine.persistence_status();
        if let Some(saving) = self.saving.take_if(|_| !saves.is_running())
            && !saves.has_failed()
            && self.mode == Mode::Snapshots
        {
            self.durable = self.durable.max(saving);
        }
    }

    fn join(&mut self) {
        let threads = std::mem::take(&mut *self.host.threads.lock().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.note_saved();
    }

    /// Crashes the machine in this moment, and starts it again.
    fn crash(mut self, seed: u64) -> Machine {
        let left = self.disk.crash(seed);
        // Work of background threads after that moment is lost.
        let durable = self.durable;
        self.join();
        let mut next = Machine::start(self.mode, left);
        let last = next.run(&["GET", "last"]);
        let count: usize = last.lines().nth(1).map_or(0, |number| number.parse().unwrap());
        assert!(count >= durable && count <= self.writes.len(), "{durable} to {}: {count}", self.writes.len());
        self.writes.truncate(count);
        let (alone, mut session) = (Engine::new(&OPTIONS, Arc::new(NullHost)), Session::local());
        for (index, write) in self.writes.iter().enumerate() {
            assert!(run_write(&alone, &mut session, index + 1, *write));
        }
        let found = state::state(&mut |words| decoded(&next.run(words)));
        let expected = state::state(&mut |words| decoded(&run(&alone, &mut session, words)));
        assert_eq!(found, expected);
        (next.before, next.durable) = (count, count);
        next.writes = std::mem::take(&mut self.writes);
        next
    }

    /// Repairs the disk, and with it the service.
    fn recover(&mut self) {
        self.disk.set(Faults::default());
        self.join();
        self.tend();
        self.join();
        match self.mode {
            Mode::Snapshots => self.save_in_background(),
            // Data in doubt needs a new base.
            Mode::Log(_) if self.aof().journal.is_in_doubt() => _ = self.run(&["BGREWRITEAOF"]),
            Mode::Log(_) => {}
        }
        self.join();
        assert!(self.write((0, 0)), "the disk is sound");
        self.tend();
        self.save();
        assert_eq!(self.durable, self.writes.len());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Write),
    EndTurn,
    Tend,
    Rewrite,
    Save,
    SaveInBackground,
    Wait,
    Fail(Faults),
    Recover,
    Crash(u64),
}

fn faults() -> impl Strategy<Value = Faults> {
    let maybe = |most: usize| prop::option::of(0..most);
    (maybe(400), maybe(60), any::<[bool; 3]>()).prop_map(
        move |(room, short, [write_fails, sync_fails, truncate_fails])| {
            let short = short.map(|short| short + 1);
            let write_fails = write_fails && room.is_none();
            Faults { room, short, write_fails, sync_fails, truncate_fails, ..Faults::default() }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => any::<(u8, u8)>().prop_map(|(kind, key)| Step::Write((kind, key % 3))),
        6 => Just(Step::EndTurn),
        2 => Just(Step::Tend),
        2 => Just(Step::Rewrite),
        1 => Just(Step::Save),
        2 => Just(Step::SaveInBackground),
        2 => Just(Step::Wait),
        2 => faults().prop_map(Step::Fail),
        1 => Just(Step::Recover),
        2 => any::<u64>().prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

fn check_steps(mode: Mode, steps: Vec<Step>) {
    let mut machine = Machine::start(mode, Disk::default());
    for step in steps {
        match step {
            Step::Write(write) => _ = machine.write(write),
            Step::EndTurn => machine.end_turn(),
            Step::Tend => machine.tend(),
            Step::Rewrite => _ = machine.run(&["BGREWRITEAOF"]),
            Step::Save => machine.save(),
            Step::SaveInBackground => machine.save_in_background(),
            Step::Wait => thread::sleep(Duration::from_micros(300)),
            Step::Fail(faults) => machine.disk.set(faults),
            Step::Recover => machine.recover(),
            Step::Crash(seed) => machine = machine.crash(seed),
        }
    }
    machine.recover();
    machine.crash(1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn always_loses_nothing_that_was_acknowledged(steps in steps()) {
        check_steps(Mode::Log(Policy::Always), steps);
    }

    #[test]
    fn everysec_loses_nothing_that_was_synced(steps in steps()) {
        check_steps(Mode::Log(Policy::EverySecond), steps);
    }

    #[test]
    fn a_snapshot_that_fails_leaves_the_one_before(steps in steps()) {
        check_steps(Mode::Snapshots, steps);
    }
}

#[test]
fn a_full_disk_is_told_of_and_got_over() {
    let mut machine = Machine::start(Mode::Log(Policy::EverySecond), Disk::default());
    assert!(machine.write((0, 1)));
    machine.disk.set(Faults { room: Some(10), ..Faults::default() });
    machine.end_turn();
    assert_eq!(machine.disk.room(), Some(0));
    let full = "-MISCONF Errors writing to the AOF file: No space left on device\r\n";
    assert_eq!(machine.run(&["SET", "k", "v"]), full);
    assert_eq!(machine.run(&["GET", "last"]), "$1\r\n1\r\n");
    machine.recover();
    assert_eq!(machine.run(&["SET", "k", "v"]), "+OK\r\n");
}

#[test]
fn a_failed_save_is_told_of_and_got_over() {
    let mut machine = Machine::start(Mode::Snapshots, Disk::default());
    assert!(machine.write((0, 1)));
    for faults in [
        Faults { room: Some(20), ..Faults::default() },
        Faults { write_fails: true, ..Faults::default() },
        Faults { sync_fails: true, ..Faults::default() },
    ] {
        machine.disk.set(faults);
        machine.save_in_background();
        machine.join();
        let refused = machine.run(&["SET", "k", "v"]);
        assert!(refused.starts_with("-MISCONF ") && refused.contains("snapshots"), "{refused}");
        assert_eq!(machine.run(&["SAVE"]), "-ERR\r\n");
        machine.recover();
    }
}

#[test]
fn nothing_goes_by_itself_that_cannot_be_logged() {
    let mut machine = Machine::start(Mode::Log(Policy::Always), Disk::default());
    machine.run(&["HSET", "hash", "field", "1", "other", "2"]);
    machine.run(&["HPEXPIRE", "hash", "10", "FIELDS", "1", "field"]);
    for key in ["a", "b", "c"] {
        machine.run(&["SET", key, "v", "PX", "10"]);
    }
    machine.run(&["PFADD", "sketch", "x", "y"]);
    machine.end_turn();
    machine.disk.set(Faults { room: Some(5), ..Faults::default() });
    machine.run(&["SET", "last", "1"]);
    machine.end_turn();
    assert!(machine.engine.is_unlogged());
    let length = machine.aof().journal.appended();
    let later = Now { unix_us: UnixUs(NOW.unix_us.0 + 20_000) };
    let server = Server { worker: 0, now_us: later.unix_us };
    machine.engine.limit_memory(1);
    for _ in 0..3 {
        machine.engine.make_room(server);
        machine.engine.expire_due(0..8, server, 100);
        let mut ask = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            run_at(&machine.engine, &mut machine.session, &words, later)
        };
        assert_eq!(
            (ask("GET a"), ask("EXISTS b"), ask("HGET hash field")),
            ("$-1\r\n".into(), ":0\r\n".into(), "$-1\r\n".into())
        );
        assert_eq!((ask("PFCOUNT sketch"), ask("DBSIZE")), (":2\r\n".into(), ":6\r\n".into()));
        assert!(!ask("RANDOMKEY").is_empty() && ask("KEYS *").starts_with("*3"));
        assert!(ask("SCAN 0 COUNT 100").starts_with("*2"));
        machine.end_turn();
    }
    assert_eq!(machine.aof().journal.appended(), length);
    machine.engine.limit_memory(0);
    machine.recover();
    machine.engine.expire_due(0..8, server, 100);
    assert_eq!(machine.run(&["HLEN", "hash"]), ":1\r\n");
    assert!(machine.aof().journal.appended() > length);
}

#[test]
fn a_rewrite_makes_room_for_a_log_that_cannot_be_written() {
    for policy in [Policy::Always, Policy::EverySecond] {
        let mut machine = Machine::start(Mode::Log(policy), Disk::default());
        machine.disk.set(Faults { room: Some(800), ..Faults::default() });
        for _ in 0..40 {
            assert!(machine.write((0, 0)));
        }
        machine.end_turn();
        assert!(machine.run(&["SET", "k", "v"]).starts_with("-MISCONF"));
        assert!(machine.disk.room().is_some_and(|room| room < 400), "what was begun is taken back, but not the room");
        machine.disk.set(Faults { room: Some(800), ..Faults::default() });
        machine.run(&["BGREWRITEAOF"]);
        machine.join();
        machine.tend();
        assert!(machine.write((0, 0)));
        machine.tend();
        assert_eq!(machine.durable, machine.writes.len());
        machine.crash(1);
    }
}

/// Wherever a full disk stops a log that is turned on: it is complete, or none.
#[test]
fn a_log_that_is_on_is_written_to() {
    let mut begun = 0;
    for room in 0..800 {
        let mut machine = Machine::start(Mode::Log(Policy::Always), Disk::default());
        for word in ["yes", "no"] {
            assert_eq!(machine.run(&["CONFIG", "SET", "appendonly", word]), "+OK\r\n");
        }
        machine.run(&["SET", "before", "1"]);
        machine.disk.set(Faults { room: Some(room), ..Faults::default() });
        machine.run(&["CONFIG", "SET", "appendonly", "yes"]);
        machine.join();
        machine.disk.set(Faults::default());
        if machine.aof().state() == State::On {
            begun += 1;
            machine.run(&["SET", "after", "1"]);
            machine.end_turn();
            let mut next = Machine::start(machine.mode, machine.disk.crash(1));
            assert_eq!(next.run(&["EXISTS", "before", "after"]), ":2\r\n", "room for {room} bytes");
        }
    }
    assert!(begun > 0 && begun < 800, "{begun}");
}

#[test]
fn files_that_an_earlier_attempt_has_left_are_no_part_of_a_log() {
    let disk = Disk::default();
    let (stale, _) = disk.append(b"logs/log.aof.1.incr.aof").unwrap();
    stale.write(b"*3\r\n$3\r\nSET\r\n$5\r\nstale\r\n$1\r\n1\r\n").unwrap();
    stale.sync().unwrap();
    let mut machine = Machine::start(Mode::Log(Policy::Always), disk);
    assert!(machine.write((0, 0)));
    machine.end_turn();
    let mut next = Machine::start(machine.mode, machine.disk.crash(1));
    assert_eq!(next.run(&["EXISTS", "stale", "last"]), ":1\r\n");
}
