//! The queue of replicas for snapshots: which ones share a snapshot, when it begins, and its end.

use crate::replication::full_sync::{self, SnapshotPlan, SnapshotSource, Transfer};
use crate::replication::isr::FollowerChange;
use crate::replication::primary_thread::PrimaryThread;
use crate::replication::replica::{Phase, Replica};
use crate::system::log::{self, Level};
use crate::workers::replication_messages::{SnapshotAt, SyncEvent};
use engine::config::{Config, Directive};
use engine::status::replication_status::ReplicaState;
use engine::time::SteadyMs;
use persistence::fan_out::{FanOut, Pace, Taker};
use replication::backlog::Backlog;
use replication::failover_state::NO_SNAPSHOT;
use replication::replica_handshake::{Handshake, SnapshotVersion};
use replication::replid::ReplicationId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that the slowest of the replicas that get one snapshot may be behind.
const FAN_OUT: usize = 16 << 20;

/// State of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// The snapshot's beginning is not known yet.
    Beginning,
    /// The snapshot is being written into a file.
    Writing,
    /// Replicas have their threads.
    Sent,
}

/// A snapshot and its replicas.
pub struct Sync {
    pub state: SyncState,
    pub members: Vec<usize>,
    /// Sources of the bytes by replica; empty if the snapshot goes into a file first.
    pub takers: BTreeMap<usize, Taker>,
    /// Thread that writes it, until its beginning is known.
    writer: Option<JoinHandle<()>>,
}

/// Beginning of a snapshot.
struct SnapshotStart {
    id: ReplicationId,
    /// Bytes of the stream before it.
    offset: u64,
    /// The database that the stream has selected there.
    db: u32,
}

/// Kind of a snapshot: replicas with the same kind may share one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    version: SnapshotVersion,
    skips_checksum: bool,
    without_data: bool,
    without_functions: bool,
    is_backup: bool,
    to_sockets: bool,
}

impl Kind {
    fn of(handshake: &Handshake, config: &Config) -> Kind {
        let Handshake { skips_checksum, without_data, without_functions, eof, .. } = *handshake;
        let is_filtered = without_data || without_functions;
        let to_sockets = eof && (config.flag(Directive::REPL_DISKLESS_SYNC) || is_filtered);
        let (version, is_backup) = (handshake.snapshot_version(), handshake.is_backup());
        Kind { version, skips_checksum, without_data, without_functions, is_backup, to_sockets }
    }
}

impl PrimaryThread {
    /// Returns the time of the clock that does not go back.
    pub(super) fn now(&self) -> SteadyMs {
        self.shared.engine.host().nanos().ms()
    }

    /// Begins a snapshot for the replicas that have waited long enough, and for replicas that can share it. One begins
    /// at a time.
    pub(super) fn begin_syncs(&mut self, config: &Config, now: SteadyMs) {
        let begins = |sync: &Sync| sync.state == SyncState::Beginning;
        if self.syncs.values().any(begins) {
            return;
        }
        let waits = |phase: Phase| phase == Phase::Waiting;
        let waiting = || self.replicas.iter().filter(|(_, replica)| waits(replica.phase));
        let Some(first) = waiting().min_by_key(|(_, replica)| replica.since).map(|(_, replica)| replica) else {
            return;
        };
        let kind = Kind::of(&first.handshake, config);
        let members: Vec<usize> =
            waiting().filter(|(_, it)| Kind::of(&it.handshake, config) == kind).map(|(token, _)| token).collect();
        let delay = config.int(Directive::REPL_DISKLESS_SYNC_DELAY).saturating_mul(1000);
        let enough = config.int(Directive::REPL_DISKLESS_SYNC_MAX_REPLICAS);
        let is_enough = enough > 0 && members.len() as i64 >= enough;
        if kind.to_sockets && config.flag(Directive::REPL_DISKLESS_SYNC) && !is_enough && now.since(first.since) < delay
        {
            return;
        }
        let handshake = first.handshake.clone();
        self.begin_sync(kind, members, handshake, config, now);
    }

    fn begin_sync(&mut self, kind: Kind, members: Vec<usize>, handshake: Handshake, config: &Config, now: SteadyMs) {
        self.last_sync += 1;
        let sync = self.last_sync;
        let target = if kind.to_sockets { "replicas sockets" } else { "disk" };
        if !members.iter().all(|token| self.refused.contains(&self.replicas[*token].name())) {
            let way = if handshake.rdb_channel { "dual-channel" } else { "normal sync" };
            log::notice(format_args!("Starting BGSAVE for SYNC with target: {target} using: {way}"));
        }
        let patience = Duration::from_secs(config.int(Directive::REPL_TIMEOUT).max(1) as u64);
        let fan_out = kind.to_sockets.then(|| FanOut::new(Pace { bytes: FAN_OUT, patience }));
        let mut takers = BTreeMap::new();
        let end = self.backlog.as_ref().map_or(0, Backlog::end);
        for &token in &members {
            let replica = &mut self.replicas[token];
            // The snapshot will begin there or later: earlier bytes are not retained for it, and do not count as
            // unsent.
            (replica.phase, replica.position) = (Phase::InSync(sync), end);
            if let Some(taker) = fan_out.as_ref().and_then(FanOut::join) {
                takers.insert(token, taker);
            }
        }
        let opens_reader = self.reader.is_none();
        let plan = SnapshotPlan { sync, handshake, fan_out, opens_reader };
        match full_sync::begin(&self.shared, plan) {
            Ok(writer) => {
                let begun = Sync { state: SyncState::Beginning, members, takers, writer: Some(writer) };
                self.syncs.insert(sync, begun);
            }
            Err(error) => self.refuse_snapshot(members, &error.to_string(), now),
        }
    }

    /// Takes an event of the threads that write and send snapshots.
    pub(super) fn take_sync(&mut self, event: SyncEvent, now: SteadyMs) {
        match event {
            SyncEvent::Begun { sync, at, proceed } => {
                let start = match &at {
                    SnapshotAt::Log(stop) => self.offset_of(stop).map(|offset| (stop.history, offset, 0)),
                    SnapshotAt::Stream(id, offset, db) => Some((*id, *offset, *db)),
                };
                // Replicas could not continue with a snapshot of an earlier history than the server's present one.
                let start = start.filter(|(id, ..)| *id == self.history().id);
                let Some((id, offset, db)) = start else { return self.fail(sync, "its offset is not known", now) };
                let threads = self.tell_offset(sync, SnapshotStart { id, offset, db }, now);
                // A thread that is not there any more needs no answer.
                let _ = proceed.send((id, offset));
                full_sync::stop_beside_if_told(&self.shared, threads);
            }
            SyncEvent::InFile { sync, file, len } => {
                let Some(ended) = self.syncs.remove(&sync) else { return };
                for token in ended.members {
                    if let Some(replica) = self.replicas.get(token) {
                        replica.shown.set_state(ReplicaState::SendBulk);
                    }
                    self.hand_out(token, SnapshotSource::File(Arc::clone(&file), len), now);
                }
            }
            SyncEvent::Failed { sync, reason } => self.fail(sync, &reason, now),
            SyncEvent::Sent { token, client, stream, result } => {
                let bytes = result.as_ref().map_or(0, |bytes| *bytes);
                self.shared.engine.replication().counts.output_bytes.fetch_add(bytes, Relaxed);
                let sent = stream.filter(|_| result.is_ok());
                let is_it = self.replicas.get(token).is_some_and(|replica| replica.info.id == client);
                match sent {
                    Some(stream) if is_it => self.finish(token, stream, now),
                    _ if is_it => {
                        let name = self.replicas[token].name();
                        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
                        log::warning(format_args!("Failed to send the snapshot to replica {name}: {error}"));
                        self.forget(token, now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Gives a replica's socket to a thread that sends it the snapshot.
    fn hand_out(&mut self, token: usize, source: SnapshotSource, now: SteadyMs) -> Option<JoinHandle<()>> {
        let timeout = self.shared.engine.config().snapshot().int(Directive::REPL_TIMEOUT);
        let registry = self.registry().try_clone();
        let replica = self.replicas.get_mut(token)?;
        let Some((stream, head)) = registry.ok().and_then(|registry| replica.take_stream(&registry)) else {
            self.close(token, now);
            return None;
        };
        let transfer = Transfer {
            token,
            info: Arc::clone(&replica.info),
            stream,
            head,
            source,
            patience: Duration::from_secs(timeout.max(1) as u64),
        };
        let sender = full_sync::send(&self.shared, transfer);
        if let Err(error) = &sender {
            log::warning(format_args!("Can't start a thread for a replica: {error}"));
            // The replica's socket is gone with the thread that did not start.
            self.forget(token, now);
        }
        sender.ok()
    }

    /// Sends all replicas of the snapshot this offset of the stream as its beginning. Returns the threads that write
    /// and send it.
    fn tell_offset(&mut self, sync: u64, start: SnapshotStart, now: SteadyMs) -> Vec<JoinHandle<()>> {
        let SnapshotStart { id, offset, .. } = start;
        let Some(known) = self.syncs.get_mut(&sync) else { return Vec::new() };
        let mut threads: Vec<_> = known.writer.take().into_iter().collect();
        let (members, mut takers) = (known.members.clone(), std::mem::take(&mut known.takers));
        known.state = SyncState::Writing;
        for &token in &members {
            let Some(word) = self.replicas.get(token).map(|replica| self.term_word(replica)) else { continue };
            let replica = &mut self.replicas[token];
            replica.position = offset;
            if let Some(main) = replica.handshake.main_client {
                replica.say(format!("+FULLRESYNC {id} {offset}\r\n").as_bytes());
                if !self.begin_main(main, offset, now) {
                    self.close(token, now);
                    continue;
                }
            } else if replica.handshake.rdb_channel {
                self.await_psync(token, &start);
            } else if replica.acknowledges {
                replica.say(format!("+FULLRESYNC {id} {offset}{word}\r\n").as_bytes());
            }
            if let Some(taker) = takers.remove(&token) {
                threads.extend(self.hand_out(token, SnapshotSource::FanOut(taker), now));
            }
        }
        let goes_on = self.replicas.iter().any(|(token, it)| members.contains(&token) && !it.is_away());
        if !goes_on {
            self.syncs.remove(&sync);
        }
        threads
    }

    /// Retains the stream behind a snapshot for the connection that is to ask for it.
    fn await_psync(&mut self, token: usize, start: &SnapshotStart) {
        let SnapshotStart { id, offset, db } = start;
        let has_more = self.backlog.as_ref().is_some_and(|backlog| backlog.start() < *offset);
        let replica = &mut self.replicas[token];
        replica.shown.awaits_psync.store(true, Relaxed);
        let (client, name) = (replica.info.id, replica.name());
        replica.say(format!("$ENDOFF:{offset} {id} {db} {client}\r\n").as_bytes());
        log::notice(format_args!(
            "Dual channel replication: Sending to replica {name} RDB end offset {offset} and client-id {client}"
        ));
        let before = if has_more { "tracking repl-backlog tail" } else { "no repl-backlog to track" };
        log::log(
            Level::Debug,
            format_args!("Dual channel replication: Add rdb replica {name}, which has not sent PSYNC yet: {before}"),
        );
        if !has_more {
            log::log(
                Level::Debug,
                format_args!(
                    "Dual channel replication: Attach replica rdb client {client} to the stream from {offset} on"
                ),
            );
        }
    }

    /// Returns whether a snapshot is on its way to replicas without a file, so that no other can have it.
    pub(super) fn sends_to_sockets(&self) -> bool {
        let is_sent = |replica: &Replica| {
            matches!(replica.phase, Phase::InSync(_))
                && replica.is_away()
                && replica.shown.state() == ReplicaState::WaitBgsave
        };
        self.syncs.values().any(|sync| !sync.takers.is_empty()) || self.replicas.iter().any(|(_, it)| is_sent(it))
    }

    /// Finishes the transfer: a replica has its snapshot.
    fn finish(&mut self, token: usize, stream: crate::connection::socket::SocketStream, now: SteadyMs) {
        let Some(replica) = self.replicas.get_mut(token) else { return };
        let is_cancelled = replica.info.has_ended();
        replica.put_stream(stream);
        if replica.shown.awaits_psync.load(Relaxed) && !is_cancelled {
            (replica.phase, replica.since) = (Phase::Transmitted, now);
            replica.shown.set_state(ReplicaState::RdbTransmitted);
            return self.register_again(token, now);
        }
        if is_cancelled {
            return self.close(token, now);
        }
        if replica.handshake.rdb_only {
            self.register_again(token, now);
            return self.let_leave(token, now);
        }
        log::notice(format_args!("Synchronization with replica {} succeeded", replica.name()));
        // A replica with the length knows the end by itself. Others first acknowledge that they have seen it.
        replica.go_online(now);
        if replica.handshake.eof {
            replica.phase = Phase::AwaitsAck;
        }
        self.begin_stream(now);
        self.note_follower(token, FollowerChange::Joined);
        self.refused.remove(&self.replicas[token].name());
        self.count_good();
        self.register_again(token, now);
    }

    /// Lets a replica close this connection when it has read all that was sent.
    pub(super) fn let_leave(&mut self, token: usize, now: SteadyMs) {
        let Some(replica) = self.replicas.get_mut(token) else { return };
        self.shared.engine.replication().remove_replica(replica.info.id);
        if !replica.end_sending(now) {
            self.close(token, now);
        }
    }

    /// Registers the socket, which is the thread's own again.
    fn register_again(&mut self, token: usize, now: SteadyMs) {
        let registry = self.registry().try_clone();
        let registered = registry.and_then(|registry| self.replicas[token].register(&registry, token));
        if registered.is_err() {
            self.close(token, now);
        }
    }

    /// Removes a replica whose socket is gone.
    pub(super) fn forget(&mut self, token: usize, now: SteadyMs) {
        self.note_follower(token, FollowerChange::Left);
        if let Some(replica) = self.replicas.try_remove(token) {
            self.shared.engine.clients().end(replica.info.id);
            self.shared.engine.replication().remove_replica(replica.info.id);
            self.note_leaving(now);
        }
    }

    /// Ends a snapshot that failed.
    fn fail(&mut self, sync: u64, reason: &str, now: SteadyMs) {
        match self.syncs.remove(&sync) {
            Some(failed) => self.refuse_snapshot(failed.members, reason, now),
            // Replicas that were to get it see the end of their connections.
            None => log::warning(format_args!("Background RDB transfer error: {reason}")),
        }
    }

    /// Sends replicas that wait for a snapshot that there is none; they come again.
    fn refuse_snapshot(&mut self, members: Vec<usize>, reason: &str, now: SteadyMs) {
        for token in members {
            let Some(replica) = self.replicas.get_mut(token).filter(|replica| !replica.is_away()) else { continue };
            if self.refused.insert(replica.name()) {
                log::warning(format_args!("There is no snapshot for replica {}: {reason}", replica.name()));
            }
            replica.say(format!("-NOMASTERLINK {NO_SNAPSHOT}: {reason}\r\n").as_bytes());
            // The replica need not know more than its socket takes at once.
            let _ = replica.send(None);
            self.close(token, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, PrimaryThread, SnapshotAt, Sync, SyncEvent, SyncState};
    use crate::workers::notifier::Notifier;
    use crate::workers::shared::Shared;
    use crossbeam_channel::bounded;
    use engine::status::replication_status::new_id;
    use engine::time::SteadyMs;
    use engine::{Engine, NullHost, Options};
    use mio::Poll;
    use replication::replid::ReplicationId;
    use std::sync::Arc;

    /// Returns the stream's name and offset that a snapshot gets which has begun there.
    fn told(thread: &mut PrimaryThread, at: SnapshotAt) -> Option<(ReplicationId, u64)> {
        let begun = Sync { state: SyncState::Beginning, members: Vec::new(), takers: BTreeMap::new(), writer: None };
        thread.syncs.insert(1, begun);
        let (proceed, answer) = bounded(1);
        thread.take_sync(SyncEvent::Begun { sync: 1, at, proceed }, SteadyMs(0));
        answer.try_recv().ok()
    }

    #[test]
    fn a_snapshot_of_another_history_than_the_present_one_goes_to_no_replica() {
        let engine = Arc::new(Engine::new(&Options::default(), Arc::new(NullHost)));
        let (status, (notifier, _told)) = (engine.replication(), Notifier::new());
        let shared = Arc::new(Shared::new(Arc::clone(&engine), notifier));
        let mut thread = PrimaryThread::new(&shared, Poll::new().expect("a poll"));
        let old = status.history().id;
        assert_eq!(told(&mut thread, SnapshotAt::Stream(old, 7, 0)), Some((old, 7)));
        let stop = shared.snapshot_offsets.note(&engine, true);
        thread.read_log();
        thread.begin_backlog();
        // The server has followed another one since the snapshot began, and leads by a name of its own.
        status.update_history(|history| history.shift(new_id(), 7));
        assert_eq!(told(&mut thread, SnapshotAt::Stream(old, 7, 0)), None);
        thread.read_log();
        assert_eq!(told(&mut thread, SnapshotAt::Log(stop)), None);
        assert!(thread.syncs.is_empty(), "replicas come again");
    }
}
