//! The thread that writes the keys of a job's slots, in blocks that wait to be sent.

use crate::workers::migration_messages::{MigrationMessage, SnapshotEvent};
use crate::workers::shared::Shared;
use cluster::migration::JobName;
use cluster::slot_set::SlotSet;
use crossbeam_channel::{Receiver, Sender, bounded};
use engine::config::Directive;
use engine::keyspace::record::LogUser;
use persistence::Style;
use persistence::format::Family;
use persistence::slot_snapshot::SlotSnapshot;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Blocks that may wait.
const BLOCKS: usize = 32;

/// Starts the thread. Its blocks come by the receiver; it ends when the receiver is dropped.
pub fn begin(shared: &Arc<Shared>, job: JobName, slots: SlotSet) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = bounded(BLOCKS);
    let shared = Arc::clone(shared);
    let work = move || {
        let event = match write(&shared, job, slots, sender) {
            Ok(()) => SnapshotEvent::Written,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => SnapshotEvent::Refused,
            Err(_) => SnapshotEvent::Failed,
        };
        shared.migrations.post(MigrationMessage::Snapshot(job, event));
    };
    thread::Builder::new().name("slot-snapshot".to_owned()).spawn(work)?;
    Ok(receiver)
}

fn write(shared: &Shared, job: JobName, slots: SlotSet, blocks: Sender<Vec<u8>>) -> io::Result<()> {
    let engine = &*shared.engine;
    let config = engine.config().snapshot();
    let style = Style { compress: config.flag(Directive::RDBCOMPRESSION), family: Family::Valkey };
    // Changes before the snapshot's moment are in it, and skipped in the log.
    let reader = engine.begin_logging(LogUser::Migrations);
    let snapshot = SlotSnapshot::begin(engine, slots, style)?;
    let offset = snapshot.offset();
    shared.migrations.post(MigrationMessage::Snapshot(job, SnapshotEvent::Begun { reader, offset }));
    let delay = Duration::from_micros(config.int(Directive::RDB_KEY_SAVE_DELAY).max(0) as u64);
    snapshot.write(delay, &mut BlockSender { shared, blocks })
}

/// Sends blocks to the receiver.
struct BlockSender<'s> {
    shared: &'s Shared,
    blocks: Sender<Vec<u8>>,
}

impl Write for BlockSender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.blocks.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.shared.migrations.wake();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
