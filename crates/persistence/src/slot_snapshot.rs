//! Keys of some slots as commands, as another node takes them: RESTORE for each, SELECT where the database changes.
//!
//! As with a file, they are of one moment, while others go on changing them.

use crate::dump::{Gradual, dump};
use crate::encode::Style;
use crate::snapshot_writer::{self, SnapshotBlocks};
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::value::{KeyEntry, Object};
use engine::propagation::log_batch::{put_command, put_select};
use engine::snapshot::before_images::SharedImages;
use engine::snapshot::encoder::{Encode, Encoder, ValueCursor};
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

    fn is_large(&self, entry: &KeyEntry) -> bool {
        Gradual::begin(&entry.value(), &self.style).is_some()
    }

    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        let (dump, key, expiry) = (Gradual::begin(&entry.value(), &self.style), entry.key().to_vec(), entry.expiry());
        match dump {
            Some(dump) => Box::new(LargeValue { dump, key, expiry, is_whole: false }),
            None => {
                self.put(out, entry);
                Box::new(Done)
            }
        }
    }

    fn keeps_like(&self, other: &dyn Encoder) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

fn put_restore(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style) {
    put_command_of(out, entry.key(), entry.expiry().unwrap_or(0), &dump(&entry.value(), style));
}

fn put_command_of(out: &mut Vec<u8>, key: &[u8], expiry: u64, payload: &[u8]) {
    let mut digits = itoa::Buffer::new();
    let words: [&[u8]; 6] = [b"RESTORE", key, digits.format(expiry).as_bytes(), payload, b"REPLACE", b"ABSTTL"];
    put_command(out, words.into_iter());
}

/// A large value, which is dumped a piece at a time: RESTORE takes it as a whole. One that is about to change is dumped
/// to its end before.
struct LargeValue {
    dump: Gradual,
    key: Vec<u8>,
    expiry: Option<u64>,
    is_whole: bool,
}

/// Bytes that are dumped at once before a value changes.
const AT_ONCE: usize = 1 << 20;

impl ValueCursor for LargeValue {
    fn put(&mut self, _: &mut Vec<u8>, object: &Object, max: usize) -> bool {
        self.is_whole = self.is_whole || self.dump.step_object(object, max);
        self.is_whole
    }

    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.put_all(object, kept);
    }

    fn put_all(&mut self, object: &Object, _: &SharedImages) {
        while !self.put(&mut Vec::new(), object, AT_ONCE) {}
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) {
        put_command_of(out, &self.key, self.expiry.unwrap_or(0), &self.dump.finish());
    }
}

/// A value that was written at once.
struct Done;

impl ValueCursor for Done {
    fn put(&mut self, _: &mut Vec<u8>, _: &Object, _: usize) -> bool {
        true
    }
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
