//! A snapshot that comes over a connection of its own, while the stream comes over the first one and waits.
//!
//! ```text
//!   link's thread      connect - handshake - $ENDOFF -+- snapshot -> keyspace -------------- done -> stream -> batches
//!   a thread beside                                   +- PSYNC - +CONTINUE - stream -> memory -+
//! ```
//!
//! The waiting stream takes up memory of this server and not of the primary, up to the limit for replicas' output: the
//! rest is left to the primary. Without either of the connections the other is of no use.

use crate::replication::full_sync::stop_if_told;
use crate::replication::link_thread::{End, LOOK, LinkThread, Progress, Wanted};
use crate::replication::link_voice::Word;
use crate::replication::snapshot_reader::Wire;
use crate::system::log::{self, Level};
use engine::config::ClientClass;
use engine::propagation::effects::Garbage;
use engine::status::replication_status::ReplicationStatus;
use replication::link_event::{Arrived, LinkError, SnapshotEnd};
use replication::primary_link::PrimaryLink;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

impl LinkThread {
    /// Gets the snapshot over another connection; `client`: the primary's number for this one, if it wants to get that
    /// there. Returns how far the stream is, if it has begun by then.
    pub(super) fn synchronize_apart(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        client: Option<u64>,
        wanted: Wanted<'_>,
    ) -> Result<Option<Progress>, End> {
        log::notice("Dual channel replication: PSYNC is not possible, initialize RDB channel.");
        wire.voice().set_word(Word::Alive);
        let primary = self.status().primary().ok_or(End::Unwanted)?;
        let config = self.engine().config().snapshot();
        let mut snapshots = self.connect(&primary, wanted)?;
        let mut source = PrimaryLink::for_snapshot(self.settings(&config), client, snapshots.now());
        let ends = |arrived: &Arrived<'_>| match arrived {
            Arrived::EndOffset(end) => Some(*end),
            Arrived::FullSync(position) => Some(SnapshotEnd { position: *position, db: 0, client: None }),
            _ => None,
        };
        let end = self.until(&mut snapshots, &mut source, wanted, ends)?;
        link.associate(&end);
        // PSYNC follows as soon as the primary has answered, even if the snapshot fails meanwhile.
        wire.send(link);
        stop_if_told(self.status());
        let (is_done, is_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let limit = config.output_buffer_limit(ClientClass::Replica).hard_bytes;
        let (loaded, waited) = thread::scope(|scope| {
            let (status, wire, link) = (self.status(), &mut *wire, &mut *link);
            let buffering = scope.spawn(|| {
                let waited = buffer(status, wire, link, limit, &is_done);
                is_lost.store(waited.is_err(), Relaxed);
                waited
            });
            let wanted = wanted.unless(&is_lost);
            let voice = Arc::clone(snapshots.voice());
            let load = || self.load_apart(&mut snapshots, &mut source, &end, wanted);
            let loaded = self.with_clock(&voice, wanted, load);
            is_done.store(true, Relaxed);
            let waited = buffering.join().unwrap_or(Err(End::Io(io::ErrorKind::Other.into())));
            (loaded, waited)
        });
        self.status().update_link(|link| link.buffered = 0);
        if (loaded.is_err() || waited.is_err()) && !wire.input().is_empty() {
            self.engine().host().free(vec![Garbage::Stream(wire.discard())]);
        }
        if let (Err(_), Err(End::Io(error))) = (&loaded, &waited) {
            log::warning(format_args!("Dual channel replication: The primary's stream is lost: {error}"));
        }
        let (offset, is_named) = loaded?;
        waited?;
        if !link.is_streaming() {
            log::log(Level::Debug, "Dual channel replication: Psync established after rdb load");
            return Ok(None);
        }
        link.note_input(wire.now());
        self.begin_stream(wire, wanted, offset, is_named).map(Some)
    }

    /// Loads the snapshot when it begins.
    fn load_apart(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        end: &SnapshotEnd,
        wanted: Wanted<'_>,
    ) -> Result<(u64, bool), End> {
        let begins = |arrived: &Arrived<'_>| if let Arrived::Snapshot(size) = arrived { Some(*size) } else { None };
        let size = self.until(wire, link, wanted, begins)?;
        self.load(wire, link, size, Some(end.db), wanted)
    }

    /// Takes input, until `find` finds a value in it.
    fn until<T>(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        wanted: Wanted<'_>,
        find: impl Fn(&Arrived<'_>) -> Option<T>,
    ) -> Result<T, End> {
        while wanted.is_wanted() {
            wire.send(link);
            let now = wire.now();
            let (taken, arrived) = link.take(wire.input(), now)?;
            let found = find(&arrived);
            wire.advance(taken);
            if let Some(found) = found {
                return Ok(found);
            }
            if taken == 0 {
                link.tick(now)?;
                wire.fill(self.status())?;
            }
        }
        Err(End::Unwanted)
    }
}

/// Asks for the stream, and retains it until the snapshot is loaded.
fn buffer(
    status: &ReplicationStatus,
    wire: &mut Wire,
    link: &mut PrimaryLink,
    limit: u64,
    is_done: &AtomicBool,
) -> Result<(), End> {
    let most = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    let (mut is_full, mut has_looked) = (false, false);
    loop {
        wire.send(link);
        if !link.is_streaming() {
            let now = wire.now();
            let (taken, arrived) = link.take(wire.input(), now)?;
            let refused = matches!(arrived, Arrived::DualChannel(_) | Arrived::FullSync(_) | Arrived::Unnamed);
            if refused {
                let text = "the stream does not go on behind the snapshot".to_owned();
                return Err(LinkError::Unexpected("PSYNC", text).into());
            }
            wire.advance(taken);
            if link.is_streaming() {
                log::notice(
                    "Dual channel replication: PRIMARY <-> REPLICA sync: Primary accepted a Partial \
                     Resynchronization, RDB load in background.",
                );
            }
            if taken > 0 {
                continue;
            }
        }
        // The primary's answer to the snapshot's name may have come before the snapshot's end.
        if is_done.load(Relaxed) && has_looked {
            return Ok(());
        }
        has_looked = true;
        let room = most.saturating_sub(wire.input().len());
        if room == 0 {
            if !std::mem::replace(&mut is_full, true) {
                log::notice(format_args!(
                    "Dual channel replication: Replication buffer limit reached ({limit} bytes), stopping \
                     buffering. Further accumulation will occur on primary side."
                ));
            }
            thread::sleep(LOOK);
            continue;
        }
        if wire.fill_at_most(status, room)? > 0 {
            link.note_input(wire.now());
            let waits = wire.input().len() as u64;
            status.update_link(|link| {
                (link.buffered, link.buffered_peak) = (waits, link.buffered_peak.max(waits));
            });
        } else {
            link.tick(wire.now())?;
        }
    }
}
