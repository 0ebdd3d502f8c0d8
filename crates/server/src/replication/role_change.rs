//! The owner of the stream: this server, or another one, which it follows. And how a primary gives up its role, for
//! another server (REPLICAOF) or for a replica of its own (FAILOVER).
//!
//! ```text
//!   writes are paused    -> all locks are passed -> the log is framed to its end: the stream is whole
//!                                                    -> REPLICAOF: the stream ends here
//!                                                    -> FAILOVER: a replica has it, and it ends here
//! ```
//!
//! From the moment that the stream is whole nothing is added to it but this server's own words, which change no data.

use crate::replication::primary_thread::PrimaryThread;
use crate::replication::replica::{Phase, Replica};
use crate::replication::role_orders::RoleOrders;
use crate::system::clock;
use commands::replication::{demote, failover_command};
use engine::config::Directive;
use engine::keyspace::held_locks::LockTimeout;
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::LogReader;
use engine::time::SteadyMs;
use persistence::aof::framing::Framing;
use replication::backlog::Backlog;
use replication::failover_state::{FailoverState, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

impl PrimaryThread {
    /// Continues the change of role, as far as possible now.
    pub(super) fn change_role(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (engine, status) = (&*shared.engine, shared.engine.replication());
        let (number, fails_over) = {
            let failover = status.failover.lock();
            (failover.number(), failover.state() == FailoverState::WaitingForSync)
        };
        if self.role_change.failover != number || self.role_change.fails_over != fails_over {
            let orders = std::mem::take(&mut self.role_change.orders);
            self.role_change = RoleOrders { orders, failover: number, fails_over, ..RoleOrders::default() };
        }
        if !self.role_change.is_wanted() {
            return;
        }
        if self.role_change.whole_at.is_none() && self.is_quiet() {
            let end = self.frame_all();
            self.role_change.whole_at = Some(end);
            self.replicas.iter_mut().for_each(|(_, replica)| replica.has_acked = false);
            if fails_over {
                self.add(&[b"REPLCONF", b"GETACK", b"*"]);
            }
        }
        let whole_at = self.role_change.whole_at;
        if !self.role_change.orders.is_empty() && whole_at.is_some() {
            self.end_stream();
            for order in std::mem::take(&mut self.role_change.orders) {
                demote::finish(engine, &order);
            }
            return failover_command::drop_waiting(engine);
        }
        let synced: Vec<Target> = match whole_at {
            Some(end) => self.synced(end),
            None => Vec::new(),
        };
        failover_command::watch(engine, clock::nanos().ms(), whole_at.is_some(), synced.into_iter(), || {
            self.end_stream()
        });
    }

    /// Returns whether no command runs any more that may write: commands that were admitted before have ended.
    fn is_quiet(&mut self) -> bool {
        let (engine, change) = (&self.shared.engine, &mut self.role_change);
        // The client of the order has all locks.
        let is_told = change.orders.iter().any(|order| order.is_quiet);
        is_told || engine.pass_locks(&mut change.passed, LockTimeout::Short.from_now(engine))
    }

    /// Returns the online replicas that have acknowledged so much since they were asked, and were sent all that there
    /// is. With acknowledged writes, and if no particular replica is wanted, replicas that do not know of the in-sync
    /// set are left out if another one is online that does: its members would not follow them.
    fn synced(&self, end: u64) -> Vec<Target> {
        let sent = self.backlog.as_ref().map_or(0, Backlog::end);
        let is_synced = |replica: &&Replica| {
            let has_all = replica.has_acked && replica.acks.applied >= end;
            replica.phase == Phase::Online && has_all && replica.position == sent
        };
        let knows = |replica: &&Replica| replica.phase == Phase::Online && replica.handshake.introduction.is_some();
        let all = || self.replicas.iter().map(|(_, replica)| replica);
        let is_free = self.shared.engine.replication().failover.lock().target().is_none();
        let only_those = is_free && self.acknowledging.primary.is_some() && all().any(|replica| knows(&replica));
        let replicas = all().filter(is_synced).filter(|replica| !only_those || knows(replica));
        replicas.map(|replica| Target { host: replica.shown.ip.clone().into(), port: replica.shown.port }).collect()
    }

    /// Frames all of the log. Returns the stream's length then.
    fn frame_all(&mut self) -> u64 {
        self.read_log();
        while self.has_unread() {
            self.read_log();
        }
        let end = self.backlog.as_ref().map(Backlog::end);
        end.unwrap_or_else(|| self.shared.engine.replication().offset())
    }

    /// Ends the server's own part of the stream. Replicas stay, and get the next part when the stream's owner is known.
    pub(super) fn end_stream(&mut self) {
        if self.reader.is_some()
            && let Some(backlog) = &self.backlog
        {
            self.shared.engine.replication().set_offset(backlog.end());
        }
        self.shared.engine.set_logging(LogUser::Replicas, false);
        self.reader = None;
        self.marks.clear();
    }

    /// Makes the stream another server's.
    pub(super) fn follow(&mut self, offset: u64, goes_on: bool, now: SteadyMs) {
        self.end_stream();
        // Bytes that the server added to its own stream after the order to follow are in no other stream.
        let is_there = self.backlog.as_ref().is_some_and(|backlog| goes_on && backlog.end() == offset);
        let name = Some(self.history().id);
        if std::mem::replace(&mut self.followed, name) != name || !is_there {
            // The replicas have to learn the history's name, or to get another one.
            self.close_all(now);
        }
        if !is_there {
            let size = self.shared.engine.config().snapshot().bytes(Directive::REPL_BACKLOG_SIZE);
            self.backlog = Some(Backlog::new(offset, size));
        }
    }

    /// Makes the stream the server's own.
    pub(super) fn lead(&mut self, reader: LogReader, now: SteadyMs) {
        self.followed = None;
        self.close_all(now);
        self.alone_since = now;
        self.promote();
        if self.backlog.is_none() && self.keeps_log() {
            // Members that have the data of a history which this server has read from its files know it by its name.
            self.open_backlog();
        }
        if self.backlog.is_some() {
            self.begin_reading(reader);
        } else {
            self.shared.engine.set_logging(LogUser::Replicas, false);
        }
    }

    /// Frames from where the reader begins.
    pub(super) fn begin_reading(&mut self, mut reader: LogReader) {
        // The reader has nothing before its beginning.
        self.read_to = reader.read(0, |_, _| ControlFlow::Break(())).unwrap_or(0);
        self.framing = Framing::default();
        self.marks.clear();
        if let Some(backlog) = &self.backlog {
            self.marks.note(self.read_to, backlog.end());
        }
        self.reader = Some(reader);
    }
}
