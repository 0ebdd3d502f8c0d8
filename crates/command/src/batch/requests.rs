//! A connection's input that has not run yet.

use crate::core::args::Args;
use crate::core::command::CommandEntry;
use resp::{LargeArg, ProtocolError, RequestParser};
use std::collections::VecDeque;

/// A request that is to be added to a batch.
#[derive(Debug, Default)]
pub struct QueuedRequest {
    /// The arguments, independent of any buffer.
    pub args: Args<'static>,
    /// The entry, if it is another one than that of the command's name.
    pub entry: Option<&'static CommandEntry>,
}

/// A connection's requests, from its bytes to the batch.
#[derive(Debug, Default)]
pub struct Requests {
    /// The parser of RESP and inline commands.
    pub(super) parser: RequestParser,
    /// Requests that were parsed behind one that waits, in order.
    pub(super) queued: VecDeque<QueuedRequest>,
    /// The number of the batch's requests that were put back to the front of `queued`.
    pub(super) put_back: usize,
    /// The violation that follows the last of `queued`.
    pub(super) violation: Option<ProtocolError>,
}

impl Requests {
    /// Queues a request that came in another protocol.
    pub fn push(&mut self, request: QueuedRequest) {
        self.queued.push_back(request);
    }

    /// Queues a violation of another protocol: the connection ends behind the requests before it.
    pub fn push_violation(&mut self, error: ProtocolError) {
        self.violation = Some(error);
    }

    /// Returns whether a violation waits behind the queued requests.
    pub fn has_violation(&self) -> bool {
        self.violation.is_some()
    }

    /// Records that a batch is filled anew: requests that are put back come before all others.
    pub fn begin_batch(&mut self) {
        self.put_back = 0;
    }

    /// Returns whether parsed requests wait.
    pub fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns whether there are requests for a batch without more input.
    pub fn has_parsed(&self) -> bool {
        self.has_queued() || self.violation.is_some()
    }

    /// Returns the large argument that is being received.
    pub fn large_mut(&mut self) -> Option<&mut LargeArg> {
        self.parser.large_mut()
    }

    /// Returns the bytes received of a large argument.
    pub fn large_len(&self) -> usize {
        self.parser.large_len()
    }

    /// Returns the bytes held for the unfinished request besides the connection's input.
    pub fn parser_memory(&self) -> usize {
        self.parser.memory()
    }

    /// Returns the bytes of requests that wait.
    pub fn queued_memory(&self) -> usize {
        self.queued.iter().flat_map(|request| request.args.iter()).map(<[u8]>::len).sum::<usize>()
    }

    /// Takes the arguments of all parsed requests, for a thread that runs them in another way.
    pub fn take_queued(&mut self) -> Vec<Args<'static>> {
        self.queued.drain(..).map(|request| request.args).collect()
    }

    /// Puts a request of the present batch back that cannot run now: it goes before those that wait already.
    pub(super) fn put_back(&mut self, request: QueuedRequest) {
        self.queued.insert(self.put_back, request);
        self.put_back += 1;
    }
}
