//! Loading: a file into the keyspace, when the server starts and for DEBUG RELOAD.

use crate::script::fcall;
use engine::access::is_due;
use engine::config::Directive;
use engine::keys::{Held, Keys};
use engine::{Engine, Error};
use persistence::load::{self, Found, Options, Sink};
use persistence::source::{Fault, Reason, Source};
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub keys: u64,
    pub expired: u64,
    pub empty: u64,
}

/// Reads the file that `dbfilename` names; None if there is none. `merge`: keys that are there already are replaced. An error is
/// text for the log. Commands that need data are refused meanwhile.
pub fn load_file(engine: &Engine, merge: bool) -> Result<Option<Loaded>, String> {
    let config = engine.config().snapshot();
    let (mut file, size) = match engine.host().open_file(config.text(Directive::DbFilename)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("Fatal error loading the DB, check server logs. Exiting: {error}")),
    };
    let (saves, began) = (engine.saves(), engine.host().unix_us(0));
    saves.loading.started_at.store(began / 1_000_000, Relaxed);
    saves.loading.total_bytes.store(size, Relaxed);
    saves.loading.loaded_bytes.store(0, Relaxed);
    saves.set_loading(true);
    let options = Options {
        relaxed: config.choice(Directive::RdbVersionCheck) == "relaxed",
        check_sum: config.flag(Directive::RdbChecksum),
    };
    let mut loader = Loader { engine, merge, now: began / 1000, loaded: Loaded::default() };
    let mut source = Source::new(&mut *file, options.check_sum);
    let result = load::load(&mut source, options, engine.packing(), &mut loader);
    let loaded = loader.loaded;
    saves.set_loading(false);
    result.map_err(|fault| report(&fault))?;
    saves.loading.keys_loaded.store(loaded.keys, Relaxed);
    saves.loading.keys_expired.store(loaded.expired, Relaxed);
    saves.changes.store(engine.stats().dirty, Relaxed);
    let host = engine.host();
    host.notice(&format!(
        "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
        loaded.keys, loaded.expired, loaded.empty
    ));
    let took = (host.unix_us(0) - began).max(0) as f64 / 1e6;
    host.notice(&format!("DB loaded from disk: {took:.3} seconds"));
    Ok(Some(loaded))
}

fn report(fault: &Fault) -> String {
    match &fault.reason {
        Reason::Checksum { found, stated } => {
            format!("Wrong RDB checksum expected: ({found:x}) but got ({stated:x}). Aborting now: RDB CRC error")
        }
        Reason::Truncated => {
            format!("Short read or OOM loading DB. Unrecoverable error, aborting now: at offset {}", fault.offset)
        }
        Reason::Version(_) => format!("{}", fault.reason),
        reason => format!("Internal error in RDB reading offset {} -> {reason}", fault.offset),
    }
}

/// Puts what is read into the keyspace.
struct Loader<'e> {
    engine: &'e Engine,
    merge: bool,
    /// Unix time in milliseconds.
    now: i64,
    loaded: Loaded,
}

/// How many empty keys the log is told of by name.
const EMPTY_TOLD: u64 = 10;

impl Sink for Loader<'_> {
    fn key(&mut self, found: Found) -> Result<(), String> {
        let Found { db, name, value, deadline, idle, frequency } = found;
        let databases = self.engine.databases();
        let Some(db) = u32::try_from(db).ok().filter(|db| (*db as usize) < databases) else {
            return Err(format!(
                "Data file was created with a server configured to handle more than {databases} databases"
            ));
        };
        let deadline = deadline.filter(|at| *at != -1).map(|at| at.max(0) as u64);
        if deadline.is_some_and(|at| is_due(at, self.now)) {
            self.loaded.expired += 1;
            return Ok(());
        }
        let meta = self.engine.access_clock(self.now).marked(idle, frequency);
        let hash = self.engine.hasher().hash(&name);
        let mut keys = Keys::new(self.engine, Held::keys(self.engine, std::iter::once(hash)), db, self.now);
        let key = keys.key(&name);
        let mut edit = keys.edit(key);
        if edit.exists() && !self.merge {
            return Err(format!("RDB has duplicated key '{}' in DB {db}", String::from_utf8_lossy(&name)));
        }
        edit.put(value.into_entry(&name, deadline, meta));
        edit.commit_silently(0);
        self.loaded.keys += 1;
        Ok(())
    }

    fn function(&mut self, code: Vec<u8>) -> Result<(), String> {
        fcall::load_library(self.engine, &code, self.merge)
            .map_err(|error| format!("Failed creating the functions library: {}", error))
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match name {
            b"valkey-ver" | b"redis-ver" | b"cinnabar-ver" => {
                self.engine.host().notice(&format!("Loading RDB produced by version {text}"));
            }
            b"ctime" => {
                let age = text.parse().map_or(0, |then: i64| (self.now / 1000 - then).max(0));
                self.engine.host().notice(&format!("RDB age {age} seconds"));
            }
            b"used-mem" => {
                let megabytes = text.parse().map_or(0.0, |bytes: f64| bytes / f64::from(1 << 20));
                self.engine.host().notice(&format!("RDB memory usage when created {megabytes:.2} Mb"));
            }
            _ => {}
        }
    }

    fn empty_key(&mut self, name: &[u8]) {
        if self.loaded.empty < EMPTY_TOLD {
            self.engine.host().notice(&format!("rdbLoadObject skipping empty key: {}", String::from_utf8_lossy(name)));
        }
        self.loaded.empty += 1;
    }

    fn skipped_module(&mut self, name: &str) {
        self.engine.host().log(&format!("The RDB file contains AUX data of module '{name}', which was skipped"));
    }

    fn progress(&mut self, offset: u64) {
        self.engine.saves().loading.loaded_bytes.store(offset, Relaxed);
    }
}

/// Why DEBUG RELOAD did not load.
pub const RELOAD_FAILED: Error = Error::text("ERR Error trying to load the RDB dump, check server logs.");
