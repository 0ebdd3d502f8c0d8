//! The change log: every write, once, in the order of execution.
//!
//! Records are appended while the locks of the shards that they changed are held. Two writes to the same
//! key are therefore in the log in the order in which they were made, and so are any two of which one saw
//! the other. The append-only file and the replication backlog read the log; who needs none leaves it out.

use crate::effects::Record;
use crate::sync::Mutex;

/// Where changes go. Called under shard locks: it must be quick and must not take any of them.
pub trait ChangeLog: Send + Sync {
    /// Appends commands, each with its database, that belong together (nobody else's record comes between them) and
    /// returns the log's length afterwards, which a reply that must be durable waits for.
    fn append(&self, records: &[(u32, &[&[u8]])]) -> u64;
}

/// A log in memory, for tests and simulations.
#[derive(Default)]
pub struct MemoryLog {
    records: Mutex<Vec<(u32, Record)>>,
}

impl MemoryLog {
    pub fn take(&self) -> Vec<(u32, Record)> {
        std::mem::take(&mut self.records.lock())
    }
}

impl ChangeLog for MemoryLog {
    fn append(&self, records: &[(u32, &[&[u8]])]) -> u64 {
        let mut log = self.records.lock();
        for (db, record) in records {
            log.push((*db, record.iter().map(|arg| arg.to_vec()).collect()));
        }
        log.len() as u64
    }
}
