//! How many keys, clients and bytes there are, which the log says every few seconds with `loglevel verbose` or `debug`.

use crate::system::log::{self, Level};
use commands::server::info::human_bytes;
use engine::Engine;
use engine::keyspace::keyspace_sums::Overview;
use engine::time::{SteadyMs, UnixMs};

/// Milliseconds from one time to the next.
const EVERY: i64 = 5000;

/// When the log says it again.
#[derive(Default)]
pub struct StatusLines {
    next: SteadyMs,
}

impl StatusLines {
    /// Writes the lines if they are due and wanted.
    pub fn write_if_due(&mut self, engine: &Engine, now: UnixMs, steady: SteadyMs) {
        if steady < self.next {
            return;
        }
        self.next = steady.after(EVERY);
        if log::shows(Level::Verbose) {
            write(engine, now);
        }
    }
}

#[cold]
fn write(engine: &Engine, now: UnixMs) {
    for (number, db) in Overview::without_waiting(engine, now).dbs.iter().filter(|(_, db)| db.keys > 0) {
        let (keys, expires, slots) = (db.keys, db.expires, db.slots);
        log::verbose(format_args!("DB {number}: {keys} keys ({expires} volatile) in {slots} slots HT."));
    }
    let (clients, replicas) = (engine.clients().all(), engine.replication().replicas().len());
    let connected = clients.len().saturating_sub(replicas);
    let used = engine.host().memory().allocated;
    log::log(
        Level::Debug,
        format_args!(
            "Total: {connected} clients connected ({replicas} replicas), {used} ({}) bytes in use",
            human_bytes(used)
        ),
    );
}
