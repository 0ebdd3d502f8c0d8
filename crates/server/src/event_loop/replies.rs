//! Replies on their way out: all of a tick are gathered in one [buffer](crate::event_loop::reply_buffer), and sent when
//! the commands have run.

use crate::connection::state::Connection;
use crate::event_loop::settings::Settings;
use crate::event_loop::worker::Worker;
use commands::{Now, Session};
use engine::Engine;
use engine::keyspace::record::LogUser;
use engine::stats::metrics::WorkerMetrics;
use resp::ReplyBytes;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Records that the reply from `start` on is for this connection.
    #[inline]
    pub fn note_reply(&mut self, token: usize, start: usize) {
        if self.replies.len() == start
            && let Some(connection) = self.connections.get(token)
        {
            // Writes of a client that wants no reply are logged all the same, and hold it back.
            self.unanswered_to = self.unanswered_to.max(connection.session.logged_at);
        }
        if self.replies.note(token, start)
            && let Some(connection) = self.connections.get_mut(token)
        {
            connection.output.note_reply();
        }
    }

    /// Sends the replies of this tick: one write a connection.
    pub fn write_replies(&mut self, now: Now) {
        self.post_pushes();
        self.shared.replication.note_growth(&self.shared.engine);
        if self.shared.engine.has_log() || !self.durable_replies.is_empty() {
            self.log_before_replies(now);
        } else {
            self.generation = self.shared.engine.replication().generation();
        }
        let metrics = &self.shared.engine.metrics()[self.index];
        let (mut unsent, mut unfinished) = (Vec::new(), Vec::new());
        let skip_first = self.shared.engine.clients().reply_buffers.skip_first.load(Relaxed);
        let most = self.fairness.visit_replies();
        let is_streamed = self.shared.engine.is_logged_for(LogUser::Replicas);
        let is_clustered = self.shared.engine.is_clustered();
        for (token, bytes) in self.replies.drain() {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            connection.output.end_reply();
            if is_streamed && self.last_writer.is_next(&connection.session) {
                metrics.writers.add(1);
            }
            if bytes.is_empty() {
                continue;
            }
            let has_written = connection.session.logged_at > self.logged_before;
            if is_clustered && has_written && has_lapsed(&self.shared.engine, self.lapses) {
                unsent.push((token, Unsent::Gone));
                continue;
            }
            if is_clustered && is_outdated(&self.shared.engine, connection) {
                unsent.push((token, Unsent::Gone));
                continue;
            }
            let sent = send(connection, &self.settings, metrics, bytes, most, skip_first, now);
            if is_clustered && has_written {
                connection.output.note_acknowledged(self.lapses);
            }
            match sent {
                Err(end) => unsent.push((token, end)),
                // The rest is sent in another visit; a connection with the replies of a chunked command is not settled.
                Ok(()) if connection.socket.takes_more() => unfinished.push(token),
                Ok(()) => {}
            }
        }
        self.replies.clear();
        if is_clustered {
            let engine = &self.shared.engine;
            (self.lapses, self.logged_before) = (engine.cluster().lapses(), engine.change_log().appended());
        }
        unfinished.into_iter().for_each(|token| self.enqueue(token));
        for (token, end) in unsent {
            self.end_unsent(token, end, now);
        }
    }

    /// Sends a reply that was held. `lapses`: how often the slot map had lapsed before it; None if it acknowledges no
    /// writes that replicas may not have.
    pub fn send_reply(&mut self, token: usize, bytes: &[u8], lapses: Option<u64>, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if is_outdated(&self.shared.engine, connection) {
            return self.close(token);
        }
        let metrics = &self.shared.engine.metrics()[self.index];
        let sent = send(connection, &self.settings, metrics, ReplyBytes::of(bytes), usize::MAX, false, now);
        if let Some(lapses) = lapses.filter(|_| self.shared.engine.is_clustered()) {
            connection.output.note_acknowledged(lapses);
        }
        if let Err(end) = sent {
            self.end_unsent(token, end, now);
        }
    }

    fn end_unsent(&mut self, token: usize, end: Unsent, now: Now) {
        match end {
            Unsent::Gone => self.close(token),
            Unsent::TooMuch(more) => self.end_slow_reader(token, more, "scheduled to be closed ASAP", now.unix_ms()),
        }
    }
}

/// Whether the node's slot map did not hold any more at a moment since it had lapsed so often: others may have replaced
/// the node by then, and replies to writes that ran before are not to be sent.
#[inline]
fn has_lapsed(engine: &Engine, lapses: u64) -> bool {
    current_lapses(engine) != lapses
}

/// Whether unsent bytes of a connection acknowledge writes of a time since which the slot map has lapsed: they are not
/// to be sent.
#[inline]
pub fn is_outdated(engine: &Engine, connection: &Connection) -> bool {
    connection.output.acknowledges_by().is_some_and(|lapses| has_lapsed(engine, lapses))
}

/// How often the node's slot map has not held any more by this moment.
#[inline]
pub fn current_lapses(engine: &Engine) -> u64 {
    let (cluster, clock) = (engine.cluster(), engine.host().nanos());
    if cluster.is_late(clock) {
        engine.expire_slot_map(clock);
    }
    cluster.lapses()
}

/// Last client that was replied to a write.
#[derive(Default)]
pub struct LastWriter {
    client: u64,
    /// The change log's length after its write.
    logged_at: u64,
}

impl LastWriter {
    /// Returns whether this client has written since, and is another one.
    fn is_next(&mut self, session: &Session) -> bool {
        if session.logged_at <= self.logged_at {
            return false;
        }
        self.logged_at = session.logged_at;
        std::mem::replace(&mut self.client, session.info.id) != session.info.id
    }
}

/// Reason why a reply is not sent and its connection ends.
enum Unsent {
    /// The connection is gone, or its replies may tell of what others have replaced.
    Gone,
    /// The client has so many bytes to read that it may not have these too.
    TooMuch(usize),
}

/// Sends as much of a reply as the socket takes now, at most `most` bytes.
#[inline]
fn send(
    connection: &mut Connection,
    settings: &Settings,
    metrics: &WorkerMetrics,
    bytes: ReplyBytes<'_>,
    most: usize,
    skip_first: bool,
    now: Now,
) -> Result<(), Unsent> {
    let len = bytes.len();
    if settings.clients.is_over(connection, len, skip_first, now.unix_ms()) {
        return Err(Unsent::TooMuch(len));
    }
    metrics.writes.add(1);
    metrics.output_bytes.add(len as u64);
    connection.session.info.count_output(len);
    let Some(bytes) = bytes.as_written() else {
        return connection.send_pieces(bytes, most, now.unix_ms()).map_err(|_| Unsent::Gone);
    };
    let may_withhold = connection.chunked.is_running() && settings.clients.is_hard(connection);
    if may_withhold && connection.output.withhold(bytes) {
        return Ok(());
    }
    connection.send(bytes, most, now.unix_ms()).map_err(|_| Unsent::Gone)
}
