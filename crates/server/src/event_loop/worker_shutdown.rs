//! Workers come and go while the server runs (CONFIG SET `io-threads`, `threads`).
//!
//! ```text
//!   fewer workers    one on its way out: no new connections, no shards to look after
//!                      gives its connections to others, a few at a time, as soon as each can move
//!                      has none left, and nothing else to do: its thread ends       worker_slot.rs, wake_state.rs
//!   more workers     a thread starts, or the one that was on its way out stays
//! ```
//!
//! All of it follows from one number that each worker looks at in each tick. A message to a worker without a thread
//! starts one, which does the work and ends again: so it does not matter when each worker sees that number.

use crate::event_loop::worker::Worker;

/// Connections that are given away at a time, and messages that may wait for a worker that gets one.
const AT_ONCE: usize = 16;
const BACKLOG_MAX: usize = 32;

impl Worker {
    /// Checks whether there are more workers or fewer than before.
    #[inline]
    pub fn follow_workers(&mut self) {
        let workers = self.shared.workers();
        if workers != self.workers {
            self.workers = workers;
            self.shards = self.shared.shards_of(self.index, workers);
            self.gives_away = self.is_unwanted();
        }
    }

    /// Returns whether the worker is on its way out.
    #[inline]
    pub fn is_unwanted(&self) -> bool {
        self.index >= self.workers
    }

    /// Returns whether the worker's thread may end: the worker is on its way out and has nothing to do. A message that
    /// arrives from now on is noticed.
    pub fn may_leave(&mut self) -> bool {
        if !self.is_unwanted() || !self.connections.is_empty() {
            return false;
        }
        self.inbox.hear();
        // A thread that wants the worker back has said so before it woke it.
        self.follow_workers();
        self.is_unwanted()
            && self.inbox.is_empty()
            && self.deferred_messages.is_empty()
            && self.run_queue.is_idle()
            && self.durable_replies.is_empty()
            && self.barrier.is_empty()
            && self.proxy_links.is_idle()
            && self.slumber.is_none()
    }

    /// Gives some connections of a worker on its way out to workers that stay.
    pub fn give_away(&mut self) {
        // A thread that waits for this worker's clients to settle would miss clients that leave.
        if !self.is_unwanted() || !self.barrier.is_empty() {
            return;
        }
        let movable = self.connections.iter().filter(|(_, connection)| connection.may_leave());
        let tokens: Vec<usize> = movable.map(|(token, _)| token).take(AT_ONCE).collect();
        self.gives_away = tokens.len() == AT_ONCE;
        for token in tokens {
            let worker = self.shared.least_crowded();
            if self.shared.backlog(worker) > BACKLOG_MAX {
                self.gives_away = true;
                return;
            }
            self.hand_over(token, worker);
        }
    }
}
