//! Replies that wait until the log is durable, and writing the log before replies.
//!
//! ```text
//!   everysec, no   commands ran - what they changed is written - replies are sent
//!   always         commands ran - it is synced, too - replies are sent                                  where that is quick
//!                  commands ran - replies are kept with the log's offset .... durable up to there: they are sent
//! ```
//!
//! Where replies are kept these are all of a turn, also those of commands that only read: what they saw may not be
//! durable yet. A connection that has kept replies gets later ones after these. While the log cannot be written nothing
//! new is kept, so that everybody else is told of it.

use crate::aof::{commit, write};
use crate::worker::Worker;
use commands::Now;
use commands::aof::wrote;
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, State, of};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Replies of a turn.
pub struct Kept {
    offset: u64,
    bytes: Vec<u8>,
    /// Which part is for which connection, whose token may be another one's by then: the client's number tells.
    replies: Vec<(usize, u64, Range<usize>)>,
}

/// Milliseconds that a write waits for a sync that is under way, which might make it wait for the disk.
const PATIENCE: i64 = 1000;

impl Worker {
    /// To be called before replies are sent: what their commands changed is written, or they are kept.
    pub fn log_before_replies(&mut self, now: Now) {
        let shared = std::sync::Arc::clone(&self.shared);
        let Some(aof) = of(&shared.engine) else { return };
        if !shared.engine.has_log() || aof.state() != State::On {
            return self.keep_behind(0);
        }
        match aof.journal.policy() {
            Policy::Always => {
                let appended = aof.journal.appended();
                let is_new = appended != std::mem::replace(&mut self.seen_log, appended);
                if appended > aof.journal.released() {
                    if commit(&shared, aof, appended) {
                        self.release_replies(now);
                    } else {
                        if is_new || !aof.has_failed() {
                            self.keep_all(appended);
                        }
                        shared.bell.ring();
                    }
                }
                self.keep_behind(appended);
            }
            policy => {
                self.write_log(aof, policy, now);
                self.keep_behind(0);
            }
        }
    }

    fn write_log(&mut self, aof: &Aof, policy: Policy, now: Now) {
        if aof.journal.waiting() == 0 || aof.has_failed() {
            return;
        }
        if policy == Policy::EverySecond && aof.journal.is_syncing() {
            if now.unix_ms() - *self.postponed_since.get_or_insert(now.unix_ms()) < PATIENCE {
                return;
            }
            aof.stats.delayed.fetch_add(1, Relaxed);
        }
        self.postponed_since = None;
        let began = self.nanos();
        wrote(&self.shared.engine, aof, &write(aof));
        self.metrics().log_nanos.add(self.nanos() - began);
    }

    /// Keeps the replies of this turn.
    fn keep_all(&mut self, offset: u64) {
        let mut replies = Vec::with_capacity(self.replies.len());
        for (token, range) in self.replies.drain(..) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            (connection.noted, connection.kept) = (false, connection.kept + 1);
            replies.push((token, connection.session.info.id, range));
        }
        if !replies.is_empty() {
            let bytes = self.reply.take();
            self.keep(Kept { offset, bytes, replies });
        }
    }

    /// Keeps the replies of those who have kept ones already.
    fn keep_behind(&mut self, offset: u64) {
        if self.kept.is_empty() {
            return;
        }
        let (mut bytes, mut replies) = (Vec::new(), Vec::new());
        let connections = &mut self.connections;
        self.replies.retain(|(token, range)| {
            let found = connections.get_mut(*token).filter(|connection| connection.kept > 0);
            let Some(connection) = found else { return true };
            (connection.noted, connection.kept) = (false, connection.kept + 1);
            let start = bytes.len();
            bytes.extend_from_slice(&self.reply.as_slice()[range.clone()]);
            replies.push((*token, connection.session.info.id, start..bytes.len()));
            false
        });
        if !replies.is_empty() {
            self.keep(Kept { offset, bytes, replies });
        }
    }

    fn keep(&mut self, kept: Kept) {
        if let Some(aof) = of(&self.shared.engine) {
            aof.stats.kept.fetch_add(kept.replies.len() as u64, Relaxed);
        }
        self.kept.push_back(kept);
        self.shared.keepers[self.index].store(true, Relaxed);
    }

    /// Sends what need not be kept any more.
    pub fn release_replies(&mut self, now: Now) {
        let shared = std::sync::Arc::clone(&self.shared);
        let Some(aof) = of(&shared.engine) else { return };
        let all = aof.state() != State::On;
        while let Some(kept) = self.kept.pop_front_if(|kept| all || kept.offset <= aof.journal.released()) {
            for (token, id, range) in kept.replies {
                let found = self.connections.get_mut(token).filter(|connection| connection.session.info.id == id);
                let Some(connection) = found else { continue };
                connection.kept -= 1;
                self.send_reply(token, &kept.bytes[range], now);
                if self.connections.get(token).is_some_and(|connection| connection.closing) {
                    self.list(token);
                }
            }
        }
        if self.kept.is_empty() {
            self.shared.keepers[self.index].store(false, Relaxed);
        }
    }
}
