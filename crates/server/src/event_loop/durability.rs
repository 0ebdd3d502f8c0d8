//! Writing the log before replies, and replies that wait until it is kept: by the disk, by replicas, or by both.
//!
//! ```text
//!   everysec, no   commands ran - their changes are written - replies are sent
//!   always         commands ran - they are synced, too - replies are sent                          if that is quick
//!                  commands ran - replies are held with the log's offset .... durable up to there: they are sent
//!                                                                        .... no log can be written: all are sent but
//!                                                                             to clients whose own writes wait
//!   replicas       commands ran - replies are held with the log's offset .... replicas have it: they are sent
//!                                                                        .... for too long: errors are sent
//! ```
//!
//! Held replies include replies of commands that only read: the data they show may not be durable yet. A client waits
//! for its own last change and for the last change in the shards that it has read, and for nothing else that was
//! appended meanwhile. Once it is known that the log cannot be written, only clients wait whose own writes may be lost:
//! the outcome of those writes is open until the disk takes them. A connection with held replies gets later ones after
//! these, and the later ones wait for at least as much.
//!
//! **Held replies are limited.** Their bytes count as the client's output, and a client with much of it runs no more
//! commands; and while the log is far behind, no client writes ([`regulate`]), which also limits clients that want no
//! replies. A client that waits for replicas waits for `acknowledge-timeout`, and no longer than the server leads.

use crate::aof::durable_replies::{HeldReplies, HeldReply};
use crate::aof::kept_log::KeptLog;
use crate::aof::writer::{commit, write};
use crate::connection::state::Connection;
use crate::event_loop::open_outcome;
use crate::event_loop::replies::current_lapses;
use crate::event_loop::reply_buffer::ReplyPart;
use crate::event_loop::worker::Worker;
use commands::persistence::aof::{is_far_behind, regulate, wrote};
use commands::{Now, Session};
use engine::status::acknowledgement::AckNeed;
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, of};
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, fence};

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

impl Worker {
    /// Writes the changes of commands to the log before their replies are sent, or holds the replies.
    pub fn log_before_replies(&mut self, now: Now) {
        let shared = Arc::clone(&self.shared);
        let engine = &*shared.engine;
        let seen_to = self.seen_to().max(std::mem::take(&mut self.unanswered_to));
        // A server that is a replica when replies go may have led when their commands ran.
        let generation = engine.replication().generation();
        let has_changed = std::mem::replace(&mut self.generation, generation) != generation;
        let mut disk_is_behind = false;
        if let Some(aof) = of(engine) {
            if aof.keeps_replies() {
                if seen_to > aof.journal.released() {
                    let began = self.nanos();
                    disk_is_behind = !commit(&shared, aof, seen_to);
                    self.metrics().log_nanos.add(self.nanos().since(began));
                }
            } else if engine.has_log() {
                self.write_log(aof, now);
            }
        }
        self.release_replies(now);
        let asks = engine.replication().acknowledgement.is_asked();
        if asks || disk_is_behind || !self.durable_replies.is_empty() {
            self.hold_some(asks, has_changed, now);
        }
        if disk_is_behind && let Some(aof) = of(engine).filter(|aof| !aof.has_failed()) {
            regulate(engine, aof);
            shared.notifier.ring();
        }
    }

    /// Returns the log's length after the last change that the replies of this tick can show.
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

    /// Holds the replies of this tick that may not go yet, and replies behind others that are held. `asks`: clients may
    /// wait for replicas; `has_changed`: the server has begun to follow another node, or to lead, meanwhile.
    fn hold_some(&mut self, asks: bool, has_changed: bool, now: Now) {
        let shared = Arc::clone(&self.shared);
        let kept = KeptLog::of(&shared.engine);
        let leads = has_changed || !shared.engine.replication().is_replica();
        let wanted = self.settings.acknowledge;
        let need_of = |session: &Session| match asks && leads && session.has_looked {
            true => session.acknowledge.unwrap_or(wanted).and(session.former_acks.need(wanted)),
            false => AckNeed::default(),
        };
        let connections = &self.connections;
        let waits = |connection: &Connection| {
            let session = &connection.session;
            let need = need_of(session);
            let is_void = has_changed && need.replicas > 0;
            connection.output.has_held() || is_void || !kept.lets_go(session.seen_to, session.logged_at, need)
        };
        let is_one = |token| connections.get(token).is_some_and(waits);
        let all = self.replies.tokens().all(is_one);
        let (bytes, parts) = if all { self.replies.take() } else { self.replies.extract(is_one) };
        let needs: Vec<AckNeed> = parts.iter().map(|(token, _)| need_of(&connections[*token].session)).collect();
        let mut replied = Vec::new();
        if asks {
            replied.extend(self.replies.tokens().chain(parts.iter().map(|(token, _)| *token)));
        }
        let mut held =
            HeldReplies::new(bytes, self.nanos().0 / MILLISECOND, if has_changed { u64::MAX } else { self.generation });
        held.lapses = self.lapses;
        self.hold(held, parts, &needs, now);
        for token in replied {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.session.has_looked = false;
                connection.session.former_acks.settle(connection.output.has_held());
            }
        }
    }

    fn hold(&mut self, mut held: HeldReplies, parts: Vec<ReplyPart>, needs: &[AckNeed], now: Now) {
        let mut too_much = Vec::new();
        for ((token, bytes), need) in parts.into_iter().zip(needs) {
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
            let is_behind = need.replicas == 0;
            let need = connection.output.hold_need(*need);
            let mut reply = HeldReply::new(token, session.info.id, bytes);
            (reply.logged_at, reply.seen_to) = (session.logged_at, session.seen_to);
            (reply.need, reply.is_behind) = (need, is_behind);
            connection.output.hold(held.push(reply));
        }
        if held.len() > 0 {
            if let Some(aof) = of(&self.shared.engine) {
                aof.stats.kept.fetch_add(held.len() as u64, Relaxed);
            }
            self.durable_replies.push(held);
            self.shared.slot(self.index).awaits_durability.store(true, Relaxed);
            // The thread that publishes durable offsets checks for waiting workers after it has published.
            fence(SeqCst);
            self.release_replies(now);
        }
        for (token, more) in too_much {
            self.end_slow_reader(token, more, "scheduled to be closed ASAP", now.unix_ms());
        }
    }

    /// Sends replies that need not wait any more, and errors to clients that have waited for replicas for too long.
    pub fn release_replies(&mut self, now: Now) {
        if self.durable_replies.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.end_lapsed();
        let kept = KeptLog::of(&shared.engine);
        let generation = shared.engine.replication().generation();
        let time = self.nanos().0 / MILLISECOND;
        let patience = self.settings.acknowledge_timeout;
        // Commands that ran while the server led show nothing that it could still promise.
        let on_disk = |reply: &HeldReply| kept.is_on_disk(reply.seen_to, reply.logged_at);
        let overdue = self.durable_replies.take_overdue(|held| held.generation != generation, on_disk);
        self.send_open(&overdue, now);
        let may_go = |reply: &HeldReply| kept.lets_go(reply.seen_to, reply.logged_at, reply.need);
        for held in self.durable_replies.take(may_go) {
            for (reply, bytes) in held.iter() {
                // Replicas that answer for a reply have what it tells of.
                let lapses = (reply.need.replicas == 0).then_some(held.lapses);
                self.send_held(reply, bytes, lapses, now);
            }
        }
        let overdue = self.durable_replies.take_overdue(|held| time.saturating_sub(held.since) >= patience, on_disk);
        self.send_open(&overdue, now);
        if self.durable_replies.is_empty() {
            shared.slot(self.index).awaits_durability.store(false, Relaxed);
        }
    }

    /// Ends connections whose replies wait for the disk of a node that others may have replaced meanwhile.
    fn end_lapsed(&mut self) {
        if !self.shared.engine.is_clustered() {
            return;
        }
        let lapsed = self.durable_replies.take_lapsed(current_lapses(&self.shared.engine));
        for (reply, _) in lapsed.iter().flat_map(HeldReplies::iter) {
            let found = self.connections.get_mut(reply.token).filter(|it| it.client() == reply.client);
            if let Some(connection) = found {
                connection.output.release(reply.memory());
                self.close(reply.token);
            }
        }
    }

    fn send_open(&mut self, overdue: &[HeldReplies], now: Now) {
        let overdue = overdue.iter().flat_map(|held| held.iter().map(|(reply, bytes)| (held.lapses, reply, bytes)));
        for (lapses, reply, bytes) in overdue {
            let found = self.connections.get_mut(reply.token).filter(|it| it.client() == reply.client);
            let Some(connection) = found else { continue };
            let told = match reply.is_behind {
                true => Some(bytes.to_vec()),
                false => open_outcome::instead_of(bytes, connection.protocol).map(|(told, errors)| {
                    let metrics = &self.shared.engine.metrics()[self.index];
                    (0..errors).for_each(|_| metrics.count_error(open_outcome::TEXT.as_bytes()));
                    told
                }),
            };
            match told {
                Some(told) => self.send_held(reply, &told, reply.is_behind.then_some(lapses), now),
                None => {
                    connection.output.release(reply.memory());
                    self.close(reply.token);
                }
            }
        }
    }

    fn send_held(&mut self, reply: &HeldReply, bytes: &[u8], lapses: Option<u64>, now: Now) {
        let found = self.connections.get_mut(reply.token);
        let Some(connection) = found.filter(|connection| connection.client() == reply.client) else { return };
        let had_much = connection.output.has_much_held();
        connection.output.release(reply.memory());
        if !connection.output.has_held() {
            connection.session.former_acks.cease();
        }
        self.send_reply(reply.token, bytes, lapses, now);
        let Some(connection) = self.connections.get_mut(reply.token) else { return };
        connection.note_memory(&self.shared.engine.metrics()[self.index]);
        if connection.is_closing() || had_much && !connection.output.has_much_held() {
            self.enqueue(reply.token);
        }
    }
}
