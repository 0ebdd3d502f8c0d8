//! How the append-only file frames records: SELECT where the database changes, MULTI and EXEC around a group, remarks
//! of the time.

use super::file_bytes::FileBytes;
use engine::propagation::change_log::RecordHead;
use engine::propagation::log_batch::{GROUP_BEGIN, GROUP_END, put_select};
use structures::log_block::Run;

/// What comes between records.
#[derive(Default)]
pub struct Framing {
    /// The database that the reader of the file is in; None: in a file that has just begun.
    db: Option<u32>,
    /// The time that is to be remarked before the next record.
    pub stamp: Option<i64>,
}

impl Framing {
    /// That of a file that has just begun.
    pub fn begin(seconds: i64) -> Framing {
        Framing { db: None, stamp: (seconds > 0).then_some(seconds) }
    }

    /// Adds records of one kind, or a group.
    pub fn put(&mut self, head: RecordHead, run: &Run<'_>, to: &mut FileBytes) {
        if let Some(seconds) = self.stamp.take() {
            to.put_with(|out| put_stamp(out, seconds));
        }
        if head.is_group {
            to.put(GROUP_BEGIN);
        }
        if self.db != Some(head.first) {
            to.put_with(|out| put_select(out, head.first));
        }
        to.put_run(run);
        if head.is_group {
            to.put(GROUP_END);
        }
        self.db = Some(head.last);
    }
}

/// Appends a remark of the time, Unix seconds.
pub fn put_stamp(out: &mut Vec<u8>, seconds: i64) {
    out.extend_from_slice(format!("#TS:{seconds}\r\n").as_bytes());
}
