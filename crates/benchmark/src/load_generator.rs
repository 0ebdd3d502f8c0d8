//! The load: connections that send batches and count replies, driven by one event loop a thread.
//!
//! Every thread has its share of the connections and a poll of its own. A connection sends a batch, counts the replies
//! of it, sends the next. Nothing is parsed beyond where replies end, and nothing is allocated on the way, so that one
//! thread loads a server harder than the server's own clients do.
//!
//! A latency is the time from the moment at which a batch was *due* to the moment at which a reply was read. Without a
//! rate a batch is due when it is sent. With one ([`Plan::rate`]) batches are due at even distances, whether the server
//! keeps up or not: requests that had to wait because the server stalled carry that wait in their latency, instead of
//! not being sent and so not being counted (coordinated omission).

use crate::batch::{CommandSequence, Numbers, RequestBatch};
use crate::options::Extent;
use crate::reply_counter::{ReplyCounter, Trouble};
use cinnabar_tls::client_stream::ClientStream;
use cinnabar_tls::{ClientConfig, ServerName};
use hdrhistogram::Histogram;
use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Registry, Token};
use resp::address::Target;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Latencies are counted up to this; longer ones count as this. Microseconds.
const LATENCY_MAX: u64 = 60_000_000;
/// Bytes that are read at once.
const READ_SIZE: usize = 256 * 1024;

/// What to do; the same for all threads.
#[derive(Debug)]
pub struct Plan<'p> {
    pub target: &'p Target,
    /// How connections are encrypted, if they are.
    pub tls: Option<&'p Encryption>,
    /// Sent on each new connection, before the first batch; the replies are not counted.
    pub greeting: Vec<u8>,
    pub greeting_replies: u64,
    pub sequence: &'p CommandSequence,
    /// Times that the sequence is sent at once.
    pub pipeline: usize,
    pub keep_alive: bool,
    pub extent: Extent,
    pub warmup: Duration,
    /// Commands per second over all threads.
    pub rate: Option<u64>,
}

/// What connections are encrypted with, and whom they are to.
pub type Encryption = (Arc<ClientConfig>, ServerName<'static>);

/// What threads have done so far, for the one that shows it, and what they agree on.
#[derive(Debug)]
pub struct LoadCounts {
    /// Sequences that a thread has taken on, and how many of them count towards the number of requests.
    scheduled: AtomicU64,
    counted: AtomicU64,
    /// Replies, those of the warm-up too, and the sum of their latencies in microseconds.
    pub finished: AtomicU64,
    pub latency_sum: AtomicU64,
    /// When the last thread was done, in microseconds since the start.
    ended: AtomicU64,
    stop: AtomicBool,
    pub started: Instant,
}

impl LoadCounts {
    pub fn new() -> Self {
        LoadCounts {
            scheduled: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            latency_sum: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// How long all threads took together.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.ended.load(Relaxed))
    }

    /// Ends the run early.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}

/// A histogram of latencies in microseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are legal")
}

/// Why a run ended early.
#[derive(Debug)]
pub enum RunFailure {
    Connect(io::Error),
    Lost(io::Error),
    Server(String),
    Protocol,
}

/// Runs one thread's connections until the plan is carried out; answers the latencies of what was recorded.
pub fn run(
    plan: &Plan<'_>,
    shared: &LoadCounts,
    connections: usize,
    numbers: Numbers,
) -> Result<Histogram<u64>, RunFailure> {
    let result = Loader::new(plan, shared, numbers).and_then(|mut loader| {
        loader.open(connections)?;
        loader.drive()?;
        Ok(loader.latencies)
    });
    if result.is_err() {
        shared.stop();
    }
    shared.ended.fetch_max(shared.started.elapsed().as_micros() as u64, Relaxed);
    result
}

/// Opens connections and keeps them until the server ends one.
pub fn idle(plan: &Plan<'_>, connections: usize) -> Result<(), RunFailure> {
    let shared = LoadCounts::new();
    let mut loader = Loader::new(plan, &shared, Numbers::sequential(1, 0))?;
    for _ in 0..connections {
        loader.connect(None)?;
    }
    let mut events = Events::with_capacity(256);
    loop {
        loader.poll.poll(&mut events, None).or_else(ignore_interrupt).map_err(RunFailure::Lost)?;
        for event in &events {
            loader.ready(event.token().0, event.is_readable())?;
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<ClientStream<TcpStream>>),
}

impl Socket {
    fn connect(plan: &Plan<'_>, registry: &Registry, token: Token) -> io::Result<Socket> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        Ok(match plan.target {
            Target::Tcp { host, port } => {
                let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
                let found = (host.as_str(), *port)
                    .to_socket_addrs()?
                    .find_map(|address| std::net::TcpStream::connect(address).map_err(|error| last = error).ok());
                let stream = found.ok_or(last)?;
                stream.set_nodelay(true)?;
                if let Some((settings, name)) = plan.tls {
                    let stream = ClientStream::connect(stream, Arc::clone(settings), name.clone())?;
                    let mut stream = stream.map(|stream| {
                        stream.set_nonblocking(true)?;
                        Ok(TcpStream::from_std(stream))
                    })?;
                    registry.register(stream.socket_mut(), token, interest)?;
                    return Ok(Socket::Tls(Box::new(stream)));
                }
                stream.set_nonblocking(true)?;
                let mut stream = TcpStream::from_std(stream);
                registry.register(&mut stream, token, interest)?;
                Socket::Tcp(stream)
            }
            Target::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                let mut stream = UnixStream::from_std(stream);
                registry.register(&mut stream, token, interest)?;
                Socket::Unix(stream)
            }
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tls(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tls(stream) => stream.write(bytes),
        }
    }

    /// Sends what is encrypted already, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tls(stream) => stream.flush().or_else(|error| match error.kind() {
                ErrorKind::WouldBlock => Ok(()),
                _ => Err(error),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a read that found less than it had room for has emptied the socket.
    fn is_plain(&self) -> bool {
        !matches!(self, Socket::Tls(_))
    }
}

struct Connection {
    socket: Socket,
    replies: ReplyCounter,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// Replies to come of the greeting, and of the batch.
    greeting: u64,
    awaited: u64,
    /// When the batch under way was due.
    due: Instant,
    /// It has sent a batch.
    used: bool,
}

/// One thread's connections and event loop.
struct Loader<'p> {
    plan: &'p Plan<'p>,
    shared: &'p LoadCounts,
    poll: Poll,
    connections: Vec<Connection>,
    /// Batches that are not due yet, and the connections that will send them, in the order of time.
    resting: VecDeque<(usize, Due)>,
    batch: RequestBatch,
    numbers: Numbers,
    latencies: Histogram<u64>,
    buffer: Vec<u8>,
    recording_from: Instant,
}

/// A batch that a connection has taken on.
#[derive(Clone, Copy)]
struct Due {
    repetitions: usize,
    at: Instant,
}

impl<'p> Loader<'p> {
    fn new(plan: &'p Plan<'p>, shared: &'p LoadCounts, numbers: Numbers) -> Result<Self, RunFailure> {
        Ok(Loader {
            plan,
            shared,
            poll: Poll::new().map_err(RunFailure::Lost)?,
            connections: Vec::new(),
            resting: VecDeque::new(),
            batch: RequestBatch::new(plan.sequence, plan.pipeline),
            numbers,
            latencies: new_histogram(),
            buffer: vec![0; READ_SIZE],
            recording_from: shared.started + plan.warmup,
        })
    }

    fn open(&mut self, connections: usize) -> Result<(), RunFailure> {
        for _ in 0..connections {
            let token = self.connect(None)?;
            self.go_on(token)?;
        }
        Ok(())
    }

    /// Opens a connection, in the place of another if one is given, and greets.
    fn connect(&mut self, place: Option<usize>) -> Result<usize, RunFailure> {
        let token = place.unwrap_or(self.connections.len());
        let socket = Socket::connect(self.plan, self.poll.registry(), Token(token)).map_err(RunFailure::Connect)?;
        let connection = Connection {
            socket,
            replies: ReplyCounter::default(),
            unsent: self.plan.greeting.clone(),
            greeting: self.plan.greeting_replies,
            awaited: 0,
            due: Instant::now(),
            used: false,
        };
        match place {
            Some(token) => self.connections[token] = connection,
            None => self.connections.push(connection),
        }
        self.connections[token].flush()?;
        Ok(token)
    }

    fn drive(&mut self) -> Result<(), RunFailure> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.stop.load(Relaxed) {
            let wait = self.wake_rested()?;
            if self.resting.is_empty() && self.connections.iter().all(|connection| connection.awaited == 0) {
                return Ok(());
            }
            self.poll.poll(&mut events, wait).or_else(ignore_interrupt).map_err(RunFailure::Lost)?;
            for event in &events {
                self.ready(event.token().0, event.is_readable())?;
            }
        }
        Ok(())
    }

    /// Lets connections send what has become due; answers how long there is nothing else to do.
    fn wake_rested(&mut self) -> Result<Option<Duration>, RunFailure> {
        while let Some((token, due)) = self.resting.front().copied() {
            let early = due.at.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                return Ok(Some(early));
            }
            self.resting.pop_front();
            self.send(token, due)?;
        }
        // A stop by another thread is noticed without traffic as well.
        Ok(Some(Duration::from_millis(100)))
    }

    fn ready(&mut self, token: usize, readable: bool) -> Result<(), RunFailure> {
        self.connections[token].flush()?;
        if !readable {
            return Ok(());
        }
        loop {
            let connection = &mut self.connections[token];
            let count = match connection.socket.read(&mut self.buffer) {
                Ok(0) => return Err(RunFailure::Lost(ErrorKind::UnexpectedEof.into())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(RunFailure::Lost(error)),
            };
            let mut ended = connection.replies.feed(&self.buffer[..count]).map_err(|trouble| match trouble {
                Trouble::Error(text) => RunFailure::Server(text),
                Trouble::Protocol => RunFailure::Protocol,
            })?;
            let greeted = ended.min(connection.greeting);
            connection.greeting -= greeted;
            ended -= greeted;
            if ended > connection.awaited {
                return Err(RunFailure::Protocol);
            }
            if ended > 0 {
                connection.awaited -= ended;
                let (due, done) = (connection.due, connection.awaited == 0);
                self.record(due, ended);
                if done {
                    self.go_on(token)?;
                }
            }
            if count < self.buffer.len() && self.connections[token].socket.is_plain() {
                break;
            }
        }
        Ok(())
    }

    fn record(&mut self, due: Instant, replies: u64) {
        let now = Instant::now();
        let latency = (now.saturating_duration_since(due).as_micros() as u64).clamp(1, LATENCY_MAX);
        // What was sent before does not count, whenever its reply comes.
        if due >= self.recording_from {
            self.latencies.saturating_record_n(latency, replies);
        }
        self.shared.finished.fetch_add(replies, Relaxed);
        self.shared.latency_sum.fetch_add(latency * replies, Relaxed);
    }

    /// The connection has its replies, if it sent anything: it takes on the next batch.
    fn go_on(&mut self, token: usize) -> Result<(), RunFailure> {
        let now = Instant::now();
        let Some(due) = self.next(now) else { return Ok(()) };
        if !self.plan.keep_alive && self.connections[token].used {
            self.connect(Some(token))?;
        }
        if due.at > now {
            self.resting.push_back((token, due));
            return Ok(());
        }
        self.send(token, due)
    }

    /// Takes the next batch out of what there is to do.
    fn next(&mut self, now: Instant) -> Option<Due> {
        let whole = self.plan.pipeline as u64;
        let warming_up = now < self.recording_from;
        let repetitions = match self.plan.extent {
            Extent::Duration(duration) => {
                (now.saturating_duration_since(self.recording_from) < duration).then_some(whole)?
            }
            Extent::Requests(_) if warming_up => whole,
            Extent::Requests(n) => {
                let before = self.shared.counted.fetch_add(whole, Relaxed);
                whole.min(self.sequences(n).saturating_sub(before))
            }
        };
        let before = self.shared.scheduled.fetch_add(repetitions, Relaxed);
        let at = self.plan.rate.map_or(now, |rate| {
            let commands = before * self.plan.sequence.commands() as u64;
            self.shared.started + Duration::from_secs_f64(commands as f64 / rate as f64)
        });
        (repetitions > 0).then_some(Due { repetitions: repetitions as usize, at })
    }

    /// Sequences that make up so many requests.
    fn sequences(&self, requests: u64) -> u64 {
        requests.div_ceil(self.plan.sequence.commands().max(1) as u64)
    }

    fn send(&mut self, token: usize, due: Due) -> Result<(), RunFailure> {
        let bytes = self.batch.renew(due.repetitions, &mut self.numbers);
        let connection = &mut self.connections[token];
        connection.due = due.at;
        connection.used = true;
        connection.awaited = (due.repetitions * self.plan.sequence.commands()) as u64;
        connection.write(bytes)
    }
}

impl Connection {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunFailure> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(bytes);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(RunFailure::Lost(error)),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RunFailure> {
        if self.unsent.is_empty() {
            return self.socket.flush().map_err(RunFailure::Lost);
        }
        let bytes = std::mem::take(&mut self.unsent);
        self.write(&bytes)
    }
}

fn ignore_interrupt(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
