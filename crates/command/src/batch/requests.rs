//! A connection's input that has not run yet.

use crate::core::args::Args;
use resp::{LargeArg, ProtocolError, RequestParser};
use std::collections::VecDeque;

/// The protocol of a connection.
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
    /// The number of the batch's requests that were put back to the front of `queued`.
    pub(super) put_back: usize,
    /// The violation that follows the last of `queued`.
    pub(super) violation: Option<ProtocolError>,
}

impl Requests {
    /// Returns the state of a connection that speaks RESP.
    pub fn resp() -> Requests {
        Requests::of(Wire::Resp(RequestParser::new()))
    }

    /// Returns the state of a connection that speaks the book protocol.
    pub fn book() -> Requests {
        Requests::of(Wire::Book)
    }

    fn of(wire: Wire) -> Requests {
        Requests { wire, queued: VecDeque::new(), put_back: 0, violation: None }
    }

    /// Returns whether the connection speaks the book protocol.
    pub fn is_book(&self) -> bool {
        matches!(self.wire, Wire::Book)
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
        match &mut self.wire {
            Wire::Resp(parser) => parser.large_mut(),
            Wire::Book => None,
        }
    }

    /// Returns the bytes received of a large argument.
    pub fn large_len(&self) -> usize {
        match &self.wire {
            Wire::Resp(parser) => parser.large_len(),
            Wire::Book => 0,
        }
    }

    /// Returns the bytes held for the unfinished request besides the connection's input.
    pub fn parser_memory(&self) -> usize {
        match &self.wire {
            Wire::Resp(parser) => parser.memory(),
            Wire::Book => 0,
        }
    }

    /// Returns the bytes of requests that wait.
    pub fn queued_memory(&self) -> usize {
        self.queued.iter().flat_map(|args| args.iter()).map(<[u8]>::len).sum::<usize>()
    }

    /// Puts a request of the present batch back that cannot run now: it goes before those that wait already.
    pub(super) fn put_back(&mut self, args: Args<'static>) {
        self.queued.insert(self.put_back, args);
        self.put_back += 1;
    }
}
