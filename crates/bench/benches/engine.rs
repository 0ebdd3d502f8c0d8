//! The engine without a network: the cost of a command from its arguments to its reply.
//!
//! A million random 16-byte keys with 64-byte values lie in as many shards as in a server. Each of one, two or four
//! threads draws keys at random and runs commands on them as a worker of the server does, one by one or 16 in a batch.
//! Writing requests and replies and parsing belong to the measured time. Writes with the log on go into one whose file
//! swallows them; a write at the memory limit is of a new key, which evicts an old one.
//!
//! With more threads than processors a thread's time includes its waiting for a processor; the last columns show the
//! difference. Two processors may be one core that works for two: the last lines measure arithmetic of threads that
//! share nothing, as a scale for the commands' threads.
#![forbid(unsafe_code)]

mod common;
#[path = "common/discarded_log.rs"]
mod discarded_log;
#[path = "common/pipelined_client.rs"]
mod pipelined_client;
#[path = "common/stores.rs"]
mod stores;

use common::{Call, Took, key, ns_each, print_table, time};
use engine::Engine;
use pipelined_client::Client;
use resp::encode_command;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Duration;
use stores::{Setting, Store};

/// Keys of a command with several.
const KEYS: usize = 10;
const VALUE: [u8; 64] = [b'v'; 64];

#[derive(Clone, Copy)]
enum Command {
    Get,
    Set,
    /// A script that runs SET.
    Eval,
    Mget,
    Mset,
}

struct Case {
    name: &'static str,
    command: Command,
    pipeline: usize,
    setting: Setting,
}

const fn case(name: &'static str, command: Command, pipeline: usize) -> Case {
    Case { name, command, pipeline, setting: Setting::Plain }
}

const CASES: &[Case] = &[
    case("get, one by one", Command::Get, 1),
    case("get, batch of 16", Command::Get, 16),
    case("set, one by one", Command::Set, 1),
    case("set, batch of 16", Command::Set, 16),
    Case { setting: Setting::Logged, ..case("set with the log, batch of 16", Command::Set, 16) },
    Case { setting: Setting::Limited, ..case("set at the memory limit, batch of 16", Command::Set, 16) },
    case("eval that sets a key, batch of 16", Command::Eval, 16),
    case("mget of 10, one by one", Command::Mget, 1),
    case("mget of 10, batch of 16", Command::Mget, 16),
    case("mset of 10, batch of 16", Command::Mset, 16),
];
const THREADS: [usize; 3] = [1, 2, 4];
/// Approximate turns of a worker in a twentieth of a second.
const TURNS_A_TICK: usize = 5000;
/// The script of EVAL.
const SCRIPT: &[u8] = b"return redis.call('set', KEYS[1], ARGV[1])";

struct Sizes {
    keys: usize,
    /// Keys that a thread touches in a round.
    touched: usize,
}

fn main() {
    let Some(call) = Call::read() else { return };
    let sizes =
        if call.measures { Sizes { keys: 1_000_000, touched: 2_000_000 } } else { Sizes { keys: 1000, touched: 3200 } };
    let mut bytes = 0;
    let stores = [Setting::Plain, Setting::Logged, Setting::Limited].map(|setting| {
        let (store, before) = (Store::new(setting, THREADS[2]), common::allocated());
        fill(&store, sizes.keys);
        bytes = common::allocated() - before;
        store
    });

    let mut rows: Vec<Row> = CASES
        .iter()
        .flat_map(|case| THREADS.map(|threads| Row { case, threads, best: Took::FOREVER }))
        .filter(|row| call.wants(&format!("{} {}", row.case.name, row.threads)))
        .collect();
    for _ in 0..call.rounds() {
        for row in &mut rows {
            row.best = row.best.best(round(&stores[row.case.setting as usize], row, &sizes));
        }
    }
    if call.measures {
        println!("{} keys; entries take {:.1} bytes each", sizes.keys, bytes as f64 / sizes.keys as f64);
        print(&rows, &sizes);
        print_machine(call.rounds());
    }
}

/// One case with a number of threads.
struct Row {
    case: &'static Case,
    threads: usize,
    best: Took,
}

impl Row {
    /// Commands that a thread runs in a round.
    fn commands(&self, sizes: &Sizes) -> usize {
        match self.case.command {
            Command::Set if self.case.setting == Setting::Limited => sizes.touched / 8,
            Command::Get | Command::Set => sizes.touched,
            Command::Eval => sizes.touched / 4,
            Command::Mget | Command::Mset => sizes.touched / KEYS,
        }
    }

    fn per_second(&self, sizes: &Sizes) -> f64 {
        (self.threads * self.commands(sizes)) as f64 / self.best.wall.as_secs_f64()
    }
}

fn fill(store: &Store, keys: usize) {
    let (mut client, mut bytes) = (Client::new(&store.engine, 0), Vec::new());
    for n in 0..keys {
        bytes.clear();
        encode_command(&mut bytes, &[&b"SET"[..], &key(n), &VALUE]);
        client.run(&bytes);
        store.end_turn(0);
    }
    assert_eq!(store.engine.len(0), keys);
}

/// Returns the slowest thread's time, and the mean thread's processor time.
fn round(store: &Store, row: &Row, sizes: &Sizes) -> Took {
    if row.case.setting == Setting::Limited {
        store.limit();
    }
    let barrier = Barrier::new(row.threads);
    let took: Vec<Took> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..row.threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut load = Load::new(store, row.case, sizes.keys, thread);
                    let commands = row.commands(sizes);
                    // The worker's allocations belong to another thread now.
                    store.end_turn(thread);
                    barrier.wait();
                    store.tick();
                    // The warm-up precedes the clock: the memory of buffers and the first faults on it.
                    load.run(row.case, row.case.pipeline);
                    barrier.wait();
                    time(|| load.run(row.case, commands)).0
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no command panics")).collect()
    });
    Took {
        wall: took.iter().map(|took| took.wall).max().unwrap_or_default(),
        cpu: took.iter().map(|took| took.cpu).sum::<Duration>() / row.threads as u32,
    }
}

/// The requests of a thread, and their client.
struct Load<'e> {
    store: &'e Store,
    worker: usize,
    client: Client<'e>,
    random: fastrand::Rng,
    keys: usize,
    bytes: Vec<u8>,
}

impl<'e> Load<'e> {
    fn new(store: &'e Store, case: &Case, keys: usize, worker: usize) -> Self {
        let engine: &Engine = &store.engine;
        // At the limit most keys are new ones, of each round.
        let is_limited = case.setting == Setting::Limited;
        let seed = if is_limited { fastrand::u64(..) } else { worker as u64 };
        let random = fastrand::Rng::with_seed(seed);
        let keys = if is_limited { keys * 1000 } else { keys };
        Load { store, worker, client: Client::new(engine, worker), random, keys, bytes: Vec::new() }
    }

    /// Runs so many commands, rounded down to pipelines.
    fn run(&mut self, case: &Case, commands: usize) {
        for turn in 0..commands / case.pipeline {
            self.bytes.clear();
            (0..case.pipeline).for_each(|_| self.push(case.command));
            assert!(self.client.run(&self.bytes).len() >= case.pipeline * b"+OK\r\n".len());
            self.store.end_turn(self.worker);
            if self.worker == 0 && turn % TURNS_A_TICK == 0 {
                self.store.tick();
            }
        }
    }

    fn push(&mut self, command: Command) {
        let mut next_key = || key(self.random.usize(..self.keys));
        match command {
            Command::Get => encode_command(&mut self.bytes, &[&b"GET"[..], &next_key()]),
            Command::Set => encode_command(&mut self.bytes, &[&b"SET"[..], &next_key(), &VALUE]),
            Command::Eval => encode_command(&mut self.bytes, &[&b"EVAL"[..], SCRIPT, b"1", &next_key(), &VALUE]),
            Command::Mget => {
                let keys: [_; KEYS] = std::array::from_fn(|_| next_key());
                let mut words = [&b"MGET"[..]; KEYS + 1];
                words[1..].iter_mut().zip(&keys).for_each(|(word, key)| *word = key);
                encode_command(&mut self.bytes, &words);
            }
            Command::Mset => {
                let keys: [_; KEYS] = std::array::from_fn(|_| next_key());
                let mut words = [&b"MSET"[..]; 2 * KEYS + 1];
                words[1..].chunks_mut(2).zip(&keys).for_each(|(pair, key)| pair.copy_from_slice(&[key, &VALUE]));
                encode_command(&mut self.bytes, &words);
            }
        }
    }
}

/// Prints how much more arithmetic several threads do than one.
fn print_machine(rounds: usize) {
    let per_second = |threads: usize| {
        let best = (0..rounds).map(|_| arithmetic(threads)).min().unwrap_or_default();
        threads as f64 / best.as_secs_f64()
    };
    let alone = per_second(1);
    for threads in THREADS.into_iter().skip(1) {
        println!("{threads} threads do {:.2} times the arithmetic of 1", per_second(threads) / alone);
    }
}

/// Returns the slowest thread's time for its work: four chains of multiplications that wait for nothing else.
fn arithmetic(threads: usize) -> Duration {
    let barrier = Barrier::new(threads);
    let work = || {
        barrier.wait();
        let numbers = || {
            (0..50_000_000_u64)
                .fold([1_u64, 2, 3, 4], |chains, n| chains.map(|chain| (chain ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        };
        time(|| black_box(numbers())).0.wall
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("arithmetic")).max().unwrap_or_default()
    })
}

fn print(rows: &[Row], sizes: &Sizes) {
    let head = ["command", "threads", "ns each", "of it CPU", "commands/s", "to 1 thread", "by CPU"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let alone = rows.iter().find(|other| other.case.name == row.case.name && other.threads == 1);
        let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let commands = row.commands(sizes);
        let threads = row.threads as f64;
        table.push(vec![
            row.case.name.to_owned(),
            row.threads.to_string(),
            format!("{:.0}", ns_each(row.best.wall, commands)),
            format!("{:.0}", ns_each(row.best.cpu, commands)),
            format!("{:.2} M", row.per_second(sizes) / 1e6),
            times(alone.map(|alone| row.per_second(sizes) / alone.per_second(sizes))),
            times(alone.map(|alone| threads * alone.best.cpu.as_secs_f64() / row.best.cpu.as_secs_f64())),
        ]);
    }
    print_table("Engine, per thread and command", &table);
}
