//! How sinks frame records: SELECT where the database changes, MULTI and EXEC around a group, remarks of the time.

use super::file_bytes::FileBytes;
use engine::propagation::change_log::RecordHead;
use engine::propagation::log_batch::{GROUP_BEGIN, GROUP_END, put_select};
use std::sync::Arc;
use structures::log_block::Run;

/// A destination of framed records.
pub trait FramedBytes {
    /// Adds bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Adds the bytes of a record that may be retained.
    fn put_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        self.put(bytes);
    }

    /// Adds records of the log.
    fn put_run(&mut self, run: &Run<'_>) {
        match run.shared_text() {
            Some(bytes) => self.put_shared(bytes),
            None => self.put(run.text()),
        }
    }
}

impl FramedBytes for FileBytes {
    fn put(&mut self, bytes: &[u8]) {
        FileBytes::put(self, bytes);
    }

    fn put_run(&mut self, run: &Run<'_>) {
        FileBytes::put_run(self, run);
    }
}

/// State of the frames between records.
#[derive(Default)]
pub struct Framing {
    /// The database that the reader of the file is in; None: in a file that has just begun.
    db: Option<u32>,
    /// The time that the next record's remark states.
    pub stamp: Option<i64>,
}

impl Framing {
    /// Returns the state for a file that has just begun.
    pub fn begin(seconds: i64) -> Framing {
        Framing { db: None, stamp: (seconds > 0).then_some(seconds) }
    }

    /// Adds records of one kind, or a group.
    pub fn put(&mut self, head: RecordHead, run: &Run<'_>, to: &mut impl FramedBytes) {
        if let Some(seconds) = self.stamp.take() {
            to.put(&stamp(seconds));
        }
        if head.is_group {
            to.put(GROUP_BEGIN);
        }
        if self.db != Some(head.first) {
            let mut select = Vec::new();
            put_select(&mut select, head.first);
            to.put(&select);
        }
        to.put_run(run);
        if head.is_group {
            to.put(GROUP_END);
        }
        self.db = Some(head.last);
    }
}

/// Returns a remark of the time, Unix seconds.
pub fn stamp(seconds: i64) -> Vec<u8> {
    format!("#TS:{seconds}\r\n").into_bytes()
}
