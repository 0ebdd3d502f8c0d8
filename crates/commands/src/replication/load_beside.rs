//! A snapshot that is read beside the served data set, and replaces it as a whole.
//!
//! ```text
//!   snapshot -> tables beside --- exchanged under all locks -> served        memory: both, until the exchange
//!                             \-- faulty, or not wanted     -> freed         the old data is served on
//! ```

use crate::core::context::Now;
use crate::core::dispatch;
use crate::keys::table_exchange::{DataSet, exchange_all};
use crate::persistence::load::{LoadFailure, LoadedFile, Mode, Target, describe, options, read};
use crate::replication::snapshot_load::take_open_slots;
use engine::Engine;
use engine::keyspace::Keyspace;
use engine::scripts::function_libraries::Libraries;
use engine::status::persistence_status::PersistenceStatus;
use engine::time::UnixUs;
use persistence::rdb_reader::{Reason, Source};
use std::cell::RefCell;
use std::io::Read;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;

/// A data set that was read and is not served yet. It is freed if it is dropped.
pub struct Beside<'e> {
    engine: &'e Engine,
    keyspace: Keyspace,
    libraries: Libraries,
    /// Result of the read.
    pub loaded: LoadedFile,
    /// Mark of the loading, for INFO and the admission of commands.
    _mark: LoadingMark<'e>,
}

impl Beside<'_> {
    /// Replaces the served data set.
    pub fn exchange(self) {
        let engine = self.engine;
        let now = Now { unix_us: engine.host().unix_us(UnixUs(0)) };
        let mut libraries = self.libraries;
        let mut attempt = || {
            let new = || DataSet {
                shards: self.keyspace.take_data(),
                slot_counts: self.keyspace.slot_counts(),
                libraries: mem::take(&mut libraries),
            };
            dispatch::internal(engine, now, |cx| exchange_all(cx, new))
        };
        // The attempt fails only where a script has a lock for long.
        while attempt().is_err() {}
        take_open_slots(engine, &self.loaded);
    }
}

/// While this exists INFO reports the loading, and commands are admitted accordingly.
struct LoadingMark<'e> {
    status: &'e PersistenceStatus,
    serves: bool,
}

impl LoadingMark<'_> {
    fn set(&self, on: bool) {
        match self.serves {
            true => self.status.set_async_loading(on),
            false => self.status.set_loading(on),
        }
    }
}

impl Drop for LoadingMark<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Reads a snapshot that another server sends, beside the data set. `size`: its bytes; 0 if they are not known.
/// `serves`: clients may read the old data meanwhile, as it is of the same history.
///
/// # Errors
/// The snapshot cannot be read or is faulty. The data set stays.
pub fn load_beside<'e>(
    engine: &'e Engine,
    reader: &mut dyn Read,
    size: u64,
    serves: bool,
) -> Result<Beside<'e>, LoadFailure> {
    let (config, host) = (engine.config().snapshot(), engine.host());
    let status = engine.persistence_status();
    let (keyspace, libraries) = (engine.beside(), RefCell::default());
    let options = options(engine, &config);
    let mut source = Source::new(reader, options.check_sum);
    let mark = LoadingMark { status, serves };
    let begin = || {
        status.loading.started_at.store(host.unix_us(UnixUs(0)).seconds(), Relaxed);
        status.loading.total_bytes.store(size, Relaxed);
        status.loading.loaded_bytes.store(0, Relaxed);
        mark.set(true);
        while !engine.pass_locks(&mut 0, || false) {}
        Ok(())
    };
    let target = Target { engine, keyspace: &keyspace, libraries: Some(&libraries) };
    let mode = Mode { merge: false, expires: false };
    let loaded = read(target, &config, &mut source, options, mode, &begin).map_err(|fault| LoadFailure {
        text: describe(&fault, "rdbLoadObject"),
        is_corrupt: matches!(fault.reason, Reason::Corrupt(_)),
    })?;
    keyspace.end_reserving();
    status.loading.keys_loaded.store(loaded.keys, Relaxed);
    status.loading.keys_expired.store(loaded.expired, Relaxed);
    host.notice(&format!("Done loading RDB, keys loaded: {}, keys expired: {}.", loaded.keys, loaded.expired));
    Ok(Beside { engine, keyspace, libraries: libraries.into_inner(), loaded, _mark: mark })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn the_old_data_is_served_until_the_new_is_whole_and_stays_when_it_is_not() {
        let mut client = Client::new();
        client.is("SET k v", "+OK");
        let mut half = b"REDIS0011\xfe\x00\x00\x01a".as_slice();
        assert!(load_beside(client.engine(), &mut half, 0, true).is_err());
        client.is("GET k", "v").is("DBSIZE", ":1");
        // There is no checksum behind the end.
        let whole = b"REDIS0011\xfe\x00\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0".as_slice();
        let mut other = client.beside();
        let beside = load_beside(client.engine(), &mut &*whole, 0, true).expect("a snapshot");
        other.is("GET k", "v").is("GET a", "nil");
        other.is("REPLICAOF host 1", "-LOADING Valkey is loading the dataset in memory");
        beside.exchange();
        other.is("GET k", "nil").is("GET a", "b").is("DBSIZE", ":1");
        let beside = load_beside(client.engine(), &mut &*whole, 0, false).expect("a snapshot");
        other.is("GET a", "-LOADING Valkey is loading the dataset in memory");
        drop(beside);
        other.is("GET a", "b");
    }
}
