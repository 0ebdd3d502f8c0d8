//! One run of a script: the commands that it calls.
//!
//! A command runs in the caller's [`Cx`], under the locks that the run has, and replies into the caller's buffer; the reply is
//! turned into Lua values and taken back. Which locks those are, and what happens when a command needs others, the module's
//! essay says.

use super::convert;
use super::debugger;
use super::failure::Failure;
use super::flags::ScriptFlags;
use crate::args::{Args, OwnWords};
use crate::cx::Cx;
use crate::dispatch;
use crate::keyspec::key_indices;
use crate::measure;
use crate::row::{DENY_OOM, MAY_REPLICATE, NO_SCRIPT, WRITE};
use crate::table::{Entry, KeyPlan};
use crate::transaction::Group;
use engine::Error;
use engine::config::Directive;
use engine::hash::KeyHash;
use engine::scripts::Running;
use mlua::{Either, Lua, MultiValue, Value};
use resp::{Protocol, Span};
use scoped_tls_hkt::scoped_thread_local;
use smallvec::SmallVec;
use std::sync::Arc;

scoped_thread_local! {
    /// The run of the script that this thread executes.
    pub(super) static mut RUN: for<'a> &'a mut (dyn Commands + 'a)
}

/// A command's reply as its script gets it: a text goes to Lua without a detour.
pub(super) type Answer = Either<String, Value>;

/// What a script asks of its run.
pub(super) trait Commands {
    /// Runs a command. Its error is a value too, unless `raise` asks for a failure.
    fn call(&mut self, lua: &Lua, words: &MultiValue, raise: bool) -> Result<Answer, mlua::Error>;

    /// The protocol of the replies that the script sees.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Whether what its commands change goes into the log.
    fn set_logging(&mut self, on: bool);

    /// A line for the server's log.
    fn log(&mut self, level: i64, line: &str);

    /// Its error has been caught where the script began: nothing more has to be ended.
    fn is_over(&mut self);

    /// The host's clock, and how long others are to wait silently, in nanoseconds.
    fn clock(&self) -> (u64, u64);

    /// Sends bytes to the script's client and waits for its next request; None when there will be none.
    fn converse(&mut self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>>;

    /// Looks at the clock and at who wants the script to end; an error ends it.
    fn look(&mut self) -> Result<(), mlua::Error>;
}

/// What a script's runs have shown of the keys that it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It has not run to its end yet.
    Unknown,
    /// Only keys that it was given.
    Declared,
    /// Others too.
    Beyond,
}

/// What a script is called, and may do.
pub(super) struct Call<'r> {
    /// The SHA or the function's name.
    pub name: &'r [u8],
    pub is_function: bool,
    pub flags: ScriptFlags,
    /// Called by a command that only reads.
    pub read_only: bool,
    /// The command that calls it.
    pub command: &'r Args<'r>,
    /// Its client looks on.
    pub is_debugged: bool,
}

impl<'r> Call<'r> {
    /// The same once more.
    pub fn again(&self) -> Call<'r> {
        Call { ..*self }
    }
}

pub(super) struct Run<'r, 'c> {
    pub cx: &'r mut Cx<'c>,
    call: Call<'r>,
    group: Group,
    /// Shards of the keys that it was given.
    declared: SmallVec<[usize; 8]>,
    /// What this run has shown.
    pub reach: Reach,
    /// It is to end and to begin again with the right to every lock.
    pub restart: bool,
    over: bool,
    changed: bool,
    logging: bool,
    pub protocol: Protocol,
    own_protocol: Protocol,
    began: u64,
    running: Option<Arc<Running>>,
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// What ends a run that begins again; no script sees it as a result.
const RESTART: &str = "the script begins again";

impl<'r, 'c> Run<'r, 'c> {
    pub fn begin(cx: &'r mut Cx<'c>, call: Call<'r>, declared: SmallVec<[usize; 8]>) -> Run<'r, 'c> {
        let group = Group::begin(cx);
        cx.session.in_script = true;
        let (own_protocol, began) = (cx.reply.protocol(), cx.engine.host().nanos());
        Run {
            cx,
            call,
            group,
            declared,
            reach: Reach::Declared,
            restart: false,
            over: false,
            changed: false,
            logging: true,
            protocol: Protocol::Resp2,
            own_protocol,
            began,
            running: None,
            bytes: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Its commands' records go into the log, and the caller's state is what it was.
    pub fn end(self, db: u32) {
        let Run { cx, group, running, .. } = self;
        if let Some(running) = running {
            cx.engine.scripts().end_busy(&running);
        }
        cx.session.in_script = false;
        cx.session.db = db;
        cx.keys.select(db);
        group.end(cx);
    }

    /// The command that these words are, unless a script may not call it.
    fn find(&self, args: &Args<'_>) -> Result<&'static Entry, Refused> {
        let entry = dispatch::lookup(args).ok_or(Refused::new("ERR Unknown command called from script", None))?;
        let refused = |text| Err(Refused::new(text, Some(entry)));
        let command = entry.command;
        if !command.accepts_arity(args.len()) {
            return refused("ERR Wrong number of args calling command from script");
        }
        if command.flags.has(NO_SCRIPT) && !self.cx.engine.scripts().allows_all() {
            return refused("ERR This Redis command is not allowed from script");
        }
        let only_reads = self.call.read_only || self.call.flags.has(ScriptFlags::NO_WRITES);
        if only_reads && command.flags.has(WRITE.and(MAY_REPLICATE)) {
            return refused("ERR Write commands are not allowed from read-only scripts.");
        }
        // What has begun to write goes on.
        let hindrance = self.cx.engine.saves().hindrance();
        if !hindrance.is_none() && !self.changed {
            if hindrance.is_failed() && command.flags.has(WRITE) {
                return Err(Refused { error: Error::SAVE_FAILED, entry: Some(entry) });
            }
            let may_grow = self.call.flags.has(ScriptFlags::ALLOW_OOM) || !command.flags.has(DENY_OOM);
            if hindrance.is_short_of_memory() && !may_grow {
                return Err(Refused { error: Error::OUT_OF_MEMORY, entry: Some(entry) });
            }
        }
        Ok(entry)
    }

    /// Makes sure that the command's locks are held.
    fn reach(&mut self, entry: &'static Entry, args: &Args<'_>) -> Result<(), Refused> {
        let hasher = self.cx.engine.hasher();
        if let KeyPlan::One(index) = entry.plan
            && !entry.may_touch_more
            && self.declared.contains(&hasher.hash(&args[index]).shard())
        {
            return Ok(());
        }
        let indices = key_indices(entry, args).unwrap_or_default();
        let hashes: SmallVec<[KeyHash; 4]> = indices.iter().map(|index| hasher.hash(&args[*index])).collect();
        let anything = entry.may_touch_more;
        if self.reach != Reach::Beyond && (anything || hashes.iter().any(|hash| !self.declared.contains(&hash.shard())))
        {
            self.reach = Reach::Beyond;
        }
        if self.reach != Reach::Beyond || self.cx.keys.reaches_all() {
            return Ok(());
        }
        if self.declared.is_empty() {
            // Nothing is held, and nothing was touched.
            self.cx.keys.escalate();
            return Ok(());
        }
        if !self.changed {
            self.restart = true;
            return Err(Refused::new(RESTART, Some(entry)));
        }
        // Who waits for another long script could not be told to end.
        let (scripts, own) = (self.cx.engine.scripts(), usize::from(self.running.is_some()));
        let others_are_long = || scripts.busy_count() > own;
        if anything || !hashes.iter().all(|hash| self.cx.keys.reach_for(*hash, others_are_long)) {
            let text =
                "ERR A key that was not declared is in use by another client: declare it, or call the script again";
            return Err(Refused::new(text, Some(entry)));
        }
        Ok(())
    }

    fn run(&mut self, args: &mut Args<'_>) -> Result<usize, Refused> {
        let entry = self.find(args)?;
        self.reach(entry, args)?;
        if entry.command.flags.has(WRITE.and(MAY_REPLICATE)) {
            if !self.changed && !self.cx.keys.enter_gate() {
                self.restart = true;
                return Err(Refused::new(RESTART, Some(entry)));
            }
            self.changed = true;
            if let Some(running) = &self.running {
                running.note_write();
            }
        }
        let (start, now) = (self.cx.reply.len(), self.cx.now);
        self.cx.reply.set_protocol(self.protocol);
        self.group.run(self.cx, entry, args, self.logging);
        self.cx.reply.set_protocol(self.own_protocol);
        // Time stands still, even for who sleeps (DEBUG SLEEP).
        self.cx.now = now;
        Ok(start)
    }

    /// Notes a command that was refused in the statistics.
    fn count(&self, refused: &Refused) {
        let (engine, worker) = (self.cx.engine, self.cx.session.worker);
        if let Some(entry) = refused.entry {
            measure::count_rejected(engine, worker, entry);
        }
        engine.metrics()[worker].count_error(refused.error.as_bytes());
    }

    /// The script has run for long: others are not to wait for it in silence.
    fn keep_others_alive(&mut self) {
        let (engine, call) = (self.cx.engine, &self.call);
        let milliseconds = engine.host().nanos().saturating_sub(self.began) / 1_000_000;
        let threshold = engine.config().snapshot().int(Directive::BusyReplyThreshold).max(0) as u64;
        if threshold == 0 || milliseconds < threshold {
            return;
        }
        if self.running.is_none() {
            let command = call.command.iter().map(<[u8]>::to_vec).collect();
            let running = Running::new(call.name, call.is_function, command, self.began, self.changed);
            engine.host().log(&format!(
                "Slow script detected: still in execution after {milliseconds} milliseconds. You can try killing the script \
                 using the {} command. Script name is: {}.",
                if call.is_function { "FUNCTION KILL" } else { "SCRIPT KILL" },
                String::from_utf8_lossy(call.name)
            ));
            let running = self.running.insert(Arc::new(running));
            engine.scripts().begin_busy(running);
        }
        engine.host().while_busy();
    }
}

impl Commands for Run<'_, '_> {
    fn call(&mut self, lua: &Lua, words: &MultiValue, raise: bool) -> Result<Answer, mlua::Error> {
        let (mut bytes, mut spans) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.spans));
        bytes.clear();
        spans.clear();
        let refuse = |text: &str| Err(failure(text, false));
        if words.is_empty() {
            return refuse("ERR Please specify at least one argument for this call");
        }
        for word in words {
            let start = bytes.len();
            if !append(&mut bytes, word) {
                return refuse("ERR Command arguments must be strings or integers");
            }
            spans.push(Span { start, len: bytes.len() - start });
        }
        let mut args = Args::parsed(&bytes, &spans, OwnWords::default());
        let debugged = self.call.is_debugged;
        if debugged {
            debugger::note_command(args.iter());
        }
        let ran = self.run(&mut args);
        (self.bytes, self.spans) = (bytes, spans);
        match ran {
            Ok(start) => {
                if debugged {
                    debugger::note_reply(Ok(&self.cx.reply.as_slice()[start..]));
                }
                let value = match &self.cx.reply.as_slice()[start..] {
                    [b'-', text @ ..] if raise => Err(failure(text.trim_ascii_end(), true)),
                    reply => match convert::text_of(reply) {
                        Some(text) => Ok(Answer::Left(text.to_owned())),
                        None => convert::to_lua(lua, reply).map(Answer::Right),
                    },
                };
                self.cx.reply.truncate(start);
                value
            }
            Err(refused) => {
                if !self.restart {
                    self.count(&refused);
                }
                if debugged {
                    debugger::note_reply(Err(refused.error.as_bytes()));
                }
                Err(failure(refused.error.as_bytes(), true))
            }
        }
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn set_logging(&mut self, on: bool) {
        self.logging = on;
    }

    fn log(&mut self, level: i64, line: &str) {
        // The server's levels: 0 is debug, 3 a warning.
        const LEVELS: [&str; 4] = ["debug", "verbose", "notice", "warning"];
        let config = self.cx.engine.config().snapshot();
        let least = config.choice(Directive::LogLevel);
        let least = LEVELS.iter().position(|name| *name == least).unwrap_or(LEVELS.len());
        if level >= least as i64 {
            self.cx.engine.host().log(line);
        }
    }

    fn is_over(&mut self) {
        self.over = true;
    }

    fn clock(&self) -> (u64, u64) {
        let threshold = self.cx.engine.config().snapshot().int(Directive::BusyReplyThreshold).max(0) as u64;
        (self.cx.engine.host().nanos(), threshold.saturating_mul(1_000_000))
    }

    fn converse(&mut self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        self.cx.engine.host().converse(bytes)
    }

    fn look(&mut self) -> Result<(), mlua::Error> {
        if self.over {
            return Ok(());
        }
        if self.restart {
            return Err(failure(RESTART, true));
        }
        self.keep_others_alive();
        if self.running.as_ref().is_some_and(|running| running.is_killed()) {
            let text = if self.call.is_function {
                "ERR Script killed by user with FUNCTION KILL."
            } else {
                "ERR Script killed by user with SCRIPT KILL."
            };
            return Err(failure(text, false));
        }
        Ok(())
    }
}

/// Why a command does not run.
struct Refused {
    error: Error,
    entry: Option<&'static Entry>,
}

impl Refused {
    fn new(text: &'static str, entry: Option<&'static Entry>) -> Refused {
        Refused { error: Error::text(text), entry }
    }
}

fn failure(text: impl AsRef<[u8]>, counted: bool) -> mlua::Error {
    mlua::Error::external(Failure::Reply { text: text.as_ref().to_vec(), counted })
}

/// Appends a Lua value as a command's argument; false if it cannot be one.
fn append(bytes: &mut Vec<u8>, value: &Value) -> bool {
    match value {
        Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
        Value::Integer(number) => bytes.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Number(number) => bytes.extend_from_slice(&resp::double::format_double(*number)),
        _ => return false,
    }
    true
}
