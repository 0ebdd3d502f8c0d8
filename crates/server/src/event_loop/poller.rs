//! A worker's sources of events: its sockets, its mailbox, new connections.

use crate::connection::peer_socket::Peer;
use crate::connection::socket::{Readiness, SocketStream};
use crate::listener::acceptor::LISTENERS;
use crate::workers::mailbox::WAKE;
use cluster::proxy::ProxyLink;
use mio::{Events, Poll, Token};
use std::io;
use std::time::Duration;

/// An event that a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollEvent {
    /// There are messages from other threads.
    Messages,
    /// Clients may wait to be connected.
    Listeners,
    /// A connection to another node of the cluster can be read from or written to.
    Link { link: ProxyLink, readiness: Readiness },
    /// A connection's socket can be read from or written to.
    Socket { token: usize, readiness: Readiness },
}

/// Tokens of connections to other nodes are their numbers from here on: no worker has so many clients.
const LINKS: usize = usize::MAX / 2 + 1;

/// A worker's poll.
pub struct Poller {
    poll: Poll,
}

impl Poller {
    /// Wraps this poll, with which the worker's mailbox is registered.
    pub fn new(poll: Poll) -> Poller {
        Poller { poll }
    }

    /// Returns the poll, for another thread.
    pub fn into_poll(self) -> Poll {
        self.poll
    }

    /// Reports events of the socket from now on, each change once.
    pub fn register(&self, stream: &mut SocketStream, token: usize) -> io::Result<()> {
        stream.register(self.poll.registry(), Token(token))
    }

    /// Reports no events of the socket any more.
    pub fn deregister(&self, stream: &mut SocketStream) -> io::Result<()> {
        stream.deregister(self.poll.registry())
    }

    /// Reports events of a connection to another node from now on.
    pub fn register_link(&self, peer: &mut Peer, link: ProxyLink) -> io::Result<()> {
        let number = usize::try_from(link.0).map_err(io::Error::other)?;
        peer.register(self.poll.registry(), Token(LINKS | number))
    }

    /// Waits until something happens, for `time` at most. False if a signal came: then no event is reported.
    pub fn wait(&mut self, events: &mut Events, time: Duration) -> io::Result<bool> {
        match self.poll.poll(events, Some(time)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            result => result.map(|()| true),
        }
    }
}

/// Returns the events that have happened.
#[inline]
pub fn told(events: &Events) -> impl Iterator<Item = PollEvent> {
    events.iter().map(|event| match event.token() {
        WAKE => PollEvent::Messages,
        LISTENERS => PollEvent::Listeners,
        Token(token) if token >= LINKS => {
            PollEvent::Link { link: ProxyLink((token - LINKS) as u64), readiness: Readiness::of(event) }
        }
        Token(token) => PollEvent::Socket { token, readiness: Readiness::of(event) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::mailbox::{Mailbox, WorkerMessage};
    use mio::net::UnixStream;
    use std::io::Write;

    #[test]
    fn sockets_and_messages_are_told_apart() {
        let poll = Poll::new().unwrap();
        let (mailbox, inbox) = Mailbox::new(&poll).unwrap();
        inbox.hear();
        let mut poller = Poller::new(poll);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = SocketStream::Unix(ours);
        poller.register(&mut stream, 7).unwrap();
        let mut events = Events::with_capacity(8);
        let mut wait = || {
            assert!(poller.wait(&mut events, Duration::ZERO).unwrap());
            told(&events).collect::<Vec<_>>()
        };
        wait();
        assert!(wait().is_empty(), "each change is told once");
        let _ = mailbox.post(WorkerMessage::Stop, false);
        assert_eq!(wait(), [PollEvent::Messages]);
        theirs.write_all(b"x").unwrap();
        let told = wait();
        assert!(matches!(told[..], [PollEvent::Socket { token: 7, .. }]), "{told:?}");
    }
}
