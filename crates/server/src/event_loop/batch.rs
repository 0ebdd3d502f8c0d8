//! A window: the commands that are looked ahead for together, and how connections' input becomes items of it.
//!
//! ```text
//!   input    *2 $3 GET $1 a | *2 $3 GET $1 b | *3 $3 SET ...      of one connection after the other
//!   spans    [GET][a]         [GET][b]         [SET]...           where the arguments lie, of all items
//!   window   (row, hash)      (row, hash)      (row, hash)        at most WINDOW items
//! ```
//!
//! The memory of a window's commands is asked for some commands at a time ([`commands::core::prefetch`]): their keys'
//! buckets when so many are parsed, and the rest while those before them run ([`LookAhead`]).

use crate::connection::state::{Connection, Wire};
use commands::core::command::{MAY_REPLICATE, READONLY, WRITE};
use commands::core::command_cache::CommandCache;
use commands::core::context::Flow;
use commands::core::dispatch::{self, Prepared};
use commands::core::prefetch::{self, Asked};
use commands::core::steady::Plain;
use commands::core::table::Entry;
use commands::{Args, OwnWords};
use engine::Engine;
use engine::data::key_hash::KeyHash;
use engine::keyspace::keys::Key;
use resp::{Limits, Progress, ProtocolError, RequestParser, Span};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Commands of a window, at most: what is asked for ahead of them fits into the nearest cache.
pub const WINDOW: usize = 64;
/// Commands for which memory is asked together: they take about as long as memory needs.
const CHUNK: usize = 8;

/// A command in the window, or what came instead of one.
pub struct Item<'b> {
    pub token: usize,
    /// The database that its keys were looked for in ahead.
    pub db: u32,
    /// The input from the first byte of the command on.
    pub bytes: &'b [u8],
    pub what: What,
}

pub enum What {
    Command {
        spans: Range<usize>,
        own: OwnWords,
        prepared: Prepared,
    },
    /// A command that waited behind another one.
    Queued {
        args: Box<Args<'static>>,
        prepared: Prepared,
    },
    Violation(ProtocolError),
    Book {
        spans: Range<usize>,
    },
    /// A request of the book protocol that waited.
    BookQueued {
        args: Box<Args<'static>>,
    },
    BookViolation,
    /// It has been run while another command was not over.
    Done,
}

/// An empty window in the room of another one, whose items lay in other input: its memory is always there, and always
/// counted.
pub fn renewed<'b>(mut window: Vec<Item<'_>>) -> Vec<Item<'b>> {
    window.clear();
    // Collected where they lay: room for items is room for items, however long those live.
    let mut renewed: Vec<Item<'b>> = window.into_iter().map(|_| unreachable!("it is empty")).collect();
    renewed.reserve_exact(WINDOW);
    renewed
}

/// Empties the window. `owns`: some item may own memory. Nearly always none does, and then nothing has to be done.
#[inline]
pub fn clear(window: &mut Vec<Item<'_>>, owns: bool) {
    if owns {
        window.clear();
    } else {
        window.drain(..).for_each(std::mem::forget);
    }
}

impl<'b> Item<'b> {
    pub fn is_done(&self) -> bool {
        matches!(self.what, What::Done)
    }

    pub fn set_done(&mut self) {
        self.what = What::Done;
    }

    /// Whether it is a command that may run a script, which is done apart from its connection.
    #[inline]
    pub fn runs_scripts(&self) -> bool {
        match &self.what {
            What::Command { prepared, .. } | What::Queued { prepared, .. } => prepared.runs_scripts(),
            _ => false,
        }
    }

    /// Whether it can run while a script has the worker's thread.
    pub fn runs_meanwhile(&self) -> bool {
        match &self.what {
            What::Command { prepared, .. } | What::Queued { prepared, .. } => prepared.runs_meanwhile(),
            _ => true,
        }
    }

    /// The command is tried again a little later.
    pub fn delay(&mut self, connection: &mut Connection, spans: &[Span], delayed: &mut Vec<usize>) {
        self.put_back(connection, spans);
        let patience = &mut connection.session.patience;
        *patience = patience.after_failure(delayed.is_empty());
        connection.delayed = true;
        delayed.push(self.token);
    }

    /// It has done nothing and is run again: after a pause, or a little later.
    pub fn retry_later(&mut self, flow: &Flow, connection: &mut Connection, spans: &[Span], delayed: &mut Vec<usize>) {
        if !matches!(flow, Flow::Postponed) {
            return self.delay(connection, spans, delayed);
        }
        self.put_back(connection, spans);
        connection.postponed = true;
        connection.session.info.postponed.store(true, Relaxed);
    }

    /// Whether it does nothing but leave a message for others.
    pub fn publishes(&self) -> bool {
        match &self.what {
            What::Command { prepared, .. } | What::Queued { prepared, .. } => {
                prepared.entry().is_some_and(|entry| matches!(entry.command.name, "publish" | "spublish"))
            }
            _ => false,
        }
    }

    /// Whether others may be told of it: it sends messages, or changes something, or is shown to monitors. What names
    /// no key and does nothing of that is answered in any case.
    #[cold]
    pub fn may_push(&self, engine: &Engine) -> bool {
        match &self.what {
            What::Command { prepared, .. } | What::Queued { prepared, .. } => prepared.entry().is_some_and(|entry| {
                let command = entry.command;
                prepared.runs_scripts()
                    || command.flags.has(WRITE.and(MAY_REPLICATE))
                    || command.name == "exec"
                    || !command.keys.is_empty() && engine.pubsub().is_monitored()
            }),
            What::Book { .. } | What::BookQueued { .. } => true,
            What::Violation(_) | What::BookViolation | What::Done => false,
        }
    }

    /// Whether it is a command that changes nothing.
    #[inline]
    pub fn reads(&self) -> bool {
        match &self.what {
            What::Command { prepared, .. } => prepared.entry().is_some_and(|entry| entry.command.flags.has(READONLY)),
            _ => false,
        }
    }

    /// A [plain](Entry::is_plain) command that owns nothing.
    #[inline(always)]
    pub fn plain<'i>(&'i self, spans: &'i [Span]) -> Option<Plain<'i, 'i>> {
        match &self.what {
            What::Command { spans: range, own, prepared } if own.is_empty() => {
                let (entry, key) = prepared.plain()?;
                Some(Plain { entry, key, bytes: self.bytes, spans: &spans[range.clone()] })
            }
            _ => None,
        }
    }

    /// The row, unless the command is refused anyway.
    pub fn entry(&self) -> Option<&'static Entry> {
        match &self.what {
            What::Command { prepared, .. } | What::Queued { prepared, .. } => prepared.entry(),
            _ => None,
        }
    }

    /// The keys to look for ahead.
    #[inline]
    fn keys(&self) -> Asked<'_> {
        match &self.what {
            What::Command { prepared, .. } => (prepared.keys(), self.db),
            _ => (&[], self.db),
        }
    }

    /// See [`Prepared::element`].
    fn element(&self) -> Option<(usize, usize, KeyHash)> {
        match &self.what {
            What::Command { prepared, .. } => prepared.element(),
            _ => None,
        }
    }

    /// An argument as the parser found it; one that has bytes of its own is empty here.
    fn argument(&self, index: usize, spans: &[Span]) -> Option<&'b [u8]> {
        match &self.what {
            What::Command { spans: range, .. } => spans[range.clone()].get(index).map(|span| span.of(self.bytes)),
            _ => None,
        }
    }

    /// The command cannot run now: the connection keeps it, independent of the buffer that it lies in.
    pub fn put_back(&mut self, connection: &mut Connection, spans: &[Span]) {
        match &mut self.what {
            What::Command { spans: range, own, .. } => {
                let args = Args::request(self.bytes, &spans[range.clone()], std::mem::take(own));
                connection.put_back(args.into_owned());
            }
            What::Book { spans: range } => {
                let args = Args::parsed(self.bytes, &spans[range.clone()], OwnWords::default());
                connection.put_back(args.into_owned());
            }
            What::Queued { args, .. } | What::BookQueued { args } => connection.put_back(std::mem::take(args)),
            What::Violation(error) => connection.violation = Some(*error),
            // Its connection ends without a word.
            What::BookViolation => connection.closing = true,
            What::Done => {}
        }
    }
}

/// Asks for what the commands of a window will read, [`CHUNK`] commands at a time and counted from the window's end:
///
/// ```text
///   before it runs    1        2            3
///   chunk             runs     ask_further  ask_for_entries
/// ```
#[derive(Default)]
pub struct LookAhead {
    /// Commands of the next chunk whose entries have to be looked for further; bit 0 is the first one's.
    further: u16,
}

impl LookAhead {
    /// The window is going to run. `turn` is another one with each window, and chooses the command whose key's table
    /// [shows where it lies](Engine::show_table).
    pub fn begin(&mut self, engine: &Engine, window: &[Item<'_>], spans: &[Span], turn: usize) {
        if let Some(item) = window.get(turn % window.len().max(1)) {
            let (keys, db) = item.keys();
            keys.iter().for_each(|(_, hash)| engine.show_table(db, *hash));
        }
        let (first, later) = window.split_at(window.len().min(window.len() % CHUNK + CHUNK));
        let further = ask_for_entries(engine, first, spans);
        self.further = ask_for_entries(engine, &later[..later.len().min(CHUNK)], spans);
        prefetch::ask_further(engine, keys_of(first), further);
    }

    /// The first of `items` is going to run, the rest of the window.
    #[inline(always)]
    pub fn at(&mut self, engine: &Engine, items: &[Item<'_>], spans: &[Span]) {
        if items.len().is_multiple_of(CHUNK) {
            self.go_on(engine, items, spans);
        }
    }

    #[inline(never)]
    fn go_on(&mut self, engine: &Engine, items: &[Item<'_>], spans: &[Span]) {
        let Some((_, later)) = items.split_at_checked(CHUNK) else { return };
        let (next, later) = later.split_at(later.len().min(CHUNK));
        prefetch::ask_further(engine, keys_of(next), self.further);
        self.further = ask_for_entries(engine, &later[..later.len().min(CHUNK)], spans);
    }
}

/// Of commands in a row about elements of one collection, for these too.
fn ask_for_entries(engine: &Engine, items: &[Item<'_>], spans: &[Span]) -> u16 {
    let further = prefetch::ask_for_entries(engine, keys_of(items));
    let mut left = items;
    while let [item, others @ ..] = left {
        left = others;
        if let Some(element) = item.element() {
            let same =
                others.iter().take_while(|other| other.element() == Some(element) && other.db == item.db).count();
            left = &others[same..];
            if same > 0 {
                prefetch_elements(engine, &items[items.len() - others.len() - 1..][..=same], spans, element);
            }
        }
    }
    further
}

fn keys_of<'i>(items: &'i [Item<'_>]) -> impl Iterator<Item = Asked<'i>> {
    items.iter().map(Item::keys)
}

/// These commands are about elements of one collection, unless two keys have the same hash.
fn prefetch_elements(
    engine: &Engine,
    items: &[Item<'_>],
    spans: &[Span],
    (key, element, hash): (usize, usize, KeyHash),
) {
    let [first, ..] = items else { return };
    let Some(name) = first.argument(key, spans) else { return };
    let elements = items.iter().filter_map(|item| item.argument(element, spans));
    engine.prefetch_elements(first.db, Key { name, hash }, elements);
}

/// Why filling stopped.
#[derive(PartialEq, Eq)]
pub enum Filled {
    /// The window has to run before there can be more.
    Window,
    /// The input is used up.
    Input,
}

/// Parses commands of one connection into the window.
pub struct Filler<'w, 'b> {
    pub engine: &'w Engine,
    pub token: usize,
    pub limits: Limits,
    /// Unix time in milliseconds.
    pub now: i64,
    /// See [`Connection::output_full`].
    pub patience: i64,
    /// The connection has kept others waiting for long enough.
    pub over_budget: bool,
    /// Where to note what is kept, if the input has a buffer of its own.
    pub kept: Option<&'w Cell<Option<(usize, usize)>>>,
    pub command_cache: &'w mut CommandCache,
    /// Set when an item may own memory.
    pub owned: &'w mut bool,
    pub window: &'w mut Vec<Item<'b>>,
    pub spans: &'w mut Vec<Span>,
}

impl<'b> Filler<'_, 'b> {
    /// Goes on at `offset` of the connection's input and leaves there how far it came. Input that cannot be parsed or
    /// run yet becomes the connection's pending input.
    pub fn fill(&mut self, connection: &mut Connection, bytes: &'b [u8], offset: &mut usize) -> Filled {
        connection.put_back = 0;
        if self.over_budget {
            connection.deprioritize();
        }
        connection.unparsed =
            connection.is_held() || connection.output_full(self.now, self.patience) || self.over_budget;
        if connection.unparsed {
            self.keep(connection, bytes, *offset..bytes.len());
            return Filled::Input;
        }
        let db = connection.session.db;
        while self.window.len() < WINDOW {
            let parses = matches!(&connection.wire, Wire::Resp(parser) if parser.is_idle());
            if parses && connection.queued.is_empty() && connection.violation.is_none() && self.limits.take_short() {
                self.fill_short(bytes, offset, db);
                if self.window.len() == WINDOW {
                    break;
                }
            }
            if let Some(args) = connection.queued.pop_front() {
                let args = Box::new(args);
                let what = match connection.wire {
                    Wire::Resp(_) => What::Queued { prepared: self.prepare(&args, db), args },
                    Wire::Book => What::BookQueued { args },
                };
                self.push(Item { token: self.token, db, bytes: &[], what });
                continue;
            }
            if let Some(error) = connection.violation.take() {
                self.push(Item { token: self.token, db, bytes: &[], what: What::Violation(error) });
                return Filled::Input;
            }
            let rest = &bytes[*offset..];
            let parsed = match &mut connection.wire {
                Wire::Resp(parser) => self.parse_resp(parser, rest, db),
                Wire::Book => self.parse_book(rest, db),
            };
            match parsed {
                Consumed::Go(n) => *offset += n,
                Consumed::Wait { keep } => {
                    self.keep(connection, bytes, *offset..*offset + keep);
                    return Filled::Input;
                }
            }
            if !self.limits.authenticated && !self.window.is_empty() {
                // What may come next depends on how this one ends.
                return Filled::Window;
            }
        }
        Filled::Window
    }

    /// Goes on for as long as whole short requests follow each other.
    #[inline(never)]
    fn fill_short(&mut self, bytes: &'b [u8], offset: &mut usize, db: u32) {
        let engine = self.engine;
        let mut at = *offset;
        let mut asked = self.window.len();
        while self.window.len() < WINDOW {
            if self.window.len() - asked >= CHUNK {
                self.ask_for_buckets(asked);
                asked = self.window.len();
            }
            let (rest, first) = (&bytes[at..], self.spans.len());
            let Some((consumed, entry)) = self.command_cache.parse(rest, self.spans) else { break };
            at += consumed;
            let own = OwnWords::default();
            match entry.and_then(|entry| Some((entry, entry.only_key()?))) {
                Some((entry, index)) => {
                    let key = self.spans[first..][index].of(rest);
                    let prepared = Prepared::of_one(engine, entry, index, key);
                    let (token, spans) = (self.token, first..self.spans.len());
                    // Where nothing can fail any more, the item is written where it stays.
                    assert!(self.window.len() < self.window.capacity(), "room for a window");
                    self.window.push(Item { token, db, bytes: rest, what: What::Command { own, spans, prepared } });
                }
                None => {
                    let prepared =
                        dispatch::prepare_entry(engine, entry, &Args::request(rest, &self.spans[first..], own));
                    self.push_short(rest, first, prepared, db);
                }
            }
        }
        self.ask_for_buckets(asked);
        *offset = at;
    }

    /// Of the commands from this one on.
    fn ask_for_buckets(&self, from: usize) {
        prefetch::ask_for_buckets(self.engine, keys_of(&self.window[from..]));
    }

    #[inline(never)]
    fn push_short(&mut self, rest: &'b [u8], first: usize, prepared: Prepared, db: u32) {
        *self.owned |= !prepared.is_inline();
        let what = What::Command { own: OwnWords::default(), spans: first..self.spans.len(), prepared };
        self.window.push(Item { token: self.token, db, bytes: rest, what });
    }

    fn push(&mut self, item: Item<'b>) {
        *self.owned = true;
        self.window.push(item);
    }

    fn keep(&self, connection: &mut Connection, bytes: &[u8], part: Range<usize>) {
        match self.kept {
            Some(kept) => kept.set(Some((part.start, part.end))),
            None => connection.keep_input(&bytes[part]),
        }
    }

    #[inline(always)]
    fn prepare(&self, args: &Args<'_>, db: u32) -> Prepared {
        let prepared = dispatch::prepare(self.engine, args);
        prefetch::ask_for_buckets(self.engine, std::iter::once((prepared.keys(), db)));
        prepared
    }

    #[inline]
    fn parse_resp(&mut self, parser: &mut RequestParser, rest: &'b [u8], db: u32) -> Consumed {
        let first = self.spans.len();
        match parser.parse(rest, &self.limits, self.spans) {
            Ok(Progress::Command { consumed, owned }) => {
                let args = Args::request(rest, &self.spans[first..], owned.into());
                let prepared = self.prepare(&args, db);
                let what = What::Command { own: args.into_own(), spans: first..self.spans.len(), prepared };
                self.push(Item { token: self.token, db, bytes: rest, what });
                Consumed::Go(consumed)
            }
            Ok(Progress::Empty { consumed }) => Consumed::Go(consumed),
            Ok(Progress::Incomplete) => Consumed::Wait { keep: rest.len() },
            Ok(Progress::Large { keep }) => Consumed::Wait { keep },
            Err(error) => {
                self.push(Item { token: self.token, db, bytes: rest, what: What::Violation(error) });
                Consumed::Wait { keep: 0 }
            }
        }
    }

    fn parse_book(&mut self, rest: &'b [u8], db: u32) -> Consumed {
        let first = self.spans.len();
        match resp::book::parse_request(rest, self.spans) {
            Ok(Some(consumed)) => {
                let what = What::Book { spans: first..self.spans.len() };
                self.push(Item { token: self.token, db, bytes: rest, what });
                Consumed::Go(consumed)
            }
            Ok(None) => Consumed::Wait { keep: rest.len() },
            Err(_) => {
                self.push(Item { token: self.token, db, bytes: &[], what: What::BookViolation });
                Consumed::Wait { keep: 0 }
            }
        }
    }
}

/// What parsing did with the input.
enum Consumed {
    /// So many bytes are done with; go on behind them.
    Go(usize),
    /// More has to arrive; so many bytes are kept for it.
    Wait { keep: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_renewed_in_its_own_room() {
        let window = renewed(Vec::new());
        let (start, room) = (window.as_ptr().addr(), window.capacity());
        assert_eq!(room, WINDOW);
        let bytes = vec![0];
        let mut window = renewed(window);
        window.push(Item { token: 0, db: 0, bytes: &bytes, what: What::Done });
        let window: Vec<Item<'static>> = renewed(window);
        assert_eq!((window.as_ptr().addr(), window.capacity(), window.len()), (start, room, 0));
    }
}
