//! The engine's surroundings: a clock that is moved, threads that are shuttle's, a disk, and a mailbox for the replies
//! to waiting clients.

use crate::disk::Disk;
use engine::Engine;
use engine::clients::waiters::{Delivery, Ticket};
use engine::config::Directive;
use engine::host::clock::Clock;
use engine::host::connections::{Connections, StepDown};
use engine::host::files::{Files, NewFile};
use engine::host::process::Process;
use engine::host::threads::{Server, Task, Threads, WorkerTask};
use engine::time::{Nanos, UnixMs, UnixUs};
use persistence::aof::storage::Storage;
use shuttle::thread::{self, JoinHandle};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// The reply to a client that waited.
pub struct Delivered {
    pub reply: Vec<u8>,
    /// The time in milliseconds, and the moment.
    pub time: i64,
    pub moment: u64,
}

/// A complete snapshot: the moments of its beginning and end, and its content.
#[derive(Clone)]
pub struct Saved {
    pub begin: u64,
    pub end: u64,
    /// The time at its end, in milliseconds.
    pub time: i64,
    pub rdb: Vec<u8>,
}

/// The history's clock, and the engine's.
pub struct Chronicle {
    moments: AtomicU64,
    /// Unix time in milliseconds.
    time: AtomicI64,
    timeline: Mutex<Vec<(u64, i64)>>,
    saves: Mutex<Vec<Saved>>,
}

impl Chronicle {
    /// Returns the next moment of the history.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Relaxed)
    }

    pub fn time(&self) -> i64 {
        self.time.load(Relaxed)
    }

    /// Returns the times that the clock was moved on to, each with a moment right before.
    pub fn timeline(&self) -> Vec<(u64, i64)> {
        self.timeline.lock().expect("nobody panics here").clone()
    }

    /// Returns the snapshots so far.
    pub fn saves(&self) -> Vec<Saved> {
        self.saves.lock().expect("nobody panics here").clone()
    }
}

/// The engine's view of the machine.
pub struct Surroundings {
    pub chronicle: Arc<Chronicle>,
    /// The processor's clock in nanoseconds, and the step by which each look at it moves it on.
    nanos: AtomicU64,
    look: u64,
    /// Messages by arrival.
    mailbox: Mutex<HashMap<u64, Delivered>>,
    pub disk: Disk,
    engine: OnceLock<Weak<Engine>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Orders for the thread that frames the log, if there is one.
    step_downs: Mutex<Option<Vec<Arc<StepDown>>>>,
    has_stopped: AtomicBool,
}

impl Surroundings {
    /// Returns the surroundings. `look`: nanoseconds by which each look at the processor's clock moves it on.
    pub fn new(time: i64, look: u64, disk: Disk) -> Surroundings {
        let (moments, time) = (AtomicU64::new(1), AtomicI64::new(time));
        Surroundings {
            chronicle: Arc::new(Chronicle { moments, time, timeline: Mutex::default(), saves: Mutex::default() }),
            nanos: AtomicU64::new(1),
            look,
            mailbox: Mutex::default(),
            disk,
            engine: OnceLock::new(),
            threads: Mutex::default(),
            step_downs: Mutex::default(),
            has_stopped: AtomicBool::new(false),
        }
    }

    /// Records that a thread takes the orders to follow another server from now on.
    pub fn frame(&self) {
        *self.step_downs.lock().expect("nobody panics here") = Some(Vec::new());
    }

    /// Returns orders that have been given since the last call.
    pub fn step_downs(&self) -> Vec<Arc<StepDown>> {
        self.step_downs.lock().expect("nobody panics here").as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns whether the server has ended.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped.load(Relaxed)
    }

    /// Sets the engine. To be called once.
    pub fn set_engine(&self, engine: &Arc<Engine>) {
        assert!(self.engine.set(Arc::downgrade(engine)).is_ok());
    }

    fn engine(&self) -> Arc<Engine> {
        self.engine.get().and_then(Weak::upgrade).expect("it has begun")
    }

    pub fn pass_time(&self, milliseconds: i64) {
        let moment = self.chronicle.moment();
        let time = self.chronicle.time.fetch_add(milliseconds, Relaxed) + milliseconds;
        self.nanos.fetch_add(milliseconds as u64 * 1_000_000, Relaxed);
        self.chronicle.timeline.lock().expect("nobody panics here").push((moment, time));
    }

    /// Returns the message for a client that waits.
    pub fn delivered(&self, ticket: &Ticket) -> Option<Delivered> {
        self.mailbox.lock().expect("nobody panics here").remove(&ticket.arrival)
    }

    /// Waits for threads in the background.
    pub fn join(&self) {
        loop {
            let thread = self.threads.lock().expect("nobody panics here").pop();
            let Some(thread) = thread else { return };
            thread.join().expect("no thread fails");
        }
    }
}

impl Clock for Surroundings {
    fn nanos(&self) -> Nanos {
        Nanos(self.nanos.fetch_add(self.look, Relaxed))
    }

    fn unix_us(&self, _: UnixUs) -> UnixUs {
        UnixMs(self.chronicle.time()).us()
    }

    fn sleep(&self, _: Duration) {
        thread::yield_now();
    }

    fn rest(&self, _: Duration) {
        thread::yield_now();
    }
}

impl Delivery for Surroundings {
    fn deliver(&self, ticket: &Arc<Ticket>, reply: Vec<u8>) {
        let delivered = Delivered { reply, time: self.chronicle.time(), moment: self.chronicle.moment() };
        let before = self.mailbox.lock().expect("nobody panics here").insert(ticket.arrival, delivered);
        assert!(before.is_none(), "a client is served once");
    }
}

impl Files for Surroundings {
    fn create_file(&self, path: &[u8], _: bool) -> io::Result<Box<dyn NewFile>> {
        let file = self.disk.create(path)?;
        if path != RDB {
            return Ok(file);
        }
        let chronicle = Arc::clone(&self.chronicle);
        let begin = chronicle.moment();
        Ok(Box::new(Snapshot { chronicle, begin, bytes: Vec::new(), file }))
    }

    fn open_file(&self, path: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.disk.open(path)
    }
}

/// The name of the file that snapshots are saved to.
pub const RDB: &[u8] = b"dump.rdb";

/// A file of a snapshot that begins when this is made.
struct Snapshot {
    chronicle: Arc<Chronicle>,
    begin: u64,
    bytes: Vec<u8>,
    file: Box<dyn NewFile>,
}

impl Write for Snapshot {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.file.write(bytes)?;
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for Snapshot {
    fn commit(self: Box<Self>) -> io::Result<()> {
        let Snapshot { chronicle, begin, bytes: rdb, file } = *self;
        file.commit()?;
        let (end, time) = (chronicle.moment(), chronicle.time());
        chronicle.saves.lock().expect("nobody panics here").push(Saved { begin, end, time, rdb });
        Ok(())
    }
}

impl Threads<Engine> for Surroundings {
    fn in_background(&self, _: Directive, work: Task<Engine>) -> io::Result<()> {
        let engine = self.engine();
        let thread = thread::spawn(move || work(&engine));
        self.threads.lock().expect("nobody panics here").push(thread);
        Ok(())
    }

    fn on_worker(&self, worker: usize, work: WorkerTask<Engine>) {
        work(&self.engine(), Server { worker, now_us: UnixMs(self.chronicle.time()).us() });
    }
}

impl Connections for Surroundings {
    fn demote(&self, order: &Arc<StepDown>) -> bool {
        let mut orders = self.step_downs.lock().expect("nobody panics here");
        orders.as_mut().map(|orders| orders.push(Arc::clone(order))).is_some()
    }
}

impl Process for Surroundings {
    fn stop(&self) {
        self.has_stopped.store(true, Relaxed);
    }
}

engine::host_defaults!(Surroundings: Memory, Peers, Log, EffectSink);
