//! Replies on their way out: all of a tick are gathered in one buffer, and sent when the commands have run.
//!
//! ```text
//!   reply    [ connection 7 ... | connection 3 ... | connection 7 ... ]
//!   replies  (7, 0..40) (3, 40..52) (7, 52..60)
//! ```

use crate::connection::state::Connection;
use crate::event_loop::settings::Settings;
use crate::event_loop::worker::Worker;
use commands::Now;
use engine::stats::metrics::WorkerMetrics;
use std::sync::atomic::Ordering::Relaxed;

/// Replies are written before the end of a tick when they are this many bytes.
pub const REPLY_HIGH: usize = 1 << 20;
/// The same where memory has a limit, which they would count towards.
pub const REPLY_LOW: usize = 64 << 10;

impl Worker {
    /// The reply from `start` on is for this connection.
    pub fn note_reply(&mut self, token: usize, start: usize) {
        let end = self.reply.len();
        match self.replies.last_mut() {
            Some((last, range)) if *last == token => range.end = end,
            _ if end > start => {
                self.replies.push((token, start..end));
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.noted = true;
                }
            }
            _ => {}
        }
    }

    /// What this connection was replied in this tick is not sent.
    #[cold]
    pub fn take_back_replies(&mut self, token: usize) {
        let end = self.reply.len();
        self.replies.iter_mut().filter(|(of, _)| *of == token).for_each(|(_, range)| *range = end..end);
    }

    /// Sends what was replied in this tick: one write a connection.
    pub fn write_replies(&mut self, now: Now) {
        self.post_pushes();
        if self.shared.engine.has_log() || !self.durable_replies.is_empty() {
            self.log_before_replies(now);
        }
        let metrics = &self.shared.engine.metrics()[self.index];
        let (mut unsent, mut unfinished) = (Vec::new(), Vec::new());
        let skip_first = self.shared.engine.clients().reply_buffers.skip_first.load(Relaxed);
        for (token, range) in self.replies.drain(..) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            connection.noted = false;
            if range.is_empty() {
                continue;
            }
            let bytes = &self.reply.as_slice()[range];
            match send(connection, &self.settings, metrics, bytes, self.visit_replies, skip_first, now) {
                Err(end) => unsent.push((token, end)),
                // The rest in another visit; whose replies are those of a job is not settled.
                Ok(()) if connection.socket.writable => unfinished.push(token),
                Ok(()) => {}
            }
        }
        if self.reply.len() > REPLY_HIGH {
            drop(self.reply.take());
        }
        self.reply.truncate(0);
        unfinished.into_iter().for_each(|token| self.enqueue(token));
        for (token, end) in unsent {
            self.end_unsent(token, end, now);
        }
    }

    /// Sends a reply that was kept.
    pub fn send_reply(&mut self, token: usize, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let metrics = &self.shared.engine.metrics()[self.index];
        if let Err(end) = send(connection, &self.settings, metrics, bytes, usize::MAX, false, now) {
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

/// Why a reply is not sent, and its connection ends.
enum Unsent {
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
    bytes: &[u8],
    most: usize,
    skip_first: bool,
    now: Now,
) -> Result<(), Unsent> {
    if settings.clients.is_over(connection, bytes.len(), skip_first, now.unix_ms()) {
        return Err(Unsent::TooMuch(bytes.len()));
    }
    metrics.writes.add(1);
    metrics.output_bytes.add(bytes.len() as u64);
    connection.session.info.count_output(bytes.len());
    if connection.job.is_some() && settings.clients.is_hard(connection) && connection.withhold(bytes) {
        return Ok(());
    }
    if connection.output.is_empty() {
        connection.progress_at = now.unix_ms();
    }
    connection.note_active(now.unix_ms());
    let sent = if std::mem::take(&mut connection.withheld) {
        connection.output.append(bytes);
        connection.output.flush_all(&mut connection.socket.stream)
    } else {
        let sent = connection.output.send(&mut connection.socket.stream, bytes, most);
        sent.map(|more| connection.socket.writable |= more)
    };
    sent.map_err(|_| Unsent::Gone)
}
