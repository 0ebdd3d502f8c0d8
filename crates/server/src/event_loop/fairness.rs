//! Who is served after others: clients that ask for much, and commands in pieces.
//!
//! ```text
//!   tick   | ready: all of them, and their replies | pieces | deprioritized: one, the next ... | what happened meanwhile?
//!   tick   | ready                                          | deprioritized: the next ...    | ...
//! ```
//!
//! Deprioritized is a client that sent much in one of his last visits, or ran for long, or does not read what he gets, or has never been
//! served. They stand in a queue of their own, and one tick serves as many as its slice of time is enough for: to send
//! what waits for them, to read, to run, to reply. A slice is short while there are others, who would notice a long
//! one.

use crate::connection::state::{Connection, Job};
use crate::event_loop::worker::Worker;
use commands::Now;
use commands::core::dispatch;

/// Nanoseconds for any one connection without a look at others.
pub const VISIT_MAX: u64 = 200_000;
/// Nanoseconds of a tick for all deprioritized connections together, and for all commands in pieces.
const SLICE: u64 = 200_000;
/// The same while others are served too, and of that for any one connection: the slice is over when one has used its
/// visit up.
const SHORT_SLICE: u64 = 20_000;
const SHORT_VISIT: u64 = 15_000;
/// Bytes that are read from one connection in a visit, and of what waits for it sent. To copy them takes about as long
/// as a visit may, with what the kernel does at it.
pub const VISIT_BYTES: usize = 64 << 10;
/// The same while others are served too, and for one that is not deprioritized. Who has sent as many, or of whose request as
/// many are there and it is not complete, is deprioritized from then on.
pub const LIGHT_BYTES: usize = 8 << 10;
/// Nanoseconds for which others are expected to come back.
const LATELY: u64 = 1_000_000_000;

impl Worker {
    /// Takes those off the list who are served after the others.
    pub fn set_aside_deprioritized(&mut self, ready: &mut Vec<usize>) {
        let (connections, deprioritized) = (&self.connections, &mut self.deprioritized);
        ready.retain(|&token| {
            let is_light = !connections.get(token).is_some_and(Connection::deprioritized);
            if !is_light {
                deprioritized.push_back(token);
            }
            is_light
        });
    }

    /// Serves those who ask for much, one after the other, for as long as they may together take. `after_others`:
    /// somebody has been served before them in this tick.
    pub fn serve_deprioritized(&mut self, arena: &mut [u8], after_others: bool, now: Now) {
        let began = self.nanos();
        if after_others {
            self.light_at = began;
        }
        if self.deprioritized.is_empty() && self.jobs.is_empty() {
            return;
        }
        self.write_replies(now);
        let is_short = began.saturating_sub(self.light_at) < LATELY;
        let (slice, visit, bytes, replies) = match is_short {
            true => (SHORT_SLICE, SHORT_VISIT, LIGHT_BYTES, LIGHT_BYTES),
            false => (SLICE, VISIT_MAX, VISIT_BYTES, usize::MAX),
        };
        self.step_jobs(began + slice, now);
        (self.visit_max, self.visit_bytes, self.visit_replies) = (visit, bytes, replies);
        self.write_replies(now);
        let until = self.nanos() + slice;
        let mut inputs = Vec::with_capacity(1);
        while let Some(token) = self.deprioritized.pop_front() {
            self.in_tick.push(token);
            self.gather(token, arena, &mut 0, &mut inputs, now);
            self.process(arena, &mut inputs, now);
            self.write_replies(now);
            self.settle(token, now);
            if self.nanos() > until {
                break;
            }
        }
        (self.visit_max, self.visit_bytes, self.visit_replies) = (VISIT_MAX, LIGHT_BYTES, usize::MAX);
    }

    /// Does one piece of every command that goes on in pieces, or of as many as there is time for.
    pub fn step_jobs(&mut self, until: u64, now: Now) {
        if self.jobs.is_empty() {
            return;
        }
        let mut jobs = std::mem::take(&mut self.jobs).into_iter();
        while self.nanos() <= until
            && let Some(token) = jobs.next()
        {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            if connection.throttled(now.unix_ms(), self.patience) {
                connection.job.iter_mut().for_each(|job| job.throttled = true);
                continue;
            }
            let Some(Job { mut work, command, replied, .. }) = connection.job.take() else { continue };
            let start = self.reply.len();
            self.reply.set_protocol(connection.protocol);
            let engine = &self.shared.engine;
            let done = dispatch::step(engine, &mut connection.session, command, &mut **work, now, &mut self.reply);
            if done {
                self.reply.raw(&std::mem::take(&mut connection.held_back));
            } else {
                let replied = replied + self.reply.len().saturating_sub(start);
                connection.job = Some(Job { work, command, replied, throttled: false });
            }
            self.note_reply(token, start);
            self.deliver_own();
            if done {
                self.enqueue(token);
            } else {
                self.jobs.push(token);
            }
        }
        self.jobs.splice(0..0, jobs);
    }
}
