//! Writing the log before replies, and replies that wait until it is durable.
//!
//! ```text
//!   everysec, no   commands ran - what they changed is written - replies are sent
//!   always         commands ran - it is synced, too - replies are sent                                  where that is quick
//!                  commands ran - replies are kept with the log's offset .... durable up to there: they are sent
//!                                                                        .... it cannot be written: all are sent but
//!                                                                             those of clients whose own writes wait
//! ```
//!
//! Where replies are kept these are also those of commands that only read: what they saw may not be durable yet. A
//! client waits for its own last change and for the last change in the shards that it has read, and for nothing else
//! that was appended meanwhile. Once it is known that the log cannot be written, only clients wait that have written
//! what may be lost: how that ended is open until the disk takes it. A connection that has kept replies gets later ones
//! after these.
//!
//! **What is kept is limited.** It counts as its client's output, and a client with much of it runs no more commands;
//! and while the log is far behind, no client writes ([`regulate`]), which also limits those that want no replies.

use crate::aof::durable_replies::{HeldReplies, HeldReply};
use crate::aof::writer::{commit, write};
use crate::connection::state::Connection;
use crate::event_loop::reply_buffer::ReplyPart;
use crate::event_loop::worker::Worker;
use commands::persistence::aof::{is_far_behind, regulate, wrote};
use commands::{Now, Session};
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, of};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// To be called before replies are sent: what their commands changed is written, or they are held.
    pub fn log_before_replies(&mut self, now: Now) {
        let shared = Arc::clone(&self.shared);
        let Some(aof) = of(&shared.engine) else { return };
        if !aof.keeps_replies() {
            if shared.engine.has_log() {
                self.write_log(aof, now);
            }
            return self.release_replies(now);
        }
        let seen_to = self.seen_to();
        let is_durable = seen_to <= aof.journal.released() || commit(&shared, aof, seen_to);
        let has_failed = aof.has_failed();
        if is_durable || has_failed {
            self.release_replies(now);
        }
        let released = aof.journal.released();
        match (has_failed, is_durable) {
            (true, _) => self.hold_some(seen_to, now, |session| session.logged_at > released),
            (false, true) if self.durable_replies.is_empty() => {}
            (false, true) => self.hold_some(seen_to, now, |_| false),
            (false, false) => {
                self.hold_some(seen_to, now, |session| session.seen_to > released);
                regulate(&shared.engine, aof);
                shared.notifier.ring();
            }
        }
    }

    /// The log's length after the last change that the replies of this tick can tell of.
    fn seen_to(&self) -> u64 {
        let sessions = self.replies.tokens().filter_map(|token| self.connections.get(token));
        sessions.map(|connection| connection.session.seen_to).max().unwrap_or(0)
    }

    fn write_log(&mut self, aof: &Aof, now: Now) {
        let attempt = aof.attempt();
        if aof.journal.waiting() == 0 || aof.has_failed() {
            return;
        }
        if aof.journal.policy() != Policy::No && aof.journal.is_syncing() && !is_far_behind(aof) {
            if self.write_delay.waits(now.unix_ms()) {
                return;
            }
            aof.stats.delayed.fetch_add(1, Relaxed);
        }
        self.write_delay.end();
        let began = self.nanos();
        wrote(&self.shared.engine, aof, attempt, &write(aof));
        self.metrics().log_nanos.add(self.nanos().since(began));
    }

    /// Holds those of this tick's replies that are for such clients, or for connections that have some held already.
    fn hold_some(&mut self, offset: u64, now: Now, is_one: impl Fn(&Session) -> bool) {
        let connections = &self.connections;
        let is_held = |connection: &Connection| connection.output.has_held() || is_one(&connection.session);
        let waits = |token| connections.get(token).is_some_and(is_held);
        let all = self.replies.tokens().all(waits);
        let (bytes, parts) = if all { self.replies.take() } else { self.replies.extract(waits) };
        self.hold(HeldReplies::new(offset, bytes), parts, now);
    }

    fn hold(&mut self, mut held: HeldReplies, parts: Vec<ReplyPart>, now: Now) {
        let mut too_much = Vec::new();
        for (token, bytes) in parts {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            connection.output.end_reply();
            if bytes.is_empty() {
                continue;
            }
            if self.settings.clients.is_over(connection, bytes.len(), false, now.unix_ms()) {
                too_much.push((token, bytes.len()));
                continue;
            }
            let session = &connection.session;
            connection.output.hold(held.push(token, session.info.id, bytes, session.logged_at));
        }
        if held.len() > 0 {
            if let Some(aof) = of(&self.shared.engine) {
                aof.stats.kept.fetch_add(held.len() as u64, Relaxed);
            }
            self.durable_replies.push(held);
            self.shared.slot(self.index).awaits_durability.store(true, Relaxed);
        }
        for (token, more) in too_much {
            self.end_slow_reader(token, more, "scheduled to be closed ASAP", now.unix_ms());
        }
    }

    /// Sends what need not wait any more.
    pub fn release_replies(&mut self, now: Now) {
        if self.durable_replies.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(aof) = of(&shared.engine) else { return };
        let released = if aof.keeps_replies() { aof.journal.released() } else { u64::MAX };
        while let Some(held) = self.durable_replies.pop(released) {
            held.iter().for_each(|(reply, bytes)| self.send_held(reply, bytes, now));
        }
        if aof.has_failed() {
            for held in self.durable_replies.take_readers(released) {
                held.iter().for_each(|(reply, bytes)| self.send_held(reply, bytes, now));
            }
        }
        if self.durable_replies.is_empty() {
            shared.slot(self.index).awaits_durability.store(false, Relaxed);
        }
    }

    fn send_held(&mut self, reply: &HeldReply, bytes: &[u8], now: Now) {
        let found = self.connections.get_mut(reply.token);
        let Some(connection) = found.filter(|connection| connection.client() == reply.client) else { return };
        let had_much = connection.output.has_much_held();
        connection.output.release(reply.memory());
        self.send_reply(reply.token, bytes, now);
        let Some(connection) = self.connections.get_mut(reply.token) else { return };
        connection.note_memory(&self.shared.engine.metrics()[self.index]);
        if connection.is_closing() || had_much && !connection.output.has_much_held() {
            self.enqueue(reply.token);
        }
    }
}
