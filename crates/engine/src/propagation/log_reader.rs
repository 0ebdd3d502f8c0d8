//! A sink's place in the change log.

use crate::locks::sync::Mutex;
use crate::propagation::change_log::{ChangeLog, RecordHead, is_group};
use std::ops::ControlFlow;
use std::sync::Arc;
use structures::log_block::{LogCursor, Run};

/// Treatment of a sink that falls behind, as its opener chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The log retains all that the sink has not read. The owner of the sink holds writers back while that is too much.
    Keep,
    /// It is dropped when it is more than so many bytes behind.
    Drop(u64),
}

/// The log's record of a sink.
pub(crate) struct Sink {
    /// None: it was dropped. Held while it reads.
    cursor: Mutex<Option<LogCursor>>,
    overflow: Overflow,
}

impl Sink {
    pub fn new(cursor: LogCursor, overflow: Overflow) -> Sink {
        Sink { cursor: Mutex::new(Some(cursor)), overflow }
    }

    /// Whether it is to be dropped because it is too far behind the end. One that is reading just now is judged another
    /// time.
    pub fn is_lost(&self, end: u64) -> bool {
        let Overflow::Drop(most) = self.overflow else { return false };
        let Some(mut cursor) = self.cursor.try_lock() else { return false };
        let is_slow = cursor.as_ref().is_none_or(|cursor| end - cursor.offset() > most);
        if is_slow {
            *cursor = None;
        }
        is_slow
    }
}

/// The sink fell behind and was dropped from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkDropped;

/// Reads the log from the place where it was opened. It ends when it is dropped.
pub struct LogReader {
    log: Arc<ChangeLog>,
    sink: Arc<Sink>,
}

impl LogReader {
    pub(crate) fn new(log: Arc<ChangeLog>, sink: Arc<Sink>) -> LogReader {
        LogReader { log, sink }
    }

    /// Reads records up to `until`, where one ends, or up to the first that is not published yet, or until `visit` has
    /// enough. `visit` gets a group alone, and other records as many at a time as lie together and are of one database;
    /// the head is the first one's. Returns the offset up to which it has read.
    ///
    /// # Errors
    /// [`SinkDropped`]: there is nothing to be read any more.
    pub fn read(
        &mut self,
        until: u64,
        mut visit: impl FnMut(RecordHead, &Run<'_>) -> ControlFlow<()>,
    ) -> Result<u64, SinkDropped> {
        let mut cursor = self.sink.cursor.lock();
        let cursor = cursor.as_mut().ok_or(SinkDropped)?;
        while let Some(run) = cursor.next_run(until, |tag| !is_group(tag)) {
            if visit(RecordHead::of(run.label), &run).is_break() {
                break;
            }
        }
        cursor.leave_read();
        Ok(cursor.offset())
    }

    /// Returns the log that it reads.
    pub fn log(&self) -> &Arc<ChangeLog> {
        &self.log
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.close(&self.sink);
    }
}
