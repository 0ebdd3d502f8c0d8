//! Changes of the role against all work with the same locks: saves, a replica's snapshot, transactions, SHUTDOWN,
//! FAILOVER, and the log that is turned on and off.
//!
//! ```text
//!   two workers      REPLICAOF alone and in EXEC, FAILOVER, BGSAVE, SAVE, CONFIG SET appendonly, SHUTDOWN, writes
//!   the stream's     carries out orders to step down and failovers, once nobody writes
//!   the link's       applies a primary's stream and its snapshots, answers a failover
//!   a snapshot's     begins snapshots for a replica of this server
//!   the log's        writes the log, begins what is due
//! ```
//!
//! Commands, the change of the role, the applier, saver, rewriter and the end are the server's own; sockets are left
//! out. Shuttle finds deadlocks. Beside that: the role stays while the stream is applied or a snapshot of it begins; a
//! snapshot is of one moment, that of the offset it names; nothing is held back at the end.

use crate::disk::Disk;
use crate::machine::{BEGIN, Machine};
use crate::operation::one;
use crate::schedule::{Judged, SeededSchedule};
use crate::surroundings::{RDB, Saved};
use crate::worker::tick;
use commands::core::dispatch;
use commands::persistence::aof::StoppedLog;
use commands::persistence::history_fields::begin_between_commands;
use commands::persistence::load;
use commands::replication::applier::Applier;
use commands::replication::demote;
use commands::replication::failover_command;
use commands::replication::snapshot_load::load_snapshot;
use commands::replication::snapshot_options::options;
use commands::{Args, Flow, Session};
use engine::clients::registry::ClientInfo;
use engine::host::connections::StepDown;
use engine::keyspace::held_locks::{HeldLocks, LockTimeout};
use engine::locks::sync::unlock_fairly;
use engine::status::replication_status::{LinkState, ReplicaInfo, ReplicaState, new_id};
use engine::time::{SteadyMs, UnixMs};
use fastrand::Rng;
use persistence::aof::State;
use persistence::save::SnapshotFile;
use replication::failover_state::{FailoverState, Target};
use replication::replica_handshake::Handshake;
use replication::replid::History;
use resp::{Protocol, Reply};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Runs, if the environment does not state the number.
const SEEDS: u64 = 400;
/// Steps of a run, at most: a run that takes more loops.
const STEPS: usize = 300_000;
const STACK: usize = 1 << 18;
/// Commands of each worker's client.
const CALLS: usize = 7;
/// A snapshot of a primary: `a` and `b` are 1.
const SNAPSHOT: &[u8] = b"REDIS0011\xfe\x00\x00\x01a\x011\x00\x01b\x011\xff\0\0\0\0\0\0\0\0";

/// The order in which a step takes its locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The server's order.
    Kept,
    /// Snapshots hold the right to apply while they wait for the keyspace, transactions the keyspace while they wait
    /// for the right to apply.
    Both,
}

/// A server whose role changes.
struct Node {
    machine: Machine,
    /// The value of `n`, by offset in the streams that were applied.
    numbers: Mutex<HashMap<u64, i64>>,
    order: Order,
}

impl Node {
    fn start(seed: u64, order: Order) -> Node {
        let machine = Machine::begin(2, [10_000, 100_000][seed as usize % 2], BEGIN, Disk::default());
        machine.surroundings.frame();
        let mut session = machine.session(0, 0);
        assert_eq!(machine.ask(&mut session, &["CONFIG", "SET", "save", ""]), b"+OK\r\n");
        let said = Handshake { port: 7, ..Handshake::default() };
        let replica = ReplicaInfo::new(1 << 40, "127.0.0.1".to_owned(), &said, SteadyMs(0));
        replica.set_state(ReplicaState::Online);
        replica.acked.store(u64::MAX, Relaxed);
        machine.engine.replication().add_replica(&Arc::new(replica));
        let numbers = Mutex::new(HashMap::from([(0, 0)]));
        Node { machine, numbers, order }
    }

    fn is_over(&self) -> bool {
        self.machine.is_over.load(Relaxed) || self.machine.surroundings.has_stopped()
    }

    /// Runs a command to its end, unless the server ends before.
    fn run(&self, session: &mut Session, line: &str) -> Option<Vec<u8>> {
        let (machine, engine) = (&self.machine, &*self.machine.engine);
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        session.patience = LockTimeout::Short;
        while !self.is_over() {
            let mut args: Args<'_> = words.iter().copied().collect();
            let (now, mut reply) = (machine.now(), Reply::new(Vec::new(), Protocol::Resp2));
            let prepared = dispatch::prepare(engine, &args);
            match dispatch::run(engine, session, &prepared, &mut args, now, &mut reply) {
                Flow::Next => return Some(reply.into_inner()),
                Flow::More(mut work) => {
                    let command = prepared.entry().expect("it has run").command;
                    while !dispatch::step(engine, session, command, &mut **work, now, &mut reply) {
                        if self.is_over() {
                            return None;
                        }
                        thread::yield_now();
                    }
                    return Some(reply.into_inner());
                }
                Flow::Wait(ticket) => {
                    while !self.is_over() {
                        if let Some(delivered) = machine.delivered(&ticket) {
                            engine.cancel_wait(&ticket);
                            return Some(delivered.reply);
                        }
                        thread::yield_now();
                    }
                }
                Flow::RetryLater => session.patience = session.patience.after_failure(true),
                Flow::Postponed => machine.pass_pause(),
                Flow::Shutdown => engine.host().stop(),
                _ => panic!("no command ends its connection: {line}"),
            }
            thread::yield_now();
        }
        None
    }

    /// Runs a worker with one client.
    fn work(&self, worker: usize, random: &mut Rng) {
        let mut session = self.machine.session(worker, 0);
        for _ in 0..CALLS {
            tick(&self.machine, worker, random);
            for line in lines(random) {
                if self.run(&mut session, line).is_none() {
                    return;
                }
            }
            if self.order == Order::Both {
                // A transaction with REPLICAOF in a forbidden order.
                let hash = self.machine.engine.hasher().hash(b"a");
                let held = HeldLocks::keys(&self.machine.engine, [hash].into_iter());
                drop((self.machine.engine.replication().applying.lock(), held));
            }
        }
    }

    /// Does the work of the thread that serves replicas.
    fn frame(&self) {
        let mut change = RoleChange::default();
        // The loop runs as long as there are workers: a transaction may wait for its order.
        while !self.machine.is_over.load(Relaxed) {
            change.step(self);
            thread::yield_now();
        }
    }

    /// Does the work of the link's thread.
    fn follow(&self, random: &mut Rng) {
        let (engine, status) = (&*self.machine.engine, self.machine.engine.replication());
        let info = Arc::new(ClientInfo::new(1 << 41, "", "", -1, 0, UnixMs(BEGIN)));
        let mut number = 0;
        while !self.is_over() {
            let Some(primary) = status.primary() else {
                thread::yield_now();
                continue;
            };
            if status.failover.lock().state() == FailoverState::InProgress {
                match random.u8(..3) {
                    0 => failover_command::lost_answer(engine),
                    1 => failover_command::answered(engine, Some(b"-ERR no")),
                    _ => failover_command::answered(engine, None),
                }
            }
            if status.failover.lock().state() == FailoverState::InProgress {
                // The thread asks again before there is a stream.
                thread::yield_now();
                continue;
            }
            if random.u8(..4) == 0 {
                self.synchronize(&primary);
            }
            let mut applier = Applier::new(Arc::clone(&info), 0, 0);
            for _ in 0..random.usize(1..4) {
                number += 1;
                if !self.apply(&mut applier, &primary, number, random) {
                    break;
                }
            }
            applier.end(engine);
            thread::yield_now();
        }
    }

    /// Applies a part of a primary's stream; false if the server does not follow that one any more.
    fn apply(&self, applier: &mut Applier, primary: &Primary, number: i64, random: &mut Rng) -> bool {
        let (engine, status) = (&*self.machine.engine, self.machine.engine.replication());
        let mut bytes = Vec::new();
        let mut parts = vec![vec![format!("SET n {number}")]];
        match random.u8(..4) {
            0 => parts.push(vec!["FLUSHALL".to_owned()]),
            1 | 2 => parts.push(["MULTI", "INCR a", "INCR b", "EXEC"].map(str::to_owned).to_vec()),
            _ => {}
        }
        let begin = status.offset();
        let mut ends = Vec::new();
        for part in parts {
            let expected = if part[0] == "FLUSHALL" { 0 } else { number };
            part.iter().for_each(|line| resp::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
            ends.push((bytes.len() as u64, expected));
        }
        let mut at = 0;
        while at < bytes.len() && !self.is_over() {
            // After a failover the server may follow the same primary anew, which ends the link.
            if status.failover.lock().state() == FailoverState::InProgress {
                return false;
            }
            let applying = status.applying.lock();
            if status.primary().as_ref() != Some(primary) {
                return false;
            }
            let mut numbers = self.numbers.lock().expect("nobody panics here");
            numbers.extend(ends.iter().map(|(len, number)| (begin + len, *number)));
            drop(numbers);
            let applied = applier.apply(engine, &bytes[at..], self.machine.now()).expect("it is a stream");
            assert!(status.primary().as_ref() == Some(primary), "the role stays while the stream is applied");
            at += applied.taken;
            status.set_offset(begin + (at - applied.open) as u64);
            unlock_fairly(applying);
            if applied.is_stuck {
                thread::yield_now();
            }
        }
        at == bytes.len()
    }

    /// Takes a primary's snapshot in the place of the present data.
    fn synchronize(&self, primary: &Primary) {
        let (engine, status) = (&*self.machine.engine, self.machine.engine.replication());
        let Some(_turn) = engine.persistence_status().replace_turn() else { return };
        let applying = status.applying.lock();
        if status.primary().as_ref() != Some(primary) {
            return;
        }
        let log = StoppedLog::stop(engine);
        load_snapshot(engine, &mut &SNAPSHOT[..], 0).expect("it is whole");
        // No two streams have an offset in common.
        let offset = status.offset() + 1_000_000;
        self.numbers.lock().expect("nobody panics here").insert(offset, 0);
        status.update_history(|history| *history = History::new(new_id()));
        status.set_offset(offset);
        status.update_link(|link| (link.can_resume, link.state) = (true, LinkState::Connected));
        assert!(status.primary().as_ref() == Some(primary), "the role stays while a snapshot is loaded");
        drop(log);
        drop(applying);
    }

    /// Does the work of the thread of a replica's snapshot.
    fn send_snapshots(&self, random: &mut Rng) {
        let (engine, status) = (&*self.machine.engine, self.machine.engine.replication());
        let options = options(engine, &Handshake::default());
        while !self.is_over() {
            if self.order == Order::Both {
                let applying = status.applying.lock();
                drop((SnapshotFile::begin(engine, &options, || (), || false), applying));
            } else if random.u8(..4) == 0 {
                let primary = status.primary();
                let begun = begin_between_commands(engine, &options, || (), || false);
                let (mut file, applying) = begun.expect("it begins");
                let (now, offset) = (status.primary(), status.offset());
                thread::yield_now();
                assert!(now == status.primary() && offset == status.offset(), "a snapshot begins between commands");
                drop(applying);
                if now.is_some() && now == primary {
                    file.add_field("repl-stream-db", "0".to_owned());
                    file.add_field("repl-id", status.history().id.to_string());
                    file.add_field("repl-offset", offset.to_string());
                }
                let (begin, time, mut rdb) = (self.machine.moment(), self.machine.time(), Vec::new());
                file.write(&mut rdb).expect("nothing fails");
                self.check(&Saved { begin, end: begin, time, rdb });
            }
            thread::yield_now();
        }
    }

    /// Does the work of the log's thread.
    fn tend(&self, random: &mut Rng) {
        while !self.is_over() {
            match random.u8(..8) {
                0..3 => self.machine.aof().into_iter().for_each(|aof| self.machine.tend_log(aof)),
                3 => self.machine.tick(),
                _ => {}
            }
            thread::yield_now();
        }
    }

    /// Checks that a snapshot is of one moment, and of the offset that it names.
    fn check(&self, saved: &Saved) {
        let disk = Disk::default();
        persistence::aof::storage::Storage::replace(&disk, RDB, &saved.rdb).expect("the disk is sound");
        let machine = Machine::begin(1, 0, saved.time, disk);
        let loaded = load::load_file(&machine.engine, false).expect("it is whole").expect("it is there");
        let mut session = machine.session(0, 0);
        let mut get = |key| number(&machine.ask(&mut session, &["GET", key]));
        let (a, b, n) = (get("a"), get("b"), get("n"));
        assert_eq!(a, b, "a snapshot has half of a transaction");
        if let Some((_, offset, _)) = loaded.history {
            let numbers = self.numbers.lock().expect("nobody panics here");
            assert_eq!(numbers.get(&offset), Some(&n), "a snapshot is not of its offset, {offset}: {numbers:?}");
        }
    }

    /// Checks that every order has been given up or carried out: writes run, or are refused by a replica, and the log
    /// is in its configured state.
    fn settle(&self) {
        let (machine, engine) = (&self.machine, &*self.machine.engine);
        let mut session = machine.session(0, 0);
        machine.ask(&mut session, &["FAILOVER", "ABORT"]);
        let mut change = RoleChange::default();
        change.step(self);
        machine.join();
        engine.end_pause();
        while engine.has_deferred() {
            engine.run_deferred(engine::host::threads::Server { worker: 0, now_us: UnixMs(machine.time()).us() });
        }
        assert_eq!(engine.pause().held(), None, "writes are held back for good");
        let reply = machine.ask(&mut session, &["SET", "last", "1"]);
        let is_read_only = machine.ask(&mut session, &["CONFIG", "GET", "replica-read-only"]).ends_with(b"yes\r\n");
        let is_refused = engine.replication().is_replica() && is_read_only;
        let expected: &[u8] = if is_refused { b"-READONLY" } else { b"+OK" };
        assert!(reply.starts_with(expected), "{}", String::from_utf8_lossy(&reply));
        let wanted = machine.ask(&mut session, &["CONFIG", "GET", "appendonly"]).ends_with(b"yes\r\n");
        let aof = persistence::aof::of(engine).expect("it is installed");
        for _ in 0..20 {
            machine.pass_time(2000);
            machine.tick();
            machine.join();
        }
        let (is_on, is_off) = (aof.state() == State::On, aof.state() == State::Off);
        assert!(if wanted { is_on } else { is_off }, "appendonly {wanted}, but the log is {:?}", aof.state());
    }
}

type Primary = engine::status::replication_status::PrimaryAddress;

fn number(reply: &[u8]) -> i64 {
    String::from_utf8_lossy(reply).lines().nth(1).map_or(0, |text| text.parse().expect("a number"))
}

/// Returns a client's next step.
fn lines(random: &mut Rng) -> &'static [&'static str] {
    const ROLES: &[&[&str]] = &[
        &["REPLICAOF host 1"],
        &["REPLICAOF host 2"],
        &["REPLICAOF NO ONE"],
        &["MULTI", "INCR a", "INCR b", "REPLICAOF host 1", "EXEC"],
        &["MULTI", "REPLICAOF NO ONE", "CONFIG SET timeout 0", "INCR a", "INCR b", "EXEC"],
        &["MULTI", "REPLICAOF host 2", "BGSAVE", "EXEC"],
        &["FAILOVER"],
        &["FAILOVER TIMEOUT 3"],
        &["FAILOVER ABORT"],
    ];
    const OTHERS: &[&[&str]] = &[
        &["MULTI", "INCR a", "INCR b", "EXEC"],
        &["MULTI", "INCR a", "INCR b", "EXEC"],
        &["BGSAVE"],
        &["SAVE"],
        &["BGREWRITEAOF"],
        &["CONFIG SET appendonly yes"],
        &["CONFIG SET appendonly no"],
        &["MULTI", "CONFIG SET appendonly yes", "INCR a", "INCR b", "EXEC"],
        &["CONFIG SET replica-read-only no"],
        &["CONFIG SET replica-read-only yes"],
        &["CLIENT PAUSE 2 WRITE"],
        &["SHUTDOWN NOSAVE"],
        &["SHUTDOWN SAVE"],
        &["SHUTDOWN ABORT"],
    ];
    if random.bool() { one(random, ROLES) } else { one(random, OTHERS) }
}

/// Carries out a change of the role as the thread that serves replicas does: as `role_change.rs` of the server.
#[derive(Default)]
struct RoleChange {
    orders: Vec<Arc<StepDown>>,
    failover: (u64, bool),
    passed: usize,
    is_whole: bool,
}

impl RoleChange {
    fn step(&mut self, node: &Node) {
        let (engine, status) = (&*node.machine.engine, node.machine.engine.replication());
        let new = node.machine.surroundings.step_downs();
        if !new.is_empty() {
            (self.passed, self.is_whole) = (0, false);
            self.orders.extend(new);
        }
        let failover = {
            let failover = status.failover.lock();
            (failover.number(), failover.state() == FailoverState::WaitingForSync)
        };
        if std::mem::replace(&mut self.failover, failover) != failover {
            (self.passed, self.is_whole) = (0, false);
        }
        if self.orders.is_empty() && !failover.1 {
            return;
        }
        let is_told = self.orders.iter().any(|order| order.is_quiet);
        self.is_whole |= is_told || engine.pass_locks(&mut self.passed, LockTimeout::Short.from_now(engine));
        if !self.orders.is_empty() && self.is_whole {
            self.orders.drain(..).for_each(|order| demote::finish(engine, &order));
            return failover_command::drop_waiting(engine);
        }
        let synced = self.is_whole.then(|| Target { host: b"127.0.0.1".to_vec(), port: 7 });
        failover_command::watch(engine, engine.steady_now(), self.is_whole, synced.into_iter(), || ());
    }
}

fn run(seed: u64, order: Order) {
    let mut random = Rng::with_seed(seed);
    let node = Arc::new(Node::start(seed, order));
    let mut start = |act: fn(&Node, &mut Rng)| {
        let (node, mut random) = (Arc::clone(&node), random.fork());
        thread::spawn(move || act(&node, &mut random))
    };
    let workers = [start(|node, random| node.work(0, random)), start(|node, random| node.work(1, random))];
    let others = [start(|node, _| node.frame()), start(Node::follow), start(Node::send_snapshots), start(Node::tend)];
    workers.into_iter().for_each(|worker| worker.join().expect("no worker fails"));
    node.machine.is_over.store(true, Relaxed);
    others.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    let has_stopped = node.machine.surroundings.has_stopped();
    node.machine.join();
    node.machine.chronicle().saves().iter().for_each(|saved| node.check(saved));
    if !has_stopped && !node.machine.surroundings.has_stopped() {
        node.settle();
    }
}

/// Runs seeds; returns the words of the panic, and its seed, if one fails.
fn explore(seeds: std::ops::Range<u64>, order: Order) -> Result<(), (u64, String)> {
    let current = Arc::new(AtomicU64::new(0));
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let schedule = SeededSchedule::new(seeds, Arc::clone(&current), Judged::default());
    let (runner, seed) = (Runner::new(schedule, config), Arc::clone(&current));
    let result = catch_unwind(AssertUnwindSafe(|| _ = runner.run(move || run(seed.load(Relaxed), order))));
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        (current.load(Relaxed), text.unwrap_or_default())
    })
}

#[test]
fn roles_change_beside_saves_transactions_failovers_and_the_end() {
    let begin = crate::number("CINNABAR_SEED");
    let count = crate::number("CINNABAR_SEEDS").unwrap_or(if begin.is_some() { 1 } else { SEEDS });
    let begin = begin.unwrap_or(0);
    if let Err((seed, text)) = explore(begin..begin + count, Order::Kept) {
        panic!(
            "{text}\nreplay: CINNABAR_SEED={seed} cargo test -p cinnabar-commands --features shuttle --test simulator roles"
        );
    }
}

#[test]
fn a_right_to_apply_that_is_taken_before_and_after_the_keyspace_is_found() {
    let (_, text) = explore(0..100, Order::Both).expect_err("it is found");
    assert!(text.contains("deadlock") || text.contains("max_steps"), "{text}");
}
