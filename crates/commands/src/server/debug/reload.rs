//! The DEBUG subcommands that replace or fill the whole data set: RELOAD, LOADAOF, POPULATE.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::keys::flush::empty_all;
use crate::persistence::{aof, load, save};
use crate::server::debug::internals::STRING_MAX;
use engine::config::Directive;
use engine::data::value::NewString;
use engine::held_writes::HeldWrites;
use engine::keyspace::edit::Ttl;
use engine::status::pause::Hold;
use engine::status::persistence_status::ReplaceTurn;
use engine::{Engine, Error};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

/// Reason for which migrations of slots end that were under way.
const REPLACED: &str = "A new RDB is being loaded";

/// Writes the file, empties the keyspace and reads the file again, each unless an option prevents it.
pub fn reload(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let given = |word: &str| (2..args.len()).any(|index| args.is(index, word));
    let known = |index: usize| ["merge", "noflush", "nosave"].iter().any(|word| args.is(index, word));
    if !(2..args.len()).all(known) {
        return Err(Error::DebugReloadOption);
    }
    cx.must_be_alone("debug")?;
    let engine = cx.engine;
    let replacing = Replacing::begin(cx)?;
    if !given("nosave") {
        save(cx).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Error::WouldBlock,
            _ => Error::DebugSave,
        })?;
    }
    let failed = |failure: load::LoadFailure| {
        engine.host().log(&failure.text);
        Error::DebugLoad
    };
    let flushes = !given("noflush");
    if flushes {
        // The present data stays if the file cannot take its place.
        load::check_file(engine).map_err(failed)?;
        replacing.empty(cx)?;
    }
    let loaded = load::load_file(engine, given("merge"));
    // A log of other data begins anew with the loaded data. If nothing was loaded, it still has the former data.
    if given("nosave") && (!flushes || matches!(loaded, Ok(Some(_)))) {
        drop(aof::StoppedLog::stop(engine));
        while aof::is_rewriting(engine) {
            rest(engine);
        }
    }
    replacing.end();
    loaded.map_err(failed)?.ok_or(Error::DebugLoad)?;
    engine.host().log("DB reloaded by DEBUG RELOAD");
    cx.reply.ok();
    Ok(())
}

/// The time in which a client's command replaces the data set. No other thread does that, and none writes: neither
/// commands that were admitted before, nor a primary's stream, nor expiry.
struct Replacing<'e> {
    engine: &'e Engine,
    _held: HeldWrites<'e>,
    _turn: ReplaceTurn<'e>,
}

impl<'e> Replacing<'e> {
    /// Begins the replacement. To be called with no lock in hand.
    fn begin(cx: &mut Context<'e>) -> Result<Replacing<'e>, Error> {
        let (engine, patience) = (cx.engine, cx.session.patience);
        let status = engine.persistence_status();
        let turn = status.replace_turn().filter(|_| !status.deny_reasons().is_loading()).ok_or(Error::Loading)?;
        let held = HeldWrites::begin_settled(engine, Hold::Reload, || patience.is_over(engine));
        Ok(Replacing { engine, _held: held.ok_or(Error::WouldBlock)?, _turn: turn })
    }

    /// Empties the keyspace, and libraries. Commands get -LOADING from then on.
    fn empty(&self, cx: &mut Context<'e>) -> Result<(), Error> {
        let mut patience = cx.session.patience;
        loop {
            // The command has had its turn: a change of the rules of admission meanwhile does not send it back.
            cx.keys.set_admitted(self.engine.epoch());
            cx.keys.set_patience(patience);
            match cx.keys.escalate() {
                Err(Error::WouldBlock) if !patience.is_over(self.engine) => rest(self.engine),
                tried => break tried?,
            }
            patience = patience.after_failure(true);
        }
        self.engine.persistence_status().set_loading(true);
        cx.keys.enter_epoch();
        let emptied = empty_all(cx, true);
        cx.keys.unlock();
        self.engine.host().data_is_replaced(REPLACED);
        emptied.map(drop)
    }

    /// Ends the replacement: the data set is there.
    fn end(self) {
        self.engine.persistence_status().set_loading(false);
        self.engine.host().data_loaded();
    }
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        self.engine.persistence_status().set_loading(false);
    }
}

/// Lends the worker for a moment.
fn rest(engine: &Engine) {
    engine.host().serve_clients();
    engine.host().rest(LOOK);
}

/// Saves on another thread if one is to be had, and lends the worker meanwhile.
fn save(cx: &Context<'_>) -> io::Result<()> {
    let (engine, patience) = (cx.engine, cx.session.patience);
    let (tell, told) = mpsc::channel();
    let work = move |engine: &Engine| _ = tell.send(save::save_now(engine, Some(patience)));
    if engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)).is_err() {
        return save::save_now(engine, Some(patience));
    }
    loop {
        match told.try_recv() {
            Ok(outcome) => return outcome,
            Err(TryRecvError::Disconnected) => return Err(ErrorKind::BrokenPipe.into()),
            Err(TryRecvError::Empty) => rest(engine),
        }
    }
}

/// Interval of checks whether a save has ended, or locks are free.
const LOOK: Duration = Duration::from_micros(200);

/// Empties the keyspace and reads the append-only file.
pub fn load_aof(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.must_be_alone("debug")?;
    let engine = cx.engine;
    let failed = |aof::LoadFailed| Error::DebugLoadAof;
    let replacing = Replacing::begin(cx)?;
    aof::write_before_loading(engine).map_err(failed)?;
    let logs = engine.suspend_logging();
    let loaded = replacing.empty(cx).map(|()| aof::load_again(engine));
    engine.resume_logging(logs);
    replacing.end();
    loaded?.map_err(failed)?;
    engine.host().notice("Append Only File loaded by DEBUG LOADAOF");
    cx.reply.ok();
    Ok(())
}

/// Writes so many strings, if they are not there yet: for tests, so neither the log nor replicas get them.
pub fn populate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let number = |index: usize| args.int(index).ok().and_then(|n| usize::try_from(n).ok()).ok_or(Error::NotPositive);
    let count = number(2)?;
    let size = args.get(4).map(|_| number(4)).transpose()?;
    if size.is_some_and(|size| size > STRING_MAX) {
        return Err(Error::StringTooLong);
    }
    let prefix = args.get(3).unwrap_or(b"key");
    cx.keys.escalate()?;
    if cx.engine.persistence_status().deny_reasons().is_loading() {
        return Err(Error::Loading);
    }
    for number in 0..count {
        let name = [prefix, b":", itoa::Buffer::new().format(number).as_bytes()].concat();
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        let mut edit = cx.keys.edit(cx.keys.key(&name));
        if edit.exists() {
            edit.unchanged();
            continue;
        }
        edit.log_as(Vec::new);
        edit.set_string(NewString::encode(value.into()), Ttl::Clear);
        edit.commit_silently(0);
    }
    cx.reply.ok();
    Ok(())
}
