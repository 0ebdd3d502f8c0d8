//! A client's socket: TCP or Unix, one behaviour.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// A non-blocking stream socket.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Reads once; None when nothing has arrived.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        retry(|| match self {
            Stream::Tcp(stream) => stream.read(to),
            Stream::Unix(stream) => stream.read(to),
        })
    }

    /// Writes once; None when the socket takes nothing now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        retry(|| match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        })
    }

    /// Writes several pieces at once, likewise.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        retry(|| match self {
            Stream::Tcp(stream) => stream.write_vectored(pieces),
            Stream::Unix(stream) => stream.write_vectored(pieces),
        })
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
        }
    }

    /// Both directions at once and edge-triggered, so that the registration never has to change.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.source(), token, Interest::READABLE | Interest::WRITABLE)
    }

    pub fn fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// A connection's socket and what is known of it.
pub struct Socket {
    pub stream: Stream,
    /// It may have more than was read.
    pub readable: bool,
    /// It may take more of the output.
    pub writable: bool,
    /// The peer will send no more; what it sent before may still have to be read.
    pub hung_up: bool,
    /// All was read that the peer has sent.
    pub ended: bool,
}

impl Socket {
    /// Reads once. Zero bytes: nothing is there now, or (then `ended`) ever.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(to)? {
            None => self.readable = false,
            Some(0) => {
                self.readable = false;
                self.ended = true;
            }
            Some(n) => {
                // Less than there was room for means that the socket is empty: the next bytes are a new event. The
                // end of the stream may have been announced already.
                self.readable = n == to.len() || self.hung_up;
                return Ok(n);
            }
        }
        Ok(0)
    }
}

/// Repeats what a signal interrupted, and tells "not now" from failure.
fn retry(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match io() {
            Ok(n) => return Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
