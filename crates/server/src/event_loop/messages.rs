//! Messages that other threads send to a worker.

use crate::connection::socket::SocketStream;
use crate::connection::state::Connection;
use crate::event_loop::worker::Worker;
use crate::workers::mailbox::{Login, WorkerMessage};
use cluster::slot_set::SlotSet;
use commands::LendingMode;
use commands::pubsub::channels;
use commands::server::acl::lasting_rights::{end_listening, is_user_gone};
use commands::server::connection;
use commands::{Now, Session};
use engine::acl::users::UserChange;
use engine::clients::registry::ClientInfo;
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Messages that are taken at a time, and new connections among them, so that a flood keeps no other client waiting.
const MESSAGES_MAX: usize = 256;
const CONNECTIONS_MAX: usize = 4;

impl Worker {
    /// Takes messages, as many as there is time for.
    pub fn take_messages(&mut self, now: Now) {
        for message in self.deferred_messages.take() {
            self.take_message(message, now);
        }
        let mut connections = 0;
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.inbox.take() else { break };
            connections += usize::from(matches!(
                message,
                WorkerMessage::Connection { .. } | WorkerMessage::ConnectionMigration(_)
            ));
            self.take_message(message, now);
            if connections == CONNECTIONS_MAX {
                break;
            }
        }
    }

    /// Takes the messages that need not wait for the end of a script.
    pub fn take_messages_in_script(&mut self, now: Now) {
        self.barrier.release();
        while let Some(message) = self.inbox.take() {
            match message {
                WorkerMessage::Connection { .. }
                | WorkerMessage::ConnectionMigration(_)
                | WorkerMessage::Pushes { .. }
                | WorkerMessage::Durable
                | WorkerMessage::PauseChanged => self.take_message(message, now),
                // Locks that are taken are left for later.
                WorkerMessage::Reply { .. } if self.shared.engine.scripts().is_long() => {
                    self.take_message(message, now);
                }
                // A thread must not wait for a script without an answer.
                WorkerMessage::Settle { left } => _ = left.fetch_sub(1, Release),
                WorkerMessage::Stop => {
                    self.shared.engine.scripts().busy().iter().for_each(|running| running.run.end_anyway());
                    self.take_message(message, now);
                }
                others => self.deferred_messages.add(others),
            }
        }
    }

    /// Does what a message says.
    pub fn take_message(&mut self, message: WorkerMessage, now: Now) {
        match message {
            WorkerMessage::Reply { ticket, bytes } => self.unblock(&ticket, &bytes),
            WorkerMessage::Close { client } => self.close_after_reply(client),
            WorkerMessage::PauseChanged => self.release_postponed(),
            WorkerMessage::Pushes { pushes, bytes } => {
                self.shared.congestion.remove(&self.shared.engine, self.index, bytes);
                self.deliver(&pushes);
            }
            WorkerMessage::Durable => self.release_replies(now),
            WorkerMessage::Settle { left } => self.barrier.add(left),
            WorkerMessage::Sleep(slumber) => self.slumber = Some(slumber),
            WorkerMessage::Stop => self.stopping = true,
            WorkerMessage::Task(work) => work(&self.shared.engine, Server { worker: self.index, now_us: now.unix_us }),
            WorkerMessage::RightsChanged { changes } => self.follow_rights(&changes),
            WorkerMessage::SlotsLost { slots } => self.leave_slots(&slots),
            WorkerMessage::Kill { client } => self.close_client(client),
            WorkerMessage::Connection { stream, info, login } => self.add_connection(stream, info, &login, now),
            WorkerMessage::ConnectionMigration(connection) => self.adopt(*connection),
        }
    }

    /// Ends the connections of subscribers that have lost the right to their channels.
    fn follow_rights(&mut self, changes: &[UserChange]) {
        let clients: Vec<Arc<ClientInfo>> = {
            let listens = self.connections.iter().filter(|(_, it)| !it.is_closing() && it.listens());
            let is_hit = |it: &Connection| changes.iter().any(|change| end_listening(&it.session, change));
            listens.filter(|(_, it)| is_hit(it)).map(|(_, it)| Arc::clone(&it.session.info)).collect()
        };
        for client in clients {
            self.shared.engine.clients().end(client.id);
            self.close_after_reply(client.id);
        }
    }

    /// Unsubscribes clients from the channels in slots that another node has, and notifies them.
    fn leave_slots(&mut self, slots: &SlotSet) {
        for (token, connection) in &mut self.connections {
            let (session, protocol) = (&mut connection.session, connection.protocol);
            let Some(told) = channels::leave_slots(&self.shared.engine, session, slots, protocol) else { continue };
            if connection.owes_reply() {
                connection.output.hold_back(&told);
            } else if connection.output.push(&told) {
                self.push_targets.add(token);
            }
        }
    }

    fn add_connection(&mut self, mut stream: SocketStream, info: Arc<ClientInfo>, login: &Login, now: Now) {
        let engine = &self.shared.engine;
        let entry = self.connections.vacant_entry();
        let (token, client) = (entry.key(), info.id);
        if self.poller.register(&mut stream, token).is_err() {
            return self.shared.forget(self.index, client);
        }
        // The users' own flag is read, not the worker's copy: a client that set the password may get OK before this
        // tick ends.
        let mut session = Session::connected(info, !engine.users().asks());
        session.token = token;
        session.patience = LockTimeout::Short;
        if !stream.is_book() {
            session.yielding = LendingMode::OnRequest;
            session.is_proxied = true;
        }
        session.info.token.store(token, Relaxed);
        match login {
            Login::Certificate(users) => connection::use_certificate(engine, &mut session, users, now),
            // The socket is dropped with its registration.
            Login::User(name) if !connection::use_known_user(engine, &mut session, name) => {
                return self.shared.forget(self.index, client);
            }
            Login::User(_) => {}
        }
        let is_user_gone = is_user_gone(engine, &session);
        let connection = entry.insert(Connection::new(stream, session, now.unix_ms()));
        if is_user_gone || connection.session.info.has_ended() {
            connection.abort();
        }
        self.enqueue(token);
    }
}
