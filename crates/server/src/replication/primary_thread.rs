//! The thread that frames the change log into the stream, retains its last bytes, and serves all replicas.
//!
//! ```text
//!   wait -> events, messages -> read the log up to its end, stopping where snapshots begin -> backlog
//!        -> each replica: as much of the backlog as its socket takes -> work due by time
//! ```
//!
//! When the server follows another one the backlog is fed with that one's bytes instead.

use crate::connection::socket::Readiness;
use crate::replication::framing_waits::FramingWaits;
use crate::replication::isr::{self, Acknowledging, FollowerChange};
use crate::replication::replica::{Ended, Heard, Phase, Replica};
use crate::replication::role_orders::RoleOrders;
use crate::replication::send_coalescing::{MOMENT, SendCoalescing};
use crate::replication::sync_queue::{Sync, SyncState};
use crate::system::{clock, log};
use crate::workers::replication_messages::{MUCH, ReplicationMessage};
use crate::workers::shared::Shared;
use crate::workers::snapshot_offsets::StreamStop;
use commands::replication::replica_error::StrayCommand;
use commands::replication::{min_replicas, wait_replicas};
use engine::config::{ClientClass, Config, Directive};
use engine::keyspace::record::LogUser;
use engine::memory_limit::LogThread;
use engine::propagation::change_log::Readers;
use engine::propagation::log_batch::put_command;
use engine::propagation::log_reader::LogReader;
use engine::stats::metrics::sum;
use engine::status::pause::Hold;
use engine::status::replication_status::BacklogStatus;
use engine::time::SteadyMs;
use mio::{Events, Poll, Token, Waker};
use persistence::aof::framing::{FramedBytes, Framing};
use replication::backlog::{Backlog, SHARED};
use replication::replica_handshake::OutputLimit;
use replication::replid::{History, ReplicationId};
use replication::stream::Marks;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The token of the waker.
const WAKE: Token = Token(usize::MAX);
/// The longest sleep.
const TICK: Duration = Duration::from_millis(100);
/// Milliseconds between two checks of slow changes.
pub(super) const SECOND: i64 = 1000;
/// Bytes of the log that are taken before replicas are sent something.
pub(super) const AT_ONCE: u64 = 1 << 20;
/// Number of reads of the log for a snapshot's beginning.
const PATIENCE: usize = 1 << 20;

/// The stream's bytes on their way into the backlog.
struct StreamBytes<'b>(&'b mut Backlog);

impl FramedBytes for StreamBytes<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.0.append(bytes);
    }

    fn put_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        match bytes.len() {
            SHARED.. => self.0.append_shared(Arc::clone(bytes)),
            _ => self.0.append(bytes),
        }
    }
}

/// See the module's documentation.
pub struct PrimaryThread {
    pub(super) shared: Arc<Shared>,
    poll: Poll,
    pub(super) replicas: Slab<Replica>,
    pub(super) backlog: Option<Backlog>,
    pub(super) framing: Framing,
    pub(super) marks: Marks,
    gathering: SendCoalescing,
    pub(super) acknowledging: Acknowledging,
    /// Reader of the log; None: there are no own changes to be framed.
    pub(super) reader: Option<LogReader>,
    /// Offset up to which the log was framed.
    pub(super) read_to: u64,
    /// History of another server that the stream is of, as replicas know it.
    pub(super) followed: Option<ReplicationId>,
    pub(super) syncs: BTreeMap<u64, Sync>,
    pub(super) last_sync: u64,
    /// Replicas that were refused a snapshot, so that it is logged once.
    pub(super) refused: BTreeSet<String>,
    /// Orders to give the role to another server.
    pub(super) role_change: RoleOrders,
    /// Whether the thread has been ordered to end.
    ends: bool,
    pub(super) framing_waits: FramingWaits,
    pinged_at: SteadyMs,
    checked_at: SteadyMs,
    /// Time since which there is no replica.
    pub(super) alone_since: SteadyMs,
}

/// Starts the thread, which ends when the server does.
pub fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let poll = Poll::new()?;
    shared.replication.set_waker(Waker::new(poll.registry(), WAKE)?);
    let thread = PrimaryThread::new(shared, poll);
    thread::Builder::new().name("replication".to_owned()).spawn(move || thread.run())
}

impl PrimaryThread {
    /// Returns the state of a thread that has not begun.
    pub(super) fn new(shared: &Arc<Shared>, poll: Poll) -> PrimaryThread {
        let now = shared.engine.host().nanos().ms();
        PrimaryThread {
            shared: Arc::clone(shared),
            poll,
            replicas: Slab::new(),
            backlog: None,
            framing: Framing::default(),
            marks: Marks::default(),
            gathering: SendCoalescing::default(),
            acknowledging: Acknowledging::default(),
            reader: None,
            read_to: 0,
            followed: None,
            syncs: BTreeMap::new(),
            last_sync: 0,
            refused: BTreeSet::new(),
            role_change: RoleOrders::default(),
            ends: false,
            framing_waits: FramingWaits::default(),
            pinged_at: now,
            checked_at: now,
            alone_since: now,
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            self.wait(&mut events);
            for event in &events {
                let token = event.token().0;
                if let Some(replica) = self.replicas.get_mut(token) {
                    replica.note(Readiness::of(event), event.is_writable());
                    self.listen(token, self.now());
                }
            }
            while let Some(message) = self.shared.replication.take() {
                self.take(message, self.now());
            }
            let now = self.now();
            let read_before = self.read_to;
            self.read_log();
            self.shared.engine.count_log_thread(LogThread::Stream);
            if self.read_to > read_before {
                let turns = sum(self.shared.engine.metrics(), |worker| &worker.writers);
                self.gathering.note(turns, self.shared.engine.host().nanos());
            }
            self.end_framing_waits();
            self.change_role();
            let config = self.shared.engine.config().snapshot();
            if now.since(self.checked_at) >= SECOND {
                self.checked_at = now;
                self.check_due(&config, now);
            }
            self.acknowledge(&config, now.0.cast_unsigned());
            self.begin_syncs(&config, now);
            self.send(&config, now);
            self.publish(&config);
            if self.ends {
                return;
            }
        }
    }

    fn wait(&mut self, events: &mut Events) {
        let shared = Arc::clone(&self.shared);
        let (handle, status) = (&shared.replication, shared.engine.replication());
        // Clients that wait for replicas are not to wait for this, too.
        let rests = self.gathering.takes_rest() && !status.acknowledgement.is_asked() && !status.has_waits();
        if rests {
            handle.begin_rest()
        } else {
            handle.begin_sleep()
        };
        let patience = self.role_change.patience().unwrap_or(TICK);
        let time = match rests {
            _ if handle.has_messages() => Duration::ZERO,
            true if shared.engine.change_log().appended() < self.read_to + MUCH => MOMENT,
            false if !self.has_unread() => patience,
            _ => Duration::ZERO,
        };
        if self.poll.poll(events, Some(time)).is_err() {
            events.clear();
        }
        handle.end_sleep();
    }

    pub(super) fn has_unread(&self) -> bool {
        self.reader.is_some() && self.shared.engine.change_log().appended() > self.read_to
    }

    pub(super) fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }

    fn take(&mut self, message: ReplicationMessage, now: SteadyMs) {
        match message {
            ReplicationMessage::Replica(new) => self.attach(*new, now),
            ReplicationMessage::Sync(event) => self.take_sync(event, now),
            ReplicationMessage::Follow { offset, goes_on } => self.follow(offset, goes_on, now),
            ReplicationMessage::Feed(bytes) => self.feed(bytes),
            ReplicationMessage::Lead { reader } => self.lead(reader, now),
            ReplicationMessage::Resume { reader, offset } => self.resume(reader, offset, now),
            ReplicationMessage::Where { stop, answer } => {
                let offset = self.offset_of(&stop).filter(|_| stop.history == self.history().id);
                let position = offset.map(|offset| (stop.history, offset));
                // A thread that does not wait any more needs no answer.
                let _ = answer.send(position);
            }
            ReplicationMessage::Kill(client) => {
                if let Some(token) = self.token_of(client) {
                    self.close(token, now);
                }
            }
            ReplicationMessage::Acknowledge { reader } => self.begin_acknowledging(reader),
            ReplicationMessage::AskReplicas => {
                self.framing_waits.ask(self.shared.engine.change_log().appended());
                if !self.shared.engine.persistence_status().deny_reasons().is_loading() {
                    isr::begin_logging(&self.shared);
                }
            }
            ReplicationMessage::Sleep(slumber) => slumber.wait(),
            ReplicationMessage::FrameChanges(offset) => {
                self.framing_waits.want_length(self.shared.engine.change_log().appended(), offset);
            }
            ReplicationMessage::Tell(words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                self.add(&words);
            }
            ReplicationMessage::StepDown(order) => self.role_change.order(order),
            ReplicationMessage::FailoverChanged => {} // Looked at after all messages.
            ReplicationMessage::End => self.ends = true,
        }
    }

    /// Logs something about a replica; not again and again about one that was refused.
    pub(super) fn tell(&self, name: &str, text: std::fmt::Arguments<'_>) {
        if self.refused.contains(name) { log::verbose(text) } else { log::notice(text) }
    }

    pub(super) fn token_of(&self, client: u64) -> Option<usize> {
        self.replicas.iter().find(|(_, replica)| replica.info.id == client).map(|(token, _)| token)
    }

    /// Returns the history that the stream is of.
    pub(super) fn history(&self) -> History {
        self.shared.engine.replication().history()
    }

    /// Continues the stream where the data set that was read had it, with the keys that had expired meanwhile.
    fn resume(&mut self, reader: LogReader, offset: u64, now: SteadyMs) {
        let size = self.shared.engine.config().snapshot().bytes(Directive::REPL_BACKLOG_SIZE);
        self.backlog = Some(Backlog::new(offset, size));
        self.alone_since = now;
        self.begin_reading(reader);
    }

    /// Frames the log, up to its end or for a while. At a snapshot's beginning the stream's offset is recorded, and the
    /// stream selects the database anew for a replica that begins there.
    pub(super) fn read_log(&mut self) {
        if self.reader.is_none()
            && let Some(reader) = self.shared.snapshot_offsets.take_reader()
        {
            match self.shared.engine.replication().is_replica() {
                false => self.begin_reading(reader),
                // A snapshot has begun while the server became a replica.
                true => self.shared.engine.set_logging(LogUser::Replicas, false),
            }
        }
        let (Some(reader), Some(backlog)) = (&mut self.reader, &mut self.backlog) else { return };
        let end = self.shared.engine.change_log().appended();
        let most = backlog.end() + AT_ONCE;
        loop {
            // The stop is looked for after the end was: a snapshot is recorded before anything is appended after it.
            let stop = self.shared.snapshot_offsets.next(self.read_to, end);
            let until = stop.unwrap_or(end);
            if self.read_to < until {
                let (framing, engine) = (&mut self.framing, &self.shared.engine);
                let counted = if engine.slot_traffic().is_on() { self.replicas.len() } else { 0 };
                let read = reader.read(until, |head, run| {
                    if head.readers != Readers::File {
                        framing.put(head, run, &mut StreamBytes(backlog));
                        if counted > 0 {
                            commands::cluster::count_sent(engine, run.text(), counted);
                        }
                    }
                    if backlog.end() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                // The log retains all for this sink, so it is not dropped.
                self.read_to = read.unwrap_or(until);
                self.marks.note(self.read_to, backlog.end());
            }
            if self.read_to < until || stop.is_none() {
                return;
            }
            self.framing = Framing::default();
            self.shared.snapshot_offsets.pass(backlog.end());
        }
    }

    /// Returns the stream's offset where a snapshot has begun; None if the stream has ended meanwhile.
    pub(super) fn offset_of(&mut self, stop: &StreamStop) -> Option<u64> {
        for _ in 0..PATIENCE {
            self.read_log();
            if stop.offset().is_some() || self.reader.is_none() {
                break;
            }
            // Changes that were appended without locks may still be on their way into the log.
            thread::yield_now();
        }
        stop.offset()
    }

    /// Adds a command of the stream's own. Returns the stream's length then, if the stream is the server's own.
    pub(super) fn add(&mut self, words: &[&[u8]]) -> Option<u64> {
        let status = self.shared.engine.replication();
        // The last save has all of the stream.
        let leads = self.reader.is_some() && !status.is_replica() && !status.acknowledgement.is_ending();
        let backlog = self.backlog.as_mut().filter(|_| leads)?;
        let mut text = Vec::new();
        put_command(&mut text, words.iter().copied());
        backlog.append(&text);
        Some(backlog.end())
    }

    /// Takes all requests of a replica: one that is to be answered may have the next one behind it.
    pub(super) fn listen(&mut self, token: usize, now: SteadyMs) {
        let Some(replica) = self.replicas.get_mut(token) else { return };
        if let Err(ended) = replica.read() {
            return self.end(token, &ended, now);
        }
        while self.take_request(token, now) {}
    }

    /// Takes acknowledgements and at most one request, and returns whether there was one.
    fn take_request(&mut self, token: usize, now: SteadyMs) -> bool {
        let Some(replica) = self.replicas.get_mut(token) else { return false };
        let heard = replica.next_word();
        let is_request = matches!(heard, Ok(Heard::Asked(..) | Heard::Names(_)));
        match heard {
            Ok(Heard::Nothing) => {}
            Ok(Heard::Alive) => replica.shown.acked_at.store(now.0, Relaxed),
            Ok(Heard::Asked(id, next)) => self.answer(token, &id, next, now),
            Ok(Heard::Names(client)) => self.name_snapshot(token, client),
            Ok(Heard::Acked) => {
                if replica.phase == Phase::BesideLoad {
                    log::notice(format_args!("Synchronization with replica {} succeeded", replica.name()));
                }
                if matches!(replica.phase, Phase::AwaitsAck | Phase::BesideLoad) {
                    replica.go_online(now);
                }
                replica.has_acked = true;
                let (shown, acks) = (&replica.shown, replica.acks);
                shown.acked.store(acks.applied, Relaxed);
                shown.synced.store(acks.synced, Relaxed);
                shown.acked_log.store(self.marks.log_at(acks.applied), Relaxed);
                shown.synced_log.store(self.marks.log_at(acks.synced), Relaxed);
                shown.acked_at.store(now.0, Relaxed);
                replica.info.active_at.store(clock::now().unix_ms().0, Relaxed);
                self.note_follower(token, FollowerChange::Acknowledged);
                wait_replicas::end_waits(&self.shared.engine);
            }
            Err(ended) => self.end(token, &ended, now),
        }
        is_request
    }

    /// Records the connection over which a replica gets its snapshot.
    fn name_snapshot(&mut self, token: usize, client: i64) {
        let id = u64::try_from(client).ok();
        let is_known = id.is_some_and(|client| self.shared.engine.replication().awaits_psync(client));
        let Some(replica) = self.replicas.get_mut(token) else { return };
        if is_known {
            replica.rdb_client = id;
            replica.say(b"+OK\r\n");
        } else {
            replica.say(format!("-ERR Unrecognized RDB client id {client}\r\n").as_bytes());
        }
    }

    fn end(&mut self, token: usize, ended: &Ended, now: SteadyMs) {
        // The stream's beginning is retained for the connection that will ask for it.
        if let Some(replica) = self.replicas.get_mut(token)
            && replica.phase == Phase::Transmitted
            && matches!(ended, Ended::Gone)
        {
            return replica.drop_socket();
        }
        if let (Some(replica), Ended::Spoke(StrayCommand { name, error })) = (self.replicas.get(token), ended) {
            if let Some(error) = error {
                log::warning(format_args!(
                    "== CRITICAL == This primary is sending an error to its replica: '{error}' after processing the \
                     command '{name}'"
                ));
            }
            log::warning(format_args!(
                "Replica generated a reply to command '{name}', disconnecting it: {}",
                replica.name()
            ));
        }
        self.close(token, now);
    }

    /// Returns whether the stream is to end where it ends now: a replica that takes over has no more, and a primary
    /// with bytes beyond that may not follow.
    pub(super) fn is_to_end(&self) -> bool {
        self.role_change.is_wanted() || self.shared.engine.pause().held() == Some(Hold::Failover)
    }

    /// Adds a PING to the stream, unless that is to end.
    pub(super) fn ping_replicas(&mut self, now: SteadyMs) {
        if !self.is_to_end() {
            self.pinged_at = now;
            self.add(&[b"PING"]);
        }
    }

    /// Does work that is due by time.
    fn check_due(&mut self, config: &Config, now: SteadyMs) {
        let seconds = |directive| config.int(directive).saturating_mul(SECOND);
        if now.since(self.pinged_at) >= seconds(Directive::REPL_PING_REPLICA_PERIOD) && !self.replicas.is_empty() {
            self.ping_replicas(now);
        }
        let timeout = seconds(Directive::REPL_TIMEOUT);
        // The other connection may wait for so long before it gets the snapshot's beginning.
        let delay = seconds(Directive::REPL_DISKLESS_SYNC_DELAY);
        let (mut late, mut forsaken) = (Vec::new(), Vec::new());
        let grace = self.shared.engine.replication().grace.load(Relaxed);
        for (token, replica) in &mut self.replicas {
            let silence = now.since(SteadyMs(replica.shown.acked_at.load(Relaxed)));
            match replica.phase {
                Phase::Online | Phase::AwaitsAck if replica.acknowledges && silence > timeout => late.push(token),
                Phase::Waiting | Phase::InSync(_) if !replica.is_away() => replica.say(b"\n"),
                Phase::Offered if silence > timeout.saturating_add(delay) => late.push(token),
                Phase::Leaving if now.since(replica.since) > timeout => late.push(token),
                Phase::Transmitted if now.since(replica.since) > grace.saturating_mul(SECOND) => forsaken.push(token),
                _ => {}
            }
        }
        for token in forsaken {
            log::notice(format_args!(
                "Dual channel replication: Replica main channel failed to establish PSYNC within the grace period ({grace} \
                 seconds). Freeing RDB client {}.",
                self.replicas[token].info.id
            ));
            self.close(token, now);
        }
        for token in late {
            let name = self.replicas[token].name();
            log::warning(format_args!("Disconnecting timedout replica (streaming sync): {name}"));
            self.close(token, now);
        }
        self.free_backlog(seconds(Directive::REPL_BACKLOG_TTL), now);
        if let Some(backlog) = &mut self.backlog {
            backlog.resize(config.bytes(Directive::REPL_BACKLOG_SIZE));
        }
        self.count_good();
    }

    /// Sends all replicas as much as their sockets take, and ends replicas that are too far behind.
    fn send(&mut self, config: &Config, now: SteadyMs) {
        let limit = config.output_buffer_limit(ClientClass::Replica);
        let limit = OutputLimit {
            hard: limit.hard_bytes,
            soft: limit.soft_bytes,
            soft_ms: limit.soft_seconds.saturating_mul(SECOND),
        };
        let kept = config.bytes(Directive::REPL_BACKLOG_SIZE);
        let (mut ended, mut slow, mut total) = (Vec::new(), Vec::new(), 0);
        for (token, replica) in self.replicas.iter_mut().filter(|(_, replica)| !replica.info.has_ended()) {
            match replica.send(self.backlog.as_ref()) {
                Ok(sent) => total += sent,
                Err(reason) => ended.push((token, reason)),
            }
            let pending = replica.pending(self.backlog.as_ref());
            replica.show(pending);
            if replica.lag.is_over(pending, limit, kept, now.0) {
                slow.push(token);
            }
        }
        self.shared.engine.replication().counts.output_bytes.fetch_add(total, Relaxed);
        for token in slow {
            let (name, over) = (self.replicas[token].name(), "overcoming of output buffer limits");
            log::warning(format_args!("Client {name} scheduled to be closed ASAP for {over}."));
            self.shared.engine.clients().slow_readers.fetch_add(1, Relaxed);
            self.close(token, now);
        }
        for (token, reason) in ended {
            self.end(token, &reason, now);
        }
    }

    /// Drops bytes that no replica needs, and publishes the offsets.
    fn publish(&mut self, config: &Config) {
        self.trim();
        let status = self.shared.engine.replication();
        if let Some(backlog) = &self.backlog {
            let acked = self.replicas.iter().map(|(_, replica)| replica.acks.applied).min();
            self.marks.trim(acked.unwrap_or(backlog.end()));
            let (first, len, memory) = (backlog.start() + 1, backlog.len(), backlog.memory());
            let size = config.bytes(Directive::REPL_BACKLOG_SIZE);
            status.set_backlog(BacklogStatus { is_active: true, first, len, memory }, size);
        } else {
            status.set_backlog(BacklogStatus::default(), 0);
        }
        match &self.backlog {
            Some(backlog) if self.reader.is_some() && !status.is_replica() => {
                status.set_framed(backlog.end(), self.read_to);
            }
            _ => status.end_framing(),
        }
        self.shared.engine.count_log_thread(LogThread::Stream);
        self.shared.engine.regulate_stream();
    }

    pub(super) fn close_all(&mut self, now: SteadyMs) {
        let tokens: Vec<usize> = self.replicas.iter().map(|(token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.close(token, now));
    }

    /// Ends a replica's connection; one whose socket is elsewhere ends when it comes back.
    pub(super) fn close(&mut self, token: usize, now: SteadyMs) {
        let Some(replica) = self.replicas.get(token) else { return };
        let (client, name) = (replica.info.id, replica.name());
        self.shared.engine.clients().end(client);
        replica.shown.awaits_psync.store(false, Relaxed);
        if replica.is_away() {
            return;
        }
        if !replica.handshake.rdb_only {
            self.tell(&name, format_args!("Connection with replica {name} lost."));
        }
        self.note_follower(token, FollowerChange::Left);
        self.replicas.remove(token);
        for sync in self.syncs.values_mut().filter(|sync| sync.state != SyncState::Sent) {
            sync.members.retain(|member| *member != token);
            sync.takers.remove(&token);
        }
        self.shared.engine.replication().remove_replica(client);
        self.note_leaving(now);
    }

    /// Counts a replica that has left.
    pub(super) fn note_leaving(&mut self, now: SteadyMs) {
        if self.replicas.is_empty() {
            self.alone_since = now;
        }
        self.count_good();
    }

    /// Whether enough replicas follow.
    pub(super) fn count_good(&self) {
        let config = self.shared.engine.config().snapshot();
        min_replicas::refresh(&self.shared.engine, &config);
    }
}
