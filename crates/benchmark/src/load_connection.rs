//! One connection of the load: its unsent bytes, its pending requests, and the moments at which those were due.

use crate::load_generator::{Plan, PlanNode, RunFailure};
use crate::load_socket::Socket;
use crate::reply_counter::{ReplyCounter, Trouble};
use mio::{Registry, Token};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Instant;

/// Requests that were sent together, of one operation, and are not all answered.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// When they were due.
    pub due: Instant,
    pub operation: usize,
    /// Number of replies still missing.
    pub replies: u64,
}

#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    counter: ReplyCounter,
    /// Bytes that the socket has not taken yet.
    unsent: Vec<u8>,
    /// Number of replies to the greeting still missing.
    greeting: u64,
    /// Requests without a reply, in the order in which they were sent.
    in_flight: VecDeque<InFlight>,
    /// Number of the node that it is connected to.
    pub node: usize,
    /// Whether it has sent a batch.
    pub used: bool,
}

impl Connection {
    /// Connects and greets.
    pub fn open(plan: &Plan<'_>, node: usize, registry: &Registry, token: Token) -> Result<Connection, RunFailure> {
        let PlanNode { target, greeting, greeting_replies } = &plan.nodes[node];
        let mut connection = Connection {
            socket: Socket::connect(plan, target, registry, token).map_err(RunFailure::Connect)?,
            counter: ReplyCounter::new(plan.has_tags),
            unsent: greeting.clone(),
            greeting: *greeting_replies,
            in_flight: VecDeque::new(),
            node,
            used: false,
        };
        connection.flush()?;
        Ok(connection)
    }

    /// Returns whether no reply is missing.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns whether the socket took all bytes that it was given.
    pub fn takes_more(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Returns whether a read that found less than it had room for has emptied the socket.
    pub fn is_plain(&self) -> bool {
        self.socket.is_plain()
    }

    /// Returns the redirections since the last call, by nodes that do not serve a slot.
    pub fn take_redirections(&mut self) -> Vec<String> {
        std::mem::take(&mut self.counter.redirections)
    }

    /// Records requests that are about to be written.
    pub fn expect(&mut self, sent: InFlight) {
        self.used = true;
        if sent.replies > 0 {
            self.in_flight.push_back(sent);
        }
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), RunFailure> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(bytes);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(RunFailure::Lost(error)),
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), RunFailure> {
        if self.unsent.is_empty() {
            return self.socket.flush().map_err(RunFailure::Lost);
        }
        let bytes = std::mem::take(&mut self.unsent);
        self.write(&bytes)
    }

    /// Reads the bytes that are there; None when there are none.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, RunFailure> {
        loop {
            return match self.socket.read(buffer) {
                Ok(0) => Err(RunFailure::Lost(ErrorKind::UnexpectedEof.into())),
                Ok(count) => Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(RunFailure::Lost(error)),
            };
        }
    }

    /// Counts the replies that end in `bytes`, and passes on the requests that they answer, with their number for each.
    pub fn answered(&mut self, bytes: &[u8], mut tell: impl FnMut(&InFlight, u64)) -> Result<(), RunFailure> {
        let mut ended = self.counter.feed(bytes).map_err(|trouble| match trouble {
            Trouble::Error(text) => RunFailure::Server(text),
            Trouble::Protocol => RunFailure::Protocol,
        })?;
        let greeted = ended.min(self.greeting);
        self.greeting -= greeted;
        ended -= greeted;
        while ended > 0 {
            let oldest = self.in_flight.front_mut().ok_or(RunFailure::Protocol)?;
            let count = ended.min(oldest.replies);
            tell(oldest, count);
            ended -= count;
            oldest.replies -= count;
            if oldest.replies == 0 {
                self.in_flight.pop_front();
            }
        }
        Ok(())
    }
}
