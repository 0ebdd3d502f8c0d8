//! Commands that wait: BLPOP and its kin, XREAD BLOCK, WAIT.
//!
//! A blocking command is an ordinary handler that looks first and, when it finds nothing, declares its wait:
//!
//! ```text
//! fn blpop(cx, args) -> Result<(), Error> {
//!     let deadline = cx.deadline(&args[args.len() - 1])?;
//!     for index in 1..args.len() - 1 {
//!         if let Some(value) = pop(cx, args, index)? { reply; log as LPOP; return Ok(()) }
//!     }
//!     cx.wait(args, 1..args.len() - 1, Wait { kind: Some(&LIST), ..Wait::until(deadline) });
//!     Ok(())
//! }
//! ```
//!
//! The handler runs again, on whichever worker makes a key ready ([`engine::clients::waiters`]), with the same
//! arguments and in the client's name, database and protocol, and ends the wait by replying or by an error; when it
//! calls [`Context::wait`] again, the client stays in its place. So a handler must not take arguments out
//! ([`Args::take`]) before it has found something, and arguments that it resolves at the first run only (`$` of XREAD)
//! it writes back with [`Args::own`] before it waits. In transactions and scripts, which may not wait, `wait` replies a
//! null at once.
//!
//! The change log must not get a command that waits: on success a handler names its other form with
//! [`log_as`](engine::keyspace::edit::Edit::log_as).

use crate::core::acl_check::{self, Call};
use crate::core::admission::{self, Verdict};
use crate::core::args::Args;
use crate::core::command::{Command, READONLY, WRITE};
use crate::core::command_table::lookup;
use crate::core::context::{Blocking, Context, Flow, KeyArgs, Now};
use crate::core::session::{Identity, Session};
use crate::core::{busy_script, cluster_routing, tracked_reads};
use engine::clients::registry::ClientInfo;
use engine::clients::tracking::Tracker;
use engine::clients::waiters::{AwaitedKey, Ticket, WaitRequest, WaitingClient};
use engine::data::value_type::ValueType;
use engine::host::threads::Server;
use engine::keyspace::caller::{Caller, ExecContext};
use engine::keyspace::keys::Keys;
use engine::time::{SteadyMs, UnixUs};
use engine::unblock_clients::{BlockedCommand, Candidate, RetryOutcome};
use engine::{Engine, Error};
use resp::long_double::LongDouble;
use resp::{Protocol, Reply};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A null, in RESP2's two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nil {
    /// `$-1`.
    Null,
    /// `*-1`.
    NullArray,
}

impl Nil {
    fn write(self, reply: &mut Reply) {
        match self {
            Nil::Null => reply.null(),
            Nil::NullArray => reply.null_array(),
        }
    }
}

/// The reply when the deadline of a wait passes.
#[derive(Clone, Debug)]
pub enum TimedOut {
    /// These bytes.
    Bytes(&'static [u8]),
    /// The number of replicas that have acknowledged by then.
    Replicas(Arc<AtomicI64>),
    /// The number of replicas, after whether the own log is durable.
    Durable(bool, Arc<AtomicI64>),
}

impl TimedOut {
    fn reply(&self) -> Vec<u8> {
        match self {
            TimedOut::Bytes(bytes) => bytes.to_vec(),
            TimedOut::Replicas(acked) => format!(":{}\r\n", acked.load(Relaxed)).into_bytes(),
            TimedOut::Durable(durable, acked) => {
                format!("*2\r\n:{}\r\n:{}\r\n", i32::from(*durable), acked.load(Relaxed)).into_bytes()
            }
        }
    }
}

/// The parameters of a wait.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The end of the wait; None: it has none.
    pub deadline: Option<SteadyMs>,
    /// The type that makes a key useful.
    pub kind: Option<&'static ValueType>,
    /// Whether another attempt is due also when a key is removed or changes its type (XREADGROUP).
    pub on_missing: bool,
    /// The reply to a client that may not wait.
    pub refused: Nil,
    /// The reply when the deadline passes, if it is not a null array.
    pub timed_out: Option<TimedOut>,
    /// CLIENT UNBLOCK does not end the wait.
    pub to_its_end: bool,
}

impl Wait {
    /// Returns a wait up to this moment, with no other condition.
    pub fn until(deadline: Option<SteadyMs>) -> Wait {
        Wait { deadline, kind: None, on_missing: false, refused: Nil::NullArray, timed_out: None, to_its_end: false }
    }
}

/// Parses a timeout, which may be hexadecimal, unlike scores.
#[cold]
fn hexadecimal(seconds: &[u8]) -> Option<f64> {
    LongDouble::parse(seconds).filter(|_| seconds.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x')))?;
    resp::number::parse_f64_c(seconds)
}

/// Returns the error of a timeout that is no double: it is read with a wider range, so 1e400 is a number.
#[cold]
fn beyond_doubles(seconds: &[u8]) -> Error {
    match LongDouble::parse(seconds).map(LongDouble::to_text) {
        Some(text) if text.len() > 20 && text.starts_with('-') => Error::TimeoutNegative,
        Some(text) if text.len() > 20 => Error::TimeoutOutOfRange,
        _ => Error::TimeoutNotAFloat,
    }
}

impl Context<'_> {
    /// Returns whether a command that finds nothing will wait: not in transactions and scripts.
    pub fn may_block(&self) -> bool {
        self.blocking != Blocking::Refused
    }

    /// Returns the end of a timeout in seconds, which may have a fraction; none for 0.
    ///
    /// # Errors
    /// The timeout is no number, negative or too large.
    pub fn deadline(&self, seconds: &[u8]) -> Result<Option<SteadyMs>, Error> {
        let seconds =
            resp::number::parse_f64(seconds).or_else(|| hexadecimal(seconds)).ok_or_else(|| beyond_doubles(seconds))?;
        let milliseconds = (seconds * 1000.0).ceil();
        if milliseconds >= i64::MAX as f64 {
            return Err(Error::TimeoutOutOfRange);
        }
        self.deadline_after(milliseconds as i64)
    }

    /// Returns the end of a timeout in whole milliseconds.
    ///
    /// # Errors
    /// The timeout is no integer, negative or too large.
    pub fn deadline_ms(&self, milliseconds: &[u8]) -> Result<Option<SteadyMs>, Error> {
        self.deadline_after(resp::number::parse_i64(milliseconds).ok_or(Error::TimeoutNotAnInteger)?)
    }

    fn deadline_after(&self, milliseconds: i64) -> Result<Option<SteadyMs>, Error> {
        match milliseconds {
            ..0 => Err(Error::TimeoutNegative),
            0 => Ok(None),
            // The limit of a timeout applies to the time of day at its end, as users know it.
            _ => match self.now_ms().0.checked_add(milliseconds) {
                Some(_) => Ok(Some(self.steady_now().after(milliseconds))),
                None => Err(Error::TimeoutOutOfRange),
            },
        }
    }

    /// Makes the client wait at the keys at these arguments. To be called last; without keys the wait ends by its
    /// deadline or when the ticket is [finished](Ticket::finish).
    pub fn wait(&mut self, args: &Args<'_>, keys: impl IntoIterator<Item = usize>, wait: Wait) {
        match self.blocking {
            Blocking::Refused => return wait.refused.write(self.reply),
            Blocking::Waiting => {
                self.flow = Flow::StillBlocked;
                return;
            }
            Blocking::Allowed => {}
        }
        let mut awaited: Vec<AwaitedKey> = Vec::new();
        for index in keys {
            let (key, db) = (self.key(args, index), self.keys.db_index());
            if !awaited.iter().any(|known| *known.name == *key.name) {
                awaited.push(AwaitedKey { db, name: key.name.into(), hash: key.hash });
            }
        }
        let deadline = wait.deadline;
        let request = BlockedClient {
            client: Arc::clone(&self.session.info),
            command: self.command,
            argument_bytes: args.iter().map(<[u8]>::len).sum(),
            args: Mutex::new(args.iter().collect()),
            key_args: self.key_args.iter().copied().collect(),
            db: self.session.db,
            caller: self.keys.origin().caller,
            no_touch: self.session.no_touch,
            tracker: self.session.tracker.clone(),
            identity: self.session.identity.clone(),
            caching: self.session.caching,
            protocol: self.reply.protocol(),
            wait,
            logged_at: AtomicU64::new(0),
        };
        let session = &self.session;
        let blocked = WaitingClient {
            client: Arc::clone(&session.info),
            token: session.token,
            deadline,
            keys: awaited.into(),
            hashes: self.key_args.iter().map(|(_, hash)| *hash).collect(),
        };
        let ticket = self.engine.ticket(blocked, Box::new(request));
        self.keys.wait(&ticket);
        self.flow = Flow::Wait(ticket);
    }
}

/// A command that another thread continues while its client waits.
pub struct Elsewhere {
    ticket: Arc<Ticket>,
    worker: usize,
    protocol: Protocol,
    permit: Arc<Permit>,
}

/// The user for whom a command continues without its session, and the command, which needs the right to each step.
pub struct Permit {
    client: Arc<ClientInfo>,
    identity: Identity,
    args: Args<'static>,
    db: u32,
}

impl Permit {
    /// Checks whether the user may still run the command. Under the locks that a step takes: no change of users is
    /// acknowledged before these are free.
    ///
    /// # Errors
    /// The user may not run it, or is gone.
    pub fn check(&self, engine: &Engine) -> Result<(), Error> {
        let now = Now { unix_us: engine.host().unix_us(UnixUs(0)) };
        let mut session = Session::in_the_name_of(&self.client, self.identity.clone());
        permitted(engine, &mut session, &self.args, self.db, now)
    }
}

/// Checks whether the client's user may run this command now, after it did so before.
fn permitted(engine: &Engine, session: &mut Session, args: &Args<'_>, db: u32, now: Now) -> Result<(), Error> {
    let call = Call::of(lookup(args).ok_or(Error::NoAuth)?, args, db);
    acl_check::check(engine, session, &call, acl_check::TOPLEVEL, now).map_err(|(_, error)| error)?;
    call.check_memory(session)
}

impl Context<'_> {
    /// Makes the client wait for the [answer](Elsewhere::end) of another thread. None if the client may not wait.
    pub fn wait_elsewhere(&mut self, args: &Args<'_>) -> Option<Elsewhere> {
        if !self.may_block() {
            return None;
        }
        let (worker, protocol) = (self.session.worker, self.reply.protocol());
        self.wait(args, [], Wait { to_its_end: true, ..Wait::until(None) });
        let Flow::Wait(ticket) = &self.flow else { return None };
        let (client, identity, db) = (Arc::clone(&ticket.client), self.session.identity.clone(), self.session.db);
        let permit = Arc::new(Permit { client, identity, args: args.iter().collect(), db });
        Some(Elsewhere { ticket: Arc::clone(ticket), worker, protocol, permit })
    }

    /// Ends the wait, as there is no such thread.
    pub fn wait_no_more(&mut self) {
        if let Flow::Wait(ticket) = &self.flow
            && ticket.finish()
        {
            self.flow = Flow::Next;
        }
    }
}

impl Elsewhere {
    /// Returns the worker that the client belongs to.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns the client's ticket, which [records](engine::clients::waiters::WaitRequest::note_logged) the logged
    /// changes.
    pub fn ticket(&self) -> &Arc<Ticket> {
        &self.ticket
    }

    /// Returns the permit under which the command continues.
    pub fn permit(&self) -> &Arc<Permit> {
        &self.permit
    }

    /// Replies a status or an error, if the client is still there.
    pub fn end(self, engine: &Engine, outcome: Result<&'static str, Error>) {
        let Elsewhere { ticket, worker, protocol, .. } = self;
        let mut reply = Reply::new(Vec::new(), protocol);
        match &outcome {
            Ok(status) => reply.simple(status),
            Err(error) => reply.error(busy_script::text(engine, error)),
        }
        let deliver = move |engine: &Engine, server: Server| {
            if let Err(error) = outcome {
                engine.metrics()[server.worker].count_error(&busy_script::text(engine, &error));
            }
            if ticket.finish() {
                engine.host().deliver(&ticket, reply.take());
            }
        };
        engine.host().on_worker(worker, Box::new(deliver));
    }
}

/// Runs CLIENT UNBLOCK: ends a client's wait as its deadline would, or with an error.
///
/// # Errors
/// [`Error::UnblockReason`], or the error of an identifier that is no integer.
pub fn unblock(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let with_error = match args.len() {
        4 if args.is(3, "timeout") => false,
        4 if args.is(3, "error") => true,
        4 => return Err(Error::UnblockReason),
        // Surplus words are ignored, and so is the reason before them.
        _ => false,
    };
    let client = u64::try_from(args.int(2)?).ok().and_then(|id| cx.engine.clients().get(id));
    let ticket = client.and_then(|client| client.ticket());
    let ticket = ticket.filter(|ticket| !ticket.request().lasts() && ticket.finish());
    if let Some(ticket) = &ticket {
        let reply =
            if with_error { ticket.request().error_reply(&Error::Unblocked) } else { ticket.request().timeout_reply() };
        cx.engine.host().deliver(ticket, reply);
    }
    cx.reply.int(ticket.is_some().into());
    Ok(())
}

/// A blocked client's command.
struct BlockedClient {
    client: Arc<ClientInfo>,
    command: &'static Command,
    args: Mutex<Args<'static>>,
    argument_bytes: usize,
    key_args: KeyArgs,
    db: u32,
    caller: Caller,
    no_touch: bool,
    tracker: Option<Arc<Tracker>>,
    identity: Identity,
    caching: bool,
    protocol: Protocol,
    wait: Wait,
    logged_at: AtomicU64,
}

impl BlockedClient {
    /// The slot of its keys may have gone, and the keys after it, before all clients that wait for them are sent on.
    fn waits_in_vain(&self, engine: &Engine) -> Option<Error> {
        let (_, key) = self.key_args.first().filter(|_| engine.is_clustered())?;
        if engine.cluster().serves(key.slot()) {
            return None;
        }
        let writes = self.command.flags.has(WRITE);
        cluster_routing::waits_in_vain(engine, &self.client, &engine.cluster().map(), key.slot(), writes)
    }

    fn reply(&self, write: impl FnOnce(&mut Reply)) -> Vec<u8> {
        let mut reply = Reply::new(Vec::new(), self.protocol);
        write(&mut reply);
        reply.take()
    }
}

impl WaitRequest for BlockedClient {
    fn wants(&self, kind: Option<&'static ValueType>) -> bool {
        self.wait.on_missing || kind.is_some() && kind == self.wait.kind
    }

    fn logged_at(&self) -> u64 {
        self.logged_at.load(Relaxed)
    }

    fn note_logged(&self, length: u64) {
        self.logged_at.fetch_max(length, Relaxed);
    }

    fn writes(&self) -> bool {
        self.command.flags.has(WRITE)
    }

    fn tells_of_data(&self) -> bool {
        // Other commands wait until an order is carried out or a file is written, and reply the result.
        self.command.flags.has(READONLY) || self.command.flags.has(WRITE)
    }

    fn argument_bytes(&self) -> usize {
        self.argument_bytes
    }

    fn lasts(&self) -> bool {
        self.wait.to_its_end
    }

    fn timeout_reply(&self) -> Vec<u8> {
        self.wait.timed_out.as_ref().map_or_else(|| self.reply(Reply::null_array), TimedOut::reply)
    }

    fn error_reply(&self, error: &Error) -> Vec<u8> {
        self.reply(|reply| error.text().into_iter().for_each(|text| reply.error(text)))
    }
}

impl BlockedCommand for BlockedClient {
    fn attempt(&self, engine: &Engine, candidate: Candidate<'_>, server: Server) -> RetryOutcome {
        let now = Now { unix_us: server.now_us };
        let mut session = Session::in_the_name_of(&self.client, self.identity.clone());
        (session.worker, session.db) = (server.worker, self.db);
        let mut reply = Reply::new(Vec::new(), self.protocol);
        let Some((claim, held)) = candidate.take(engine) else { return RetryOutcome::default() };
        let origin = ExecContext { caller: self.caller, now: now.unix_ms() };
        let mut keys = Keys::new(engine, held, self.db, origin);
        keys.set_no_touch(self.no_touch);
        let mut args = self.args.lock().unwrap_or_else(PoisonError::into_inner);
        session.no_touch = self.no_touch;
        session.tracker = self.tracker.clone();
        session.caching = self.caching;
        let permitted = permitted(engine, &mut session, &args, self.db, now);
        let mut cx = Context::new(engine, keys, &mut session, self.command, now, &mut reply);
        (cx.blocking, cx.key_args) = (Blocking::Waiting, &self.key_args);
        if engine.has_log() {
            args.make_lasting();
        }
        let ran = match admission::admit_retry(engine, self.command) {
            Verdict::Refuse(error) => Err(error),
            _ if let Err(error) = permitted => Err(error),
            _ if let Some(error) = self.waits_in_vain(engine) => Err(error),
            _ => (self.command.run)(&mut cx, &mut args),
        };
        if let Err(error) = ran {
            let text = busy_script::text(engine, &error);
            engine.metrics()[server.worker].count_error(&text);
            cx.reply.error(&text);
        }
        cx.complete();
        tracked_reads::remember(&mut cx, &args, &self.key_args);
        let served = !matches!(cx.flow, Flow::StillBlocked);
        cx.keys.record(self.db, || args.text());
        self.note_logged(cx.keys.take_own_records().changed_to);
        if served {
            claim.served(&mut cx.keys);
        } else {
            drop(claim);
        }
        cx.keys.unlock();
        let effects = std::mem::take(&mut cx.keys.effects);
        let reply = (served && !matches!(cx.flow, Flow::ReplyDeferred)).then(|| cx.reply.take());
        RetryOutcome { reply, effects }
    }
}
