//! The DEBUG subcommands that replace or fill the whole data set: RELOAD, LOADAOF, POPULATE.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::keys::flush::empty_all;
use crate::persistence::{aof, load, save};
use crate::server::debug::internals::STRING_MAX;
use engine::config::Directive;
use engine::data::value::NewString;
use engine::keyspace::edit::Ttl;
use engine::{Engine, Error};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

/// Why migrations of slots end that were under way.
const REPLACED: &str = "A new RDB is being loaded";

/// Writes the file, empties the keyspace and reads the file again, each unless it is told otherwise.
pub fn reload(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let given = |word: &str| (2..args.len()).any(|index| args.is(index, word));
    let known = |index: usize| ["merge", "noflush", "nosave"].iter().any(|word| args.is(index, word));
    if !(2..args.len()).all(known) {
        return Err(Error::DebugReloadOption);
    }
    cx.must_be_alone("debug")?;
    let engine = cx.engine;
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
    if !given("noflush") {
        // What there is stays when the file could not take its place.
        load::check_file(engine).map_err(failed)?;
        cx.keys.escalate()?;
        // Nobody is to see the keyspace empty.
        engine.persistence_status().set_loading(true);
        cx.keys.enter_epoch();
        drop(empty_all(cx, true)?);
        cx.keys.unlock();
        engine.host().data_is_replaced(REPLACED);
    }
    let loaded = load::load_file(engine, given("merge"));
    engine.persistence_status().set_loading(false);
    engine.host().data_loaded();
    loaded.map_err(failed)?.ok_or(Error::DebugLoad)?;
    engine.host().log("DB reloaded by DEBUG RELOAD");
    cx.reply.ok();
    Ok(())
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
            Err(TryRecvError::Empty) => {
                engine.host().while_long();
                engine.host().rest(LOOK);
            }
        }
    }
}

/// How often it is looked whether the save has ended.
const LOOK: Duration = Duration::from_micros(200);

/// Empties the keyspace and reads the append-only file.
pub fn load_aof(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.must_be_alone("debug")?;
    let engine = cx.engine;
    let failed = |aof::LoadFailed| Error::DebugLoadAof;
    cx.keys.escalate()?;
    aof::write_before_loading(engine).map_err(failed)?;
    // Nobody is to see the keyspace empty.
    engine.persistence_status().set_loading(true);
    cx.keys.enter_epoch();
    let logs = engine.suspend_logging();
    drop(empty_all(cx, true)?);
    cx.keys.unlock();
    engine.host().data_is_replaced(REPLACED);
    let loaded = aof::load_again(engine);
    engine.resume_logging(logs);
    engine.persistence_status().set_loading(false);
    engine.host().data_loaded();
    loaded.map_err(failed)?;
    engine.host().notice("Append Only File loaded by DEBUG LOADAOF");
    cx.reply.ok();
    Ok(())
}

/// Writes so many strings, those that are not there yet: for tests, so neither the log nor replicas hear of it.
pub fn populate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let number = |index: usize| args.int(index).ok().and_then(|n| usize::try_from(n).ok()).ok_or(Error::NotPositive);
    let count = number(2)?;
    let size = args.get(4).map(|_| number(4)).transpose()?;
    if size.is_some_and(|size| size > STRING_MAX) {
        return Err(Error::StringTooLong);
    }
    let prefix = args.get(3).unwrap_or(b"key");
    cx.keys.escalate()?;
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
