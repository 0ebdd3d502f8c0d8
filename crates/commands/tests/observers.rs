//! Observers see every change: a shadow that looks at the keys that are announced, and at no others, has the digest of
//! every key after each step.
//!
//! ```text
//!   commands of all kinds, transactions, scripts   --\
//!   expiry on access and in the background, eviction  >-- announcements -> shadow = keyspace
//!   FLUSHALL, SWAPDB, snapshots, slots              --/
//! ```
//!
//! `CINNABAR_OBSERVER_CASES=3000` makes it thorough.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "replays/grammar.rs"]
mod grammar;
#[path = "simulator/shadow.rs"]
mod shadow;

use cluster::slot_set::SlotSet;
use commands::cluster::node_tasks::remove_keys;
use commands::core::dispatch;
use commands::replication::applier::Applier;
use commands::replication::load_beside::load_beside;
use commands::replication::snapshot_load::load_snapshot;
use commands::{Args, Flow, Now, Session};
use engine::clients::registry::ClientInfo;
use engine::config::{ApplyHooks, Config, ConfigCaller, Directive};
use engine::data::slot::SLOTS;
use engine::host::clock::Clock;
use engine::host::memory::Memory;
use engine::host::threads::Server;
use engine::keyspace::caller::Caller;
use engine::propagation::log_batch::put_command;
use engine::snapshot::open_snapshots::Purpose;
use engine::time::{UnixMs, UnixUs};
use engine::{Engine, Host, Options};
use fastrand::Rng;
use persistence::Style;
use persistence::format::Family;
use persistence::save::{Marks, SaveOptions, SnapshotFile};
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use shadow::Shadow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Has a clock that is moved, and memory in use.
struct Keeper {
    /// Unix time in milliseconds.
    clock: AtomicI64,
    in_use: AtomicU64,
}

impl Clock for Keeper {
    fn unix_us(&self, _: UnixUs) -> UnixUs {
        UnixUs(self.clock.load(SeqCst) * 1000)
    }
}

impl Memory for Keeper {
    fn allocated(&self) -> u64 {
        self.in_use.load(SeqCst)
    }
}

engine::host_defaults!(Keeper: Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

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
/// Runs commands, each with the number of its words before them.
const SCRIPT: &str = "local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  redis.pcall(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end";

struct Machine {
    host: Arc<Keeper>,
    engine: Arc<Engine>,
    session: Session,
    shadow: Arc<Shadow>,
    /// Steps so far, to be printed with a failure.
    history: Vec<String>,
}

impl Machine {
    fn new() -> Machine {
        commands::install(&[]);
        let (clock, in_use) = (AtomicI64::new(BEGIN), AtomicU64::new(0));
        let host = Arc::new(Keeper { clock, in_use });
        let engine = Arc::new(Engine::new(&OPTIONS, Arc::clone(&host) as Arc<dyn Host>));
        let shadow = Shadow::install(&engine);
        let machine = Machine { host, engine, session: Session::local(), shadow, history: Vec::new() };
        machine.configure("save", "");
        machine
    }

    fn configure(&self, name: &str, value: &str) {
        let caller = ConfigCaller { local: true, loading: false };
        self.engine.config().set(&[(name.as_bytes(), value.as_bytes())], caller, &NoHooks).unwrap();
    }

    fn now(&self) -> Now {
        Now { unix_us: UnixUs(self.host.clock.load(SeqCst) * 1000) }
    }

    fn server(&self) -> Server {
        Server { worker: 0, now_us: self.now().unix_us }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Option<Value> {
        let (now, mut args, mut reply): (_, Args<'_>, _) =
            (self.now(), words.iter().copied().collect(), Reply::default());
        if let Flow::Wait(_) = dispatch::execute(&self.engine, &mut self.session, &mut args, now, &mut reply) {
            return None;
        }
        Decoder::new().decode(&reply.take()).unwrap().map(|(value, _)| value)
    }

    /// Returns the words of a random command.
    fn command(&mut self, random: &mut Rng) -> Option<Vec<Vec<u8>>> {
        let line = grammar::line(random, self.host.clock.load(SeqCst));
        self.history.push(line.join(" "));
        let mut words = Vec::new();
        for word in line {
            words.push(match word.strip_prefix("{dump}") {
                None => word.into_bytes(),
                Some(key) => match self.ask(&[b"DUMP", key.as_bytes()]) {
                    Some(Value::Bulk(bytes)) => bytes,
                    _ => return None,
                },
            });
        }
        Some(words)
    }

    fn run_one(&mut self, random: &mut Rng) {
        if let Some(words) = self.command(random) {
            self.ask(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }

    /// Applies a command of another server's stream.
    fn apply_one(&mut self, caller: Caller, random: &mut Rng) {
        let Some(words) = self.command(random) else { return };
        let mut text = Vec::new();
        put_command(&mut text, words.iter().map(Vec::as_slice));
        let info = Arc::new(ClientInfo::new(9, "", "", -1, 0, UnixMs(BEGIN)));
        let mut applier = Applier::of(info, caller, 0, random.u32(..2));
        applier.apply(&self.engine, &text, self.now()).expect("a command");
    }

    /// Runs some commands in a transaction.
    fn transaction(&mut self, random: &mut Rng) {
        self.history.push("transaction".into());
        let commands: Vec<_> = (0..random.usize(1..5)).filter_map(|_| self.command(random)).collect();
        self.ask(&[b"MULTI"]);
        for words in commands {
            self.ask(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        self.ask(&[b"EXEC"]);
    }

    /// Runs some commands in a script.
    fn script(&mut self, random: &mut Rng) {
        self.history.push("script".into());
        let mut script = vec![b"EVAL".to_vec(), SCRIPT.into(), b"0".to_vec()];
        for _ in 0..random.usize(1..4) {
            let Some(words) = self.command(random) else { continue };
            script.push(words.len().to_string().into_bytes());
            script.extend(words);
        }
        self.ask(&script.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// Evicts a key or two.
    fn evict(&mut self, random: &mut Rng) {
        let policies = ["allkeys-random", "allkeys-lru", "volatile-ttl", "allkeys-lfu"];
        let policy = policies[random.usize(..policies.len())];
        self.history.push(format!("evict {policy}"));
        self.configure("maxmemory-policy", policy);
        self.host.in_use.store(1 << 30, SeqCst);
        self.engine.limit_memory((1 << 30) - 1);
        self.engine.measure_memory();
        self.engine.make_room(self.server());
        self.engine.limit_memory(0);
        self.configure("maxmemory-policy", "noeviction");
    }

    /// Returns the whole data set as a snapshot.
    fn snapshot(&self) -> Vec<u8> {
        let options = SaveOptions {
            data: true,
            functions: true,
            slots: SlotSet::all(),
            purpose: Purpose::Transfer,
            style: Style { compress: true, family: Family::Valkey },
            sum: true,
            fields: Vec::new(),
            marks: Marks::None,
            delay: Duration::ZERO,
        };
        let file = SnapshotFile::begin(&self.engine, &options, || {}, || false).unwrap();
        let mut rdb = Vec::new();
        file.write(&mut rdb).unwrap();
        rdb
    }

    /// Takes another server's data set in the place of the present one.
    fn full_sync(&mut self, random: &mut Rng) {
        let beside = random.bool();
        self.history.push(format!("full sync, beside {beside}"));
        let mut primary = Machine::new();
        primary.host.clock.store(self.host.clock.load(SeqCst), SeqCst);
        (0..random.usize(..30)).for_each(|_| primary.run_one(random));
        let rdb = primary.snapshot();
        let mut reader = &rdb[..];
        if beside {
            load_beside(&self.engine, &mut reader, 0, true).expect("a snapshot").exchange();
        } else {
            load_snapshot(&self.engine, &mut reader, 0).expect("a snapshot");
        }
    }

    /// Brings slots from another node, which are hidden meanwhile, or removes some that have gone to another node.
    fn migrate(&mut self, random: &mut Rng) {
        let first = random.u16(..SLOTS as u16 / 2);
        let slots = SlotSet::of([first..=first + SLOTS as u16 / 2 - 1]);
        let (hidden, now) = (self.engine.importing_slots(), self.now());
        if random.bool() {
            self.history.push(format!("slots from {first} go"));
            hidden.hide_leaving(&slots);
            remove_keys(&self.engine, &slots, "n", now);
            hidden.end_leaving(&slots);
            return;
        }
        self.history.push(format!("slots from {first} arrive"));
        hidden.hide([b'm'; 40], slots);
        (0..random.usize(1..5)).for_each(|_| self.apply_one(Caller::Migration, random));
        self.engine.importing_slots().show(&[b'm'; 40]);
    }

    fn step(&mut self, random: &mut Rng) {
        match random.u32(..40) {
            0..=2 => self.transaction(random),
            3..=5 => self.script(random),
            6..=9 => {
                let ms = [1, 100, 1000, 1500, 10_000, 61_000][random.usize(..6)];
                self.history.push(format!("{ms} ms pass"));
                self.host.clock.fetch_add(ms, SeqCst);
            }
            10 | 11 => {
                self.history.push("expiry".into());
                self.engine.expire_due(0..OPTIONS.shards, self.server(), random.usize(1..5));
            }
            12 => self.evict(random),
            13 => self.migrate(random),
            14 if random.bool() => self.full_sync(random),
            15 => {
                self.session.db ^= 1;
                self.history.push(format!("select {}", self.session.db));
            }
            16 | 17 => self.apply_one(Caller::Primary, random),
            _ => self.run_one(random),
        }
    }
}

#[test]
fn observers_see_every_change() {
    let begin = number("CINNABAR_OBSERVER_SEED").unwrap_or(0);
    for seed in begin..begin + number("CINNABAR_OBSERVER_CASES").unwrap_or(40) {
        let (mut random, mut machine) = (Rng::with_seed(seed), Machine::new());
        for _ in 0..300 {
            machine.step(&mut random);
            let differences = machine.shadow.differences();
            let last: Vec<_> = machine.history.iter().rev().take(12).rev().collect();
            assert!(differences.is_empty(), "seed {seed}: {differences:#?} after {last:#?}");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
