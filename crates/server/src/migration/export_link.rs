//! A connection by which slots go to another node: answers and words arrive, keys and changes are sent.
//!
//! ```text
//!   orders - words | keys of the snapshot | SNAPSHOT-EOF | changes and words
//!   [  queue, as it comes                                ] [ changes         ]  -> socket
//!                    changes wait meanwhile
//! ```

use super::sync_words::word_of;
use crate::cluster::node_handle::NodeHandle;
use crate::connection::peer_socket::Peer;
use crate::workers::migration_messages::SnapshotEvent;
use crate::workers::shared::Shared;
use cluster::migration::JobName;
use cluster::slot_set::SlotSet;
use commands::cluster::migration_filter::MigrationFilter;
use crossbeam_channel::Receiver;
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::propagation::log_reader::LogReader;
use replication::stream_parser::{Unit, Units};
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that are given to the socket before it has sent the ones before them.
const WINDOW: usize = 256 << 10;
/// Bytes of changes that are retained in one piece.
const PIECE: usize = 64 << 10;
/// Bytes of a block of the snapshot, about.
const BLOCK: usize = 64 << 10;
/// Bytes of the log that are looked through at a time.
const READ: u64 = 4 << 20;
/// Bytes of input that are neither an answer nor a word, at most.
const INPUT_MAX: usize = 64 << 10;

/// Stage of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Everything is sent as it comes.
    Talk,
    /// Keys are sent, and changes wait.
    Snapshot,
    /// The next word ends the snapshot.
    SnapshotEnds,
    /// Changes are sent.
    Stream,
}

/// The pause of writes, for one job.
enum Pausing {
    /// Locks are passed, from this one on.
    Passing(usize),
    /// Changes up to here are to be read and sent.
    Reading(u64),
}

/// See the module's documentation.
pub struct ExportLink {
    pub job: JobName,
    pub info: Arc<ClientInfo>,
    peer: Peer,
    is_open: bool,
    input: Vec<u8>,
    units: Units,
    phase: Phase,
    queue: VecDeque<Vec<u8>>,
    blocks: Option<Receiver<Vec<u8>>>,
    is_written: bool,
    reader: Option<LogReader>,
    /// Offset up to which the log was read.
    read_to: u64,
    filter: Option<MigrationFilter>,
    /// Whether the target cannot have a change that was made.
    is_divided: bool,
    changes: VecDeque<Vec<u8>>,
    /// Bytes in the queue and of changes.
    waiting: u64,
    /// Bytes that are being given to the socket, and how many of them were.
    block: Vec<u8>,
    handed: usize,
    /// Bytes that were given to the socket, and those of them that were counted as sent.
    given: u64,
    counted: u64,
    pausing: Option<Pausing>,
    /// Number of unsent bytes that was published last.
    told: u64,
}

impl ExportLink {
    pub fn new(job: JobName, peer: Peer, info: Arc<ClientInfo>) -> ExportLink {
        ExportLink {
            job,
            info,
            peer,
            is_open: false,
            input: Vec::new(),
            units: Units::of_migration(),
            phase: Phase::Talk,
            queue: VecDeque::new(),
            blocks: None,
            is_written: false,
            reader: None,
            read_to: 0,
            filter: None,
            is_divided: false,
            changes: VecDeque::new(),
            waiting: 0,
            block: Vec::new(),
            handed: 0,
            given: 0,
            counted: 0,
            pausing: None,
            told: 0,
        }
    }

    pub fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.peer.register(registry, token)
    }

    /// Returns whether the connection has opened since the last call.
    pub fn has_opened(&mut self) -> io::Result<bool> {
        let opened = !self.is_open && self.peer.opened()?.is_some();
        self.is_open |= opened;
        Ok(opened)
    }

    /// Sends a word, behind all that is on its way.
    pub fn send(&mut self, bytes: Vec<u8>) {
        self.waiting += bytes.len() as u64;
        match self.phase {
            Phase::Stream => self.changes.push_back(bytes),
            Phase::SnapshotEnds => {
                self.queue.push_back(bytes);
                self.phase = Phase::Stream;
            }
            Phase::Talk | Phase::Snapshot => self.queue.push_back(bytes),
        }
    }

    /// Begins to send keys of these slots, as they come by the receiver.
    pub fn begin_snapshot(&mut self, slots: SlotSet, blocks: Receiver<Vec<u8>>) {
        (self.filter, self.blocks) = (Some(MigrationFilter::new(slots)), Some(blocks));
    }

    /// Returns the slots whose keys it sends.
    pub fn slots(&self) -> Option<&SlotSet> {
        self.filter.as_ref().map(MigrationFilter::slots)
    }

    /// Takes an event of the thread that writes the snapshot. False: the link cannot continue.
    pub fn take_snapshot(&mut self, event: SnapshotEvent, handle: &NodeHandle) -> bool {
        match event {
            SnapshotEvent::Begun { mut reader, offset } => {
                // Changes before the offset are in the snapshot.
                while self.read_to < offset
                    && let Ok(at) = reader.read(offset, |_, _| ControlFlow::Continue(()))
                {
                    self.read_to = at;
                    std::thread::yield_now();
                }
                (self.reader, self.phase) = (Some(reader), Phase::Snapshot);
                handle.input(|bus, now| bus.snapshot_begun(&self.job, now));
                true
            }
            SnapshotEvent::Written => {
                self.is_written = true;
                true
            }
            SnapshotEvent::Refused => {
                self.blocks = None;
                true
            }
            SnapshotEvent::Failed => false,
        }
    }

    /// Begins a pause of writes: they are paused once all locks were passed.
    pub fn pause(&mut self) {
        self.pausing = Some(Pausing::Passing(0));
    }

    /// Returns whether the link is to be served again soon, without an event.
    pub fn is_eager(&self) -> bool {
        self.pausing.is_some()
    }

    /// Takes input that has come. False: the connection has ended.
    pub fn listen(&mut self, handle: &NodeHandle) -> bool {
        let (bytes, more) = self.peer.read();
        self.info.count_input(bytes.len());
        self.input.extend_from_slice(&bytes);
        while let Some(taken) = handle.input(|bus, now| bus.migration_answered(&self.job, &self.input, now)) {
            self.input.drain(..taken);
        }
        more && self.hear(handle)
    }

    fn hear(&mut self, handle: &NodeHandle) -> bool {
        if self.phase == Phase::Talk && !self.is_answered(handle) {
            return self.input.len() <= INPUT_MAX;
        }
        loop {
            let (len, word) = match self.units.next(&self.input) {
                Ok(Unit::SyncSlots(len)) => (len, word_of(&self.input[..len])),
                Ok(Unit::Commands(len) | Unit::GetAck(len) | Unit::InSync(len)) => (len, None),
                Ok(Unit::Incomplete) => return self.input.len() <= INPUT_MAX,
                Err(_) => return false,
            };
            self.input.drain(..len);
            handle.input(|bus, now| bus.migration_word(&self.job, word, now));
        }
    }

    /// Returns whether the target has answered all orders: input from now on is words.
    fn is_answered(&self, handle: &NodeHandle) -> bool {
        handle.asks(|bus| bus.migrations().job(&self.job).is_some_and(|job| job.state.has_answer()))
    }

    /// Continues as far as possible now. False: the connection has ended.
    pub fn go_on(&mut self, shared: &Shared, handle: &NodeHandle) -> bool {
        self.read_log(&shared.engine);
        self.go_on_pausing(shared, handle);
        if self.is_divided {
            let reason = "A command had keys of slots that stay, too";
            handle.input(|bus, now| bus.migration_failed(&self.job, reason, now));
            return false;
        }
        if self.peer.flush().is_err() || self.hand_over(handle).is_err() {
            return false;
        }
        self.count(shared);
        let unsent = self.waiting + (self.block.len() - self.handed + self.peer.waiting()) as u64;
        if (unsent == 0) != (self.told == 0) || unsent.abs_diff(self.told) > PIECE as u64 {
            self.told = unsent;
            handle.input(|bus, now| bus.migration_unsent(&self.job, unsent, now));
        }
        true
    }

    /// Gives as much to the socket as may wait there, a large block in parts.
    fn hand_over(&mut self, handle: &NodeHandle) -> io::Result<()> {
        while self.peer.waiting() < WINDOW {
            if self.handed == self.block.len() {
                (self.block, self.handed) = (Vec::new(), 0);
                let Some(block) = self.next(handle) else { break };
                self.block = block;
            }
            let end = self.block.len().min(self.handed + WINDOW);
            let part = &self.block[self.handed..end];
            self.peer.send(part)?;
            self.given += part.len() as u64;
            self.handed = end;
        }
        Ok(())
    }

    /// Publishes the bytes that were sent, and the bytes in memory.
    fn count(&mut self, shared: &Shared) {
        let sent = self.given.saturating_sub(self.peer.waiting() as u64);
        let new = sent.saturating_sub(self.counted);
        self.counted += new;
        shared.engine.replication().counts.slot_export_bytes.fetch_add(new, Relaxed);
        self.info.count_output(new as usize);
        let blocks = self.blocks.as_ref().map_or(0, |blocks| blocks.len() * BLOCK);
        let held = self.waiting as usize + self.block.capacity() + self.peer.waiting() + blocks + self.input.capacity();
        self.info.memory.store(held + size_of::<ExportLink>(), Relaxed);
    }

    /// Returns the bytes that are to be sent next.
    fn next(&mut self, handle: &NodeHandle) -> Option<Vec<u8>> {
        if let Some(bytes) = self.queue.pop_front() {
            self.waiting -= bytes.len() as u64;
            return Some(bytes);
        }
        match self.phase {
            Phase::Talk | Phase::SnapshotEnds => None,
            Phase::Stream => {
                let bytes = self.changes.pop_front()?;
                self.waiting -= bytes.len() as u64;
                Some(bytes)
            }
            Phase::Snapshot => {
                // The order matters: blocks that were sent before the flag was set are there.
                let is_written = self.is_written;
                let block = self.blocks.as_ref().and_then(|blocks| blocks.try_recv().ok());
                if block.is_none() && is_written {
                    (self.phase, self.blocks) = (Phase::SnapshotEnds, None);
                    handle.input(|bus, now| bus.snapshot_sent(&self.job, now));
                }
                block
            }
        }
    }

    /// Reads changes of the slots that were written since.
    fn read_log(&mut self, engine: &Engine) {
        let (Some(reader), Some(filter)) = (&mut self.reader, &mut self.filter) else { return };
        let appended = engine.change_log().appended();
        if appended <= self.read_to {
            return;
        }
        let (changes, waiting, is_divided) = (&mut self.changes, &mut self.waiting, &mut self.is_divided);
        let mut looked = 0;
        let read = reader.read(appended, |head, run| {
            if changes.back().is_none_or(|piece| piece.len() >= PIECE) {
                changes.push_back(Vec::new());
            }
            if let Some(piece) = changes.back_mut() {
                let before = piece.len();
                *is_divided |= filter.put(head, run.text(), piece).is_err();
                *waiting += (piece.len() - before) as u64;
            }
            looked += run.text().len() as u64;
            if looked < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if self.changes.back().is_some_and(Vec::is_empty) {
            self.changes.pop_back();
        }
        if let Ok(at) = read {
            self.read_to = at;
        }
    }

    /// Returns whether there is more of the log to read.
    pub fn has_unread(&self, engine: &Engine) -> bool {
        self.reader.is_some() && engine.change_log().appended() > self.read_to
    }

    /// Returns the bytes that wait for the target.
    pub fn unsent(&self) -> u64 {
        self.waiting
    }

    fn go_on_pausing(&mut self, shared: &Shared, handle: &NodeHandle) {
        let engine = &*shared.engine;
        if let Some(Pausing::Passing(next)) = &mut self.pausing {
            if !engine.pass_locks(next, || true) {
                return;
            }
            self.pausing = Some(Pausing::Reading(engine.change_log().appended()));
            self.read_log(engine);
        }
        if let Some(Pausing::Reading(end)) = self.pausing
            && self.read_to >= end
            && !self.is_divided
        {
            self.pausing = None;
            // Keys that are removed once the target has the slots are this node's copies.
            self.reader = None;
            handle.input(|bus, now| bus.migration_paused(&self.job, now));
        }
    }
}
