//! The context of a handler.

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::command::Command;
use crate::core::session::Session;
use cluster::proxy::Question;
use engine::clients::waiters::Ticket;
use engine::data::key_hash::KeyHash;
use engine::keyspace::keys::{Key, Keys};
use engine::locks::sync::MutexGuard;
use engine::time::{SteadyMs, UnixMs, UnixUs};
use engine::{Engine, Error, Word};
use resp::Reply;
use smallvec::SmallVec;
use std::sync::Arc;

/// The keys of a command, as its entry finds them: argument index and hash.
pub type KeyArgs = SmallVec<[(usize, KeyHash); 1]>;

/// The moment at which a command runs; it stands still while it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix time in microseconds.
    pub unix_us: UnixUs,
}

impl Now {
    /// Returns Unix time in whole milliseconds.
    pub fn unix_ms(self) -> UnixMs {
        self.unix_us.ms()
    }
}

/// The effect of a command on its connection.
#[derive(Default)]
pub enum Flow {
    /// The connection continues with the next request.
    #[default]
    Next,
    /// The reply is sent, then the connection is closed.
    Close,
    /// The connection ends, and its unsent replies are dropped.
    Abort,
    /// The command is chunked, so that others are served in between; the connection waits for it.
    More(Work),
    /// The client waits, and nothing else of its connection runs, until the ticket is served or finished.
    Wait(Arc<Ticket>),
    /// Another attempt of a waiting client was in vain, too.
    StillBlocked,
    /// Another attempt of a waiting client ends the wait; another thread replies.
    ReplyDeferred,
    /// The command has had no effect: it needs a lock that a script holds for long, and is to be run again a little
    /// later.
    RetryLater,
    /// The command has had no effect and is to be run again when the present pause has ended.
    Postponed,
    /// The server ends (SHUTDOWN).
    Shutdown,
    /// Other nodes are asked; the client waits as with [`Flow::Wait`], and gets their replies.
    Forward(Box<Question>),
    /// The connection becomes another server's, a replica's or a source of slots, or a debugger's: a thread that serves
    /// these gets it.
    Replicate,
}

impl Flow {
    /// Returns the flow of a command that continues with this work.
    pub fn more(work: impl Resumable + 'static) -> Flow {
        Flow::More(Box::new(Box::new(work)))
    }
}

/// The further work of a command, behind a pointer of one word: so a [`Flow`], nearly always [`Flow::Next`], is passed
/// in two registers instead of in memory.
pub type Work = Box<Box<dyn Resumable>>;

const _: () = assert!(size_of::<Flow>() == 16);

/// Elements that a chunk counts as.
const CHUNK: usize = 100;

/// A command that is carried out a chunk at a time.
pub trait Resumable: Send {
    /// Does one piece of at most some hundred microseconds; true when the command has ended. A long reply may
    /// be written over several pieces: nothing else goes to the client from its first byte to the end.
    fn step(&mut self, cx: &mut Context<'_>) -> bool;

    /// Returns whether its next piece cannot run for now, as in a pause: it is tried again a little later.
    fn rests(&self) -> bool {
        false
    }

    /// Returns whether it continues when its client has lost rights: it reads and writes no keys, but waits, or frees
    /// memory.
    fn outlasts_rights(&self) -> bool {
        false
    }
}

/// Whether a command may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// The command may wait.
    Allowed,
    /// The command waits already: this is another attempt.
    Waiting,
    /// The command may not wait: it is in a transaction or a script.
    Refused,
}

/// The context of one command: fields are separate so that data can be read while a reply is written.
pub struct Context<'c> {
    /// The engine around the keys: configuration, clients, numbers.
    pub engine: &'c Engine,
    /// The keyspace, as far as the command's locks reach.
    pub keys: Keys<'c>,
    /// The sink of its reply.
    pub reply: &'c mut Reply,
    /// The client.
    pub session: &'c mut Session,
    /// The command that runs.
    pub command: &'static Command,
    /// The time at which it runs; it stands still for the command.
    pub now: Now,
    /// The effect on its connection.
    pub flow: Flow,
    /// Whether it may wait.
    pub blocking: Blocking,
    /// Arguments that are keys, with their hashes.
    pub key_args: &'c [(usize, KeyHash)],
    /// In a transaction that changes a replica's primary: the lock under which the stream is applied.
    pub applying: Option<MutexGuard<'c, ()>>,
    /// The command neither reads nor writes data, although it holds locks: its reply waits for no replica.
    pub touches_no_data: bool,
}

impl<'c> Context<'c> {
    /// Returns the context of a command that may not wait and has no keys hashed.
    #[inline(always)]
    pub fn new(
        engine: &'c Engine,
        keys: Keys<'c>,
        session: &'c mut Session,
        command: &'static Command,
        now: Now,
        reply: &'c mut Reply,
    ) -> Context<'c> {
        let (flow, blocking) = (Flow::Next, Blocking::Refused);
        Context {
            engine,
            keys,
            reply,
            session,
            command,
            now,
            flow,
            blocking,
            key_args: &[],
            applying: None,
            touches_no_data: false,
        }
    }
}

impl Context<'_> {
    /// Returns the key at argument `index`. Its hash is the one that the dispatcher computed.
    #[inline(always)]
    pub fn key<'a>(&self, args: &'a Args<'_>, index: usize) -> Key<'a> {
        let name = args.word(index);
        match self.key_args.first() {
            Some((first, hash)) if *first == index => Key { name, hash: *hash },
            _ => self.other_key(name, index),
        }
    }

    fn other_key<'a>(&self, name: &'a [u8], index: usize) -> Key<'a> {
        match self.key_args.binary_search_by_key(&index, |(at, _)| *at) {
            Ok(at) => Key { name, hash: self.key_args[at].1 },
            Err(_) => self.keys.key(name),
        }
    }

    /// Runs a chunked command to its end, for callers that need its reply at once: transactions and scripts, which hold
    /// all locks that it takes.
    pub fn complete(&mut self) {
        match std::mem::take(&mut self.flow) {
            Flow::More(mut work) => {
                let yielding = self.lending_at_once();
                while !work.step(self) {
                    yielding.steps(CHUNK);
                }
            }
            other => self.flow = other,
        }
    }

    /// Fails inside of a transaction or of a script: for commands that need locks to be free which the transaction or
    /// the script holds.
    ///
    /// # Errors
    /// [`Error::NotInMulti`] or [`Error::NotFromScript`].
    pub fn must_be_alone(&self, command: &str) -> Result<(), Error> {
        match self.blocking {
            Blocking::Refused if self.session.in_script => Err(Error::NotFromScript),
            Blocking::Refused => Err(Error::NotInMulti(Word::of(command))),
            _ => Ok(()),
        }
    }

    /// Handles the result of a piece of a command that has not replied yet; returns whether the command has ended. A
    /// command that needs a lock which a script holds for long is tried again, until the script keeps the server busy.
    pub fn ends(&mut self, piece: Result<bool, Error>) -> bool {
        match piece {
            Ok(done) => done,
            Err(Error::WouldBlock) if !self.session.is_refused_as_busy(self.engine) => false,
            Err(error) => {
                let text = busy_script::text(self.engine, &error);
                self.engine.metrics()[self.session.worker].count_error(&text);
                self.reply.error(&text);
                true
            }
        }
    }

    /// Returns Unix time in milliseconds.
    pub fn now_ms(&self) -> UnixMs {
        self.now.unix_ms()
    }

    /// Returns this moment by the monotonic clock: timeouts begin at it.
    pub fn steady_now(&self) -> SteadyMs {
        self.engine.host().steady_ms(self.now.unix_us)
    }
}
