//! Keys of some slots as commands, as another node takes them: RESTORE for each, SELECT where the database changes.
//!
//! As with a file, they are of one moment, while others go on changing them.

use crate::dump::dump;
use crate::encode::Style;
use crate::snapshot_writer::{self, SnapshotBlocks};
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::value::KeyEntry;
use engine::propagation::log_batch::{put_command, put_select};
use engine::snapshot::encoder::{Encode, Encoder};
use engine::snapshot::open_snapshots::Purpose;
use engine::snapshot_steps::{Snapshot, SnapshotRequest};
use std::any::Any;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// The keys of some slots as they were at one moment.
pub struct SlotSnapshot<'e>(Snapshot<'e>);

impl<'e> SlotSnapshot<'e> {
    /// Begins one of this moment.
    ///
    /// # Errors
    /// Those of [`Engine::begin_snapshot`].
    pub fn begin(engine: &'e Engine, slots: SlotSet, style: Style) -> io::Result<SlotSnapshot<'e>> {
        let encode: Encode = Arc::new(Commands { style });
        let request = SnapshotRequest { slots, purpose: Purpose::Transfer, encode };
        engine.begin_snapshot(request, || (), || false).map(SlotSnapshot)
    }

    /// How long the change log was in its moment: what comes after it is not in the snapshot.
    pub fn offset(&self) -> u64 {
        self.0.begun().offset
    }

    /// Writes it. `delay`: rest after each key.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write(self, delay: Duration, to: &mut (dyn Write + Send)) -> io::Result<()> {
        let mut out = Out { to, db: None, keys: 0 };
        snapshot_writer::write(&self.0, delay, &mut out)?;
        out.to.flush()
    }
}

/// How keys are written.
#[derive(PartialEq)]
struct Commands {
    style: Style,
}

impl Encoder for Commands {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        put_restore(out, entry, &self.style);
    }

    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        put_restore(out, entry, &Style { compress: false, ..self.style });
    }

    fn keeps_like(&self, other: &dyn Encoder) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

fn put_restore(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style) {
    let value = dump(&entry.value(), style);
    let mut digits = itoa::Buffer::new();
    let expiry = digits.format(entry.expiry().unwrap_or(0)).as_bytes();
    let words: [&[u8]; 6] = [b"RESTORE", entry.key(), expiry, &value, b"REPLACE", b"ABSTTL"];
    put_command(out, words.into_iter());
}

/// Where the commands go.
struct Out<'w> {
    to: &'w mut (dyn Write + Send),
    db: Option<u32>,
    keys: u64,
}

impl SnapshotBlocks for Out<'_> {
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64> {
        if !bytes.is_empty() {
            if self.db.replace(db) != Some(db) {
                let mut select = Vec::new();
                put_select(&mut select, db);
                self.to.write_all(&select)?;
            }
            self.to.write_all(bytes)?;
        }
        self.keys += keys;
        Ok(self.keys)
    }
}
