//! The engine without a network: what a command costs from its arguments to its reply.
//!
//! A million random 16-byte keys with 64-byte values lie in 64 shards. Each of one, two or four threads draws keys at
//! random and runs commands on them as a worker of the server does, one by one ([`dispatch::prepare`] and
//! [`dispatch::run`]) or in batches: prepare 16, ask for their buckets, ask for their entries, run them. Laying
//! the arguments out in a buffer and writing the replies belongs to the measured time, parsing does not.
//!
//! With more threads than processors a thread's time includes its waiting for a processor; the last columns then tell.
//! Two processors may be one core that works for two: the last lines say how much arithmetic the machine does with
//! threads that share nothing, which is what the commands' threads can be compared with.
#![forbid(unsafe_code)]

mod common;

use commands::batch::prefetch;
use commands::core::dispatch::{self, Prepared};
use commands::{Args, Now, OwnWords, Session};
use common::{Call, Took, key, ns_each, print_table, time};
use engine::{Engine, NullHost, Options};
use resp::{Protocol, Reply, Span};
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Commands that are prefetched together, as in the server.
const BATCH: usize = 16;
const MGET_KEYS: usize = 10;
const VALUE: [u8; 64] = [b'v'; 64];
const NOW: Now = Now { unix_us: 1_700_000_000_000_000 };

#[derive(Clone, Copy)]
enum Command {
    Get,
    Set,
    Mget,
}

struct Case {
    name: &'static str,
    command: Command,
    in_batches: bool,
}

const CASES: &[Case] = &[
    Case { name: "get, one by one", command: Command::Get, in_batches: false },
    Case { name: "get, batch of 16", command: Command::Get, in_batches: true },
    Case { name: "set, one by one", command: Command::Set, in_batches: false },
    Case { name: "set, batch of 16", command: Command::Set, in_batches: true },
    Case { name: "mget of 10, one by one", command: Command::Mget, in_batches: false },
    Case { name: "mget of 10, batch of 16", command: Command::Mget, in_batches: true },
];
const THREADS: [usize; 3] = [1, 2, 4];

struct Sizes {
    keys: usize,
    /// Keys that a thread touches in a round.
    touched: usize,
}

fn main() {
    let Some(call) = Call::read() else { return };
    let sizes =
        if call.measures { Sizes { keys: 1_000_000, touched: 2_000_000 } } else { Sizes { keys: 1000, touched: 3200 } };
    let engine = Engine::new(&Options { shards: 64, workers: THREADS[2], ..Options::default() }, Arc::new(NullHost));
    let before = common::allocated();
    fill(&engine, sizes.keys);
    let bytes = common::allocated() - before;

    let mut rows: Vec<Row> = CASES
        .iter()
        .flat_map(|case| THREADS.map(|threads| Row { case, threads, best: Took::FOREVER }))
        .filter(|row| call.wants(&format!("{} {}", row.case.name, row.threads)))
        .collect();
    for _ in 0..call.rounds() {
        for row in &mut rows {
            row.best = row.best.best(round(&engine, row, &sizes));
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
            Command::Get | Command::Set => sizes.touched,
            Command::Mget => sizes.touched / MGET_KEYS,
        }
    }

    fn per_second(&self, sizes: &Sizes) -> f64 {
        (self.threads * self.commands(sizes)) as f64 / self.best.wall.as_secs_f64()
    }
}

fn fill(engine: &Engine, keys: usize) {
    let mut session = Session::local();
    let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
    for n in 0..keys {
        let key = key(n);
        let mut args: Args<'_> = [&b"SET"[..], &key, &VALUE].into_iter().collect();
        dispatch::execute(engine, &mut session, &mut args, NOW, &mut reply);
        reply.truncate(0);
    }
    assert_eq!(engine.len(0), keys);
}

/// What the slowest thread took, and the mean thread's processor time.
fn round(engine: &Engine, row: &Row, sizes: &Sizes) -> Took {
    let barrier = Barrier::new(row.threads);
    let took: Vec<Took> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..row.threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut client = Client::new(engine, sizes.keys, thread);
                    let commands = row.commands(sizes);
                    // Before the clock starts: the memory of buffers and the first faults on it.
                    client.run(row.case, BATCH);
                    barrier.wait();
                    time(|| client.run(row.case, commands)).0
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

/// What a worker has read from its connections and parsed, as the server keeps it.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The spans of each command.
    commands: Vec<Range<usize>>,
}

impl Input {
    fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.commands.clear();
    }

    fn push(&mut self, command: Command, mut next_key: impl FnMut() -> [u8; 16]) {
        let first = self.spans.len();
        match command {
            Command::Get => self.words([b"GET", &next_key()]),
            Command::Set => self.words([b"SET", &next_key(), &VALUE]),
            Command::Mget => {
                self.words([b"MGET"]);
                (0..MGET_KEYS).for_each(|_| self.words([&next_key()]));
            }
        }
        self.commands.push(first..self.spans.len());
    }

    fn words<const W: usize>(&mut self, words: [&[u8]; W]) {
        for word in words {
            self.spans.push(Span { start: self.bytes.len(), len: word.len() });
            self.bytes.extend_from_slice(word);
        }
    }

    fn args(&self, command: usize) -> Args<'_> {
        Args::parsed(&self.bytes, &self.spans[self.commands[command].clone()], OwnWords::default())
    }
}

struct Client<'e> {
    engine: &'e Engine,
    session: Session,
    reply: Reply,
    random: fastrand::Rng,
    keys: usize,
    input: Input,
    window: Vec<Prepared>,
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine, keys: usize, thread: usize) -> Self {
        // Each counts for itself, as the server's workers do.
        let mut session = Session::local();
        session.worker = thread;
        Client {
            engine,
            session,
            reply: Reply::new(Vec::with_capacity(64 << 10), Protocol::Resp2),
            random: fastrand::Rng::with_seed(thread as u64),
            keys,
            input: Input::default(),
            window: Vec::with_capacity(BATCH),
        }
    }

    /// Runs so many commands, rounded down to batches.
    fn run(&mut self, case: &Case, commands: usize) {
        for _ in 0..commands / BATCH {
            self.input.clear();
            for _ in 0..BATCH {
                self.input.push(case.command, || key(self.random.usize(..self.keys)));
            }
            if case.in_batches {
                self.batch();
            } else {
                self.one_by_one();
            }
            assert!(self.reply.len() >= BATCH * b"+OK\r\n".len() && self.reply.as_slice()[0] != b'-');
            self.reply.truncate(0);
        }
    }

    fn one_by_one(&mut self) {
        for command in 0..BATCH {
            let mut args = self.input.args(command);
            dispatch::execute(self.engine, &mut self.session, &mut args, NOW, &mut self.reply);
        }
    }

    fn batch(&mut self) {
        self.window.extend((0..BATCH).map(|command| dispatch::prepare(self.engine, &self.input.args(command))));
        let asked = || self.window.iter().map(|prepared| (prepared.keys(), 0));
        prefetch::ask_for_buckets(self.engine, asked());
        let further = prefetch::ask_for_entries(self.engine, asked());
        prefetch::ask_further(self.engine, asked(), further);
        asked().take(1).for_each(|(keys, db)| keys.iter().for_each(|(_, hash)| self.engine.show_table(db, *hash)));
        for (command, prepared) in self.window.iter().enumerate() {
            let mut args = self.input.args(command);
            dispatch::run(self.engine, &mut self.session, prepared, &mut args, NOW, &mut self.reply);
        }
        self.window.clear();
    }
}

/// How much more arithmetic several threads do than one.
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

/// What the slowest of the threads took for its work: four chains of multiplications that wait for nothing else.
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
