//! A client whose requests run through batches on the calling thread, as a worker of the server runs them: bytes in,
//! bytes out, without a socket.

use commands::batch::Batch;
use commands::batch::command_cache::CommandCache;
use commands::batch::execute::{BatchEnd, BatchRun};
use commands::batch::parse::{Filled, RequestSource};
use commands::batch::prefetch::Prefetcher;
use commands::batch::requests::Requests;
use commands::core::dispatch;
use commands::{Now, Session};
use engine::Engine;
use engine::host::threads::Server;
use engine::time::{Nanos, UnixUs};
use resp::{Protocol, Reply, RequestLimits};

const NOW: Now = Now { unix_us: UnixUs(1_700_000_000_000_000) };

pub struct Client<'e> {
    engine: &'e Engine,
    session: Session,
    requests: Requests,
    command_cache: CommandCache,
    prefetcher: Prefetcher,
    batch: Batch<'static>,
    reply: Reply,
}

impl<'e> Client<'e> {
    /// Returns a client of one of the engine's workers: each counts for itself.
    pub fn new(engine: &'e Engine, worker: usize) -> Self {
        commands::install(&[]);
        let mut session = Session::local();
        session.worker = worker;
        Client {
            engine,
            session,
            requests: Requests::default(),
            command_cache: CommandCache::default(),
            prefetcher: Prefetcher::default(),
            batch: Batch::default(),
            reply: Reply::new(Vec::with_capacity(64 << 10), Protocol::Resp2),
        }
    }

    /// Runs whole requests that came together; returns the replies.
    ///
    /// # Panics
    /// If a request does not finish at once, or replies an error.
    pub fn run(&mut self, bytes: &[u8]) -> &[u8] {
        self.reply.truncate(0);
        let (mut batch, mut offset) = (std::mem::take(&mut self.batch).renewed(), 0);
        loop {
            let (engine, db, limits) = (self.engine, self.session.db, RequestLimits::default());
            let mut source = RequestSource { engine, token: 0, db, limits, command_cache: &mut self.command_cache };
            let filled = batch.fill(&mut source, &mut self.requests, bytes, &mut offset);
            let (items, spans) = batch.begin(engine, &mut self.prefetcher);
            let is_limited = engine.persistence_status().deny_reasons().is_limited();
            let mut left = items;
            while !left.is_empty() {
                let (session, prefetcher, reply) = (&mut self.session, &mut self.prefetcher, &mut self.reply);
                if is_limited {
                    engine.make_room(Server { worker: session.worker, now_us: NOW.unix_us });
                }
                let (reply_max, until, is_lent) = (usize::MAX, Nanos(u64::MAX), false);
                let mut run =
                    BatchRun { engine, session, prefetcher, now: NOW, reply, reply_max, until, is_limited, is_lent };
                let (mut done, end) = run.run(left, spans);
                match end {
                    BatchEnd::Next => {}
                    BatchEnd::Apart => {
                        let (session, reply) = (&mut self.session, &mut self.reply);
                        left[done].call(spans, |prepared, args| {
                            dispatch::run(engine, session, prepared, args, NOW, reply);
                        });
                        done += 1;
                    }
                    _ => panic!("a command that is over at once"),
                }
                left = &mut left[done..];
            }
            batch.clear();
            if let Filled::Input { keep } = filled {
                assert!(keep.is_empty(), "whole requests");
                break;
            }
        }
        self.batch = batch.renewed();
        let replies = self.reply.as_slice();
        assert!(replies.first() != Some(&b'-'), "{}", replies.escape_ascii());
        replies
    }
}
