//! A connection from which slots come: commands are applied, words go to the node.

use super::sync_words::word_of;
use crate::aof::kept_log::{KeptLog, configured_need};
use crate::cluster::node_handle::NodeHandle;
use crate::connection::socket::SocketStream;
use crate::replication::applied;
use crate::system::clock;
use crate::workers::migration_messages::NewImport;
use crate::workers::shared::Shared;
use cluster::migration::{JobName, SyncWord};
use commands::replication::applier::{Applied, Applier};
use engine::clients::registry::ClientInfo;
use engine::host::threads::Server;
use engine::keyspace::caller::Caller;
use engine::keyspace::record::LogUser;
use engine::per_worker::MIGRATION_PLACE;
use mio::{Registry, Token};
use replication::stream_parser::{Unit, Units};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Bytes that are read at a time, and applied before others get their turn.
const PART: usize = 64 << 10;
const TURN: usize = 512 << 10;
/// Bytes that may wait to be applied: a source that sends more waits, unless they are one command.
const INPUT_MAX: usize = 4 << 20;
/// Interval at which the node is notified of input.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is nothing more to do until input comes.
    Idle,
    /// There is more to do.
    More,
    /// The next command cannot run now.
    Stuck,
    /// Keys that were applied are not yet durable, or not yet on replicas.
    Unkept,
    /// The connection has ended.
    Ended,
}

/// See the module's documentation.
pub struct ImportLink {
    pub job: JobName,
    pub info: Arc<ClientInfo>,
    stream: SocketStream,
    is_readable: bool,
    has_ended: bool,
    input: Vec<u8>,
    units: Units,
    /// Bytes of commands to be applied at the beginning of the input.
    commands: usize,
    applier: Applier,
    /// Whether the source has given the slots up. Keys that the source removes afterwards are its own copies.
    is_granted: bool,
    output: Vec<u8>,
    told_at: Instant,
    /// Length up to which the log is to be kept before the slots are taken.
    applied_to: Option<u64>,
}

impl ImportLink {
    pub fn new(new: NewImport) -> ImportLink {
        let NewImport { job, stream, info, input } = new;
        let applier = Applier::of(Arc::clone(&info), Caller::Migration, MIGRATION_PLACE, 0);
        ImportLink {
            job,
            info,
            stream,
            is_readable: true,
            has_ended: false,
            input,
            units: Units::of_migration(),
            commands: 0,
            applier,
            is_granted: false,
            output: Vec::new(),
            told_at: Instant::now(),
            applied_to: None,
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token)
    }

    /// Records that input may have come.
    pub fn note(&mut self) {
        self.is_readable = true;
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Reads, applies and writes for a while.
    pub fn go_on(&mut self, shared: &Shared, handle: &NodeHandle) -> Turn {
        let mut done = 0;
        let mut turn = Turn::More;
        while turn == Turn::More && done < TURN && !self.info.has_ended() {
            self.read(shared, handle);
            let before = self.input.len();
            turn = self.take(shared, handle);
            done += before - self.input.len();
        }
        if done > 0 {
            self.tell(shared);
        }
        let held = self.input.capacity() + self.output.capacity() + size_of::<ImportLink>();
        self.info.memory.store(held, Relaxed);
        if self.write().is_err() { Turn::Ended } else { turn }
    }

    fn read(&mut self, shared: &Shared, handle: &NodeHandle) {
        let len = self.input.len();
        if !self.is_readable || len > INPUT_MAX && self.commands > 0 {
            return;
        }
        self.input.resize(len + PART, 0);
        let read = match self.stream.read(&mut self.input[len..]) {
            Ok(Some(0)) | Err(_) => {
                self.has_ended = true;
                None
            }
            Ok(read) => read,
        };
        self.input.truncate(len + read.unwrap_or(0));
        self.is_readable = read.is_some();
        if let Some(read) = read {
            shared.engine.replication().counts.slot_import_bytes.fetch_add(read as u64, Relaxed);
            self.info.count_input(read);
            self.info.active_at.store(clock::now().unix_ms().0, Relaxed);
            if self.told_at.elapsed() >= TELL_EVERY {
                self.told_at = Instant::now();
                handle.input(|bus, now| bus.migration_heard(&self.job, now));
            }
        }
    }

    /// Takes the next unit of the input.
    fn take(&mut self, shared: &Shared, handle: &NodeHandle) -> Turn {
        if self.commands > 0 {
            return self.apply(shared, handle);
        }
        match self.units.next(&self.input) {
            Ok(Unit::Commands(len)) if self.is_granted => {
                self.input.drain(..len);
                Turn::More
            }
            Ok(Unit::Commands(len)) => {
                self.commands = len;
                Turn::More
            }
            Ok(Unit::SyncSlots(len)) => {
                let word = word_of(&self.input[..len]);
                if word == Some(SyncWord::Paused) && self.waits_to_be_kept(shared) {
                    return if self.has_ended { Turn::Ended } else { Turn::Unkept };
                }
                self.input.drain(..len);
                self.is_granted |= word == Some(SyncWord::FailoverGranted);
                if word == Some(SyncWord::SnapshotEof) {
                    // Valkey takes changes to begin there, whatever database was selected for the snapshot's keys.
                    self.applier.select(0);
                }
                handle.input(|bus, now| bus.migration_word(&self.job, word, now));
                Turn::More
            }
            Ok(Unit::GetAck(len) | Unit::InSync(len)) => {
                self.input.drain(..len);
                Turn::More
            }
            Ok(Unit::Incomplete) if self.is_readable && !self.has_ended => Turn::More,
            Ok(Unit::Incomplete) if self.has_ended => Turn::Ended,
            Ok(Unit::Incomplete) => Turn::Idle,
            Err(_) => Turn::Ended,
        }
    }

    /// Returns whether applied commands are not yet kept as their replies would require: by the disk with `always`, and
    /// by as many replicas as acknowledge writes. The source's clients have seen the replies, and the source has the
    /// keys no more once this node takes the slots.
    fn waits_to_be_kept(&mut self, shared: &Shared) -> bool {
        let engine = &*shared.engine;
        let need = configured_need(&engine.config().snapshot());
        let applied_to = *self.applied_to.get_or_insert_with(|| engine.change_log().appended());
        let kept = KeptLog::of(engine);
        if kept.lets_go(applied_to, applied_to, need) {
            self.applied_to = None;
            return false;
        }
        if !kept.is_on_disk(applied_to, applied_to) {
            shared.notifier.ring();
        }
        true
    }

    fn apply(&mut self, shared: &Shared, handle: &NodeHandle) -> Turn {
        let (engine, now) = (&*shared.engine, clock::now());
        if engine.persistence_status().deny_reasons().is_limited() {
            engine.make_room(Server { worker: MIGRATION_PLACE, now_us: now.unix_us });
            if engine.memory_limit().is_over() {
                return self.fail(handle, "Ran out of memory (OOM) during slot import");
            }
        }
        let Ok(Applied { taken, is_stuck, .. }) = self.applier.apply(engine, &self.input[..self.commands], now) else {
            return Turn::Ended;
        };
        self.input.drain(..taken);
        self.commands -= taken;
        if self.info.migration.has_failed.swap(false, Relaxed) {
            let reason = "Failed to process command during slot migration. Check logs for more information";
            return self.fail(handle, reason);
        }
        if is_stuck { Turn::Stuck } else { Turn::More }
    }

    fn fail(&mut self, handle: &NodeHandle, reason: &str) -> Turn {
        handle.input(|bus, now| bus.migration_failed(&self.job, reason, now));
        Turn::Idle
    }

    /// Notifies others of applied commands: the log's file, replicas, clients that wait for their keys.
    fn tell(&self, shared: &Shared) {
        if shared.engine.has_log()
            && let Some(aof) = applied::log_file_of(shared)
        {
            applied::write_log(shared, aof);
        }
        applied::tell_others(shared, MIGRATION_PLACE);
        if shared.engine.is_logged_for(LogUser::Replicas) {
            shared.replication.wake();
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output)? {
                Some(written) => {
                    self.info.count_output(written);
                    self.output.drain(..written);
                }
                None => break,
            }
        }
        if let SocketStream::Tls(stream) = &mut self.stream {
            stream.flush()?;
        }
        Ok(())
    }

    /// Ends the link: a transaction that is incomplete is dropped.
    pub fn end(mut self, shared: &Shared) {
        self.applier.end(&shared.engine);
    }
}
