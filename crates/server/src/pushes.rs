//! What clients get without having asked for it just now: messages and monitors' lines.
//!
//! ```text
//!   command -> pushes -> its own worker's connections, when the command has ended
//!                     -> other workers, once a turn: one letter, one wake-up each
//! ```
//!
//! To a connection that was replied to in this turn a push goes behind that reply, so a publisher that listens to itself
//! sees the reply first. To any other it goes into the outbox, and the connections that got some are written to once, at
//! the end of the turn. A reply that is written over several turns is not interrupted: pushes wait for its end.

use crate::connection::Connection;
use crate::mailbox::Letter;
use crate::worker::Worker;
use commands::pubsub::encode;
use engine::audience::{Name, Push};
use engine::metrics::WorkerMetrics;
use resp::Protocol;
use std::borrow::Cow;

impl Worker {
    /// Hands over what this worker has for its own connections.
    #[inline(always)]
    pub fn deliver_own(&mut self) {
        if self.shared.engine.audience().has_own(self.index) {
            self.take_and_deliver();
        }
    }

    #[cold]
    fn take_and_deliver(&mut self) {
        if let Some(pushes) = self.shared.engine.audience().take_own(self.index) {
            self.deliver(&pushes);
        }
    }

    /// Puts pushes where they go out from.
    pub fn deliver(&mut self, pushes: &[Push]) {
        let Worker { index, shared, connections, reply, replies, pushed, settings, over_limit, .. } = self;
        let metrics = &shared.engine.metrics()[*index];
        let now = shared.engine.host().unix_us(0) / 1000;
        for push in pushes {
            let mut texts = Texts::default();
            shared.engine.audience().recipients(*index, push, |token, pattern| {
                let Some(connection) = connections.get_mut(token) else { return };
                let bytes = texts.of(push, pattern, connection.protocol);
                metrics.output_bytes.add(bytes.len() as u64);
                connection.session.info.count_output(bytes.len());
                if connection.job.is_some() {
                    connection.held_back.extend_from_slice(&bytes);
                    let held_back = connection.held_back.len();
                    if settings.clients.is_over(connection, held_back, false, now) {
                        over_limit.push((token, connection.session.info.id));
                    }
                } else if connection.noted {
                    let start = reply.len();
                    reply.raw(&bytes);
                    match replies.last_mut() {
                        Some((last, range)) if *last == token => range.end = reply.len(),
                        _ => replies.push((token, start..reply.len())),
                    }
                } else {
                    connection.outbox.append(&bytes);
                    if !std::mem::replace(&mut connection.pushed, true) {
                        pushed.push(token);
                    }
                    if settings.clients.is_over(connection, 0, false, now) {
                        over_limit.push((token, connection.session.info.id));
                    }
                }
            });
        }
    }

    /// Sends what is left of this turn's pushes: to this worker's connections and to other workers.
    pub fn send_pushes(&mut self, now: i64) {
        for (worker, pushes) in self.shared.engine.audience().take_outgoing(self.index) {
            self.shared.post(worker, Letter::Pushes(pushes));
        }
        self.deliver_own();
        for token in std::mem::take(&mut self.pushed) {
            // The list may name a connection that is gone, and another that has its token now.
            let Some(connection) = self.connections.get_mut(token).filter(|connection| connection.pushed) else {
                continue;
            };
            connection.pushed = false;
            let metrics = &self.shared.engine.metrics()[self.index];
            if flush(connection, metrics, now).is_err() {
                self.close(token);
            }
        }
        self.end_slow_readers(now);
        self.evict_clients(now);
    }
}

fn flush(connection: &mut Connection, metrics: &WorkerMetrics, now: i64) -> std::io::Result<()> {
    if connection.outbox.flush(&mut connection.socket.stream)? > 0 {
        connection.progress_at = now;
    }
    connection.note_memory(metrics);
    Ok(())
}

/// A push in the bytes of each protocol, written when the first recipient needs it.
#[derive(Default)]
struct Texts<'p> {
    /// RESP2 and RESP3, each with the pattern that it was written for.
    written: [Option<(Option<Name>, Cow<'p, [u8]>)>; 2],
}

impl<'p> Texts<'p> {
    fn of(&mut self, push: &'p Push, pattern: Option<&Name>, protocol: Protocol) -> Cow<'_, [u8]> {
        let slot = &mut self.written[usize::from(protocol == Protocol::Resp3)];
        if slot.as_ref().is_none_or(|(written_for, _)| written_for.as_ref() != pattern) {
            let bytes = match push {
                Push::Monitor(line) => Cow::Borrowed(&line[..]),
                Push::Message(message) => Cow::Owned(encode(message, pattern.map(|name| &name[..]), protocol)),
            };
            *slot = Some((pattern.cloned(), bytes));
        }
        slot.as_ref().map_or(Cow::Borrowed(&[][..]), |(_, bytes)| Cow::Borrowed(&bytes[..]))
    }
}
