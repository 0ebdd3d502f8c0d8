//! A worker: runs its clients' operations, and the other work of a server's worker.

use crate::beside::{Beside, DURABLE};
use crate::checker::Call;
use crate::disk::Faults;
use crate::machine::{Machine, faults, word};
use crate::operation::{Operation, one, with_plain_refusals};
use commands::core::dispatch;
use commands::{Args, Flow, Session};
use engine::clients::waiters::Ticket;
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use fastrand::Rng;
use persistence::aof::Aof;
use persistence::aof::journal::Policy;
use resp::{Protocol, Reply};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Runs an operation for a client.
pub type Execute = fn(&mut Client, &Operation) -> Ran;

/// The outcome of an operation.
pub enum Ran {
    /// The reply.
    Replied(Vec<u8>),
    /// The reply, for a client that gets it at once, durable or not.
    Told(Vec<u8>),
    Waits(Arc<Ticket>),
}

/// A client of a worker.
pub struct Client {
    pub machine: Arc<Machine>,
    pub session: Session,
    /// The time when its last command ran.
    ran_at: i64,
    left: usize,
    calls: Vec<Call>,
    /// Ticket of its last call, if that waits.
    ticket: Option<Arc<Ticket>>,
    /// Its last reply, if that has to wait for the log.
    held: Option<HeldReply>,
}

/// A reply that waits until the log is durable.
struct HeldReply {
    /// The log's offset that it waits for.
    offset: u64,
    /// The promise about it.
    promise: Option<(u64, bool)>,
}

impl Client {
    pub fn new(machine: &Arc<Machine>, worker: usize, db: usize, operations: usize) -> Client {
        let machine = Arc::clone(machine);
        let mut session = machine.session(worker, db);
        session.patience = LockTimeout::Short;
        Client { machine, session, ran_at: 0, left: operations, calls: Vec::new(), ticket: None, held: None }
    }

    /// Runs a command, again and again until it is not put off any more.
    pub fn run(&mut self, words: &[String]) -> Ran {
        let machine = Arc::clone(&self.machine);
        let engine = &machine.engine;
        loop {
            let mut args: Args<'_> = words.iter().map(String::as_bytes).collect();
            let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
            let now = self.machine.now();
            self.ran_at = now.unix_ms().0;
            let prepared = dispatch::prepare(engine, &args);
            match dispatch::run(engine, &mut self.session, &prepared, &mut args, now, &mut reply) {
                Flow::Next => {
                    self.session.patience = LockTimeout::Short;
                    return Ran::Replied(reply.into_inner());
                }
                Flow::Wait(ticket) => return Ran::Waits(ticket),
                Flow::More(mut work) => {
                    let command = prepared.entry().expect("it has run").command;
                    while !dispatch::step(engine, &mut self.session, command, &mut **work, now, &mut reply) {
                        thread::yield_now();
                    }
                    return Ran::Replied(reply.into_inner());
                }
                Flow::RetryLater => self.session.patience = self.session.patience.after_failure(true),
                Flow::Postponed => machine.pass_pause(),
                _ => panic!("no command ends its connection: {words:?}"),
            }
            thread::yield_now();
        }
    }

    /// Records a time in milliseconds, for callers that run a command without [`run`](Self::run).
    pub fn note_time(&mut self, time: i64) {
        self.ran_at = time;
    }

    fn call(&mut self, operation: Operation, execute: Execute) {
        let (called, began, logged_at) = (self.machine.moment(), self.machine.time(), self.session.logged_at);
        let promise = self.machine.promise();
        let ran = execute(self, &operation);
        self.calls.push(Call::new(operation, self.session.db as usize, began, called));
        let is_told = matches!(ran, Ran::Told(_));
        match ran {
            Ran::Replied(seen) | Ran::Told(seen) => {
                let logged_at = Some(self.session.logged_at).filter(|at| *at != logged_at);
                self.reply(seen, self.ran_at, logged_at, promise);
            }
            Ran::Waits(ticket) => self.ticket = Some(ticket),
        }
        if is_told && self.held.take().is_some() {
            self.send(promise);
        }
    }

    /// Records its call's reply, which may have to wait until it is durable.
    fn reply(&mut self, seen: Vec<u8>, time: i64, logged_at: Option<u64>, promise: Option<(u64, bool)>) {
        let machine = Arc::clone(&self.machine);
        let call = self.calls.last_mut().expect("it has called");
        let first = if call.operation.lasts() { call.times[0] } else { time };
        let seen = if machine.setup.has_faults { with_plain_refusals(&seen) } else { seen };
        (call.times, call.seen, call.logged_at) = ((first..=time).collect(), seen, logged_at);
        (call.ran, call.log) = (machine.moment(), machine.aof().map_or(0, |aof| aof.journal.appended()));
        if machine.aof().is_some_and(Aof::keeps_replies) {
            self.held = Some(HeldReply { offset: self.session.seen_to, promise });
        } else {
            self.send(None);
        }
    }

    /// Sends its reply, as a durable one if that was promised all the while.
    fn send(&mut self, promise: Option<(u64, bool)>) {
        let now = self.machine.moment();
        // Others may have seen data that is not durable, while the disk takes nothing or before the policy changed:
        // later readers depend on that, unless they have written since.
        let has_written = self.calls.last().is_some_and(|call| call.logged_at.is_some());
        let has_faults = self.machine.setup.has_faults;
        let is_promised = |(switches, keeps): (u64, bool)| keeps && (has_written || switches == 0 && !has_faults);
        let is_durable = promise.is_some_and(is_promised) && promise == self.machine.promise();
        let call = self.calls.last_mut().expect("it has called");
        call.replied = Some(now);
        call.durable_at = is_durable.then_some(now);
        let waited = matches!(call.operation, Operation::Beside(Beside::WaitAof(_)));
        if waited && call.seen == DURABLE {
            let written = self.calls.iter_mut().filter(|call| call.logged_at.is_some());
            written.for_each(|call| call.durable_at = Some(call.durable_at.map_or(now, |at| at.min(now))));
        }
    }

    /// Sends its reply if the log is durable up to there; or if the log cannot be written, and the client has written
    /// nothing that is not durable.
    fn release(&mut self, durable: u64, has_failed: bool) {
        let goes = |held: &HeldReply| held.offset <= durable || has_failed && self.session.logged_at <= durable;
        if let Some(held) = self.held.take_if(|held| goes(held)) {
            self.send(held.promise.filter(|_| held.offset <= durable));
        }
    }

    /// Ends its wait with this reply, at that time.
    fn end_wait(&mut self, reply: Vec<u8>, time: i64, moment: u64) {
        let ticket = self.ticket.take().expect("it waits");
        let logged_at = Some(ticket.request().logged_at()).filter(|at| *at > 0);
        self.session.logged_at = self.session.logged_at.max(logged_at.unwrap_or(0));
        self.session.seen_to = self.machine.engine.change_log().appended();
        self.machine.engine.cancel_wait(&ticket);
        self.reply(reply, time, logged_at, self.machine.promise());
        self.calls.last_mut().expect("it has called").ran = moment;
    }

    /// Takes the reply that it waited for, if that is there.
    fn take_delivered(&mut self) {
        let delivered = self.ticket.as_ref().and_then(|ticket| self.machine.delivered(ticket));
        if let Some(delivered) = delivered {
            self.end_wait(delivered.reply, delivered.time, delivered.moment);
        }
    }

    /// Ends its wait if its time has come.
    fn end_if_late(&mut self) {
        let now = self.machine.time();
        let is_late = |ticket: &&Arc<Ticket>| ticket.deadline.is_some_and(|at| at.0 <= now) && ticket.finish();
        if let Some(ticket) = self.ticket.clone().as_ref().filter(is_late) {
            self.end_wait(ticket.request().timeout_reply(), now, self.machine.moment());
        }
    }

    /// Returns whether it waits for a thread that will surely answer.
    fn waits_for_a_thread(&self) -> bool {
        let last = self.calls.last().map(|call| &call.operation);
        self.ticket.is_some() && matches!(last, Some(Operation::Beside(Beside::Save)))
    }

    /// Returns the operation that it waits in at the end of a run, if it does: a pop that no push will serve.
    pub fn ends_waiting(&mut self) -> Option<&Operation> {
        self.take_delivered();
        self.ticket.as_ref()?;
        Some(&self.calls.last()?.operation)
    }

    /// Returns its calls. A wait is ended.
    pub fn into_calls(mut self) -> Vec<Call> {
        if let Some(ticket) = self.ticket.clone().filter(|ticket| ticket.finish()) {
            self.end_wait(ticket.request().timeout_reply(), self.machine.time(), self.machine.moment());
        }
        if self.held.take().is_some() {
            self.send(None);
        }
        self.calls
    }
}

/// Runs operations unchanged.
pub fn faithfully(client: &mut Client, operation: &Operation) -> Ran {
    let mut replies = Vec::new();
    for words in operation.commands(&client.machine.shas) {
        match client.run(&words) {
            Ran::Replied(reply) => replies.push(reply),
            waits => return waits,
        }
    }
    Ran::Replied(operation.seen(replies))
}

/// Does the other work of a worker with that number.
pub fn tick(machine: &Machine, worker: usize, random: &mut Rng) {
    let now = machine.now();
    let server = Server { worker, now_us: now.unix_us };
    if machine.engine.has_deferred() {
        machine.engine.run_deferred(server);
    }
    if machine.engine.is_paused() {
        machine.engine.end_pause_if_over(machine.engine.host().steady_ms(now.unix_us));
    }
    match random.u8(..8) {
        0 => machine.pass_time(random.i64(1..4)),
        1 => _ = machine.engine.expire_due(0..machine.engine.locks().len(), server, 10),
        _ => {}
    }
}

/// Takes the steps before replies are sent: the log is written, and durable where that has to be, unless its own thread
/// does that.
fn end_turn(machine: &Machine, clients: &mut [Client], random: &mut Rng) {
    let Some(aof) = machine.aof() else { return };
    if !aof.has_failed() && (!aof.keeps_replies() || random.bool()) {
        machine.write_log(aof, aof.keeps_replies());
    }
    let (durable, has_failed) = (aof.journal.released(), aof.has_failed());
    let durable = if aof.keeps_replies() { durable } else { u64::MAX };
    clients.iter_mut().for_each(|client| client.release(durable, has_failed));
}

/// Runs the operations of a worker's clients until all have ended or wait.
pub fn work(machine: &Machine, worker: usize, clients: &mut [Client], execute: Execute, random: &mut Rng) {
    loop {
        tick(machine, worker, random);
        for client in &mut *clients {
            client.take_delivered();
            client.end_if_late();
        }
        let is_ready = |client: &&mut Client| client.left > 0 && client.ticket.is_none() && client.held.is_none();
        let mut ready: Vec<&mut Client> = clients.iter_mut().filter(is_ready).collect();
        if !ready.is_empty() {
            let index = random.usize(..ready.len());
            ready[index].left -= 1;
            ready[index].call(Operation::random(random), execute);
        } else if clients.iter().all(|client| client.held.is_none() && !client.waits_for_a_thread()) {
            return;
        }
        end_turn(machine, clients, random);
        thread::yield_now();
    }
}

/// Does the work of the log's thread until clients send no commands any more, and of an operator; the disk fails now
/// and then, and the machine crashes.
pub fn tend(machine: &Arc<Machine>, random: &mut Rng) {
    let mut operator = Client::new(machine, 0, 0, 0);
    let mut run = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        operator.run(&words);
    };
    while !machine.is_over.load(Relaxed) {
        match random.u8(..32) {
            0..6 => machine.aof().into_iter().for_each(|aof| machine.tend_log(aof)),
            6 | 7 => machine.crash(random.u64(..)),
            8 if machine.aof().is_some() => run("BGREWRITEAOF"),
            9 => machine.tick(),
            10 | 11 if machine.setup.has_faults => machine.set_faults(faults(random)),
            12..15 => machine.set_faults(Faults::default()),
            15 if machine.setup.switches => {
                let policy = one(random, &[Policy::No, Policy::EverySecond, Policy::Always]);
                machine.switch(|| run(&format!("CONFIG SET appendfsync {}", word(policy))));
            }
            _ => {}
        }
        thread::yield_now();
    }
}

/// Finishes work that was left for later.
pub fn settle(machine: &Machine) {
    while machine.engine.has_deferred() {
        // A client that waits for a key may wait for the end of a pause, too.
        machine.pass_time(1);
        let now = machine.now();
        machine.engine.end_pause_if_over(machine.engine.host().steady_ms(now.unix_us));
        machine.engine.run_deferred(Server { worker: 0, now_us: now.unix_us });
    }
}
