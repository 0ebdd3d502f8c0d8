//! [`command::batch`] with the commands of the rooms.

use crate::batch::command_cache::CommandCache;
use crate::batch::execute::{BatchEnd, BatchRun};
use crate::batch::parse::{Filled, RequestSource};
use crate::batch::prefetch::Prefetcher;
use crate::batch::requests::Requests;
use crate::batch::*;
use crate::core::context::{Flow, Now};
use crate::core::dispatch;
use crate::core::session::LendingMode;
use crate::core::session::Session;
use crate::testing;
use engine::Engine;
use engine::stats::running_command::RunningArgs;
use engine::time::{Nanos, UnixUs};
use proptest::prelude::*;
use resp::{Protocol, Reply, RequestLimits, encode_command};
use std::sync::Arc;

/// A server's part for one connection: bytes in, bytes out.
struct Wire {
    engine: Arc<Engine>,
    session: Session,
    requests: Requests,
    pending: Vec<u8>,
    command_cache: CommandCache,
    prefetcher: Prefetcher,
    reply: Reply,
    ended: bool,
    /// Commands that were run apart.
    apart: usize,
}

impl Wire {
    fn new(requests: Requests, protocol: Protocol) -> Wire {
        Wire {
            engine: testing::Client::new().shared_engine().clone(),
            session: Session::local(),
            requests,
            pending: Vec::new(),
            command_cache: CommandCache::default(),
            prefetcher: Prefetcher::default(),
            reply: Reply::new(Vec::new(), protocol),
            ended: false,
            apart: 0,
        }
    }

    fn feed(&mut self, mut piece: &[u8]) {
        if let Some(large) = self.requests.large_mut() {
            while large.missing() > 0 && !piece.is_empty() {
                let room = large.unfilled();
                let n = room.len().min(piece.len());
                room[..n].copy_from_slice(&piece[..n]);
                large.advance(n);
                piece = &piece[n..];
            }
        }
        self.pending.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.pending);
        let (mut batch, mut offset) = (Batch::default().renewed(), 0);
        while !self.ended {
            let limits = RequestLimits::default();
            let (engine, db) = (&*self.engine, self.session.db);
            let mut source = RequestSource { engine, token: 7, db, limits, command_cache: &mut self.command_cache };
            let filled = batch.fill(&mut source, &mut self.requests, &bytes, &mut offset);
            self.run(&mut batch);
            batch.clear();
            if let Filled::Input { keep } = filled {
                self.pending = bytes[keep].to_vec();
                break;
            }
        }
    }

    fn run(&mut self, batch: &mut Batch<'_>) {
        let (now, engine) = (Now { unix_us: UnixUs(1_000_000) }, &*self.engine);
        let (mut items, spans) = batch.begin(engine, &mut self.prefetcher);
        while !items.is_empty() && !self.ended {
            let (session, reply, prefetcher) = (&mut self.session, &mut self.reply, &mut self.prefetcher);
            let (reply_max, until, is_limited, is_lent) = (usize::MAX, Nanos(u64::MAX), false, false);
            let (mut done, end) =
                BatchRun { engine, session, prefetcher, now, reply, reply_max, until, is_limited, is_lent }
                    .run(items, spans);
            match end {
                BatchEnd::Next => {}
                BatchEnd::Apart => {
                    let mode = std::mem::replace(&mut self.session.yielding, LendingMode::Apart);
                    let (session, reply) = (&mut self.session, &mut self.reply);
                    let run = |prepared: &_, args: &mut crate::Args<'_>| {
                        dispatch::run(engine, session, prepared, args, now, reply)
                    };
                    items[done].call(spans, run);
                    done += 1;
                    (self.session.yielding, self.apart) = (mode, self.apart + 1);
                }
                BatchEnd::Chunked(mut work, command) => {
                    while !dispatch::step(engine, &mut self.session, command, &mut **work, now, &mut self.reply) {}
                }
                BatchEnd::Flow(Flow::Close) | BatchEnd::Violation(_) => self.ended = true,
                _ => panic!("nothing stands in the way"),
            }
            items = &mut items[done..];
        }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(self.reply.as_slice()).into_owned()
    }
}

fn replies(protocol: Protocol, pieces: &[&[u8]]) -> String {
    let requests = Requests::default();
    let mut wire = Wire::new(requests, protocol);
    pieces.iter().for_each(|piece| wire.feed(piece));
    wire.output()
}

fn requests(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
    bytes
}

#[test]
fn requests_go_in_and_replies_come_out_in_their_order() {
    let mut bytes = requests(&["SET k 1", "INCR k", "GET k", "GET", "NOSUCH a", "MULTI", "INCR k", "EXEC", "SELECT 1"]);
    bytes.extend_from_slice(b"GET k\r\n\r\nPING\r\n");
    bytes.extend_from_slice(&requests(&["LPUSH l a b c", "LRANGE l 0 -1", "HSET k f v"]));
    let expected = "+OK\r\n:2\r\n$1\r\n2\r\n-ERR wrong number of arguments for 'get' command\r\n\
         -ERR unknown command 'NOSUCH', with args beginning with: 'a' \r\n+OK\r\n+QUEUED\r\n*1\r\n:3\r\n+OK\r\n\
         $-1\r\n+PONG\r\n:3\r\n*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n:1\r\n";
    assert_eq!(replies(Protocol::Resp2, &[&bytes]), expected);
    let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(replies(Protocol::Resp2, &bytewise), expected);
}

/// The report of a crash reads the last command that has begun.
#[test]
fn the_place_of_a_command_is_known_while_it_runs() {
    let mut wire = Wire::new(Requests::default(), Protocol::Resp2);
    let engine = wire.engine.clone();
    let running = &engine.metrics()[wire.session.worker].running;
    running.begin_visit(7);
    for (lines, last) in [
        (&["SET k v", "INCR n", "GET k"][..], "GET k"),
        (&["GET k", "SET key value"], "SET key value"),
        (&["GET k", "ECHO word"], "ECHO word"),
        (&["GET k", "MULTI", "SET k v", "GET k", "EXEC"], "EXEC"),
    ] {
        wire.feed(&requests(lines));
        let visit = running.visit().expect("a visit");
        let words = last.split(' ').count();
        match visit.args.expect("a command") {
            RunningArgs::Request(place) => assert_eq!(place.len, requests(&[last]).len(), "{last}"),
            RunningArgs::Args(args) => assert_eq!(args.spans.len, words, "{last}"),
        }
        assert_eq!((visit.client, visit.inner), (7, None), "{last}");
    }
}

#[test]
fn a_protocol_error_ends_the_connection_after_the_replies_before_it() {
    let mut bytes = requests(&["SET k 1"]);
    bytes.extend_from_slice(b"*1\r\n!\r\n");
    bytes.extend_from_slice(&requests(&["GET k"]));
    assert_eq!(replies(Protocol::Resp2, &[&bytes]), "+OK\r\n-ERR Protocol error: expected '$', got '!'\r\n");
}

#[test]
fn a_long_command_is_run_again_apart() {
    let members: Vec<String> = (0..6_000).map(|n| format!("m{n}")).collect();
    let mut bytes = requests(&[&format!("SADD s {}", members.join(" "))]);
    bytes.extend(requests(&["SUNIONSTORE d s", "SUNIONSTORE d s s", "INCR n", "SORT none", "SINTERCARD 2 s s"]));
    bytes.extend(requests(&["MULTI", "SUNIONSTORE d s s", "EXEC", "SCARD d"]));
    let expected = ":6000\r\n:6000\r\n:6000\r\n:1\r\n*0\r\n:6000\r\n+OK\r\n+QUEUED\r\n*1\r\n:6000\r\n:6000\r\n";
    // EXEC is run apart in any case.
    for (mode, apart) in [(LendingMode::Never, 1), (LendingMode::OnRequest, 3)] {
        let mut wire = Wire::new(Requests::default(), Protocol::Resp2);
        wire.session.yielding = mode;
        wire.feed(&bytes);
        assert_eq!((wire.output().as_str(), wire.apart), (expected, apart), "{mode:?}");
    }
}

#[test]
fn a_large_argument_arrives_in_many_reads() {
    let mut bytes = Vec::new();
    let value = vec![b'x'; 100_000];
    encode_command(&mut bytes, &[b"SET" as &[u8], b"k", &value]);
    bytes.extend_from_slice(&requests(&["STRLEN k", "GETRANGE k 0 2"]));
    let expected = "+OK\r\n:100000\r\n$3\r\nxxx\r\n";
    for len in [bytes.len(), 40_000, 1_000, 61] {
        let pieces: Vec<&[u8]> = bytes.chunks(len).collect();
        assert_eq!(replies(Protocol::Resp2, &pieces), expected, "pieces of {len}");
    }
}

proptest! {
    #[test]
    fn requests_get_the_same_replies_however_they_are_cut(
        lines in prop::collection::vec(prop::sample::select(vec![
            "SET key:000001 value", "GET key:000001", "GET key:000002", "INCR counter", "INCR key:000001",
            "LPUSH list a b", "LRANGE list 0 -1", "HSET hash f v", "HSET list f v", "ZADD zset 1 m", "MSET a 1 b 2",
            "MGET a b list", "DEL a", "SELECT 1", "SELECT 0", "MULTI", "EXEC", "DISCARD", "PING", "GET", "nosuch",
            "EXPIRE counter 100", "TTL counter", "SUBSCRIBE", "RESET", "CONFIG GET maxmemory",
        ]), 0..150),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = requests(&lines);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(replies(Protocol::Resp2, &pieces), replies(Protocol::Resp2, &[&bytes]));
    }
}
