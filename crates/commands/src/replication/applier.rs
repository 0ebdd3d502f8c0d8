//! Applying a primary's stream: its bytes take the one path of batches, with look-ahead, and replies are dropped.
//!
//! Nothing here waits. A command that cannot run now, because a script has a lock for long or there is a pause, is left
//! for the next call. The position up to which the stream is applied is known to the byte, so that another connection
//! can resume it anywhere.

use crate::batch::Batch;
use crate::batch::command_cache::CommandCache;
use crate::batch::execute::{BatchEnd, BatchRun};
use crate::batch::item::BatchItem;
use crate::batch::parse::{Filled, RequestSource};
use crate::batch::prefetch::Prefetcher;
use crate::batch::requests::Requests;
use crate::core::args::Args;
use crate::core::context::{Flow, Now};
use crate::core::dispatch;
use crate::core::queued;
use crate::core::session::{LendingMode, Session};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::keyspace::caller::Caller;
use engine::keyspace::held_locks::LockTimeout;
use engine::time::Nanos;
use replication::stream_parser::{Unit, Units};
use resp::{Protocol, Reply, RequestLimits, Span};
use std::sync::Arc;

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Bytes that need not be sent again.
    pub taken: usize,
    /// Bytes of these, and of earlier calls, whose transaction has not run.
    pub open: usize,
    /// The next command cannot run now.
    pub is_stuck: bool,
}

/// The bytes are no stream of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCommands;

/// The primary as a client, with the state that its commands run with.
pub struct Applier {
    session: Session,
    batch: Batch<'static>,
    prefetcher: Prefetcher,
    command_cache: CommandCache,
    reply: Reply,
    /// Bytes of the transaction that waits for its EXEC.
    open: usize,
}

impl Applier {
    /// Returns the applier of the connection that `info` describes, on the thread that counts as this worker, in
    /// database `db`.
    pub fn new(info: Arc<ClientInfo>, worker: usize, db: u32) -> Applier {
        Applier::of(info, Caller::Primary, worker, db)
    }

    /// Returns the applier of a server that this one obeys without following it.
    pub fn of(info: Arc<ClientInfo>, caller: Caller, worker: usize, db: u32) -> Applier {
        let mut session = Session::obeyed(info, caller);
        (session.worker, session.db) = (worker, db);
        session.patience = LockTimeout::Short;
        Applier {
            session,
            batch: Batch::default(),
            prefetcher: Prefetcher::default(),
            command_cache: CommandCache::default(),
            reply: Reply::new(Vec::new(), Protocol::Resp2),
            open: 0,
        }
    }

    /// Returns the database that is selected, outside of a transaction.
    pub fn db(&self) -> u32 {
        self.session.db
    }

    /// Selects the database of the next commands, outside of a transaction.
    pub fn select(&mut self, db: u32) {
        self.session.db = db;
    }

    /// Returns the log's length after its last write that was logged.
    pub fn logged_at(&self) -> u64 {
        self.session.logged_at
    }

    /// Runs the whole commands at the beginning of `bytes`; the caller passes the bytes that were not taken again.
    ///
    /// # Errors
    /// `NoCommands`: the bytes behind the last command are no command.
    pub fn apply(&mut self, engine: &Engine, bytes: &[u8], now: Now) -> Result<Applied, NoCommands> {
        let mut batch = std::mem::take(&mut self.batch).renewed();
        let (mut requests, mut offset) = (Requests::default(), 0);
        let (mut taken, mut is_stuck) = (0, false);
        let mut result = Ok(());
        while offset < bytes.len() && !is_stuck && result.is_ok() {
            let limits = RequestLimits { authenticated: true, max_bulk_len: i64::MAX };
            let (db, command_cache) = (self.session.db, &mut self.command_cache);
            let mut source = RequestSource { engine, token: 0, db, limits, command_cache };
            let filled = batch.fill(&mut source, &mut requests, bytes, &mut offset);
            if matches!(filled, Filled::Input { .. }) && offset < bytes.len() {
                // The stream has whole commands only.
                result = Err(NoCommands);
            }
            engine.metrics()[self.session.worker].set_clock(engine.host().nanos());
            let (mut items, spans) = batch.begin(engine, &mut self.prefetcher);
            while !items.is_empty() && !is_stuck && result.is_ok() {
                let done = match self.run_some(engine, items, spans, now) {
                    Ok((done, stuck)) => {
                        is_stuck = stuck;
                        done
                    }
                    Err(error) => {
                        result = Err(error);
                        0
                    }
                };
                items = &mut items[done..];
                taken = items.first().map_or(offset, |next| bytes.len() - next.bytes.len());
                self.reply.truncate(0);
            }
            batch.clear();
        }
        self.batch = batch.renewed();
        self.open = if self.session.multi.is_some() { self.open_in(&bytes[..taken]) } else { 0 };
        result.map(|()| Applied { taken, open: self.open, is_stuck })
    }

    /// Returns how many bytes belong to the open transaction, of the bytes that were taken now and of those from
    /// before.
    fn open_in(&self, taken: &[u8]) -> usize {
        match Units::default().next(taken) {
            Ok(Unit::Commands(whole) | Unit::GetAck(whole) | Unit::InSync(whole) | Unit::SyncSlots(whole)) => {
                taken.len() - whole
            }
            Ok(Unit::Incomplete) | Err(_) => self.open + taken.len(),
        }
    }

    /// Runs the first of `items`. Returns how many are done, and whether the next one cannot run now.
    fn run_some(
        &mut self,
        engine: &Engine,
        items: &mut [BatchItem<'_>],
        spans: &[Span],
        now: Now,
    ) -> Result<(usize, bool), NoCommands> {
        let (session, prefetcher, reply) = (&mut self.session, &mut self.prefetcher, &mut self.reply);
        let mut run = BatchRun {
            engine,
            session,
            prefetcher,
            now,
            reply,
            reply_max: usize::MAX,
            is_limited: false,
            until: Nanos(u64::MAX),
            is_lent: false,
        };
        let (mut done, end) = run.run(items, spans);
        match end {
            BatchEnd::Next | BatchEnd::Full => {}
            BatchEnd::BlockedCommand { .. } => return Ok((done - 1, true)),
            BatchEnd::Later => return Ok((done, true)),
            BatchEnd::Violation(_) => return Err(NoCommands),
            BatchEnd::Chunked(mut work, command) => {
                while !dispatch::step(engine, &mut self.session, command, &mut **work, now, &mut self.reply) {}
            }
            BatchEnd::Apart => {
                let mode = std::mem::replace(&mut self.session.yielding, LendingMode::Apart);
                let (session, reply) = (&mut self.session, &mut self.reply);
                let run =
                    |prepared: &_, args: &mut Args<'_>| dispatch::run(engine, session, prepared, args, now, reply);
                let flow = items[done].call(spans, run);
                self.session.yielding = mode;
                if matches!(flow, Some(Flow::RetryLater | Flow::Postponed)) {
                    return Ok((done, true));
                }
                done += 1;
                self.follow(engine, flow.unwrap_or_default());
            }
            BatchEnd::Flow(flow) => self.follow(engine, flow),
        }
        Ok((done, false))
    }

    /// Ends a wait at once: a primary waits for nothing, and its link does not end by a command.
    fn follow(&mut self, engine: &Engine, flow: Flow) {
        if let Flow::Wait(ticket) = flow
            && ticket.finish()
        {
            engine.cancel_wait(&ticket);
        }
    }

    /// Drops an incomplete transaction when the link has ended.
    pub fn end(&mut self, engine: &Engine) {
        queued::forget(engine, &mut self.session);
        self.session.multi = None;
        self.open = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    fn applier(client: &mut Client) -> Applier {
        client.is("REPLICAOF host 1", "+OK");
        Applier::new(Arc::clone(&client.session().info), 0, 0)
    }

    fn bytes(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| resp::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
        bytes
    }

    #[test]
    fn a_primary_is_obeyed_and_transactions_are_one_moment() {
        let mut client = Client::new();
        client.is("SET old v PX 10", "+OK");
        let mut applier = applier(&mut client);
        client.later(20);
        let now = client.now();
        let stream = bytes(&["SELECT 3", "SET a 1", "MULTI", "INCR a", "LPUSH l x", "EXEC", "SELECT 0", "PERSIST old"]);
        let applied = applier.apply(client.engine(), &stream, now).unwrap();
        assert_eq!(applied, Applied { taken: stream.len(), open: 0, is_stuck: false });
        client.is("GET old", "v").select(3).is("GET a", "2").is("LLEN l", ":1");
        let half = bytes(&["SELECT 3", "INCR a", "MULTI", "INCR a"]);
        let applied = applier.apply(client.engine(), &half, now).unwrap();
        assert_eq!((applied.taken, applied.open), (half.len(), bytes(&["MULTI", "INCR a"]).len()));
        client.is("GET a", "3");
        applier.apply(client.engine(), &bytes(&["EXEC"]), now).unwrap();
        client.is("GET a", "4");
        assert_eq!(applier.apply(client.engine(), b"*1\r\n!", now), Err(NoCommands));
    }

    #[test]
    fn a_primary_does_not_change_the_server_itself() {
        let mut client = Client::new();
        let (mut applier, now) = (applier(&mut client), client.now());
        let stream = bytes(&[
            "REPLICAOF NO ONE",
            "SLAVEOF other 2",
            "DEBUG RELOAD",
            "CONFIG SET maxclients 7",
            "FAILOVER",
            "SHUTDOWN NOSAVE",
            "BGSAVE",
            "CLIENT KILL TYPE normal",
            "SET a 1",
            "FLUSHALL",
            "SET b 2",
        ]);
        let applied = applier.apply(client.engine(), &stream, now).unwrap();
        assert_eq!(applied, Applied { taken: stream.len(), open: 0, is_stuck: false });
        client.is("DBSIZE", ":1").is("GET b", "2");
        let role = client.run("ROLE");
        assert!(role.contains("slave") && role.contains("host"), "{role}");
        assert!(!client.run("CONFIG GET maxclients").contains('7'));
    }

    #[test]
    fn a_primary_trims_with_limits_that_it_has_applied_and_makes_strings_of_its_own_limit() {
        let mut client = Client::new();
        client.is("CONFIG SET proto-max-bulk-len 1048576", "+OK");
        let (mut applier, now) = (applier(&mut client), client.now());
        // Real servers propagate these lines for trimming with `~` and a LIMIT.
        let stream = bytes(&[
            "SELECT 0",
            "XADD a 7-0 f 1",
            "XADD a 8-0 f 1",
            "XTRIM a MINID = 8-0 LIMIT 3",
            "XADD b 7-0 f 1",
            "XADD b MAXLEN = 1 LIMIT 3 8-0 f 1",
            "SETRANGE c 2000000 x",
            "SETBIT d 16000000 1",
            "BITFIELD e SET u8 16000000 1",
            "SETRANGE f 99999999999 x",
        ]);
        assert_eq!(applier.apply(client.engine(), &stream, now).unwrap().taken, stream.len());
        client.is("XLEN a", ":1").is("XLEN b", ":1");
        client.is("STRLEN c", ":2000001").is("STRLEN d", ":2000001").is("STRLEN e", ":2000001").is("EXISTS f", ":0");
    }

    #[test]
    fn commands_that_cannot_run_now_are_left_for_later() {
        let mut client = Client::new();
        let mut applier = applier(&mut client);
        let now = client.now();
        let stream = bytes(&["SET k 1", "INCR k"]);
        client.is("CLIENT PAUSE 1000 WRITE", "+OK");
        let applied = applier.apply(client.engine(), &stream, now).unwrap();
        assert_eq!(applied, Applied { taken: 0, open: 0, is_stuck: true });
        client.is("CLIENT UNPAUSE", "+OK");
        assert_eq!(applier.apply(client.engine(), &stream, now).unwrap().taken, stream.len());
        client.is("GET k", "2");
    }
}
