//! A worker: it runs its clients' operations, and what a worker of the server does beside that.

use crate::checker::Call;
use crate::machine::Machine;
use crate::operation::Operation;
use commands::core::dispatch;
use commands::{Args, Flow, Now, Session};
use engine::clients::waiters::Ticket;
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use engine::propagation::change_log::ChangeLog;
use fastrand::Rng;
use resp::{Protocol, Reply};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How a client runs an operation.
pub type Execute = fn(&mut Client, &Operation) -> Ran;

/// What came of an operation.
pub enum Ran {
    /// What was seen.
    Replied(Vec<u8>),
    /// The same, for a client that is told of it at once, durable or not.
    Told(Vec<u8>),
    Waits(Arc<Ticket>),
}

/// A client of a worker.
pub struct Client {
    pub machine: Arc<Machine>,
    pub session: Session,
    /// When its last command ran.
    ran_at: i64,
    left: usize,
    calls: Vec<Call>,
    /// Its last call's, if that waits.
    ticket: Option<Arc<Ticket>>,
    /// Up to where the log must be durable before its last reply goes.
    held: Option<u64>,
}

impl Client {
    pub fn new(machine: &Arc<Machine>, worker: usize, db: usize, operations: usize) -> Client {
        let machine = Arc::clone(machine);
        let mut session = machine.session(worker, db);
        session.patience = LockTimeout::Short;
        Client { machine, session, ran_at: 0, left: operations, calls: Vec::new(), ticket: None, held: None }
    }

    /// Runs a command, again and again until it is its turn.
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
                Flow::NotNow => self.session.patience = self.session.patience.after_failure(true),
                Flow::Postponed => {}
                _ => panic!("no command ends its connection: {words:?}"),
            }
            thread::yield_now();
        }
    }

    /// For who runs a command without [`run`](Self::run): its time in milliseconds.
    pub fn note_time(&mut self, time: i64) {
        self.ran_at = time;
    }

    fn call(&mut self, operation: Operation, execute: Execute) {
        let (called, began, logged_at) = (self.machine.moment(), self.machine.time(), self.session.logged_at);
        let ran = execute(self, &operation);
        let db = self.session.db as usize;
        let (times, seen) = (vec![began], Vec::new());
        let call = Call { operation, db, times, called, replied: None, seen, logged_at: None, is_durable: false };
        self.calls.push(call);
        let is_told = matches!(ran, Ran::Told(_));
        match ran {
            Ran::Replied(seen) | Ran::Told(seen) => {
                self.reply(seen, self.ran_at, Some(self.session.logged_at).filter(|at| *at != logged_at));
            }
            Ran::Waits(ticket) => self.ticket = Some(ticket),
        }
        if is_told {
            self.release(u64::MAX);
        }
    }

    /// Its call has this reply, which may have to wait until it is durable.
    fn reply(&mut self, seen: Vec<u8>, time: i64, logged_at: Option<u64>) {
        let call = self.calls.last_mut().expect("it has called");
        let first = if call.operation.lasts() { call.times[0] } else { time };
        (call.times, call.seen, call.logged_at) = ((first..=time).collect(), seen, logged_at);
        match self.machine.aof() {
            Some(aof) if aof.keeps_replies() => self.held = Some(self.session.seen_to),
            _ => call.replied = Some(self.machine.moment()),
        }
    }

    /// Its reply goes if the log is durable up to there.
    fn release(&mut self, durable: u64) {
        if self.held.take_if(|held| *held <= durable).is_some() {
            let call = self.calls.last_mut().expect("it has called");
            (call.replied, call.is_durable) = (Some(self.machine.moment()), true);
        }
    }

    /// Its wait has ended with this, at that time.
    fn end_wait(&mut self, reply: Vec<u8>, time: i64) {
        let ticket = self.ticket.take().expect("it waits");
        let logged_at = Some(ticket.request().logged_at()).filter(|at| *at > 0);
        self.session.logged_at = self.session.logged_at.max(logged_at.unwrap_or(0));
        self.session.seen_to = self.machine.engine.change_log().map_or(0, ChangeLog::appended);
        self.machine.engine.cancel_wait(&ticket);
        self.reply(reply, time, logged_at);
    }

    /// Takes what it waited for, if that is there.
    fn take_delivered(&mut self) {
        let delivered = self.ticket.as_ref().and_then(|ticket| self.machine.delivered(ticket));
        if let Some(delivered) = delivered {
            self.end_wait(delivered.reply, delivered.time);
        }
    }

    /// Ends its wait if its time has come.
    fn end_if_late(&mut self) {
        let now = self.machine.time();
        let is_late = |ticket: &&Arc<Ticket>| ticket.deadline.is_some_and(|at| at.0 <= now) && ticket.finish();
        if let Some(ticket) = self.ticket.clone().as_ref().filter(is_late) {
            self.end_wait(ticket.request().timeout_reply(), now);
        }
    }

    /// What it waits for at the end of a run, if it does: a pop that nobody will serve.
    pub fn ends_waiting(&mut self) -> Option<&Operation> {
        self.take_delivered();
        self.ticket.as_ref()?;
        Some(&self.calls.last()?.operation)
    }

    /// What it did. A wait is ended.
    pub fn into_calls(mut self) -> Vec<Call> {
        if let Some(ticket) = self.ticket.clone().filter(|ticket| ticket.finish()) {
            self.end_wait(ticket.request().timeout_reply(), self.machine.time());
        }
        self.release(u64::MAX);
        self.calls
    }
}

/// Runs operations as they are.
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

/// What a worker of that number does beside serving clients.
pub fn tick(machine: &Machine, worker: usize, random: &mut Rng) {
    let now = machine.now();
    let server = Server { worker, now_us: now.unix_us };
    if machine.engine.has_deferred() {
        machine.engine.run_deferred(server);
    }
    match random.u8(..8) {
        0 => machine.pass_time(random.i64(1..4)),
        1 => _ = machine.engine.expire_due(0..machine.engine.locks().len(), server, 10),
        _ => {}
    }
}

/// Before replies are sent: the log is written, and durable where that has to be, unless its own thread does that.
fn end_turn(machine: &Machine, clients: &mut [Client], random: &mut Rng) {
    let Some(aof) = machine.aof() else { return };
    if !aof.keeps_replies() || random.bool() {
        machine.write_log(aof, aof.keeps_replies());
    }
    clients.iter_mut().for_each(|client| client.release(aof.journal.released()));
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
        } else if clients.iter().all(|client| client.held.is_none()) {
            return;
        }
        end_turn(machine, clients, random);
        thread::yield_now();
    }
}

/// What the log's thread does until nobody sends commands any more; and the machine crashes now and then.
pub fn tend_log(machine: &Machine, random: &mut Rng) {
    while !machine.is_over.load(Relaxed) {
        let Some(aof) = machine.aof() else { return };
        match random.u8(..24) {
            0..4 => machine.write_log(aof, true),
            4 => machine.crash(random.u64(..)),
            5 => machine.rewrite_log(),
            6 => machine.tick_log(),
            _ => {}
        }
        thread::yield_now();
    }
}

/// Does what was left for later.
pub fn settle(machine: &Machine) {
    let Now { unix_us: now_us } = machine.now();
    while machine.engine.has_deferred() {
        machine.engine.run_deferred(Server { worker: 0, now_us });
    }
}
