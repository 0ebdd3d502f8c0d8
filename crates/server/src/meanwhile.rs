//! Serving other clients while a script has the worker's thread.
//!
//! A command that may run a script is run apart from its connection: its session and the buffer of replies are taken out, and
//! the worker is lent to the thread for the time. When the script has run for longer than `busy-reply-threshold` the engine
//! calls the host now and then ([`serve`]), which has the worker do a small turn from within: poll, read, run, write. All that
//! is run then is refused (-BUSY) but for what is for such times, which takes no lock of the keyspace.
//!
//! ```text
//!   turn - process - EVAL (session apart) - Lua - hook - while_busy - small turn: SCRIPT KILL, PING -> -BUSY
//!                                                                      not: connections of the outer turn
//! ```
//!
//! Connections of the outer turn wait: what they sent may lie before that which could be read now. Nothing is closed that
//! would have to give up watched keys, and letters that need locks are kept for later.

use crate::clock;
use crate::mailbox::{Letter, WAKE};
use crate::turn::SMALL_ARENA;
use crate::worker::Worker;
use commands::cx::Flow;
use commands::dispatch::{self, Prepared};
use commands::{Args, Now, Session};
use mio::Events;
use scoped_tls_hkt::scoped_thread_local;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

scoped_thread_local! {
    /// The worker whose thread runs a script.
    static mut WORKER: for<'a> &'a mut Worker
}

/// Lets the worker that this thread is serve others for a moment, if it runs a script.
pub fn serve() {
    if WORKER.is_set() {
        WORKER.with(|worker| worker.serve_meanwhile());
    }
}

impl Worker {
    /// Runs a command that may run a script. What it replies is appended as always.
    pub fn run_apart(&mut self, token: usize, prepared: &Prepared, args: &mut Args<'_>, now: Now) -> Flow {
        let connection = &mut self.connections[token];
        connection.is_apart = true;
        if let Some(entry) = prepared.entry() {
            connection.session.info.last_command.store(entry.id + 1, Relaxed);
        }
        let stand_in = Session::new(Arc::clone(&connection.session.info));
        let mut session = std::mem::replace(&mut connection.session, stand_in);
        let mut reply = std::mem::take(&mut self.reply);
        let shared = Arc::clone(&self.shared);
        let flow = WORKER.set(self, || dispatch::run(&shared.engine, &mut session, prepared, args, now, &mut reply));
        self.reply = reply;
        let connection = &mut self.connections[token];
        connection.protocol = self.reply.protocol();
        connection.session = session;
        connection.is_apart = false;
        flow
    }

    fn serve_meanwhile(&mut self) {
        let now = clock::now();
        let mut events = Events::with_capacity(256);
        // An interrupted poll is tried again at the next call.
        if self.poll.poll(&mut events, Some(Duration::ZERO)).is_err() {
            return;
        }
        for event in events.iter().filter(|event| event.token() != WAKE) {
            let token = event.token().0;
            let Some(connection) = self.connections.get_mut(token) else { continue };
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                connection.socket.readable = true;
                connection.socket.hung_up |= event.is_read_closed() || event.is_error();
            }
            self.list(token);
        }
        self.take_letters_meanwhile(now);
        let replies = std::mem::take(&mut self.replies);
        let mut served = Vec::new();
        let (mut arena, mut inputs) = (Vec::new(), Vec::new());
        for token in std::mem::take(&mut self.ready) {
            let waits = |worker: &Worker| worker.connections.get(token).is_some_and(|c| c.session.watching.is_some());
            if self.in_turn.contains(&token) || waits(self) {
                self.ready.push(token);
                continue;
            }
            arena.resize(SMALL_ARENA, 0);
            self.gather(token, &mut arena, &mut 0, &mut inputs, now);
            self.process(&arena, &mut inputs, now);
            served.push(token);
        }
        self.write_replies(now);
        served.into_iter().for_each(|token| self.settle(token, now));
        self.replies = replies;
    }

    fn take_letters_meanwhile(&mut self, now: Now) {
        while let Ok(letter) = self.inbox.try_recv() {
            match letter {
                Letter::Connection { .. } | Letter::Pushes(_) => self.take_letter(letter, now),
                Letter::Stop => {
                    self.shared.engine.scripts().busy().iter().for_each(|running| running.kill());
                    self.take_letter(letter, now);
                }
                others => self.kept_letters.push(others),
            }
        }
    }
}
