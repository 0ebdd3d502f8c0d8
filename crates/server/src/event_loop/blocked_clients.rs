//! Connections whose command waits: for a key or a time, for the end of a pause, for a lock that a script has.

use crate::event_loop::worker::Worker;
use crate::schedule::wait_timeouts::WaitTimeout;
use crate::system::clock;
use crate::workers::mailbox::WorkerMessage;
use commands::Now;
use commands::core::dispatch;
use commands::core::instrument;
use engine::clients::waiters::Ticket;
use engine::host::threads::Server;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Blocks the connection's command from now on.
    pub fn block(&mut self, token: usize, ticket: Arc<Ticket>) {
        self.wait_timeouts.add(WaitTimeout::of(&ticket));
        self.connections[token].waiting.block(ticket);
    }

    /// Ends the wait with this reply. The connection may have gone meanwhile.
    pub fn unblock(&mut self, ticket: &Arc<Ticket>, reply: &[u8]) {
        let token = ticket.client.token.load(Relaxed);
        self.wait_timeouts.remove(WaitTimeout::of(ticket));
        let Some(connection) = self.connections.get_mut(token).filter(|it| it.client() == ticket.client.id) else {
            return self.send_on(ticket, reply);
        };
        if !connection.waiting.unblock(ticket) {
            return;
        }
        let session = &mut connection.session;
        session.logged_at = session.logged_at.max(ticket.request().logged_at());
        if ticket.request().tells_of_data() {
            // The change of another client may have served this one.
            session.seen_to = self.shared.engine.change_log().appended();
            session.has_looked = true;
        }
        self.shared.engine.cancel_wait(ticket);
        let start = self.replies.len();
        let sink = self.replies.sink();
        sink.raw(reply);
        instrument::unblocked(&self.shared.engine, &mut connection.session, reply, clock::now());
        dispatch::end_reply(&mut connection.session, sink, start);
        sink.raw(&connection.output.take_held_back());
        self.note_reply(token, start);
        self.enqueue(token);
    }

    /// Sends the reply on: the client, if it still exists, is another worker's by now, or on its way here.
    #[cold]
    fn send_on(&self, ticket: &Arc<Ticket>, reply: &[u8]) {
        if self.shared.engine.clients().get(ticket.client.id).is_some() {
            let message = WorkerMessage::Reply { ticket: Arc::clone(ticket), bytes: reply.to_vec() };
            self.shared.post(ticket.client.worker.load(Relaxed), message);
        }
    }

    /// Ends waits whose time has come, and the pause.
    pub fn end_waits(&mut self) {
        let now = clock::nanos().ms();
        while let Some((token, arrival)) = self.wait_timeouts.take_due(now) {
            let ticket = self.connections.get(token).and_then(|connection| connection.waiting.ticket().cloned());
            // A client that has been served meanwhile gets its reply by message.
            if let Some(ticket) = ticket.filter(|ticket| ticket.arrival == arrival && ticket.finish()) {
                self.unblock(&ticket, &ticket.request().timeout_reply());
            }
        }
        self.end_pause();
    }

    /// Ends the pause if its time has come, which the first worker does for all, also from within a script.
    pub fn end_pause(&mut self) {
        let engine = &self.shared.engine;
        if self.index == 0 && engine.is_paused() && engine.end_pause_if_over(clock::nanos().ms()) {
            self.shared.post_all(|| WorkerMessage::PauseChanged);
            self.release_postponed();
        }
    }

    /// Retries the commands that waited for the end of a pause.
    pub fn release_postponed(&mut self) {
        let postponed = self.connections.iter().filter(|(_, connection)| connection.waiting.is_postponed());
        let postponed: Vec<usize> = postponed.map(|(token, _)| token).collect();
        for token in postponed {
            let connection = &mut self.connections[token];
            connection.waiting.end_postponement();
            connection.session.info.postponed.store(false, Relaxed);
            self.enqueue(token);
        }
    }

    /// Retries the commands that a script's locks blocked.
    pub fn retry_delayed(&mut self, now: Now) {
        let Some(tokens) = self.retries.take_due(self.nanos()) else { return };
        for token in tokens {
            if self.connections.get_mut(token).is_some_and(|connection| connection.waiting.end_delay()) {
                self.enqueue(token);
            }
        }
        let engine = &self.shared.engine;
        if engine.has_deferred() {
            engine.run_deferred(Server { worker: self.index, now_us: now.unix_us });
        }
    }
}
