//! A worker's due work: expiry, idle connections, connections that waited long enough for their peer.

use crate::connection::output_buffer::Resized;
use crate::connection::state::Connection;
use crate::event_loop::worker::Worker;
use crate::system::{clock, log};
use commands::Now;
use engine::host::threads::Server;
use engine::time::{Nanos, SteadyMs, UnixMs};
use std::sync::atomic::Ordering::Relaxed;

/// Milliseconds that a client which was ended by others may take to read its last replies.
const LAST_READ: i64 = 500;
/// Keys that clients have a copy of and that are forgotten at a time, when there are too many.
const FORGOTTEN_AT_ONCE: usize = 1000;
/// A tick checks the reply buffer of one connection in this many, and of at least so many.
const RESIZE_SHARE: usize = 20;
const RESIZE_MIN: usize = 5;

impl Worker {
    /// Does what is due after a tick.
    pub fn housekeep(&mut self, now: Now) {
        let server = Server { worker: self.index, now_us: now.unix_us };
        let (time, now, steady) = (now, now.unix_ms(), clock::nanos().ms());
        let paused = self.shared.engine.are_timers_paused();
        self.expire(server, steady, paused);
        if self.timers.take_due(steady, self.settings.timer_interval) {
            // The worker that is notified of new connections may be busy.
            self.accept();
            commands::scripting::forget_flushed(&self.shared.engine);
            if self.index == 0 && !paused {
                self.do_for_all(now);
            }
            self.close_ended(now);
            let waiting = self.wake_throttled(now);
            self.release_replies(time);
            self.replies.give_back_room();
            self.pipeline.give_back_room();
            if !paused {
                self.enforce_output_limits(&waiting, now);
            }
            self.balance();
            self.give_away();
        } else if self.gives_away {
            self.give_away();
        }
        if !paused && self.timers.take_idle_check(steady) {
            if self.connections.len() * 4 < self.connections.capacity() {
                self.connections.shrink_to_fit();
            }
            self.close_idle(now);
            let metrics = &self.shared.engine.metrics()[self.index];
            self.connections.iter_mut().for_each(|(_, connection)| connection.shrink_input(now, metrics));
        }
    }

    /// Expires keys whose time has come, and evicts keys for want of memory.
    fn expire(&mut self, server: Server, steady: SteadyMs, paused: bool) {
        let engine = &self.shared.engine;
        if paused {
            return self.timers.set_expires_more(false);
        }
        let mut more =
            self.timers.expires(steady) && engine.expire_due(self.shards.clone(), server, self.settings.expire_budget);
        more |= self.index == 0 && engine.expire_replica_keys(server, self.settings.expire_budget);
        more |= self.index == 0 && engine.go_on_making_room(server);
        self.timers.set_expires_more(more);
    }

    /// Does the work that one worker does for all.
    fn do_for_all(&mut self, now: UnixMs) {
        let engine = &self.shared.engine;
        let steady = engine.steady_now();
        engine.sample_rates(steady);
        engine.measure_memory();
        engine.measure_prefixes();
        commands::server::hotkeys::end_if_over(engine, steady);
        self.status_lines.write_if_due(engine, now, steady);
        commands::persistence::save::tick(engine, steady);
        commands::persistence::aof::tick(engine, now, steady);
        engine.links().close_idle(steady);
        if engine.tracking().is_over() {
            engine.trim_tracking(self.index, FORGOTTEN_AT_ONCE);
        }
    }

    /// Wakes connections that have waited long enough for their peer. Returns the connections that wait for it, or did
    /// when they were looked at last.
    fn wake_throttled(&mut self, now: UnixMs) -> Vec<usize> {
        let (mut unsent, mut throttled_count) = (0, 0);
        let mut waiting = Vec::new();
        for (token, connection) in &self.connections {
            if connection.waits_for_peer() {
                unsent += connection.output.unsent().len();
                throttled_count += usize::from(connection.output.is_full());
                waiting.push(token);
            }
        }
        self.patience.update(unsent, throttled_count);
        for &token in &waiting {
            let connection = &mut self.connections[token];
            if connection.wakes(now, self.patience) {
                self.run_queue.add_chunked(token);
            }
            if !connection.output.unsent().is_empty() && !connection.output_full(now, self.patience) {
                self.enqueue(token);
            }
        }
        waiting
    }

    /// Shifts the recorded times of connections when the clock was set, before a turn records anything by the new one.
    #[inline]
    pub fn follow_clock(&mut self, now: Now, steady: Nanos) {
        let step = self.timers.clock_step(now.unix_ms(), steady.ms());
        if step != 0 {
            self.connections.iter_mut().for_each(|(_, connection)| connection.set_clock(step));
        }
    }

    /// Closes clients that were ended by others and do not read their last replies.
    fn close_ended(&mut self, now: UnixMs) {
        let is_late = |it: &Connection| {
            it.is_closing() && it.session.info.has_ended() && !it.output.has_held() && it.silence(now) > LAST_READ
        };
        let late = self.connections.iter().filter(|(_, it)| is_late(it)).map(|(token, _)| token);
        late.collect::<Vec<_>>().into_iter().for_each(|token| self.close(token));
    }

    fn close_idle(&mut self, now: UnixMs) {
        let (timeout, book_timeout) = (self.settings.timeout, self.settings.book_timeout);
        let idle: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let limit = if connection.input.is_book() { book_timeout } else { timeout };
                limit > 0 && !connection.is_busy() && !connection.listens() && connection.silence(now) > limit
            })
            .map(|(token, _)| token)
            .collect();
        for token in idle {
            log::verbose("Closing idle client");
            self.close(token);
        }
    }

    /// Fits the first reply buffers of some connections to their clients' need: all are looked at once a second, or
    /// five a tick if that is more.
    pub fn resize_reply_buffers(&mut self, now: UnixMs) {
        let peak_reset_time = self.shared.engine.clients().reply_buffers.peak_reset_time.load(Relaxed);
        let metrics = &self.shared.engine.metrics()[self.index];
        let slots = self.connections.capacity();
        for _ in 0..(self.connections.len() / RESIZE_SHARE).max(RESIZE_MIN).min(slots) {
            self.next_resized = (self.next_resized + 1) % slots;
            let Some(connection) = self.connections.get_mut(self.next_resized) else { continue };
            match connection.output.resize(now, peak_reset_time) {
                Resized::No => continue,
                Resized::Smaller => metrics.reply_buffer_shrinks.add(1),
                Resized::Larger => metrics.reply_buffer_expands.add(1),
            }
            connection.show_buffers();
        }
    }
}
