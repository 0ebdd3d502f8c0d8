//! The thread that has the link to the primary, and applies its stream.
//!
//! ```text
//!   the server's primary -> connect - handshake -+- snapshot -> file or keyspace -+
//!                                                +--------------------------------+- stream -> batches -> keyspace
//!                                                                                              unchanged -> replicas
//! ```
//!
//! It waits for the primary's bytes for a moment at a time, so that it soon sees that another primary is wanted. It
//! applies bytes with the right to do so, which a client takes away when it changes the primary.

use crate::host::engine_host::{self, LinkKind};
use crate::listener::acceptor::Acceptor;
use crate::replication::applied;
use crate::replication::durable_marks::DurableMarks;
use crate::replication::link_voice::Word;
use crate::replication::load_way::{LoadWay, hold_saves, replace_turn};
use crate::replication::snapshot_reader::{SnapshotReader, Wire};
use crate::system::{affinity, clock, log};
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::shared::{LINK_WORKER, Shared, become_worker};
use cluster::slot_set::SlotSet;
use commands::persistence::aof::StoppedLog;
use commands::persistence::load::LoadFailure;
use commands::replication::applier::{Applier, NoCommands};
use commands::replication::load_beside::load_beside;
use commands::replication::snapshot_load::{load_snapshot, stream_db};
use commands::replication::{failover_command, follow};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::config::{Config, Directive, os_message};
use engine::locks::sync::{Mutex, MutexGuard, unlock_fairly};
use engine::per_worker::LINK_PLACE;
use engine::status::replication_status::{LinkState, PrimaryAddress, ReplicationStatus, SyncTotal, new_id};
use engine::status::saved_data_set::SavedIn;
use replication::in_sync_member::Membership;
use replication::link_event::{Arrived, LinkError, Position};
use replication::primary_link::PrimaryLink;
use replication::replid::{History, ReplicationId};
use socket2::Protocol;
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time that it waits for bytes before it looks around.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Time that it waits if it owes its primary a word within so many milliseconds.
const LOOK_SOON: Duration = Duration::from_millis(20);
const SOON: u64 = 100;
/// Time that it waits to be connected.
const CONNECT: Duration = Duration::from_secs(5);
/// Time between two attempts to follow.
const RETRY: Duration = Duration::from_secs(1);
/// Time that it waits when a command cannot run.
const STUCK: Duration = Duration::from_micros(200);
/// The stack of a thread that runs commands.
const STACK: usize = 64 << 20;

/// Name of the source of a snapshot that is not in a file.
const SOCKET: &str = "socket";

/// Starts the thread.
pub fn start(shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) -> io::Result<()> {
    let thread =
        LinkThread { shared: Arc::clone(shared), acceptor: Arc::clone(acceptor), told: AtomicU64::new(u64::MAX) };
    let builder = thread::Builder::new().name("replica".to_owned()).stack_size(STACK);
    let started = builder.spawn(move || {
        affinity::pin(&thread.shared.engine.config().snapshot(), Directive::SERVER_CPULIST);
        become_worker(LINK_PLACE);
        thread.run();
    })?;
    shared.set_link_thread(started.thread().clone());
    Ok(())
}

/// The check whether a link is still wanted.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    shared: &'w Shared,
    generation: u64,
    /// Whether the other connection, without which this one is of no use, is lost.
    is_lost: Option<&'w AtomicBool>,
}

impl<'w> Wanted<'w> {
    /// Adds another connection: when that is lost, the link is not wanted any more.
    pub fn unless(self, is_lost: &'w AtomicBool) -> Wanted<'w> {
        Wanted { is_lost: Some(is_lost), ..self }
    }

    pub fn is_wanted(&self) -> bool {
        let is_lost = self.is_lost.is_some_and(|lost| lost.load(Relaxed));
        let is_present = self.shared.engine.replication().generation() == self.generation;
        let is_ending = self.shared.engine.replication().acknowledgement.is_ending();
        is_present && !is_lost && !is_ending && !self.shared.stopping.load(Relaxed)
    }
}

/// Reason why a link ended.
pub(super) enum End {
    /// Another primary is wanted, or none, or the server ends.
    Unwanted,
    Io(io::Error),
    Link(LinkError),
    /// The snapshot could not be loaded, for this reason, from this source.
    Load(String, &'static str),
    /// The stream cannot be applied.
    Stream,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Io(error)
    }
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        End::Link(error)
    }
}

pub(super) struct LinkThread {
    pub(super) shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    /// Generation of the primary that the thread of replicas knows.
    told: AtomicU64,
}

/// Progress of a link.
pub(super) struct Progress {
    /// Client that stands for the primary.
    client: Arc<ClientInfo>,
    applier: Applier,
    /// Offset of the next byte that is not applied.
    offset: u64,
    /// Bytes behind the offset that were taken and belong to a transaction that has not run.
    open: Vec<u8>,
    /// Whether the history has a name: the replica acknowledges to the primary then.
    is_named: bool,
    /// Offsets of the stream that the own log has on the disk.
    pub(super) marks: Arc<Mutex<DurableMarks>>,
}

impl LinkThread {
    pub(super) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(super) fn status(&self) -> &ReplicationStatus {
        self.shared.engine.replication()
    }

    fn run(&self) {
        let mut next = Instant::now();
        let mut generation = u64::MAX;
        while !self.shared.stopping.load(Relaxed) {
            self.shared.sleep_with_server();
            let present = self.status().generation();
            let is_new = std::mem::replace(&mut generation, present) != present;
            let is_loading = self.engine().persistence_status().deny_reasons().is_loading()
                || self.status().acknowledgement.is_ending();
            match self.status().primary().filter(|_| !is_loading && (is_new || next <= Instant::now())) {
                Some(primary) => {
                    let began = Instant::now();
                    let is_lost = self.follow(&primary, generation);
                    next = if is_lost { began + LOOK } else { Instant::now() + RETRY };
                }
                None => {
                    if is_loading {
                        generation = u64::MAX;
                    }
                    thread::park_timeout(LOOK);
                }
            }
        }
    }

    /// Follows a primary until the link ends. Returns whether its stream came, and the connection was lost then.
    fn follow(&self, primary: &PrimaryAddress, generation: u64) -> bool {
        let wanted = Wanted { shared: &self.shared, generation, is_lost: None };
        let name = format!("{}:{}", String::from_utf8_lossy(&primary.host), primary.port);
        log::notice(format_args!("Connecting to PRIMARY {name}"));
        self.set_state(wanted, LinkState::Connecting);
        let result = self.connect(primary, wanted).map_err(End::Io).and_then(|wire| {
            log::notice("PRIMARY <-> REPLICA sync started");
            let voice = Arc::clone(wire.voice());
            self.with_clock(&voice, wanted, || self.keep(wire, wanted))
        });
        let had_stream = self.status().link().state == LinkState::Connected;
        let is_lost = had_stream && matches!(result, Err(End::Io(_)));
        if result.is_err() {
            failover_command::missed_answer(self.engine());
        }
        match result {
            Ok(()) | Err(End::Unwanted) => {}
            Err(_) if !wanted.is_wanted() => {}
            Err(End::Io(error)) if had_stream => {
                log::notice(format_args!("Connection with primary lost: {}", os_message(&error)));
            }
            Err(End::Io(error)) => {
                log::warning(format_args!("Error condition on socket for SYNC: {}", os_message(&error)))
            }
            Err(End::Link(error @ LinkError::Later(_))) => log::notice(error),
            Err(End::Link(error)) => log::warning(error),
            Err(End::Load(text, from)) => {
                log::warning(text);
                log::warning(format_args!(
                    "Failed trying to load the PRIMARY synchronization DB from {from}, check server logs."
                ));
            }
            Err(End::Stream) => log::warning("The primary's stream cannot be applied."),
        }
        self.set_state(wanted, LinkState::Connect);
        if had_stream && wanted.is_wanted() {
            log::notice(format_args!("Reconnecting to PRIMARY {name} after failure"));
        }
        is_lost
    }

    pub(super) fn connect(&self, primary: &PrimaryAddress, wanted: Wanted<'_>) -> io::Result<Wire> {
        let config = self.engine().config().snapshot();
        let (acceptor, port) = (Some(&*self.acceptor), primary.port.to_string());
        let protocol = if config.flag(Directive::REPL_MPTCP) { Protocol::MPTCP } else { Protocol::TCP };
        let kind = LinkKind { encrypts: config.flag(Directive::TLS_REPLICATION), protocol };
        let peer = engine_host::open_peer(acceptor, &config, &primary.host, port.as_bytes(), CONNECT, kind)?;
        if let Some(line) = peer.line() {
            self.shared.link_lines.add(wanted.generation, line);
        }
        Wire::new(peer, LOOK)
    }

    /// Sets the state of the link, by which clients are admitted, if the link is still wanted.
    fn set_state(&self, wanted: Wanted<'_>, state: LinkState) {
        let status = self.status();
        let _applying = status.applying.lock();
        if !wanted.is_wanted() {
            return;
        }
        let now = clock::nanos().ms();
        status.update_link(|link| {
            if link.state == LinkState::Connected && state != LinkState::Connected {
                link.down_since = now;
            } else if link.state != LinkState::Connected && state == LinkState::Connected {
                link.synchronizations += 1;
            }
            link.state = state;
        });
        follow::settle(self.engine());
    }

    /// Talks to the primary until the link ends.
    fn keep(&self, mut wire: Wire, wanted: Wanted<'_>) -> Result<(), End> {
        let status = self.status();
        self.set_state(wanted, LinkState::Handshake);
        let can_resume = status.link().can_resume;
        let position = can_resume.then(|| Position { id: status.history().id, offset: status.offset() });
        if let Some(position) = position {
            let Position { id, offset } = position;
            log::notice(format_args!("Trying a partial resynchronization (request {id}:{}).", offset + 1));
        } else {
            log::notice("Partial resynchronization not possible (no cached primary)");
        }
        let mut link = PrimaryLink::new(self.settings(&self.engine().config().snapshot()), position, wire.now());
        if status.failover.lock().ask() {
            link.set_failover();
        }
        let mut progress = None;
        let result = self.converse(&mut wire, &mut link, wanted, &mut progress);
        if let Some(Progress { mut applier, client, .. }) = progress {
            self.engine().clients().end(client.id);
            applier.end(self.engine());
        }
        match &result {
            Err(End::Link(LinkError::FailoverRefused(text))) => {
                failover_command::answered(self.engine(), Some(text.as_bytes()))
            }
            _ if link.awaits_failover() => failover_command::lost_answer(self.engine()),
            _ => {}
        }
        result
    }

    fn converse(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        wanted: Wanted<'_>,
        progress: &mut Option<Progress>,
    ) -> Result<(), End> {
        while wanted.is_wanted() {
            if let Some(progress) = progress.as_ref()
                && progress.client.has_ended()
            {
                return Err(End::Io(io::ErrorKind::ConnectionAborted.into()));
            }
            self.shared.sleep_with_server();
            wire.send(link);
            let now = wire.now();
            let (taken, arrived) = self.take(link, wire.input(), now, wanted)?;
            match arrived {
                Arrived::Nothing if taken == 0 => {
                    self.look_around(link, progress.as_mut(), now);
                    wire.send(link);
                    wire.set_patience(patience(link, progress.as_ref(), now))?;
                    if wire.fill_up_to(self.status(), link.expected())? > 0 {
                        self.note_input(link, wire, progress.as_ref());
                    } else {
                        // A primary is silent if nothing has come: this replica may have read nothing for long.
                        link.tick(wire.now())?;
                    }
                    progress.iter().for_each(|progress| wire.show(&progress.client));
                }
                Arrived::Commands(bytes) => {
                    let len = bytes.len();
                    self.apply_next(wire, len, progress.as_mut(), wanted)?;
                    continue;
                }
                Arrived::GetAck(bytes) => {
                    if let Some(progress) = progress.as_mut() {
                        let offset = progress.offset;
                        self.count(progress, bytes, wanted)?;
                        self.ack(link, progress, offset, now);
                    }
                }
                Arrived::InSync(bytes) => self.take_set(progress.as_mut(), bytes, wanted)?,
                Arrived::FullSync(Position { id, offset }) => {
                    log::notice(format_args!("Full resync from primary: {id}:{offset}"));
                    self.await_snapshot(wanted);
                }
                Arrived::Unnamed => self.await_snapshot(wanted),
                Arrived::Continue(id) => {
                    log::notice("Successful partial resynchronization with primary.");
                    *progress = Some(self.resume(wire, id, wanted)?);
                }
                Arrived::Snapshot(size) => {
                    wire.advance(taken);
                    *progress = Some(self.synchronize(wire, link, size, wanted)?);
                    continue;
                }
                Arrived::DualChannel(client) => {
                    wire.advance(taken);
                    *progress = self.synchronize_apart(wire, link, client, wanted)?;
                    continue;
                }
                Arrived::Nothing | Arrived::Data(_) | Arrived::SnapshotEnd | Arrived::EndOffset(_) => {}
            }
            wire.advance(taken);
        }
        Err(End::Unwanted)
    }

    fn look_around(&self, link: &mut PrimaryLink, progress: Option<&mut Progress>, now: u64) {
        link.set_timeout(timeout(&self.engine().config().snapshot()));
        self.mind_silence(link, now);
        if let Some(progress) = progress.filter(|progress| progress.is_named) {
            let known = progress.marks.lock().known();
            self.sync_log(progress);
            let is_more = self.durable(&progress.marks).is_some_and(|durable| durable > known);
            let offset = progress.offset;
            if is_more || link.owes_ack_in(offset, now) == 0 {
                self.ack(link, progress, offset, now);
            }
        }
    }

    fn note_input(&self, link: &mut PrimaryLink, wire: &Wire, progress: Option<&Progress>) {
        link.note_input(wire.now());
        let read = progress.map(|progress| progress.offset + (progress.open.len() + wire.input().len()) as u64);
        let now = clock::nanos().ms();
        self.status().update_link(|link| {
            link.last_io = now;
            link.read_offset = read.unwrap_or(link.read_offset);
        });
    }

    /// Acknowledges the replica's offsets, in memory and in its log.
    fn ack(&self, link: &mut PrimaryLink, progress: &mut Progress, offset: u64, now: u64) {
        let durable = self.durable(&progress.marks).map(|durable| durable.min(offset));
        if progress.is_named {
            link.ack(offset, durable, now);
        }
    }

    /// Continues with the present data, by another name if there is one.
    fn resume(&self, wire: &Wire, id: Option<ReplicationId>, wanted: Wanted<'_>) -> Result<Progress, End> {
        let status = self.status();
        let applying = status.applying.lock();
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        let offset = status.offset();
        let new = id.filter(|id| *id != status.history().id);
        if let Some(id) = new {
            status.update_history(|history| history.shift(id, offset));
        }
        if self.told.swap(wanted.generation, Relaxed) != wanted.generation || new.is_some() {
            self.shared.replication.post(ReplicationMessage::Follow { offset, goes_on: true });
        }
        drop(applying);
        self.begin_stream(wire, wanted, offset, true)
    }

    pub(super) fn begin_stream(
        &self,
        wire: &Wire,
        wanted: Wanted<'_>,
        offset: u64,
        is_named: bool,
    ) -> Result<Progress, End> {
        let db = self.status().link().stream_db;
        let primary = self.status().primary().ok_or(End::Unwanted)?;
        let address = format!("{}:{}", String::from_utf8_lossy(&primary.host), primary.port);
        let clients = self.engine().clients();
        let (own, descriptor) = wire.voice().with_peer(|peer| Ok(peer.local_end()))?;
        let now = clock::now().unix_ms();
        let info = ClientInfo::new(clients.next_id(), &address, &own, descriptor, LINK_WORKER, now);
        let info = Arc::new(info);
        info.is_primary.store(true, Relaxed);
        wire.show(&info);
        clients.add(&info);
        let now = clock::nanos().ms();
        self.status().update_link(|link| (link.last_io, link.read_offset) = (now, offset));
        self.set_state(wanted, LinkState::Connected);
        // The primary may have said meanwhile that slots came back.
        self.engine().change_left_slots(|left| *left = SlotSet::none());
        let applier = Applier::new(Arc::clone(&info), LINK_PLACE, db);
        let marks = Arc::new(Mutex::new(DurableMarks::new(offset, self.engine().change_log().appended())));
        // A primary whose history has no name gets no word.
        wire.voice().set_word(if is_named { Word::Progress(Arc::clone(&marks)) } else { Word::None });
        Ok(Progress { client: info, applier, offset, open: Vec::new(), is_named, marks })
    }

    /// Counts bytes that are not to be run.
    pub(super) fn count(&self, progress: &mut Progress, bytes: &[u8], wanted: Wanted<'_>) -> Result<(), End> {
        let status = self.status();
        let _applying = status.applying.lock();
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        progress.offset += bytes.len() as u64;
        status.set_offset(progress.offset);
        self.shared.replication.post(ReplicationMessage::Feed(bytes.to_vec()));
        Ok(())
    }

    /// Applies so many bytes of the input, and takes them.
    fn apply_next(
        &self,
        wire: &mut Wire,
        len: usize,
        progress: Option<&mut Progress>,
        wanted: Wanted<'_>,
    ) -> Result<(), End> {
        let (bytes, left) = match wire.take_large(len) {
            Some(large) => (Cow::Owned(large), 0),
            None => (Cow::Borrowed(&wire.input()[..len]), len),
        };
        if let Some(progress) = progress {
            self.apply(progress, bytes, wanted)?;
        }
        self.tell_others();
        wire.advance(left);
        Ok(())
    }

    fn apply(&self, progress: &mut Progress, mut bytes: Cow<'_, [u8]>, wanted: Wanted<'_>) -> Result<(), End> {
        let (engine, status) = (self.engine(), self.status());
        let mut at = 0;
        while at < bytes.len() {
            let applying = status.applying.lock();
            if !wanted.is_wanted() {
                return Err(End::Unwanted);
            }
            let applied = progress.applier.apply(engine, &bytes[at..], clock::now()).map_err(|NoCommands| {
                status.update_link(|link| link.can_resume = false);
                End::Stream
            })?;
            let is_all = at == 0 && applied.taken == bytes.len() && progress.open.is_empty() && applied.open == 0;
            let whole = if is_all {
                at = 0;
                std::mem::take(&mut bytes).into_owned()
            } else {
                progress.open.extend_from_slice(&bytes[at..at + applied.taken]);
                at += applied.taken;
                let mut whole = std::mem::take(&mut progress.open);
                progress.open = whole.split_off(whole.len() - applied.open);
                whole
            };
            progress.offset += whole.len() as u64;
            status.set_offset(progress.offset);
            if progress.applier.db() != status.link().stream_db {
                status.update_link(|link| link.stream_db = progress.applier.db());
            }
            if !whole.is_empty() {
                self.shared.replication.post(ReplicationMessage::Feed(whole));
            }
            unlock_fairly(applying);
            if applied.is_stuck {
                self.tell_others();
                thread::sleep(STUCK);
            }
        }
        if let Some(aof) = applied::log_file_of(&self.shared) {
            applied::write_log(&self.shared, aof);
        }
        progress.marks.lock().note(progress.offset, engine.change_log().appended());
        Ok(())
    }

    fn tell_others(&self) {
        applied::tell_others(&self.shared, LINK_PLACE);
    }

    /// Records that the primary is about to send a snapshot.
    fn await_snapshot(&self, wanted: Wanted<'_>) {
        self.status().update_link(|link| (link.sync_total, link.sync_read) = (SyncTotal::Awaited, 0));
        self.set_state(wanted, LinkState::Sync);
    }

    /// Replaces the data by the primary's snapshot.
    fn synchronize(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        size: Option<u64>,
        wanted: Wanted<'_>,
    ) -> Result<Progress, End> {
        let (offset, is_named) = self.load(wire, link, size, None, wanted)?;
        link.begin_stream();
        link.note_input(wire.now());
        self.begin_stream(wire, wanted, offset, is_named)
    }

    /// Replaces the data by the snapshot. Returns the offset of the stream at which it ends, and whether its history
    /// has a name. `db`: the database that the stream has selected there, if the snapshot does not state it.
    pub(super) fn load(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        size: Option<u64>,
        db: Option<u32>,
        wanted: Wanted<'_>,
    ) -> Result<(u64, bool), End> {
        let (status, config) = (self.status(), self.engine().config().snapshot());
        let now = clock::nanos().ms();
        let total = size.map_or(SyncTotal::Unknown, SyncTotal::Known);
        status.update_link(|link| (link.sync_total, link.sync_read, link.last_io) = (total, 0, now));
        // The primary may have sent all of it long before it is loaded.
        wire.voice().set_word(Word::Alive);
        let turn = replace_turn(self.engine(), || wanted.is_wanted()).ok_or(End::Unwanted)?;
        self.set_state(wanted, LinkState::Sync);
        let kind = size.map_or_else(
            || "streamed RDB from primary with EOF".to_owned(),
            |size| format!("{size} bytes from primary"),
        );
        // A server that may hold acknowledged writes retains them until there is something better.
        let keeps = status.acknowledgement.membership().set.is_some();
        let way = if keeps { LoadWay::File } else { LoadWay::of(self.engine(), &config) };
        self.engine().host().data_is_replaced("Full resynchronization occurred");
        let to = if way == LoadWay::File { "disk" } else { "parser" };
        log::notice(format_args!("PRIMARY <-> REPLICA sync: receiving {kind} to {to}"));
        let hold = || hold_saves(self.engine(), &turn, || wanted.is_wanted()).ok_or(End::Unwanted);
        let (_held, applying, log, its_db) = match way {
            LoadWay::InPlace => {
                let held = hold()?;
                let applying = status.applying.lock();
                self.leave_history(wanted);
                let (log, its_db) = self.load_from_link(wire, link, size, wanted)?;
                (held, applying, log, its_db)
            }
            LoadWay::Beside => {
                let held = hold()?;
                let (applying, log, its_db) = self.load_beside(wire, link, size, wanted)?;
                (held, applying, log, its_db)
            }
            LoadWay::File => {
                let file = self.store(wire, link, &config, wanted)?;
                let held = hold()?;
                let applying = status.applying.lock();
                self.leave_history(wanted);
                let (log, its_db) = self.load_file(file, &config, wanted)?;
                (held, applying, log, its_db)
            }
        };
        let position = link.position();
        let (id, offset) = position.map_or_else(|| (new_id(), 0), |position| (position.id, position.offset));
        status.update_history(|known| *known = History::new(id));
        status.set_offset(offset);
        let number = status.data_sets.replace();
        if way == LoadWay::File {
            status.data_sets.save(SavedIn::Snapshot, number);
        }
        status.acknowledgement.update_membership(Membership::replace);
        // A primary that is itself a replica may name a wrong database before the snapshot, which has the right one.
        let db = its_db.or(db).unwrap_or(0);
        status.update_link(|link| (link.can_resume, link.stream_db) = (position.is_some(), db));
        self.told.store(wanted.generation, Relaxed);
        self.shared.replication.post(ReplicationMessage::Follow { offset, goes_on: false });
        drop(log);
        drop(applying);
        log::notice("PRIMARY <-> REPLICA sync: Finished with success");
        Ok((offset, position.is_some()))
    }

    /// Reads the snapshot into the keyspace as it comes.
    fn load_from_link(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        size: Option<u64>,
        wanted: Wanted<'_>,
    ) -> Result<(StoppedLog<'_>, Option<u32>), End> {
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        let log = StoppedLog::stop(self.engine());
        log::notice("PRIMARY <-> REPLICA sync: Loading DB in memory");
        let mut reader = SnapshotReader::new(wire, link, self.status(), wanted);
        self.lose();
        let loaded = load_snapshot(self.engine(), &mut reader, size.unwrap_or(0));
        let failed = |error: io::Error| LoadFailure { text: error.to_string(), is_corrupt: false };
        let whole = loaded.and_then(|loaded| reader.finish().map(|()| stream_db(&loaded)).map_err(failed));
        whole.map(|db| (log, db)).map_err(|failure| End::Load(failure.text, SOCKET))
    }

    /// Reads the snapshot beside the present data, which is still served if it is of the same history, and exchanges
    /// them when the snapshot is complete. Returns the right to apply.
    fn load_beside(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        size: Option<u64>,
        wanted: Wanted<'_>,
    ) -> Result<(MutexGuard<'_, ()>, StoppedLog<'_>, Option<u32>), End> {
        let status = self.status();
        let serves = link.position().is_some_and(|position| position.id == status.history().id);
        log::notice("PRIMARY <-> REPLICA sync: Loading DB in memory");
        let mut reader = SnapshotReader::new(wire, link, status, wanted);
        let loaded = load_beside(self.engine(), &mut reader, size.unwrap_or(0), serves);
        let beside = loaded.map_err(|failure| End::Load(failure.text, SOCKET))?;
        reader.finish().map_err(|error| End::Load(error.to_string(), SOCKET))?;
        let applying = status.applying.lock();
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        let log = StoppedLog::stop(self.engine());
        let db = stream_db(&beside.loaded);
        beside.exchange();
        Ok((applying, log, db))
    }

    /// Gives up the history: until then the server can continue where it is, with any primary that has it. Neither
    /// replicas nor files nor this server itself, if it is promoted, take what there is afterwards for its data.
    fn leave_history(&self, wanted: Wanted<'_>) {
        let status = self.status();
        if wanted.is_wanted() {
            status.update_link(|link| link.can_resume = false);
            status.update_history(|known| *known = History::new(new_id()));
            self.shared.replication.post(ReplicationMessage::Follow { offset: status.offset(), goes_on: false });
        }
    }
}

/// Returns the time for which to wait for the primary's bytes.
fn patience(link: &PrimaryLink, progress: Option<&Progress>, now: u64) -> Duration {
    let owes = |progress: &Progress| progress.is_named && link.owes_ack_in(progress.offset, now) < SOON;
    if progress.is_some_and(owes) { LOOK_SOON } else { LOOK }
}

/// Returns `repl-timeout` in milliseconds.
pub(super) fn timeout(config: &Config) -> u64 {
    config.int(Directive::REPL_TIMEOUT).unsigned_abs() * 1000
}
