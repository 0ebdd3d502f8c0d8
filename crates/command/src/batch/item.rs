//! One request of a batch.

use crate::batch::requests::{QueuedRequest, Requests};
use crate::core::args::{Args, RetainedArgs};
use crate::core::command::{CommandEntry, Flags, MAY_REPLICATE, PUBLISHES, READONLY, RUNS_QUEUED, WRITE};
use crate::core::dispatch::Prepared;
use engine::Engine;
use engine::clients::pubsub::Backlog;
use engine::data::key_hash::KeyHash;
use resp::{ProtocolError, Span};
use std::ops::Range;

/// The keys of a command, with their places among its arguments, and their database.
pub type Asked<'k> = (&'k [(usize, KeyHash)], u32);

/// The places of a key and of an element's name among a command's arguments, and the key's hash.
pub(super) type Element = (usize, usize, KeyHash);

/// A request of the batch, or an event in its place.
pub struct BatchItem<'b> {
    /// The worker's number of its connection.
    pub token: usize,
    /// The database that its keys are prefetched in.
    pub(super) db: u32,
    /// The input from the first byte of the request on.
    pub bytes: &'b [u8],
    pub(super) kind: ItemKind,
}

pub(super) enum ItemKind {
    Command {
        spans: Range<usize>,
        own: RetainedArgs,
        prepared: Prepared,
    },
    /// A command that waited behind another one, or that a translation of another protocol has queued.
    Queued {
        request: Box<QueuedRequest>,
        prepared: Prepared,
    },
    Violation(ProtocolError),
    /// The request has run before another command ended.
    Done,
}

/// A plain command whose arguments own nothing.
pub(super) struct Plain<'i> {
    pub entry: &'static CommandEntry,
    pub key: &'i [(usize, KeyHash); 1],
    /// The request, and its arguments' places in it.
    pub bytes: &'i [u8],
    pub spans: &'i [Span],
}

impl<'b> BatchItem<'b> {
    /// Returns whether the request has run before another command ended.
    pub fn is_done(&self) -> bool {
        matches!(self.kind, ItemKind::Done)
    }

    /// Records that the request has run before another command ended.
    pub fn set_done(&mut self) {
        self.kind = ItemKind::Done;
    }

    #[inline]
    fn prepared(&self) -> Option<&Prepared> {
        match &self.kind {
            ItemKind::Command { prepared, .. } | ItemKind::Queued { prepared, .. } => Some(prepared),
            _ => None,
        }
    }

    /// Returns the command's entry, unless it is refused anyway.
    pub(super) fn entry(&self) -> Option<&'static CommandEntry> {
        self.prepared()?.entry()
    }

    /// Returns whether the command may run a script, which is done apart from its connection.
    #[inline]
    pub(super) fn runs_scripts(&self) -> bool {
        self.prepared().is_some_and(Prepared::runs_scripts)
    }

    /// Returns whether the command can run while another one has the worker's thread.
    pub(super) fn runs_meanwhile(&self) -> bool {
        self.prepared().is_none_or(Prepared::runs_meanwhile)
    }

    /// Returns whether the command's only effect is a message for others.
    pub(super) fn publishes(&self) -> bool {
        self.entry().is_some_and(|entry| entry.command.flags.has(PUBLISHES))
    }

    /// Returns whether others may learn of the command: it sends messages, or changes something, or is shown to
    /// monitors. A command that names no key and does nothing of that is answered in any case.
    #[cold]
    pub(super) fn may_push(&self, engine: &Engine) -> bool {
        match &self.kind {
            ItemKind::Command { prepared, .. } | ItemKind::Queued { prepared, .. } => {
                prepared.entry().is_some_and(|entry| {
                    let command = entry.command;
                    prepared.runs_scripts()
                        || command.flags.has(WRITE.and(MAY_REPLICATE).and(RUNS_QUEUED))
                        || !command.keys.is_empty() && engine.pubsub().is_monitored()
                })
            }
            ItemKind::Violation(_) | ItemKind::Done => false,
        }
    }

    /// Returns whether the command adds to the data that waits for other nodes, and has to wait itself while that is
    /// too much. `queued`: flags of the client's transaction.
    #[cold]
    pub(super) fn awaits_nodes(&self, backlog: Backlog, queued: Option<(Flags, Flags)>) -> bool {
        let Some(flags) = self.entry().map(|entry| entry.command.flags) else { return false };
        flags.has(PUBLISHES)
            || flags.has(RUNS_QUEUED) && queued.is_some_and(|(all, _)| all.has(PUBLISHES))
            || backlog == Backlog::TooMuch && self.runs_scripts()
    }

    /// Returns whether the command changes nothing.
    #[inline]
    pub(super) fn reads(&self) -> bool {
        match &self.kind {
            ItemKind::Command { prepared, .. } => {
                prepared.entry().is_some_and(|entry| entry.command.flags.has(READONLY))
            }
            _ => false,
        }
    }

    /// Returns a [plain](CommandEntry::is_plain) command that owns nothing.
    #[inline(always)]
    pub(super) fn plain<'i>(&'i self, spans: &'i [Span]) -> Option<Plain<'i>> {
        match &self.kind {
            ItemKind::Command { spans: range, own, prepared } if own.is_empty() => {
                let (entry, key) = prepared.plain()?;
                Some(Plain { entry, key, bytes: self.bytes, spans: &spans[range.clone()] })
            }
            _ => None,
        }
    }

    /// Returns the keys to prefetch.
    #[inline]
    pub(super) fn keys(&self) -> Asked<'_> {
        match &self.kind {
            ItemKind::Command { prepared, .. } => (prepared.keys(), self.db),
            _ => (&[], self.db),
        }
    }

    /// Returns the element: see [`Prepared::element`].
    pub(super) fn element(&self) -> Option<Element> {
        match &self.kind {
            ItemKind::Command { prepared, .. } => prepared.element(),
            _ => None,
        }
    }

    /// Returns an argument as the parser found it; one that has bytes of its own is empty here.
    pub(super) fn argument(&self, index: usize, spans: &[Span]) -> Option<&'b [u8]> {
        match &self.kind {
            ItemKind::Command { spans: range, .. } => spans[range.clone()].get(index).map(|span| span.of(self.bytes)),
            _ => None,
        }
    }

    /// Calls `run` with the command and its arguments. None if the item is no command.
    #[inline(always)]
    pub fn call<R>(&mut self, spans: &[Span], run: impl FnOnce(&Prepared, &mut Args<'_>) -> R) -> Option<R> {
        match &mut self.kind {
            ItemKind::Command { spans: range, own, prepared } => {
                let mut args = Args::request(self.bytes, &spans[range.clone()], std::mem::take(own));
                let result = run(prepared, &mut args);
                *own = args.into_own();
                Some(result)
            }
            ItemKind::Queued { request, prepared } => Some(run(prepared, &mut request.args)),
            _ => None,
        }
    }

    /// Returns a request that cannot run now to the connection, independent of the buffer that it lies in.
    pub fn put_back(&mut self, requests: &mut Requests, spans: &[Span]) {
        match &mut self.kind {
            ItemKind::Command { spans: range, own, .. } => {
                let args = Args::request(self.bytes, &spans[range.clone()], std::mem::take(own));
                requests.put_back(QueuedRequest { args: args.into_owned(), entry: None });
            }
            ItemKind::Queued { request, .. } => requests.put_back(std::mem::take(request)),
            ItemKind::Violation(error) => requests.violation = Some(*error),
            ItemKind::Done => {}
        }
    }
}
