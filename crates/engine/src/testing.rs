//! What tests of this crate and of those above it need of an engine: the feature `testing`.

use crate::Engine;
use crate::locks::sync::Mutex;
use crate::propagation::change_log::{ChangeLog, GROUP_BEGIN, GROUP_END};
use crate::propagation::effects::Record;
use std::sync::Arc;

/// A change log in memory.
#[derive(Default)]
pub struct MemoryLog {
    /// Each part with the database that it begins in.
    parts: Mutex<Vec<(u32, Vec<u8>)>>,
}

impl MemoryLog {
    /// The change log of an engine from now on.
    ///
    /// # Panics
    /// When the engine has one already.
    pub fn of(engine: &Engine) -> Arc<MemoryLog> {
        let log = Arc::new(MemoryLog::default());
        engine.install_log(Arc::clone(&log) as Arc<dyn ChangeLog>);
        engine.set_logging(true);
        log
    }

    /// The commands so far, each with its database; without SELECT.
    ///
    /// # Panics
    /// When the log is not what [`put_command`](crate::propagation::change_log::put_command) writes.
    pub fn take(&self) -> Vec<(u32, Record)> {
        let mut records = Vec::new();
        for (mut db, part) in std::mem::take(&mut *self.parts.lock()) {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let record: Record = (0..number(&mut rest)).map(|_| word(&mut rest).to_vec()).collect();
                match &record[..] {
                    [name, index] if name == b"SELECT" => {
                        db = String::from_utf8_lossy(index).parse().expect("the number of a database");
                    }
                    _ => records.push((db, record)),
                }
            }
        }
        records
    }
}

/// The number in a line that begins with a sign.
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

impl ChangeLog for MemoryLog {
    fn append(&self, first: u32, _: u32, is_group: bool, render: &mut dyn FnMut(&mut Vec<u8>)) -> u64 {
        let mut part = Vec::new();
        if is_group {
            part.extend_from_slice(GROUP_BEGIN);
        }
        render(&mut part);
        if is_group {
            part.extend_from_slice(GROUP_END);
        }
        let mut parts = self.parts.lock();
        parts.push((first, part));
        parts.len() as u64
    }

    fn appended(&self) -> u64 {
        self.parts.lock().len() as u64
    }

    fn waiting(&self) -> u64 {
        self.parts.lock().iter().map(|(_, part)| part.len() as u64).sum()
    }
}
