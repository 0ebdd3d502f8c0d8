//! Connections that another worker is to serve.
//!
//! ```text
//!   worker A   between two commands: deregistered, off its table -> mailbox of B, as it is
//!   worker B   on its table, registered -> looked at once, since something may have come meanwhile
//! ```
//!
//! **Moved along**: input that has not run, parsed or not, an argument that is being received, output that the socket
//! has not taken, a transaction and watched keys, the memory that the client counts for. **Not moved**: clients with a
//! chunked command or with replies that wait for the log; and subscribers and monitors, whose messages go by way of
//! their worker. A client that waits for a key or tracks moves only from a worker that is on its way out.
//!
//! **Messages to the client's old worker** are not lost. CLIENT KILL, eviction and changes of users end a client by way
//! of the [list of clients](engine::clients::registry), and the new worker asks whether the client has ended when it
//! has taken the connection in: one of the two sees the other. Invalidations, and replies to blocked clients, are sent
//! on. Nothing else is sent to a client that can move.

use crate::connection::sched_state::Visits;
use crate::connection::socket::Readiness;
use crate::connection::state::Connection;
use crate::event_loop::script_reentry::start_debugger;
use crate::event_loop::worker::Worker;
use crate::schedule::load_balance::{BalanceStep, MoveCandidate};
use crate::schedule::wait_timeouts::WaitTimeout;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::migration_messages::{MigrationMessage, NewImport};
use crate::workers::replication_messages::{NewReplica, ReplicationMessage};
use crate::workers::shared::{DEBUG_WORKER, MIGRATION_WORKER};
use cluster::migration::JobName;
use commands::core::queued;
use commands::pubsub::{channels, tracking};
use engine::per_worker::WORKERS_MAX;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Gives connections to workers with time, if this one has too little.
    pub fn balance(&mut self) {
        let clock = self.nanos();
        if self.workers == 1 || self.is_unwanted() || !self.load_balance.is_due(clock) {
            return;
        }
        let workers = self.shared.engine.metrics().iter().take(self.workers);
        let busy = workers.map(|worker| worker.turn_nanos.get() + worker.present_turn_nanos(clock)).collect();
        match self.load_balance.end_window(clock, busy) {
            BalanceStep::Rest => {}
            BalanceStep::Measure => self.connections.iter_mut().for_each(|(_, it)| _ = it.visits.take_nanos()),
            // A thread that waits for this worker's clients to settle would miss clients that leave.
            BalanceStep::Give(_) if !self.barrier.is_empty() => {}
            BalanceStep::Give(loads) => {
                let took = self.connections.iter_mut().map(|(token, connection)| MoveCandidate {
                    token,
                    weight: connection.visits.take_nanos(),
                    moved_at: connection.moved_at,
                    is_movable: connection.is_movable(),
                });
                let took = took.filter(|it| it.weight > 0).collect();
                for (token, worker) in loads.share_out(took) {
                    self.hand_over(token, worker);
                }
            }
        }
    }

    /// Gives the connection to a worker with time while a script has this worker's thread for long, if there is such a
    /// worker and the connection may move. A command that waits for a lock, or for the interpreter, is retried there.
    pub fn evacuate(&mut self, token: usize) -> bool {
        let (clock, worker) = (self.nanos(), self.shared.least_crowded());
        let goes_on = !self.shared.is_stuck(self.index, clock) || self.shared.is_stuck(worker, clock);
        let Some(connection) = self.connections.get_mut(token).filter(|_| !goes_on) else { return false };
        let was_delayed = connection.waiting.end_delay();
        let is_movable = connection.is_movable();
        if is_movable {
            self.hand_over(token, worker);
        } else if was_delayed {
            connection.waiting.delay();
        }
        is_movable
    }

    /// Gives the connection, which must be movable, to another worker.
    pub(super) fn hand_over(&mut self, token: usize, worker: usize) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if self.poller.deregister(connection.socket.stream()).is_err() {
            connection.abort();
            return self.enqueue(token);
        }
        let mut connection = self.connections.remove(token);
        self.wait_timeouts.remove(connection.waiting.ticket().and_then(|ticket| WaitTimeout::of(ticket)));
        connection.memory.end(self.metrics());
        connection.session.worker = worker;
        // A client that was ended meanwhile ends where its connection is taken in.
        self.shared.engine.clients().assign(&connection.session.info, worker);
        self.shared.reassign(self.index, worker);
        self.shared.post(worker, WorkerMessage::ConnectionMigration(Box::new(connection)));
    }

    /// Gives the connection to the thread that serves replicas, to the one that moves slots, or to a debugger's.
    pub fn give_to_replication(&mut self, token: usize) {
        let mut connection = self.connections.remove(token);
        let deregistered = self.poller.deregister(connection.socket.stream());
        queued::forget(&self.shared.engine, &mut connection.session);
        tracking::end(&self.shared.engine, &mut connection.session);
        channels::unsubscribe_all(&self.shared.engine, &mut connection.session);
        connection.memory.end(self.metrics());
        let info = Arc::clone(&connection.session.info);
        if let Some(session) = connection.session.debug_session.take() {
            // No worker counts its memory any more.
            info.memory.store(0, Relaxed);
            let is_there = self.shared.engine.clients().assign(&info, DEBUG_WORKER) && deregistered.is_ok();
            return start_debugger(&self.shared, self.index, connection, *session, is_there);
        }
        let import = connection.session.import.take();
        info.is_replica.store(import.is_none(), Relaxed);
        info.migration.is_source.store(import.is_some(), Relaxed);
        let worker = if import.is_some() { MIGRATION_WORKER } else { WORKERS_MAX };
        let is_there = self.shared.engine.clients().assign(&info, worker) && deregistered.is_ok();
        self.shared.release(self.index);
        if let Some(job) = import {
            return self.give_to_migration(*job, is_there, connection);
        }
        let (Some(request), true) = (connection.session.sync.take(), is_there) else {
            self.shared.engine.clients().end(info.id);
            return;
        };
        let input = connection.input.pending().to_vec();
        let stream = connection.socket.into_stream();
        let replica = NewReplica { stream, info, request: *request, input };
        self.shared.replication.post(ReplicationMessage::Replica(Box::new(replica)));
    }

    /// Gives the connection to the thread that moves slots.
    fn give_to_migration(&mut self, job: JobName, is_there: bool, connection: Connection) {
        let info = Arc::clone(&connection.session.info);
        if !is_there {
            self.shared.engine.clients().end(info.id);
            return self.shared.migrations.post(MigrationMessage::ImportLost(job));
        }
        let input = connection.input.pending().to_vec();
        let stream = connection.socket.into_stream();
        self.shared.migrations.post(MigrationMessage::Import(Box::new(NewImport { job, stream, info, input })));
    }

    /// Serves a connection from now on that another worker has served until now.
    pub fn adopt(&mut self, mut connection: Connection) {
        let clock = self.nanos();
        let entry = self.connections.vacant_entry();
        let token = entry.key();
        connection.session.token = token;
        connection.session.info.token.store(token, Relaxed);
        self.wait_timeouts.add(connection.waiting.ticket().and_then(|ticket| WaitTimeout::of(ticket)));
        connection.moved_at = Some(clock);
        // The connection is served alone at first, like a new one: its token may still be on a list for an earlier
        // connection.
        connection.visits = Visits::default();
        connection.socket.note(Readiness::new(true, false, false), false);
        let is_registered = self.poller.register(connection.socket.stream(), token).is_ok();
        connection.note_memory(&self.shared.engine.metrics()[self.index]);
        let connection = entry.insert(connection);
        if !is_registered || connection.session.info.has_ended() {
            connection.abort();
        }
        self.enqueue(token);
    }
}
