//! Serving connections after others: connections that ask for much, and chunked commands.
//! [`Fairness`](crate::schedule::fairness::Fairness) says which, and for how long.

use crate::connection::chunked::ChunkedCommand;
use crate::event_loop::worker::Worker;
use commands::Now;
use commands::core::command::WRITE;
use commands::core::dispatch;
use engine::propagation::effects::Garbage;
use engine::time::Nanos;

impl Worker {
    /// Serves connections that ask for much, one after the other, within the time that they may take together.
    /// `after_all_workers`: another connection has been served before them in this tick.
    pub fn serve_deprioritized(&mut self, arena: &mut [u8], after_all_workers: bool, now: Now) {
        let began = self.nanos();
        if after_all_workers {
            self.fairness.light_served(began);
        }
        if self.run_queue.all_served() && !self.run_queue.has_chunked() {
            return;
        }
        self.write_replies(now);
        let slice = self.fairness.slice(began);
        self.step_chunked(began.after(slice.nanos), now);
        self.fairness.begin_slice(slice);
        self.write_replies(now);
        let until = self.nanos().after(slice.nanos);
        let mut inputs = Vec::with_capacity(1);
        while let Some(token) = self.run_queue.next_deprioritized() {
            self.gather(token, arena, &mut 0, &mut inputs, now);
            self.process(arena, &mut inputs, now);
            self.write_replies(now);
            self.settle(token, now);
            if self.nanos() > until {
                break;
            }
        }
        self.fairness.end_slice();
    }

    /// Does one step of every chunked command, or of as many as there is time for.
    pub fn step_chunked(&mut self, until: Nanos, now: Now) {
        if !self.run_queue.has_chunked() {
            return;
        }
        let mut tokens = self.run_queue.take_chunked().into_iter();
        while self.nanos() <= until
            && let Some(token) = tokens.next()
        {
            self.step_one(token, now);
        }
        self.run_queue.put_chunked_first(tokens);
    }

    fn step_one(&mut self, token: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.throttled(now.unix_ms(), self.patience) {
            return connection.chunked.throttle();
        }
        let Some(ChunkedCommand { mut work, command, replied, lapses }) = connection.chunked.take() else { return };
        let start = self.replies.len();
        let sink = self.replies.sink();
        sink.set_protocol(connection.protocol);
        let engine = &self.shared.engine;
        let running = &engine.metrics()[self.index].running;
        running.begin_visit(connection.session.info.id);
        let done = dispatch::step(engine, &mut connection.session, command, &mut **work, now, sink);
        running.end_visit();
        let has_lapsed = command.flags.has(WRITE) && lapses != engine.cluster().lapses();
        let (rests, is_cut_off) = (!done && work.rests(), connection.session.is_cut_off || has_lapsed);
        if is_cut_off {
            // The work may hold a collection that no key has any more.
            engine.host().free(vec![Garbage::Work(Box::new(work))]);
            connection.abort();
        } else if done {
            sink.raw(&connection.output.take_held_back());
        } else {
            let replied = replied + sink.len().saturating_sub(start);
            connection.chunked.go_on(ChunkedCommand { work, command, replied, lapses });
        }
        if rests {
            // The command resumes when connections that wait for their peers are next looked at.
            connection.chunked.throttle();
        }
        self.note_reply(token, start);
        self.deliver_own();
        if done {
            self.enqueue(token);
        } else if !rests {
            self.run_queue.add_chunked(token);
        }
    }
}
