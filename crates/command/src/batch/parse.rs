//! From bytes to a batch: requests are parsed, looked up and hashed.
//!
//! ```text
//!   input    *2 $3 GET $1 a | *2 $3 GET $1 b | *3 $3 SET ...      of one connection after the other
//!   spans    [GET][a]         [GET][b]         [SET]...           where the arguments lie, of all items
//!   items    (entry, hash)    (entry, hash)    (entry, hash)      at most BATCH
//! ```
//!
//! The buckets of their keys are prefetched as soon as some of them are parsed.

use crate::batch::command_cache::CommandCache;
use crate::batch::item::{BatchItem, ItemKind};
use crate::batch::prefetch::{CHUNK, ask_for_buckets, keys_of};
use crate::batch::requests::Requests;
use crate::batch::{BATCH, Batch};
use crate::core::args::{Args, RetainedArgs};
use crate::core::dispatch::{self, Prepared};
use engine::Engine;
use resp::{Progress, RequestLimits, RequestParser};
use std::ops::Range;

/// The reason that filling stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Filled {
    /// The batch has to run before there can be more.
    Batch,
    /// The input is exhausted.
    Input {
        /// The part of it that is needed again, with more behind it.
        keep: Range<usize>,
    },
}

/// The source of input.
pub struct RequestSource<'w> {
    /// The engine, with the hasher of the keys.
    pub engine: &'w Engine,
    /// The worker's number of the connection.
    pub token: usize,
    /// The connection's database.
    pub db: u32,
    /// Limits of requests.
    pub limits: RequestLimits,
    /// The worker's entries of the last commands.
    pub command_cache: &'w mut CommandCache,
}

/// The result of parsing for the input.
enum Consumed {
    /// So many bytes are consumed; parsing continues behind them.
    Go(usize),
    /// More has to arrive; so many bytes are retained for it.
    Wait { keep: usize },
}

impl<'b> Batch<'b> {
    /// Adds the input of a connection. Continues at `offset` of it and stores its progress there.
    pub fn fill(
        &mut self,
        source: &mut RequestSource<'_>,
        requests: &mut Requests,
        bytes: &'b [u8],
        offset: &mut usize,
    ) -> Filled {
        requests.begin_batch();
        while self.items.len() < BATCH {
            if requests.parser.is_idle() && !requests.has_parsed() && source.limits.take_short() {
                self.fill_short(source, bytes, offset);
                if self.items.len() == BATCH {
                    break;
                }
            }
            if self.push_queued(source, requests) {
                continue;
            }
            if let Some(error) = requests.violation.take() {
                self.push(source.item(&[], ItemKind::Violation(error)));
                return Filled::Input { keep: bytes.len()..bytes.len() };
            }
            match self.parse_resp(source, &mut requests.parser, &bytes[*offset..]) {
                Consumed::Go(n) => *offset += n,
                Consumed::Wait { keep } => return Filled::Input { keep: *offset..*offset + keep },
            }
            if !source.limits.authenticated && !self.items.is_empty() {
                // The next input depends on how this request ends.
                return Filled::Batch;
            }
        }
        Filled::Batch
    }

    /// Adds the requests that are queued, and a violation behind them. Returns whether there is room for another one.
    pub fn fill_queued(&mut self, source: &mut RequestSource<'_>, requests: &mut Requests) -> bool {
        while self.items.len() < BATCH && self.push_queued(source, requests) {}
        if self.items.len() < BATCH
            && let Some(error) = requests.violation.take()
        {
            self.push(source.item(&[], ItemKind::Violation(error)));
        }
        self.items.len() < BATCH
    }

    /// Adds the request that has been queued for longest, if there is one.
    fn push_queued(&mut self, source: &RequestSource<'_>, requests: &mut Requests) -> bool {
        let Some(request) = requests.queued.pop_front() else { return false };
        let prepared = match request.entry {
            Some(entry) => dispatch::prepare_entry(source.engine, Some(entry), &request.args),
            None => dispatch::prepare(source.engine, &request.args),
        };
        source.ask_for_buckets(&prepared);
        self.push(source.item(&[], ItemKind::Queued { request: Box::new(request), prepared }));
        true
    }

    /// Parses as long as whole short requests follow each other.
    #[inline(never)]
    fn fill_short(&mut self, source: &mut RequestSource<'_>, bytes: &'b [u8], offset: &mut usize) {
        let (engine, token, db) = (source.engine, source.token, source.db);
        let mut at = *offset;
        let mut asked = self.items.len();
        while self.items.len() < BATCH {
            if self.items.len() - asked >= CHUNK {
                self.prefetch_buckets(engine, asked);
                asked = self.items.len();
            }
            let (rest, first) = (&bytes[at..], self.spans.len());
            let Some((consumed, entry)) = source.command_cache.parse(rest, &mut self.spans) else { break };
            at += consumed;
            let own = RetainedArgs::default();
            match entry.and_then(|entry| Some((entry, entry.only_key()?))) {
                Some((entry, index)) => {
                    let key = self.spans[first..][index].of(rest);
                    let prepared = Prepared::of_one(engine, entry, index, key);
                    let spans = first..self.spans.len();
                    // No step can fail from here on, so the item is written at its final place.
                    assert!(self.items.len() < self.items.capacity(), "room for a batch");
                    self.items.push(BatchItem {
                        token,
                        db,
                        bytes: rest,
                        kind: ItemKind::Command { own, spans, prepared },
                    });
                }
                None => {
                    let args = Args::request(rest, &self.spans[first..], own);
                    let prepared = dispatch::prepare_entry(engine, entry, &args);
                    self.push_short(source, rest, first, prepared);
                }
            }
        }
        self.prefetch_buckets(engine, asked);
        *offset = at;
    }

    /// Prefetches for the requests from this one on.
    fn prefetch_buckets(&self, engine: &Engine, from: usize) {
        ask_for_buckets(engine, keys_of(&self.items[from..]));
    }

    #[inline(never)]
    fn push_short(&mut self, source: &RequestSource<'_>, rest: &'b [u8], first: usize, prepared: Prepared) {
        self.owns |= !prepared.is_inline();
        let kind = ItemKind::Command { own: RetainedArgs::default(), spans: first..self.spans.len(), prepared };
        self.items.push(source.item(rest, kind));
    }

    fn push(&mut self, item: BatchItem<'b>) {
        self.owns = true;
        self.items.push(item);
    }

    #[inline]
    fn parse_resp(&mut self, source: &RequestSource<'_>, parser: &mut RequestParser, rest: &'b [u8]) -> Consumed {
        let first = self.spans.len();
        match parser.parse(rest, &source.limits, &mut self.spans) {
            Ok(Progress::Command { consumed, owned }) => {
                let args = Args::request(rest, &self.spans[first..], owned.into());
                let prepared = source.prepare(&args);
                let kind = ItemKind::Command { own: args.into_own(), spans: first..self.spans.len(), prepared };
                self.push(source.item(rest, kind));
                Consumed::Go(consumed)
            }
            Ok(Progress::Empty { consumed }) => Consumed::Go(consumed),
            Ok(Progress::Incomplete) => Consumed::Wait { keep: rest.len() },
            Ok(Progress::Large { keep }) => Consumed::Wait { keep },
            Err(error) => {
                self.push(source.item(rest, ItemKind::Violation(error)));
                Consumed::Wait { keep: 0 }
            }
        }
    }
}

impl RequestSource<'_> {
    #[inline(always)]
    fn item<'b>(&self, bytes: &'b [u8], kind: ItemKind) -> BatchItem<'b> {
        BatchItem { token: self.token, db: self.db, bytes, kind }
    }

    #[inline(always)]
    fn prepare(&self, args: &Args<'_>) -> Prepared {
        let prepared = dispatch::prepare(self.engine, args);
        self.ask_for_buckets(&prepared);
        prepared
    }

    #[inline(always)]
    fn ask_for_buckets(&self, prepared: &Prepared) {
        ask_for_buckets(self.engine, std::iter::once((prepared.keys(), self.db)));
    }
}
