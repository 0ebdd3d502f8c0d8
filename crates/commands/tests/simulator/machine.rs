//! An engine with its [surroundings](crate::surroundings), and events from outside: crashes, faults of the disk, the
//! work of the log's thread.

use crate::checker::{Call, Found};
use crate::contents;
use crate::disk::{Disk, Faults};
use crate::model::Model;
use crate::operation::{self, LIBRARY};
use crate::shadow::Shadow;
use crate::surroundings::{Chronicle, Delivered, RDB, Saved, Surroundings};
use commands::core::dispatch;
use commands::persistence::aof::{self, end_waits, load_and_begin, wrote};
use commands::persistence::{load, save};
use commands::{Args, Flow, Now, Session};
use engine::clients::registry::ClientInfo;
use engine::clients::waiters::Ticket;
use engine::time::{SteadyMs, UnixMs};
use engine::{Engine, Host, Options};
use fastrand::Rng;
use persistence::aof::journal::Policy;
use persistence::aof::storage::Storage;
use persistence::aof::{Aof, of};
use resp::Reply;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Unix time in milliseconds when a run begins.
pub const BEGIN: i64 = 1_700_000_000_000;

/// The disk after a crash of the machine, and the facts known then.
pub struct Crash {
    pub moment: u64,
    time: i64,
    /// Offset up to which the log was durable.
    pub synced: u64,
    disk: Disk,
}

impl Crash {
    /// Returns the contents when the machine starts again.
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
        let found = Found { model: machine.model(), time: self.time };
        assert_eq!(machine.shadow.differences(), [""; 0], "the loaded keys are announced");
        found
    }
}

impl Saved {
    /// Returns its contents as an operation that has seen them.
    pub fn into_call(self) -> Call {
        let disk = Disk::default();
        disk.replace(RDB, &self.rdb).expect("the disk is sound");
        let machine = Machine::begin(1, 0, self.time, disk);
        load::load_file(&machine.engine, false).expect("it is whole").expect("it is there");
        let found = Found { model: machine.model(), time: self.time };
        Call::cut(self.begin, self.end, found)
    }
}

/// The setup of a run.
pub struct Setup {
    pub workers: usize,
    /// Nanoseconds by which each look at the processor's clock moves it on.
    pub look: u64,
    /// The policy of the log, if there is one.
    pub policy: Option<Policy>,
    /// The disk fails now and then.
    pub has_faults: bool,
    /// The policy changes.
    pub switches: bool,
}

/// See the module.
pub struct Machine {
    pub engine: Arc<Engine>,
    pub surroundings: Arc<Surroundings>,
    pub setup: Setup,
    /// Knows the keyspace by its announcements.
    pub shadow: Arc<Shadow>,
    /// Digests of the two scripts, first the one that declares its keys.
    pub shas: [String; 2],
    clients: AtomicU64,
    /// Changes of the policy that have begun, and that have ended.
    switches: AtomicU64,
    crashes: Mutex<Vec<Crash>>,
    /// Snapshots that clients report as made.
    cuts: Mutex<Vec<Call>>,
    /// Clients send no commands any more.
    pub is_over: AtomicBool,
}

impl Machine {
    pub fn start(setup: Setup) -> Machine {
        let policy = setup.policy;
        let mut machine = Machine::begin(setup.workers, setup.look, BEGIN, Disk::default());
        machine.setup = setup;
        let mut session = machine.session(0, 0);
        machine.shas = [true, false].map(|declares| {
            let reply = machine.ask(&mut session, &["SCRIPT", "LOAD", &operation::script(declares)]);
            String::from_utf8_lossy(&reply).lines().nth(1).expect("a name").to_owned()
        });
        assert_eq!(machine.ask(&mut session, &["CONFIG", "SET", "save", ""]), b"+OK\r\n");
        if let Some(policy) = policy {
            assert!(machine.load(), "there is nothing yet");
            assert_eq!(machine.ask(&mut session, &["CONFIG", "SET", "appendfsync", word(policy)]), b"+OK\r\n");
        }
        assert!(machine.ask(&mut session, &["FUNCTION", "LOAD", LIBRARY]).starts_with(b"$"));
        machine.sync_log();
        machine
    }

    /// Returns a machine without data, and without a log.
    pub fn begin(workers: usize, look: u64, time: i64, disk: Disk) -> Machine {
        commands::install(&[]);
        let surroundings = Arc::new(Surroundings::new(time, look, disk.clone()));
        let options = Options { shards: 4, databases: 2, hash_seed: 7, workers, counts_slots: true };
        let engine = Arc::new(Engine::new(&options, Arc::clone(&surroundings) as Arc<dyn Host>));
        surroundings.set_engine(&engine);
        let shadow = Shadow::install(&engine);
        Aof::install(&engine, Arc::new(disk), b"logs", b"log.aof");
        Machine {
            engine,
            surroundings,
            shadow,
            setup: Setup { workers, look, policy: None, has_faults: false, switches: false },
            shas: Default::default(),
            clients: AtomicU64::new(1),
            switches: AtomicU64::new(0),
            crashes: Mutex::default(),
            cuts: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Reads the log that is on the disk, and continues it; false if it is incomplete.
    fn load(&self) -> bool {
        self.engine.persistence_status().set_loading(true);
        let loaded = load_and_begin(&self.engine).is_ok();
        self.engine.persistence_status().set_loading(false);
        loaded
    }

    /// Returns the log, if it is on.
    pub fn aof(&self) -> Option<&Aof> {
        of(&self.engine).filter(|_| self.engine.has_log())
    }

    /// Writes the log, as a worker does before it replies, and the log's thread now and then. `syncs`: makes it
    /// durable, too.
    pub fn write_log(&self, aof: &Aof, syncs: bool) {
        let (journal, attempt) = (&aof.journal, aof.attempt());
        let result = match journal.policy() {
            Policy::Always if syncs => {
                // Other threads that hold the locks do it, too.
                let Some(result) = journal.commit(journal.appended(), Duration::ZERO) else { return };
                result
            }
            _ if syncs => journal.write().and_then(|()| journal.sync().map(drop)),
            _ => journal.write(),
        };
        wrote(&self.engine, aof, attempt, &result);
        end_waits(&self.engine, aof);
    }

    /// Does the work of the log's thread.
    pub fn tend_log(&self, aof: &Aof) {
        self.write_log(aof, aof.journal.policy() != Policy::No);
        if !aof.has_failed() && aof.journal.policy() != Policy::Always {
            aof.journal.release_written();
        }
    }

    fn sync_log(&self) {
        if let Some(aof) = self.aof() {
            aof.journal.write().and_then(|()| aof.journal.sync().map(drop)).expect("the disk is sound");
        }
    }

    /// Takes the periodic steps.
    pub fn tick(&self) {
        aof::tick(&self.engine, UnixMs(self.time()), SteadyMs(self.time()));
        save::tick(&self.engine, SteadyMs(self.time()));
    }

    /// Sets the disk's faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.surroundings.disk.set(faults);
    }

    /// Repairs the disk, which takes the log again.
    pub fn recover(&self) {
        self.set_faults(Faults::default());
        self.join();
        let Some(aof) = self.aof() else { return };
        for _ in 0..3 {
            self.write_log(aof, true);
            self.sync_log();
            end_waits(&self.engine, aof);
            if aof.journal.is_in_doubt() {
                // A new base makes data in doubt durable.
                self.ask(&mut self.session(0, 0), &["BGREWRITEAOF"]);
                self.join();
            }
        }
        assert_eq!(aof.journal.synced(), aof.journal.appended(), "the disk is sound");
    }

    /// Changes when the log is synced, by this command of a client.
    pub fn switch(&self, change: impl FnOnce()) {
        self.switches.fetch_add(1, Relaxed);
        change();
        self.switches.fetch_add(1, Relaxed);
    }

    /// Returns the policy's promise: the number of its changes, and whether the log is synced before replies are sent.
    /// None during a change.
    pub fn promise(&self) -> Option<(u64, bool)> {
        let switches = self.switches.load(Relaxed);
        switches.is_multiple_of(2).then(|| (switches, self.aof().is_some_and(Aof::keeps_replies)))
    }

    /// Stores the disk as a crash would leave it now; the run continues.
    pub fn crash(&self, seed: u64) {
        let Some(aof) = self.aof() else { return };
        let (synced, disk) = (aof.journal.synced(), self.surroundings.disk.crash_in_order(seed));
        let crash = Crash { moment: self.moment(), time: self.time(), synced, disk };
        self.crashes.lock().expect("nobody panics here").push(crash);
    }

    /// Returns the crashes so far.
    pub fn crashes(&self) -> Vec<Crash> {
        std::mem::take(&mut *self.crashes.lock().expect("nobody panics here"))
    }

    /// Adds a snapshot that a client has saved.
    pub fn add_cut(&self, cut: Call) {
        self.cuts.lock().expect("nobody panics here").push(cut);
    }

    /// Returns the snapshots so far.
    pub fn cuts(&self) -> Vec<Call> {
        std::mem::take(&mut *self.cuts.lock().expect("nobody panics here"))
    }

    /// Waits for threads in the background.
    pub fn join(&self) {
        self.surroundings.join();
    }

    /// Returns a client of this worker.
    pub fn session(&self, worker: usize, db: usize) -> Session {
        let id = self.clients.fetch_add(1, Relaxed);
        let info = Arc::new(ClientInfo::new(id, "", "", -1, worker, UnixMs(BEGIN)));
        let mut session = Session::connected(info, true);
        session.db = db as u32;
        session
    }

    /// Returns the history's clock, and its records.
    pub fn chronicle(&self) -> &Chronicle {
        &self.surroundings.chronicle
    }

    /// Returns the next moment of the history.
    pub fn moment(&self) -> u64 {
        self.chronicle().moment()
    }

    /// Returns Unix time in milliseconds.
    pub fn time(&self) -> i64 {
        self.chronicle().time()
    }

    pub fn pass_time(&self, milliseconds: i64) {
        self.surroundings.pass_time(milliseconds);
    }

    pub fn now(&self) -> Now {
        Now { unix_us: UnixMs(self.time()).us() }
    }

    /// Returns the message for a client that waits.
    pub fn delivered(&self, ticket: &Ticket) -> Option<Delivered> {
        self.surroundings.delivered(ticket)
    }

    /// Runs a command to its end. The time passes while a pause holds it.
    pub fn ask(&self, session: &mut Session, words: &[&str]) -> Vec<u8> {
        loop {
            let (mut args, mut reply): (Args<'_>, _) = (words.into(), Reply::default());
            match dispatch::execute(&self.engine, session, &mut args, self.now(), &mut reply) {
                Flow::Next => return reply.take(),
                Flow::Postponed => self.pass_pause(),
                _ => panic!("it does not end at once: {words:?}"),
            }
        }
    }

    /// Lets time pass for a client that waits for the end of a pause: others may wait, too, and none may be left to let
    /// it pass.
    pub fn pass_pause(&self) {
        self.pass_time(1);
        self.engine.end_pause_if_over(self.engine.host().steady_ms(self.now().unix_us));
    }

    /// Returns the live keys.
    pub fn model(&self) -> Model {
        contents::model(self)
    }
}

/// Returns the value of `appendfsync`.
pub fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::No => "no",
        Policy::EverySecond => "everysec",
        Policy::Always => "always",
    }
}

/// Returns random faults, for some time.
pub fn faults(random: &mut Rng) -> Faults {
    let mut faults = Faults { slow: random.u32(0..20), ..Faults::default() };
    match random.u8(..6) {
        0 => faults.room = Some(random.usize(..400)),
        1 => faults.short = Some(random.usize(1..60)),
        2 => faults.write_fails = true,
        3 => faults.sync_fails = true,
        4 => (faults.sync_fails, faults.truncate_fails) = (true, true),
        _ => (faults.room, faults.truncate_fails) = (Some(random.usize(..200)), true),
    }
    faults
}
