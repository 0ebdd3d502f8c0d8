//! What a connection has sent and what has not run yet.

use crate::core::args::Args;
use resp::{LargeArg, ProtocolError, RequestParser};
use std::collections::VecDeque;

/// What the bytes on a connection are.
#[derive(Debug)]
pub(super) enum Wire {
    /// RESP and inline commands.
    Resp(RequestParser),
    /// The book protocol.
    Book,
}

/// A connection's requests, from its bytes to the batch.
#[derive(Debug)]
pub struct Requests {
    pub(super) wire: Wire,
    /// Requests that were parsed behind one that waits, in order.
    pub(super) queued: VecDeque<Args<'static>>,
    /// How many of the batch's were put back to the front of `queued`.
    pub(super) put_back: usize,
    /// What comes after the last of `queued` is no request.
    pub(super) violation: Option<ProtocolError>,
}

impl Requests {
    /// Of a connection that speaks RESP.
    pub fn resp() -> Requests {
        Requests::of(Wire::Resp(RequestParser::new()))
    }

    /// Of a connection that speaks the book protocol.
    pub fn book() -> Requests {
        Requests::of(Wire::Book)
    }

    fn of(wire: Wire) -> Requests {
        Requests { wire, queued: VecDeque::new(), put_back: 0, violation: None }
    }

    /// Whether the connection speaks the book protocol.
    pub fn is_book(&self) -> bool {
        matches!(self.wire, Wire::Book)
    }

    /// Whether requests wait that have been parsed.
    pub fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Whether there is something for a batch without more input.
    pub fn has_parsed(&self) -> bool {
        self.has_queued() || self.violation.is_some()
    }

    /// The large argument that is being received.
    pub fn large_mut(&mut self) -> Option<&mut LargeArg> {
        match &mut self.wire {
            Wire::Resp(parser) => parser.large_mut(),
            Wire::Book => None,
        }
    }

    /// Bytes that are there of a large argument that is being received.
    pub fn large_len(&self) -> usize {
        match &self.wire {
            Wire::Resp(parser) => parser.large_len(),
            Wire::Book => 0,
        }
    }

    /// Bytes held for the unfinished request besides the connection's input.
    pub fn parser_memory(&self) -> usize {
        match &self.wire {
            Wire::Resp(parser) => parser.memory(),
            Wire::Book => 0,
        }
    }

    /// Bytes of requests that wait.
    pub fn queued_memory(&self) -> usize {
        self.queued.iter().flat_map(|args| args.iter()).map(<[u8]>::len).sum::<usize>()
    }

    /// A request of the present batch cannot run now: it goes before those that wait already.
    pub(super) fn put_back(&mut self, args: Args<'static>) {
        self.queued.insert(self.put_back, args);
        self.put_back += 1;
    }
}
