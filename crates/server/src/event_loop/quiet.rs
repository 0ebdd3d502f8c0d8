//! Rows of plain commands while the server is quiet: [`commands::core::steady`] for the items of a window.
//!
//! What is looked at before each command is what somebody else may have changed since the last one, and no more than
//! that: a reason to deny, a script that has become long, messages of this worker's for its own clients, room in
//! memory. Everything else that a command may have to wait for is the business of
//! [`Worker::run_some`](crate::event_loop::worker::Worker::run_some).

use crate::event_loop::batch::{Item, LookAhead};
use commands::core::context::Flow;
use commands::core::steady;
use commands::{Now, Session};
use engine::Engine;
use resp::{Reply, Span};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// As long as this holds, commands run in a row.
pub struct Quiet<'w> {
    pub worker: usize,
    /// There is a limit to memory.
    pub is_limited: bool,
    /// Bytes in the sink of replies, after which the row ends.
    pub reply_max: usize,
    pub look_ahead: &'w mut LookAhead,
}

impl Quiet<'_> {
    /// Runs the plain commands that a window begins with, of the first one's client, which is steady. Returns how many
    /// there were and what the last one came to; others came to [`Flow::Next`].
    #[inline(never)]
    pub fn run<'r>(
        self,
        engine: &'r Engine,
        session: &'r mut Session,
        items: &'r [Item<'_>],
        spans: &'r [Span],
        now: Now,
        reply: &'r mut Reply,
    ) -> (usize, Flow) {
        let Some(first) = items.first() else { return (0, Flow::Next) };
        let Some(row) = first.entry() else { return (0, Flow::Next) };
        let (token, own) = (first.token, engine.pubsub().own(self.worker));
        let mut items = items.iter();
        let reply_max = self.reply_max;
        let next = || {
            self.look_ahead.at(engine, items.as_slice(), spans);
            let item = items.next()?;
            if item.token == token && self.holds(engine, own, item) { item.plain(spans) } else { None }
        };
        steady::run_row(engine, session, now, reply, reply_max, row, next)
    }

    #[inline(always)]
    fn holds(&self, engine: &Engine, own: &AtomicBool, item: &Item<'_>) -> bool {
        engine.saves().deny_reasons().is_limit_only()
            && !engine.scripts().is_busy()
            && !own.load(Relaxed)
            && (!self.is_limited || self.has_room(engine, item))
    }

    #[inline(never)]
    fn has_room(&self, engine: &Engine, item: &Item<'_>) -> bool {
        item.reads() && !engine.memory_limit().is_over() || engine.has_room(self.worker)
    }
}
