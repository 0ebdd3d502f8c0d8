//! A connection of the bus: its socket, and the packets that wait for it.

use crate::connection::peer_socket::Peer;
use cluster::packet::LinkOutput;
use std::io;

pub(super) struct BusLink {
    pub peer: Peer,
    pub output: LinkOutput,
    /// Whether the last bytes that came had messages for subscribers.
    pub brings_messages: bool,
}

impl BusLink {
    pub fn new(peer: Peer) -> BusLink {
        BusLink { peer, output: LinkOutput::default(), brings_messages: false }
    }

    /// Returns the bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.peer.waiting() + self.output.waiting()
    }

    /// Sends as much as the socket takes: it is given no more than that, so that packets of the node go first.
    pub fn flush(&mut self) -> io::Result<()> {
        self.peer.flush()?;
        while self.peer.is_drained()
            && let Some((bytes, range)) = self.output.next_piece()
        {
            self.peer.send(&bytes[range])?;
        }
        Ok(())
    }
}
