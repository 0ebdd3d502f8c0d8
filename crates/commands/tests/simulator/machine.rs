//! An engine with what it needs of its surroundings: a clock that is moved, threads that are shuttle's, a disk, and a
//! mailbox for what clients waited for.

use crate::checker::Found;
use crate::disk::Disk;
use crate::model::{Content, Kept, Model};
use crate::operation::{self, HASHES, Key, LIBRARY, LISTS, SETS, SORTED, STRINGS};
use commands::core::dispatch;
use commands::persistence::aof::{load_and_begin, tick, wrote};
use commands::{Args, Flow, Now, Session};
use engine::clients::registry::ClientInfo;
use engine::clients::waiters::{Delivery, Ticket};
use engine::config::Directive;
use engine::host::clock::Clock;
use engine::host::files::{Files, NewFile};
use engine::host::threads::{Task, Threads};
use engine::time::{Nanos, UnixMs, UnixUs};
use engine::{Engine, Host, Options};
use persistence::aof::journal::Policy;
use persistence::aof::storage::Storage;
use persistence::aof::{Aof, of};
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use shuttle::thread::{self, JoinHandle};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// Unix time in milliseconds when a run begins.
pub const BEGIN: i64 = 1_700_000_000_000;

/// What came for a client that waited.
pub struct Delivered {
    pub reply: Vec<u8>,
    /// The time in milliseconds.
    pub time: i64,
}

/// What the engine knows of the machine.
pub struct Surroundings {
    /// Unix time in milliseconds.
    time: AtomicI64,
    /// The processor's clock in nanoseconds, and by how much each look at it moves it on.
    nanos: AtomicU64,
    look: u64,
    /// By arrival.
    mailbox: Mutex<HashMap<u64, Delivered>>,
    disk: Disk,
    engine: OnceLock<Weak<Engine>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Clock for Surroundings {
    fn nanos(&self) -> Nanos {
        Nanos(self.nanos.fetch_add(self.look, Relaxed))
    }

    fn unix_us(&self, _: UnixUs) -> UnixUs {
        UnixUs(self.time.load(Relaxed) * 1000)
    }
}

impl Delivery for Surroundings {
    fn deliver(&self, ticket: &Arc<Ticket>, reply: Vec<u8>) {
        let delivered = Delivered { reply, time: self.time.load(Relaxed) };
        let before = self.mailbox.lock().expect("nobody panics here").insert(ticket.arrival, delivered);
        assert!(before.is_none(), "a client is served once");
    }
}

impl Files for Surroundings {
    fn create_file(&self, path: &[u8], _: bool) -> io::Result<Box<dyn NewFile>> {
        self.disk.create(path)
    }

    fn open_file(&self, path: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.disk.open(path)
    }
}

impl Threads<Engine> for Surroundings {
    fn in_background(&self, _: Directive, work: Task<Engine>) -> io::Result<()> {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("it has begun");
        self.threads.lock().expect("nobody panics here").push(thread::spawn(move || work(&engine)));
        Ok(())
    }
}

engine::host_defaults!(Surroundings: Memory, Peers, Process, Log, Connections, EffectSink);

/// What a crash of the machine left, and what was known then.
pub struct Crash {
    pub moment: u64,
    time: i64,
    /// Up to where the log was durable.
    pub synced: u64,
    disk: Disk,
}

impl Crash {
    /// What is found when the machine starts again.
    pub fn recovered(&self) -> Found {
        let machine = Machine::begin(1, 0, self.time, self.disk.clone());
        let machine = if machine.load() {
            machine
        } else {
            self.disk.repair();
            let machine = Machine::begin(1, 0, self.time, self.disk.clone());
            assert!(machine.load(), "what was repaired is read");
            machine
        };
        Found { model: machine.model(), time: self.time }
    }
}

/// See the module.
pub struct Machine {
    pub engine: Arc<Engine>,
    surroundings: Arc<Surroundings>,
    /// Those of the two scripts, that which is told its keys first.
    pub shas: [String; 2],
    /// The history's clock.
    moments: AtomicU64,
    clients: AtomicU64,
    crashes: Mutex<Vec<Crash>>,
    /// Nobody sends commands any more.
    pub is_over: AtomicBool,
}

impl Machine {
    /// `look`: by how many nanoseconds each look at the processor's clock moves it on. `policy`: that of its log, if it
    /// has one.
    pub fn start(workers: usize, look: u64, policy: Option<Policy>) -> Machine {
        let mut machine = Machine::begin(workers, look, BEGIN, Disk::default());
        if let Some(policy) = policy {
            assert!(machine.load(), "there is nothing yet");
            machine.aof().expect("it is on").journal.set_policy(policy);
        }
        let mut session = machine.session(0, 0);
        machine.shas = [true, false].map(|declares| {
            let reply = machine.ask(&mut session, &["SCRIPT", "LOAD", &operation::script(declares)]);
            String::from_utf8_lossy(&reply).lines().nth(1).expect("a name").to_owned()
        });
        assert!(machine.ask(&mut session, &["FUNCTION", "LOAD", LIBRARY]).starts_with(b"$"));
        machine
    }

    /// One with nothing in it, and without a log.
    fn begin(workers: usize, look: u64, time: i64, disk: Disk) -> Machine {
        commands::install(&[]);
        let surroundings = Arc::new(Surroundings {
            time: AtomicI64::new(time),
            nanos: AtomicU64::new(1),
            look,
            mailbox: Mutex::default(),
            disk: disk.clone(),
            engine: OnceLock::new(),
            threads: Mutex::default(),
        });
        let options = Options { shards: 4, databases: 2, hash_seed: 7, workers };
        let engine = Arc::new(Engine::new(&options, Arc::clone(&surroundings) as Arc<dyn Host>));
        assert!(surroundings.engine.set(Arc::downgrade(&engine)).is_ok());
        engine.install_log(Arc::new(Aof::new(Arc::new(disk), b"logs", b"log.aof")));
        let (moments, clients) = (AtomicU64::new(1), AtomicU64::new(1));
        let (shas, crashes, is_over) = (Default::default(), Mutex::default(), AtomicBool::new(false));
        Machine { engine, surroundings, shas, moments, clients, crashes, is_over }
    }

    /// Reads the log that is on the disk, and goes on with it; false if it is not whole.
    fn load(&self) -> bool {
        self.engine.persistence_status().set_loading(true);
        let loaded = load_and_begin(&self.engine).is_ok();
        self.engine.persistence_status().set_loading(false);
        loaded
    }

    /// The log, if it is on.
    pub fn aof(&self) -> Option<&Aof> {
        of(&self.engine).filter(|_| self.engine.has_log())
    }

    /// What a worker does before it replies, and the log's thread now and then. `syncs`: it is made durable, too.
    pub fn write_log(&self, aof: &Aof, syncs: bool) {
        let (journal, attempt) = (&aof.journal, aof.attempt());
        let result = match journal.policy() {
            Policy::Always if syncs => {
                // Others who are at it do it, too.
                let Some(result) = journal.commit(journal.appended(), Duration::ZERO) else { return };
                result
            }
            _ if syncs => journal.write().and_then(|()| journal.sync().map(drop)),
            _ => journal.write(),
        };
        wrote(&self.engine, aof, attempt, &result);
    }

    /// Begins a new base of the log.
    pub fn rewrite_log(&self) {
        let mut session = self.session(0, 0);
        let (mut args, mut reply): (Args<'_>, _) = (["BGREWRITEAOF"][..].into(), Reply::default());
        // It may be refused while there is another one.
        dispatch::execute(&self.engine, &mut session, &mut args, self.now(), &mut reply);
    }

    /// What is due now and then.
    pub fn tick_log(&self) {
        tick(&self.engine, UnixMs(self.time()));
    }

    /// The disk is kept as a crash would leave it now; the run goes on.
    pub fn crash(&self, seed: u64) {
        let Some(aof) = self.aof() else { return };
        let (synced, disk) = (aof.journal.synced(), self.surroundings.disk.crash_in_order(seed));
        let crash = Crash { moment: self.moment(), time: self.time(), synced, disk };
        self.crashes.lock().expect("nobody panics here").push(crash);
    }

    /// Those that there were.
    pub fn crashes(&self) -> Vec<Crash> {
        std::mem::take(&mut *self.crashes.lock().expect("nobody panics here"))
    }

    /// Waits for threads in the background.
    pub fn join(&self) {
        loop {
            let thread = self.surroundings.threads.lock().expect("nobody panics here").pop();
            let Some(thread) = thread else { return };
            thread.join().expect("no thread fails");
        }
    }

    /// A client of this worker.
    pub fn session(&self, worker: usize, db: usize) -> Session {
        let id = self.clients.fetch_add(1, Relaxed);
        let info = Arc::new(ClientInfo::new(id, "", "", -1, worker, UnixMs(BEGIN)));
        let mut session = Session::new(info);
        session.db = db as u32;
        session
    }

    /// The next moment of the history.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Relaxed)
    }

    /// Unix time in milliseconds.
    pub fn time(&self) -> i64 {
        self.surroundings.time.load(Relaxed)
    }

    pub fn pass_time(&self, milliseconds: i64) {
        self.surroundings.time.fetch_add(milliseconds, Relaxed);
        self.surroundings.nanos.fetch_add(milliseconds as u64 * 1_000_000, Relaxed);
    }

    pub fn now(&self) -> Now {
        Now { unix_us: UnixMs(self.time()).us() }
    }

    /// What has come for a client that waits.
    pub fn delivered(&self, ticket: &Ticket) -> Option<Delivered> {
        self.surroundings.mailbox.lock().expect("nobody panics here").remove(&ticket.arrival)
    }

    /// Runs a command to its end.
    fn ask(&self, session: &mut Session, words: &[&str]) -> Vec<u8> {
        let (mut args, mut reply): (Args<'_>, _) = (words.into(), Reply::default());
        let flow = dispatch::execute(&self.engine, session, &mut args, self.now(), &mut reply);
        assert!(matches!(flow, Flow::Next), "{words:?}");
        reply.take()
    }

    /// All that is alive.
    pub fn model(&self) -> Model {
        let mut model = Model::default();
        for db in 0..2 {
            let mut session = self.session(0, db);
            let mut ask = |words: &[&str]| {
                Decoder::new().decode(&self.ask(&mut session, words)).expect("RESP").expect("all of it").0
            };
            for key in [&STRINGS[..], &LISTS, &HASHES, &SETS, &SORTED].concat() {
                if let Some(content) = content(key, &mut ask) {
                    let ends = Some(int(&ask(&["PEXPIRETIME", key]))).filter(|ends| *ends >= 0);
                    model.0[db].insert(key, Kept { content, ends });
                }
            }
        }
        model
    }
}

fn content(key: Key, ask: &mut dyn FnMut(&[&str]) -> Value) -> Option<Content> {
    let pairs = |numbers: Vec<i64>| numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let content = match key.trim_start_matches("{t}").as_bytes()[0] {
        b's' => match ask(&["GET", key]) {
            Value::Null => return None,
            value => return Some(Content::Number(int(&value))),
        },
        b'l' => Content::List(ints(ask(&["LRANGE", key, "0", "-1"]))),
        b'h' => Content::Hash(pairs(ints(ask(&["HGETALL", key])))),
        b't' => Content::Set(ints(ask(&["SMEMBERS", key])).into_iter().collect()),
        _ => Content::Sorted(pairs(ints(ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"])))),
    };
    (int(&ask(&["EXISTS", key])) > 0).then_some(content)
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("a number"),
        other => panic!("{other:?} is no number"),
    }
}

fn ints(value: Value) -> Vec<i64> {
    let Value::Array(items) = value else { panic!("{value:?} is no array") };
    items.iter().map(int).collect()
}
