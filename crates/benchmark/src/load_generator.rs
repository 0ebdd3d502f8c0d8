//! The load: connections that send batches and count replies, driven by one event loop a thread.
//!
//! Every thread has its share of the connections and a poll of its own. Nothing is parsed beyond where replies end, and
//! nothing is allocated on the way, so that one thread loads a server harder than the server's own clients do.
//!
//! A latency is the time from the moment at which a batch was *due* to the moment at which a reply was read. How
//! batches become due is the [`Pacing`]:
//!
//! | | when a batch is due | how many are on their way |
//! |---|---|---|
//! | as answered | when it is sent, which is when the one before it was answered | one a connection |
//! | at most | at even distances | one a connection: others wait for it, and their wait counts |
//! | open loop | at even distances | as many as have become due ([`Arrivals`]) |
//!
//! So with a pace, requests that had to wait because the server stalled carry that wait in their latency, instead of
//! not being sent and so not being counted (coordinated omission).

use crate::arrivals::Arrivals;
use crate::batch::{Operation, RequestBatch};
use crate::cluster_slots::{Node, SlotMap};
use crate::key_numbers::Numbers;
use crate::load_connection::{Connection, InFlight};
use crate::load_counts::{LATENCY_MAX, LoadCounts, new_histogram};
use crate::options::Extent;
use cinnabar_tls::{ClientConfig, ServerName};
use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};
use resp::address::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Number of bytes that are read at once.
const READ_SIZE: usize = 256 * 1024;
/// A stop by another thread is noticed without traffic as well.
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(100);

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Each connection sends as soon as it has its replies.
    AsAnswered,
    /// Each connection sends as soon as it has its replies, but all together at most so many commands a second.
    AtMost(u64),
    /// So many requests a second, whether others are answered or not.
    OpenLoop(u64),
}

/// Plan of a load; the same for all threads.
#[derive(Debug)]
pub struct Plan<'p> {
    /// The addresses that connections go to, in turns.
    pub nodes: Vec<PlanNode<'p>>,
    /// The nodes with their slots, where they are a cluster's.
    pub cluster: &'p [Node],
    /// Whether tags route the operations.
    pub has_tags: bool,
    /// Whether connections may use several paths.
    pub multipath: bool,
    /// Encryption of the connections, if any.
    pub tls: Option<&'p Encryption>,
    pub operations: &'p [Operation],
    /// Number of commands of one operation: the same for all of them.
    pub commands: usize,
    /// Number of times that an operation is sent at once.
    pub pipeline: usize,
    pub keep_alive: bool,
    pub extent: Extent,
    pub warmup: Duration,
    pub pacing: Pacing,
}

/// A server that connections go to.
#[derive(Debug)]
pub struct PlanNode<'p> {
    pub target: &'p Target,
    /// Sent on each new connection, before the first batch; the replies are not counted.
    pub greeting: Vec<u8>,
    pub greeting_replies: u64,
}

/// Encryption settings, and the server's name.
pub type Encryption = (Arc<ClientConfig>, ServerName<'static>);

/// Reason why a run ended early.
#[derive(Debug)]
pub enum RunFailure {
    Connect(io::Error),
    Lost(io::Error),
    Server(String),
    /// An error reply of a node of a cluster, with the node's address.
    Node(String, String),
    Protocol,
}

/// One thread of the load.
#[derive(Debug)]
pub struct LoadThread {
    /// Number of this thread, of all `of`.
    pub number: usize,
    pub of: usize,
    pub connections: usize,
    pub numbers: Numbers,
    pub seed: u64,
}

/// Runs one thread's connections until the plan is executed; returns the recorded latencies of each operation's
/// requests.
pub fn run(plan: &Plan<'_>, shared: &LoadCounts, thread: LoadThread) -> Result<Vec<Histogram<u64>>, RunFailure> {
    let connections = thread.connections;
    let opened = Loader::new(plan, shared, thread).and_then(|mut loader| {
        loader.open(connections)?;
        Ok(loader)
    });
    if opened.is_err() {
        shared.stop();
    }
    if matches!(plan.pacing, Pacing::OpenLoop(_)) {
        // Threads that failed wait here, too: the others wait for them.
        shared.connected.wait();
        shared.opened.get_or_init(Instant::now);
    }
    let result = opened.and_then(|mut loader| {
        loader.recorder.from = shared.started() + plan.warmup;
        loader.drive()?;
        Ok(loader.recorder.latencies)
    });
    if result.is_err() {
        shared.stop();
    }
    shared.ended.fetch_max(shared.started().elapsed().as_micros() as u64, Relaxed);
    result
}

/// Opens connections and keeps them until the server ends one.
pub fn idle(plan: &Plan<'_>, connections: usize) -> Result<(), RunFailure> {
    let shared = LoadCounts::new(1);
    let thread = LoadThread { number: 0, of: 1, connections, numbers: Numbers::sequential(1, 0), seed: 0 };
    let mut loader = Loader::new(plan, &shared, thread)?;
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

/// Recorder of latencies.
struct Recorder<'p> {
    shared: &'p LoadCounts,
    /// Latencies of each operation.
    latencies: Vec<Histogram<u64>>,
    from: Instant,
}

impl Recorder<'_> {
    fn record(&mut self, now: Instant, request: &InFlight, replies: u64) {
        let latency = (now.saturating_duration_since(request.due).as_micros() as u64).clamp(1, LATENCY_MAX);
        // Requests that were due before recording began do not count, whenever their replies arrive.
        if request.due >= self.from {
            self.latencies[request.operation].saturating_record_n(latency, replies);
        }
        self.shared.finished.fetch_add(replies, Relaxed);
        self.shared.latency_sum.fetch_add(latency * replies, Relaxed);
    }
}

/// One thread's connections and event loop.
struct Loader<'p> {
    plan: &'p Plan<'p>,
    shared: &'p LoadCounts,
    poll: Poll,
    connections: Vec<Connection>,
    /// Number of this thread, and the number of threads.
    place: (usize, usize),
    /// The slots of a cluster's nodes.
    slots: Option<SlotMap>,
    /// Batches that are not due yet, and the connections that will send them, ordered by time.
    resting: VecDeque<(usize, Due)>,
    /// The requests of an open loop, and the number of the next connection to send one.
    arrivals: Option<Arrivals>,
    next_connection: usize,
    batch: RequestBatch,
    numbers: Numbers,
    recorder: Recorder<'p>,
    buffer: Vec<u8>,
}

/// A batch that a connection has taken.
#[derive(Clone, Copy)]
struct Due {
    repetitions: usize,
    at: Instant,
}

impl<'p> Loader<'p> {
    fn new(plan: &'p Plan<'p>, shared: &'p LoadCounts, thread: LoadThread) -> Result<Self, RunFailure> {
        let arrivals = match plan.pacing {
            Pacing::OpenLoop(rate) => Some(Arrivals::new(rate, (thread.number, thread.of), plan.warmup, plan.extent)),
            Pacing::AsAnswered | Pacing::AtMost(_) => None,
        };
        Ok(Loader {
            plan,
            shared,
            poll: Poll::new().map_err(RunFailure::Lost)?,
            connections: Vec::new(),
            place: (thread.number, thread.of),
            slots: plan.has_tags.then(|| SlotMap::new(plan.cluster, thread.seed)),
            resting: VecDeque::new(),
            arrivals,
            next_connection: 0,
            batch: RequestBatch::new(plan.operations, plan.pipeline, thread.seed),
            numbers: thread.numbers,
            recorder: Recorder {
                shared,
                latencies: plan.operations.iter().map(|_| new_histogram()).collect(),
                from: shared.created + plan.warmup,
            },
            buffer: vec![0; READ_SIZE],
        })
    }

    /// Opens the connections; they begin at once, except in an open loop.
    fn open(&mut self, connections: usize) -> Result<(), RunFailure> {
        for _ in 0..connections {
            let token = self.connect(None)?;
            if self.arrivals.is_none() {
                self.go_on(token)?;
            }
        }
        Ok(())
    }

    /// Opens a connection, in place of another if one is given, and greets.
    fn connect(&mut self, place: Option<usize>) -> Result<usize, RunFailure> {
        let token = place.unwrap_or(self.connections.len());
        // Threads share the nodes out among their connections.
        let node = (self.place.0 + token * self.place.1) % self.plan.nodes.len();
        let connection = Connection::open(self.plan, node, self.poll.registry(), Token(token))?;
        match place {
            Some(token) => self.connections[token] = connection,
            None => self.connections.push(connection),
        }
        Ok(token)
    }

    fn drive(&mut self) -> Result<(), RunFailure> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.stop.load(Relaxed) {
            let wait = if self.arrivals.is_some() { self.send_arrived()? } else { self.wake_rested()? };
            let is_done = self.resting.is_empty()
                && self.arrivals.as_ref().is_none_or(|arrivals| arrivals.next_due().is_none())
                && self.connections.iter().all(Connection::is_idle);
            if is_done {
                return Ok(());
            }
            self.wait(&mut events, wait).or_else(ignore_interrupt).map_err(RunFailure::Lost)?;
            for event in &events {
                self.ready(event.token().0, event.is_readable())?;
            }
        }
        Ok(())
    }

    /// Waits for events. The poll itself counts whole milliseconds; an open loop's requests are due at shorter
    /// distances.
    fn wait(&mut self, events: &mut Events, time: Duration) -> io::Result<()> {
        if self.arrivals.is_none() {
            return self.poll.poll(events, Some(time));
        }
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        poll(&mut [PollFd::new(self.poll.registry(), PollFlags::IN)], Some(&time))?;
        self.poll.poll(events, Some(Duration::ZERO))
    }

    /// Makes connections send their due batches; returns how long there is nothing else to do.
    fn wake_rested(&mut self) -> Result<Duration, RunFailure> {
        while let Some((token, due)) = self.resting.front().copied() {
            let early = due.at.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                return Ok(early.min(STOP_SEEN_WITHIN));
            }
            self.resting.pop_front();
            self.send(token, due)?;
        }
        Ok(STOP_SEEN_WITHIN)
    }

    /// Sends the due requests of an open loop, each over the next connection that takes it; returns how long no other
    /// is due.
    fn send_arrived(&mut self) -> Result<Duration, RunFailure> {
        let start = self.shared.started();
        loop {
            let now = Instant::now();
            let Some(arrivals) = &mut self.arrivals else { return Ok(STOP_SEEN_WITHIN) };
            let Some(next) = arrivals.next_due() else { return Ok(STOP_SEEN_WITHIN) };
            let early = (start + next).saturating_duration_since(now);
            if !early.is_zero() {
                return Ok(early.min(STOP_SEEN_WITHIN));
            }
            let count = self.connections.len();
            let order = (0..count).map(|step| (self.next_connection + step) % count);
            // While every socket is full, requests wait here; the moments at which they were due stay the same.
            let Some(token) = order.into_iter().find(|token| self.connections[*token].takes_more()) else {
                return Ok(STOP_SEEN_WITHIN);
            };
            let Some(due) = arrivals.take(now.saturating_duration_since(start)) else { continue };
            self.next_connection = (token + 1) % count;
            let due = start + due;
            self.shared.lateness.fetch_max(now.saturating_duration_since(due).as_micros() as u64, Relaxed);
            self.send(token, Due { repetitions: 1, at: due })?;
        }
    }

    fn ready(&mut self, token: usize, readable: bool) -> Result<(), RunFailure> {
        self.connections[token].flush()?;
        if !readable {
            return Ok(());
        }
        loop {
            let connection = &mut self.connections[token];
            let Some(count) = connection.read(&mut self.buffer)? else { break };
            let (now, mut any) = (Instant::now(), false);
            let answered = connection.answered(&self.buffer[..count], |request, replies| {
                any = true;
                self.recorder.record(now, request, replies);
            });
            let node = connection.node;
            answered.map_err(|failure| match failure {
                RunFailure::Server(text) if !self.plan.cluster.is_empty() => {
                    RunFailure::Node(self.plan.nodes[node].target.to_string(), text)
                }
                failure => failure,
            })?;
            if let Some(slots) = &mut self.slots {
                connection.take_redirections().iter().for_each(|text| slots.redirected(node, text));
            }
            if any && connection.is_idle() && self.arrivals.is_none() {
                self.go_on(token)?;
            }
            if count < self.buffer.len() && self.connections[token].is_plain() {
                break;
            }
        }
        Ok(())
    }

    /// Gives the connection its next batch, once it has the replies to the one before.
    fn go_on(&mut self, token: usize) -> Result<(), RunFailure> {
        let now = Instant::now();
        // A node that lost its last slot gets no more requests.
        let node = self.connections[token].node;
        if self.slots.as_ref().is_some_and(|slots| !slots.has_slots(node)) {
            return Ok(());
        }
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

    /// Takes the next batch of the work that is left.
    fn next(&mut self, now: Instant) -> Option<Due> {
        let whole = self.plan.pipeline as u64;
        let from = self.recorder.from;
        let repetitions = match self.plan.extent {
            Extent::Duration(duration) => (now.saturating_duration_since(from) < duration).then_some(whole)?,
            Extent::Requests(_) if now < from => whole,
            Extent::Requests(n) => {
                let before = self.shared.counted.fetch_add(whole, Relaxed);
                whole.min(self.sequences(n).saturating_sub(before))
            }
        };
        let before = self.shared.scheduled.fetch_add(repetitions, Relaxed);
        let at = match self.plan.pacing {
            Pacing::AtMost(rate) => {
                let commands = before * self.plan.commands as u64;
                self.shared.started() + Duration::from_secs_f64(commands as f64 / rate as f64)
            }
            Pacing::AsAnswered | Pacing::OpenLoop(_) => now,
        };
        (repetitions > 0).then_some(Due { repetitions: repetitions as usize, at })
    }

    /// Returns the number of sequences that make up so many requests.
    fn sequences(&self, requests: u64) -> u64 {
        requests.div_ceil(self.plan.commands.max(1) as u64)
    }

    fn send(&mut self, token: usize, due: Due) -> Result<(), RunFailure> {
        let node = self.connections[token].node;
        let tag = self.slots.as_mut().and_then(|slots| slots.draw(node));
        self.batch.renew(due.repetitions, &mut self.numbers, tag);
        let connection = &mut self.connections[token];
        match self.batch.chosen() {
            None => {
                let replies = (due.repetitions * self.plan.commands) as u64;
                connection.expect(InFlight { due: due.at, operation: 0, replies });
            }
            Some(operations) => operations
                .iter()
                .for_each(|operation| connection.expect(InFlight { due: due.at, operation: *operation, replies: 1 })),
        }
        connection.write(self.batch.bytes())
    }
}

fn ignore_interrupt(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
