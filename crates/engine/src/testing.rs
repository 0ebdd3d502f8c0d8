//! Helpers around an engine for tests of this crate and of the ones above it: the feature `testing`.

use crate::Engine;
use crate::keyspace::record::LogUser;
use crate::locks::sync::Mutex;
use crate::propagation::change_log::Readers;
use crate::propagation::change_log::{ChangeLog, RecordHead};
use crate::propagation::effects::Record;
use crate::propagation::log_reader::{LogReader, Overflow};
use std::ops::ControlFlow;
use std::sync::Arc;
use structures::log_block::Run;

/// A sink that keeps commands in memory.
pub struct MemoryLog {
    reader: Mutex<LogReader>,
}

impl Default for MemoryLog {
    /// Makes the sink of a log of its own.
    fn default() -> Self {
        MemoryLog::reading(&Arc::default())
    }
}

impl MemoryLog {
    /// Makes a sink of the engine's log, which is on from now on.
    pub fn of(engine: &Engine) -> MemoryLog {
        engine.set_logging(LogUser::File, true);
        MemoryLog::reading(engine.change_log())
    }

    fn reading(log: &Arc<ChangeLog>) -> MemoryLog {
        MemoryLog { reader: Mutex::new(log.open(Overflow::Keep)) }
    }

    /// Returns the log that it reads.
    pub fn log(&self) -> Arc<ChangeLog> {
        Arc::clone(self.reader.lock().log())
    }

    /// Returns the commands so far, each with its database; a group between MULTI and EXEC; without SELECT.
    ///
    /// # Panics
    /// When the log has other records than [`put_command`](crate::propagation::log_batch::put_command) writes.
    pub fn take(&self) -> Vec<(u32, Record)> {
        let mut records = Vec::new();
        let visit = |head: RecordHead, run: &Run<'_>| {
            if head.readers == Readers::Replicas {
                return ControlFlow::Continue(());
            }
            let mut db = head.first;
            let bound = |word: &[u8]| head.is_group.then(|| vec![word.to_vec()]);
            records.extend(bound(b"MULTI").map(|begin| (db, begin)));
            let mut rest = run.text();
            while !rest.is_empty() {
                let record: Record = (0..number(&mut rest)).map(|_| word(&mut rest).to_vec()).collect();
                match &record[..] {
                    [name, index] if name == b"SELECT" => {
                        db = String::from_utf8_lossy(index).parse().expect("the number of a database");
                    }
                    _ => records.push((db, record)),
                }
            }
            assert_eq!(db, head.last, "the head says where the commands end");
            records.extend(bound(b"EXEC").map(|end| (db, end)));
            ControlFlow::Continue(())
        };
        self.reader.lock().read(u64::MAX, visit).expect("the log keeps all for it");
        records
    }

    /// Returns the commands so far, each command's words between blanks.
    pub fn lines(&self) -> Vec<String> {
        let records = self.take();
        records.iter().map(|(_, words)| String::from_utf8_lossy(&words.join(&b' ')).into_owned()).collect()
    }
}

/// Returns the number in a line that begins with a sign.
fn number(rest: &mut &[u8]) -> usize {
    let end = rest.iter().position(|byte| *byte == b'\n').expect("a line");
    let digits = std::str::from_utf8(&rest[1..end - 1]).expect("digits");
    *rest = &rest[end + 1..];
    digits.parse().expect("a count")
}

fn word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let len = number(rest);
    let (word, after) = rest.split_at(len);
    *rest = &after[2..];
    word
}
