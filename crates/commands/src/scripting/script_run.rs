//! A run of a script, which calls commands.
//!
//! A command runs in the caller's [`Context`], under the locks that the run has, and replies into the caller's buffer;
//! the reply is turned into Lua values and taken back. The module's essay describes these locks, and the case that a
//! command needs others.

use super::call_buffers::Buffers;
use super::convert;
use super::current_run::{Answer, Commands, Reach, append};
use super::debugger;
use super::failure::Failure;
use super::flags::ScriptFlags;
use super::functions::Callable;
use super::interpreter::Compiled;
use super::looks;
use super::lua_memory;
use super::script_slot::ScriptSlot;
use crate::core::acl_check::{self, Call};
use crate::core::args::{Args, RetainedArgs};
use crate::core::command::{CommandEntry, Flags, KeyPlan, MAY_REPLICATE, NO_SCRIPT, STALE, WRITE};
use crate::core::command_table::{CommandTable, lookup, unknown_subcommand};
use crate::core::context::Context;
use crate::core::key_spec::key_indices;
use crate::core::{admission, busy_script, instrument};
use crate::transactions::multi::CommandGroup;
use engine::Word;
use engine::config::Directive;
use engine::data::key_hash::KeyHash;
use engine::locks::protocol::GrowRight;
use engine::propagation::change_log::Readers;
use engine::scripts::run_slot::{Run, RunSlot};
use engine::scripts::script_cache::Running;
use engine::time::Nanos;
use engine::{Engine, Error};
use mlua::{Lua, MultiValue};
use resp::{Protocol, Span};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reason for which a run that has changed nothing begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The run touches undeclared keys, or might, and needs the right to any lock.
    OtherKeys,
    /// A script has had a lock for long: the run begins again later.
    LongScript,
}

/// Code that runs.
#[derive(Clone, Copy)]
pub(super) enum Code<'r> {
    Script(&'r Compiled),
    /// A library's function.
    Function(&'r Callable),
}

impl<'r> Code<'r> {
    /// Returns the knowledge of the keys that it touches.
    pub fn reach(self) -> &'r Cell<Reach> {
        match self {
            Code::Script(script) => &script.reach,
            Code::Function(function) => &function.reach,
        }
    }
}

/// Name and rights of a script.
pub(super) struct ScriptCall<'r> {
    /// SHA or name of the function.
    pub name: &'r [u8],
    pub code: Code<'r>,
    pub flags: ScriptFlags,
    /// Called by a command that only reads.
    pub read_only: bool,
    /// Command that calls it.
    pub command: &'r Args<'r>,
    /// The client debugs the script.
    pub is_debugged: bool,
}

impl<'r> ScriptCall<'r> {
    pub fn is_function(&self) -> bool {
        matches!(self.code, Code::Function { .. })
    }

    /// Returns the same call for another run.
    pub fn again(&self) -> ScriptCall<'r> {
        ScriptCall { ..*self }
    }
}

pub(super) struct ScriptRun<'r, 'c> {
    pub cx: &'r mut Context<'c>,
    call: ScriptCall<'r>,
    group: CommandGroup,
    /// Declared keys.
    declared: &'c [(usize, KeyHash)],
    /// Slot that its commands may use, in a cluster.
    slot: Option<ScriptSlot>,
    /// Keys that this run has touched.
    pub reach: Reach,
    /// Reason for which the run ends as if it had not begun.
    pub obstacle: Option<Obstacle>,
    /// Right to take more locks than those of the declared keys, from the first change on.
    claim: Option<GrowRight<'c>>,
    /// The run does without that right.
    is_confined: bool,
    over: bool,
    /// The user of the client was removed during the run.
    lost_user: bool,
    changed: bool,
    logging: Option<Readers>,
    pub protocol: Protocol,
    own_protocol: Protocol,
    watch: Watch,
    buffers: Box<Buffers>,
}

/// Error that ends a run that is to begin again; no script sees it as a result.
/// Length of the code before the text of an error of these natives.
const CODE: usize = "ERR ".len();
const RESTART: &[u8] = b"the script begins again";

impl<'r, 'c> ScriptRun<'r, 'c> {
    pub fn begin(
        cx: &'r mut Context<'c>,
        call: ScriptCall<'r>,
        declared: &'c [(usize, KeyHash)],
        runs: &Arc<RunSlot>,
        buffers: Box<Buffers>,
    ) -> ScriptRun<'r, 'c> {
        let group = CommandGroup::begin(cx);
        cx.keys.in_script(true);
        cx.session.in_script = true;
        let is_confined = call.code.reach().get() == Reach::Confined;
        let is_obeyed = cx.keys.origin().caller.is_obeyed();
        let is_clustered = cx.engine.is_clustered() && !is_obeyed;
        let may_cross = call.flags.has(ScriptFlags::UNSPECIFIED) || call.flags.has(ScriptFlags::ALLOW_CROSS_SLOT_KEYS);
        let slot = is_clustered.then(|| ScriptSlot::of(declared, may_cross));
        let (own_protocol, began) = (cx.reply.protocol(), cx.engine.host().nanos());
        let run = runs.begin(began, call.is_function());
        ScriptRun {
            cx,
            call,
            group,
            declared,
            slot,
            reach: Reach::Declared,
            obstacle: None,
            claim: None,
            is_confined,
            over: false,
            lost_user: false,
            changed: false,
            logging: Some(Readers::All),
            protocol: Protocol::Resp2,
            own_protocol,
            watch: Watch { run, next: began.after(LONG), looked: began, is_long: false, running: None },
            buffers,
        }
    }

    /// Writes the records of its commands to the log and restores the caller's state. Returns the error of a run that
    /// was killed and may not have looked since. A run that was killed after a change was killed by the server's
    /// shutdown: the half of it that ran is not logged.
    pub fn end(self, db: u32) -> (Box<Buffers>, Option<Error>) {
        let killed = self.killed();
        let ScriptRun { cx, group, watch, buffers, changed, .. } = self;
        let is_killed = watch.end(cx.engine);
        cx.keys.in_script(false);
        cx.session.in_script = false;
        if cx.session.db != db {
            cx.session.db = db;
            cx.session.info.db.store(db, Relaxed);
        }
        cx.keys.select(db);
        match is_killed && changed {
            true => group.end_unlogged(cx),
            false => group.end(cx),
        }
        (buffers, is_killed.then_some(killed))
    }

    /// Returns the command of these words, which is `found`, unless a script may not call it.
    fn find(
        &mut self,
        found: Option<&'static CommandEntry>,
        args: &Args<'_>,
    ) -> Result<&'static CommandEntry, Refused> {
        let entry = found.ok_or_else(|| Refused { error: unknown(args), entry: None })?;
        let refused = |error| Err(Refused { error, entry: Some(entry) });
        let command = entry.command;
        if !command.accepts_arity(args.len()) {
            return refused(Error::ScriptWrongArity);
        }
        if command.flags.has(NO_SCRIPT) && !self.cx.engine.scripts().allows_all() {
            return refused(Error::NotFromScript);
        }
        let call = Call::of(entry, args, self.cx.session.db);
        self.admit(command.flags, &call).map_err(|error| Refused { error, entry: Some(entry) })?;
        Ok(entry)
    }

    /// Refuses a command that the server's state, its user's rights or the script do not allow. Memory counts first,
    /// as in Valkey.
    fn admit(&mut self, flags: Flags, call: &Call<'_>) -> Result<(), Error> {
        let (engine, has_written) = (self.cx.engine, self.changed);
        // A command from a primary or a log ran once already, where it was accepted.
        let is_obeyed = self.cx.keys.origin().caller.is_obeyed();
        let may_grow = self.call.flags.has(ScriptFlags::ALLOW_OOM);
        let refusal = |flags| match is_obeyed {
            true => None,
            false => admission::refusal_in_script(engine, flags, may_grow, has_written),
        };
        if let Some(error) = refusal(flags.without(WRITE)) {
            return Err(error);
        }
        if let Err((_, error)) = acl_check::check(engine, self.cx.session, call, acl_check::IN_SCRIPT, self.cx.now) {
            let text = error.text().unwrap_or_default();
            return Err(Error::ScriptDenied(Word::of(text.strip_prefix(b"NOPERM ").unwrap_or(&text))));
        }
        let only_reads = self.call.read_only || self.call.flags.has(ScriptFlags::NO_WRITES);
        if only_reads && flags.has(WRITE.and(MAY_REPLICATE)) {
            return Err(Error::ScriptReadOnly);
        }
        if is_obeyed {
            return Ok(());
        }
        if engine.persistence_status().deny_reasons().is_stale() && !flags.has(STALE) {
            return Err(Error::ScriptStale);
        }
        call.check_memory(self.cx.session)?;
        refusal(flags).map_or(Ok(()), Err)
    }

    /// Makes sure that the command's locks are held.
    fn reach(&mut self, entry: &'static CommandEntry, args: &Args<'_>) -> Result<(), Refused> {
        let hasher = self.cx.engine.hasher();
        if let KeyPlan::One(index) = entry.plan
            && !entry.may_touch_more
        {
            let shard = hasher.hash(&args[index]).shard();
            return self.reach_shards(entry, self.is_declared(shard), std::iter::once(shard));
        }
        let all = 0..self.cx.engine.locks().len();
        if entry.may_touch_more {
            return self.reach_shards(entry, false, all);
        }
        let indices = key_indices(entry, args).unwrap_or_default();
        let shards: SmallVec<[usize; 4]> = indices.iter().map(|index| hasher.hash(&args[*index]).shard()).collect();
        let is_declared = shards.iter().all(|shard| self.is_declared(*shard));
        self.reach_shards(entry, is_declared, shards.into_iter())
    }

    /// Whether one of the declared keys lies in the shard.
    #[inline]
    fn is_declared(&self, shard: usize) -> bool {
        self.declared.iter().any(|(_, hash)| hash.shard() == shard)
    }

    #[inline]
    fn reach_shards(
        &mut self,
        entry: &'static CommandEntry,
        is_declared: bool,
        shards: impl Iterator<Item = usize>,
    ) -> Result<(), Refused> {
        let reaches_all = self.cx.keys.reaches_all();
        if is_declared && !reaches_all {
            return Ok(());
        }
        if !is_declared {
            self.reach = Reach::Beyond;
        }
        if !reaches_all && !self.declared.is_empty() && !self.changed {
            return Err(self.give_up(Obstacle::OtherKeys, entry));
        }
        if !reaches_all && self.declared.is_empty() {
            self.escalate(entry)?;
        }
        if !self.cx.keys.reaches_all() && self.claim.is_none() {
            // Its text was misread: the run may not wait for the right, since the holder of the right may wait for its
            // locks.
            self.claim = self.cx.engine.locks().claim();
            if self.claim.is_none() {
                return Err(Refused { error: Error::ScriptUndeclaredKey, entry: Some(entry) });
            }
        }
        let ScriptRun { cx, watch, call, changed, claim, .. } = self;
        for shard in shards {
            // A script that has run for long itself need not give way to others that have.
            if !*changed && !watch.is_long && cx.keys.reaches_all() {
                if !cx.keys.take(shard) {
                    return Err(self.give_up(Obstacle::LongScript, entry));
                }
                continue;
            }
            let engine = cx.engine;
            cx.keys.add(claim.as_ref(), shard, || watch.keep_others_alive(engine, call));
        }
        Ok(())
    }

    /// Takes the right to any lock, for a run without keys, which holds no lock and has touched no key.
    fn escalate(&mut self, entry: &'static CommandEntry) -> Result<(), Refused> {
        while self.cx.keys.escalate_anew().is_err() {
            if !self.changed {
                return Err(self.give_up(Obstacle::LongScript, entry));
            }
            if !self.cx.keys.is_admitted() {
                // Its text was misread: the dispatcher did not know that the script would touch a key.
                return Err(Refused { error: Error::ScriptUndeclaredKey, entry: Some(entry) });
            }
            self.watch.keep_others_alive(self.cx.engine, &self.call);
        }
        Ok(())
    }

    /// Prepares the first change: the run is certain to get any lock that it may need later, and a client that waits
    /// for the end of admitted commands waits for this run, too.
    fn prepare_to_change(&mut self, entry: &'static CommandEntry) -> Result<(), Refused> {
        if self.is_confined || self.cx.keys.reaches_all() {
            return Ok(());
        }
        if self.declared.is_empty() {
            return self.escalate(entry);
        }
        self.claim = self.cx.engine.locks().claim();
        if self.claim.is_none() {
            return Err(self.give_up(Obstacle::OtherKeys, entry));
        }
        Ok(())
    }

    /// Ends the run without a trace, for nothing was changed.
    fn give_up(&mut self, why: Obstacle, entry: &'static CommandEntry) -> Refused {
        self.obstacle = Some(why);
        Refused { error: Error::WouldBlock, entry: Some(entry) }
    }

    fn run(&mut self, found: Option<&'static CommandEntry>, args: &mut Args<'_>) -> Result<usize, Refused> {
        if self.obstacle.is_some() {
            // The script may catch the error and run on: a change that it makes now would be made again.
            return Err(Refused { error: Error::WouldBlock, entry: None });
        }
        let entry = self.find(found, args)?;
        self.reach(entry, args)?;
        if let Some(slot) = &mut self.slot
            && let Err(error) = slot.admit(self.cx, entry, args)
        {
            return Err(Refused { error, entry: Some(entry) });
        }
        if entry.command.flags.has(WRITE.and(MAY_REPLICATE)) {
            if !self.changed {
                self.prepare_to_change(entry)?;
                if !self.watch.run.note_write() {
                    return Err(Refused { error: self.killed(), entry: Some(entry) });
                }
            }
            self.changed = true;
        }
        let (start, now) = (self.cx.reply.len(), self.cx.now);
        self.cx.reply.set_protocol(self.protocol);
        self.group.run(self.cx, entry, args, self.logging);
        self.cx.reply.set_protocol(self.own_protocol);
        // Time stands still, even in a command that sleeps (DEBUG SLEEP).
        self.cx.now = now;
        // The command has just read the clock.
        if self.cx.engine.metrics()[self.cx.session.worker].clock() >= self.watch.next {
            self.watch.keep_others_alive(self.cx.engine, &self.call);
        }
        Ok(start)
    }

    /// Returns the error of a run that was ended.
    fn killed(&self) -> Error {
        match self.call.is_function() {
            _ if self.lost_user => Error::ScriptUserRemoved,
            true => Error::FunctionKilled,
            false => Error::ScriptKilled,
        }
    }

    /// Returns the error of a run that must end: it was killed, or its user was removed.
    fn check_end(&mut self) -> Result<(), mlua::Error> {
        // A script of a removed user may do nothing any more, and other clients wait for its locks.
        self.lost_user = !acl_check::has_any(self.cx.engine, self.cx.session);
        if self.is_ending() { Err(failure(&self.killed(), false)) } else { Ok(()) }
    }

    /// Counts a refused command in the statistics.
    fn count(&self, refused: &Refused) {
        let (engine, worker) = (self.cx.engine, self.cx.session.worker);
        if let Some(entry) = refused.entry {
            instrument::count_rejected(engine, worker, entry);
        }
        engine.metrics()[worker].count_error(&busy_script::text(engine, &refused.error));
    }
}

/// Duration of a run, and whether the engine was notified that it takes long.
struct Watch {
    run: Run,
    /// Time of the next look.
    next: Nanos,
    /// End of the last look at the run.
    looked: Nanos,
    /// The run is counted in [`engine::scripts::script_cache::Scripts::is_long`].
    is_long: bool,
    running: Option<Arc<Running>>,
}

/// Nanoseconds that a script may run before others need not wait for its locks.
const LONG: u64 = 500_000;
/// Nanoseconds from the end of one short turn for other clients to the next.
const BETWEEN: u64 = 200_000;

impl Watch {
    /// Serves other clients when the script has run for long: they do not wait for its locks.
    fn keep_others_alive(&mut self, engine: &Engine, call: &ScriptCall<'_>) {
        let now = engine.host().nanos();
        if now < self.next {
            return;
        }
        if !self.is_long {
            self.is_long = true;
            engine.scripts().begin_long();
        }
        let milliseconds = now.since(self.run.began()) / 1_000_000;
        let threshold = engine.config().snapshot().int(Directive::BUSY_REPLY_THRESHOLD).max(0) as u64;
        if threshold == 0 || milliseconds < threshold {
            engine.host().serve_clients();
            self.next = engine.host().nanos().after(BETWEEN);
            return;
        }
        if self.running.is_none() {
            let command = call.command.iter().map(<[u8]>::to_vec).collect();
            let running = Running { name: call.name.into(), command, run: self.run.clone() };
            engine.host().log(&format!(
                "Slow script detected: still in execution after {milliseconds} milliseconds. You can try killing the script \
                 using the {} command. Script name is: {}.",
                if call.is_function() { "FUNCTION KILL" } else { "SCRIPT KILL" },
                String::from_utf8_lossy(call.name)
            ));
            let running = self.running.insert(Arc::new(running));
            engine.scripts().begin_busy(running);
        }
        engine.host().serve_clients_busy();
        if engine.persistence_status().shutdown.has_ended() {
            // The script was not yet counted as busy when the shutdown ended the others: it can only end.
            self.run.end_anyway();
        }
        self.next = engine.host().nanos().after(BETWEEN);
    }

    fn end(self, engine: &Engine) -> bool {
        if self.is_long {
            engine.scripts().end_long();
        }
        if let Some(running) = self.running {
            engine.scripts().end_busy(&running);
        }
        self.run.end()
    }
}

impl Commands for ScriptRun<'_, '_> {
    fn call(&mut self, lua: &Lua, words: &MultiValue, raise: bool) -> Result<Answer, mlua::Error> {
        let refuse = |error: &Error| {
            debugger::note_error(&error.text().unwrap_or_default()[CODE..]);
            Err(failure(error, false))
        };
        let Some(name) = words.front() else {
            return refuse(&Error::ScriptNoCommand);
        };
        let (mut bytes, mut spans) = (std::mem::take(&mut self.buffers.bytes), std::mem::take(&mut self.buffers.spans));
        bytes.clear();
        spans.clear();
        let mut found = None;
        if let Some(named) = self.buffers.names.find(name) {
            bytes.extend_from_slice(&named.text);
            spans.push(Span { start: 0, len: bytes.len() });
            found = Some(named.entry);
        }
        for word in words.iter().skip(spans.len()) {
            let start = bytes.len();
            if !append(&mut bytes, word)? {
                return refuse(&Error::ScriptArgument);
            }
            spans.push(Span { start, len: bytes.len() - start });
        }
        let mut args = Args::parsed(&bytes, &spans, RetainedArgs::default());
        if found.is_none() {
            found = lookup(&args);
            // The name alone identifies the command, unless there are subcommands.
            if let Some(entry) = CommandTable::get().find(&args[0]).filter(|entry| entry.subcommands.is_empty()) {
                self.buffers.names.add(name, &args[0], entry);
            }
        }
        let debugged = self.call.is_debugged;
        if debugged {
            debugger::note_command(args.iter());
        }
        let next = self.watch.next;
        let ran = self.run(found, &mut args);
        if self.watch.next != next {
            looks::look_soon(lua);
        }
        if let (true, Err(refused)) = (debugged, &ran) {
            debugger::note_refusal(&refused.error, refused.entry, &args);
        }
        (self.buffers.bytes, self.buffers.spans) = (bytes, spans);
        match ran {
            Ok(start) => {
                if debugged {
                    debugger::note_reply(&self.cx.reply.as_slice()[start..]);
                }
                let value = match &self.cx.reply.as_slice()[start..] {
                    [b'-', text @ ..] if raise => Err(failure_of(text.trim_ascii_end(), true)),
                    reply => match convert::text_of(reply) {
                        Some(text) => Ok(Answer::Left(text.to_owned())),
                        None => convert::to_lua(lua, reply).map(Answer::Right),
                    },
                };
                self.cx.reply.truncate(start);
                value
            }
            Err(refused) => {
                if self.obstacle.is_none() {
                    self.count(&refused);
                }
                Err(failure(&refused.error, true))
            }
        }
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn may_call(&mut self, entry: &CommandEntry, args: &Args<'_>) -> bool {
        let call = Call::of(entry, args, self.cx.session.db);
        acl_check::may(self.cx.engine, self.cx.session, &call)
    }

    fn set_logging(&mut self, readers: Option<Readers>) {
        self.logging = readers;
    }

    fn log(&mut self, level: i64, line: &str) {
        // The server's levels: 0 is debug, 3 a warning.
        const LEVELS: [&str; 4] = ["debug", "verbose", "notice", "warning"];
        let config = self.cx.engine.config().snapshot();
        let least = config.choice(Directive::LOGLEVEL);
        let least = LEVELS.iter().position(|name| *name == least).unwrap_or(LEVELS.len());
        if level >= least as i64 {
            self.cx.engine.host().log(line);
        }
    }

    fn is_over(&mut self) {
        self.over = true;
    }

    fn clock(&self) -> (Nanos, u64) {
        let threshold = self.cx.engine.config().snapshot().int(Directive::BUSY_REPLY_THRESHOLD).max(0) as u64;
        (self.cx.engine.host().nanos(), threshold.saturating_mul(1_000_000))
    }

    fn converse(&mut self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        self.cx.engine.host().converse(bytes)
    }

    fn is_ending(&self) -> bool {
        self.obstacle.is_some() || self.lost_user || self.watch.run.is_killed()
    }

    fn check_time(&mut self) -> Result<u64, mlua::Error> {
        if self.over {
            return Ok(0);
        }
        if self.obstacle.is_some() {
            return Err(failure(&Error::WouldBlock, true));
        }
        if lua_memory::is_short() {
            return Err(failure_of(lua_memory::RAN_OUT, false));
        }
        let since = self.cx.engine.host().nanos().since(self.watch.looked);
        self.watch.keep_others_alive(self.cx.engine, &self.call);
        self.watch.looked = self.cx.engine.host().nanos();
        self.check_end()?;
        Ok(since)
    }
}

/// Reason for which a command does not run.
struct Refused {
    error: Error,
    entry: Option<&'static CommandEntry>,
}

/// Returns the error of words that are no command, or no subcommand of one.
fn unknown(args: &Args<'_>) -> Error {
    let container = CommandTable::get().find(&args[0]).filter(|entry| !entry.subcommands.is_empty() && args.len() > 1);
    container.map_or(Error::ScriptUnknownCommand, |entry| unknown_subcommand(entry, args))
}

/// The error of a refused command, in one line as a client gets it. A run that would block ends, and begins again.
fn failure(error: &Error, counted: bool) -> mlua::Error {
    let mut text = error.text().unwrap_or(RESTART.into()).into_owned();
    text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    failure_of(&text, counted)
}

fn failure_of(text: &[u8], counted: bool) -> mlua::Error {
    mlua::Error::external(Failure::Reply { text: text.to_vec(), counted })
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_run_that_begins_again_has_changed_nothing_whatever_the_script_catches() {
        let mut client = Client::new();
        let text = "redis.pcall('set', ARGV[1], 1) return redis.call('incr', KEYS[1])";
        assert_eq!(client.run_words(&["EVAL", text, "1", "k", "k"]), ":2");
        for n in 3..20 {
            let other = format!("other:{n}");
            assert_eq!(client.run_words(&["EVAL", text, "1", "k", &other]), format!(":{n}"));
        }
    }

    #[test]
    fn a_script_that_touches_declared_keys_changes_them_without_the_right_to_take_more_locks() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let claim = engine.locks().claim().expect("nobody else wants it");
        let script = "local key = KEYS[1] redis.call('set', key, ARGV[1]) return redis.call('incr', KEYS[2])";
        assert_eq!(client.run_words(&["EVAL", script, "2", "a", "b", "1"]), ":1");
        client.is("GET a", "1").is("GET b", "1");
        let library = "#!lua name=l\nlocal function f(keys, args) redis.call('set', keys[1], args[1]) \
                       return redis.call('incr', keys[1]) end\nredis.register_function('f', f)";
        let register = ["FUNCTION", "LOAD", library];
        drop(claim);
        assert_eq!(client.run_words(&register), "l");
        let claim = engine.locks().claim().expect("it is given back");
        client.is("FCALL f 1 a 7", ":8").is("GET a", "8");
        drop(claim);
        let growing = "redis.call('set', KEYS[1], 1) return redis.call('incr', 'other')";
        assert_eq!(client.run_words(&["EVAL", growing, "1", "a"]), ":1");
        assert!(engine.locks().claim().is_some(), "it is given back");
    }
}
