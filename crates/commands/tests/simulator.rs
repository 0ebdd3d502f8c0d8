//! The simulator: several workers with clients on one engine, deterministic, without sockets.
//!
//! ```text
//!   seed -> setup, operations, clock, schedule -> a run of some thousand steps -> history -> is there an order?
//! ```
//!
//! Clients run commands on keys of all types, transactions, scripts and functions, and wait for lists and streams, in
//! two databases that are flushed and swapped, while keys expire, clients are paused and the disk fails. Their replies,
//! and the snapshots, must be possible for an order in which operations run one after the other, each between its call
//! and its reply. At the end the keys are the result of that order, and no client waits for a key that is there.
//!
//! Threads, locks and the order of everything are shuttle's, and its choices are the seed's: a run is replayed by
//! `CINNABAR_SEED=7 cargo test -p cinnabar-commands --features shuttle --test simulator seeds`. See
//! docs/design/simulator.md.
#![forbid(unsafe_code)]

#[path = "simulator/beside.rs"]
mod beside;
#[path = "simulator/checker.rs"]
mod checker;
#[path = "simulator/contents.rs"]
mod contents;
#[path = "faults/disk.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod disk;
#[path = "simulator/machine.rs"]
mod machine;
#[path = "simulator/model.rs"]
mod model;
#[path = "simulator/operation.rs"]
mod operation;
#[path = "simulator/planted.rs"]
mod planted;
#[path = "simulator/roles.rs"]
mod roles;
#[path = "simulator/schedule.rs"]
mod schedule;
#[path = "simulator/shadow.rs"]
mod shadow;
#[path = "simulator/streams.rs"]
mod streams;
#[path = "simulator/surroundings.rs"]
mod surroundings;
#[path = "simulator/worker.rs"]
mod worker;

use checker::{Call, Found, explained, survives};
use fastrand::Rng;
use machine::{BEGIN, Crash, Machine, Setup};
use operation::Operation;
use persistence::aof::journal::Policy;
use schedule::{Judged, SeededSchedule};
use shuttle::{Config, FailurePersistence, Runner, thread};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use surroundings::Saved;
use worker::{Client, Execute, faithfully, settle, tend, work};

/// Runs, if the environment does not state the number.
const SEEDS: u64 = 1500;
/// Calls of a run, at most.
const CALLS: usize = 18;
/// A thread's stack in words: Lua's is deep.
const STACK: usize = 1 << 18;
const COMMAND: &str = "cargo test -p cinnabar-commands --features shuttle --test simulator seeds";

/// One run.
struct Run {
    /// A client that waits for a key that is there.
    forgotten: Option<String>,
    /// Keys that an observer of changes has another state of.
    unobserved: Vec<String>,
    /// Calls that changed keys or looked at them, snapshots among them.
    calls: Vec<Call>,
    /// Pauses and the like.
    beside: Vec<Call>,
    /// The times that the clock was moved on to, each with a moment right before.
    timeline: Vec<(u64, i64)>,
    found: Found,
    crashes: Vec<Crash>,
}

impl Run {
    /// Returns the fault of the run, and its events.
    fn fault(&self) -> Option<String> {
        self.first_fault().map(|fault| format!("{fault}:\n{self}"))
    }

    fn first_fault(&self) -> Option<String> {
        if let Some(key) = &self.forgotten {
            return Some(format!("a client waits for {key}, which is there"));
        }
        if !self.unobserved.is_empty() {
            return Some(format!("observers miss changes: {:?}", self.unobserved));
        }
        if let Some(broken) = beside::broken(&self.calls, &self.beside, &self.timeline) {
            return Some(broken);
        }
        if !explained(&self.calls, &self.found) {
            return Some("no order explains this".to_owned());
        }
        self.crashes.iter().find_map(|crash| {
            let (moment, synced, found) = (crash.moment, crash.synced, crash.recovered());
            let Found { model, .. } = &found;
            let survives = survives(&self.calls, moment, synced, &found);
            (!survives)
                .then(|| format!("a crash at {moment}, durable up to {synced}, leaves what none leads to: {model:?}"))
        })
    }
}

fn setup(random: &mut Rng) -> Setup {
    let policies = [None, Some(Policy::No), Some(Policy::Always), Some(Policy::Always), Some(Policy::EverySecond)];
    Setup {
        workers: random.usize(2..5),
        look: [0, 0, 1_000, 100_000, 1_000_000][random.usize(..5)],
        policy: policies[random.usize(..5)],
        has_faults: random.bool(),
        switches: random.u8(..4) == 0,
    }
}

fn run(seed: u64, execute: Execute) -> Run {
    let mut random = Rng::with_seed(seed);
    let setup = setup(&mut random);
    let workers = setup.workers;
    let machine = Arc::new(Machine::start(setup));
    let start = |worker| {
        let (machine, mut random) = (Arc::clone(&machine), random.fork());
        thread::spawn(move || {
            let mut clients = clients(&machine, worker, CALLS / workers, &mut random);
            work(&machine, worker, &mut clients, execute, &mut random);
            clients
        })
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    let tender = {
        let (machine, mut random) = (Arc::clone(&machine), random.fork());
        thread::spawn(move || tend(&machine, &mut random))
    };
    let join = |thread: thread::JoinHandle<Vec<Client>>| thread.join().expect("no worker fails");
    let mut clients: Vec<Client> = threads.into_iter().flat_map(join).collect();
    machine.is_over.store(true, Relaxed);
    tender.join().expect("it does not fail");
    let unpaused = machine.moment();
    machine.engine.end_pause();
    settle(&machine);
    // At the end everything is durable, and a crash takes nothing.
    machine.recover();
    machine.crash(seed);
    let found = Found { model: machine.model(), time: machine.time() };
    let forgotten = clients.iter_mut().find_map(|client| waits_in_vain(client, &found));
    let unobserved = machine.shadow.differences();
    let is_beside = |call: &Call| matches!(call.operation, Operation::Beside(_));
    let (mut beside, mut calls): (Vec<Call>, Vec<Call>) =
        clients.into_iter().flat_map(Client::into_calls).partition(is_beside);
    let (saves, mut timeline) = (machine.chronicle().saves(), machine.chronicle().timeline());
    // No pause lasts beyond this.
    timeline.push((unpaused, i64::MAX));
    calls.extend(saves.into_iter().map(Saved::into_call));
    calls.extend(machine.cuts());
    [&mut calls, &mut beside].into_iter().for_each(|calls| calls.sort_by_key(|call| call.called));
    Run { forgotten, unobserved, calls, beside, timeline, found, crashes: machine.crashes() }
}

/// Returns the operation that a client waits in at the end, though its key is there.
fn waits_in_vain(client: &mut Client, found: &Found) -> Option<String> {
    let db = client.session.db as usize;
    match client.ends_waiting()? {
        Operation::Block(wait, _) if !found.model.has(wait, db, found.time) => None,
        operation => Some(format!("{operation:?}")),
    }
}

/// Returns the clients of a worker, with at most so many calls together.
fn clients(machine: &Arc<Machine>, worker: usize, calls: usize, random: &mut Rng) -> Vec<Client> {
    let count = random.usize(1..4);
    let mut client = || Client::new(machine, worker, random.usize(..4) / 3, random.usize(1..=calls / count));
    (0..count).map(|_| client()).collect()
}

impl Display for Run {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut calls: Vec<&Call> = self.calls.iter().chain(&self.beside).collect();
        calls.sort_by_key(|call| call.called);
        for Call { operation, db, times, called, replied, seen, logged_at, ran, durable_at, .. } in calls {
            let times: Vec<i64> = times.iter().map(|time| time - BEGIN).collect();
            let (seen, replied) = (String::from_utf8_lossy(seen), replied.map_or("...".into(), |at| at.to_string()));
            let seen = if *ran == u64::MAX { format!("{seen:?}") } else { format!("{seen:?} at {ran}") };
            let log = format!("log {logged_at:?}, durable at {durable_at:?}");
            writeln!(out, "{called} to {replied}, db {db}, at {times:?}: {operation:?}: {seen}, {log}")?;
        }
        writeln!(out, "found at {}: {:?}", self.found.time - BEGIN, self.found.model)
    }
}

/// Runs these seeds; returns the first for which `judge` has a verdict.
fn first(seeds: Range<u64>, execute: Execute, judge: fn(&Run) -> Option<String>) -> Option<(u64, String)> {
    first_of(seeds, |_| true, execute, judge)
}

/// Runs the seeds whose setups are `wanted`; returns the first for which `judge` has a verdict.
fn first_of(
    seeds: Range<u64>,
    wanted: fn(&Setup) -> bool,
    execute: Execute,
    judge: fn(&Run) -> Option<String>,
) -> Option<(u64, String)> {
    let current = Arc::new(AtomicU64::new(0));
    let judged = Judged::default();
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let runner = Runner::new(SeededSchedule::new(seeds, Arc::clone(&current), Arc::clone(&judged)), config);
    let (seed, found) = (Arc::clone(&current), Arc::clone(&judged));
    let all = || {
        runner.run(move || {
            let seed = seed.load(Relaxed);
            if !wanted(&setup(&mut Rng::with_seed(seed))) {
                return;
            }
            if let Some(text) = judge(&run(seed, execute)) {
                *found.lock().expect("nobody panics here") = Some((seed, text));
            }
        });
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(all)) {
        eprintln!("replay: CINNABAR_SEED={} {COMMAND}", current.load(Relaxed));
        resume_unwind(panic);
    }
    judged.lock().expect("nobody panics here").take()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn seeds_have_an_order() {
    let begin = number("CINNABAR_SEED");
    let count = number("CINNABAR_SEEDS").unwrap_or(if begin.is_some() { 1 } else { SEEDS });
    let begin = begin.unwrap_or(0);
    if let Some((seed, text)) = first(begin..begin + count, faithfully, Run::fault) {
        panic!("{text}replay: CINNABAR_SEED={seed} {COMMAND}");
    }
}

/// The seed decides everything, so that a failure can be looked at again.
#[test]
fn a_seed_is_replayed_exactly() {
    for seed in 0..20 {
        let [one, other] = [(); 2].map(|()| first(seed..seed + 1, faithfully, |run| Some(run.to_string())));
        assert!(one.is_some() && one == other, "seed {seed}: {one:?}, {other:?}");
    }
}
