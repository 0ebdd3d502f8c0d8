//! A client's socket: TCP, Unix, TLS, or TCP with the book protocol's replies. All have one behaviour.

use crate::connection::book::book_stream::BookStream;
use crate::connection::tls_stream::{TlsStream, retry};
use mio::event::{Event, Source};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};

/// A non-blocking stream socket.
#[derive(Debug)]
pub enum SocketStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
    Book(Box<BookStream>),
}

impl SocketStream {
    /// Returns the stream with replies in the book protocol; only TCP has it.
    pub fn into_book(self) -> SocketStream {
        match self {
            SocketStream::Tcp(stream) => SocketStream::Book(Box::new(BookStream::new(stream))),
            other => other,
        }
    }

    /// Returns whether the peer speaks the book protocol.
    pub fn is_book(&self) -> bool {
        matches!(self, SocketStream::Book(_))
    }

    /// Reads once; None when nothing has arrived.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            SocketStream::Tcp(stream) => retry(|| stream.read(to)),
            SocketStream::Unix(stream) => retry(|| stream.read(to)),
            SocketStream::Tls(stream) => stream.read(to),
            SocketStream::Book(stream) => retry(|| stream.tcp_mut().read(to)),
        }
    }

    /// Writes once; None when the socket takes nothing now. Bytes that were not taken have to be offered again.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            SocketStream::Tcp(stream) => retry(|| stream.write(bytes)),
            SocketStream::Unix(stream) => retry(|| stream.write(bytes)),
            SocketStream::Tls(stream) => stream.write_vectored(&[IoSlice::new(bytes)]),
            SocketStream::Book(stream) => stream.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes several pieces at once, likewise.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match self {
            SocketStream::Tcp(stream) => retry(|| stream.write_vectored(pieces)),
            SocketStream::Unix(stream) => retry(|| stream.write_vectored(pieces)),
            SocketStream::Tls(stream) => stream.write_vectored(pieces),
            SocketStream::Book(stream) => stream.write_vectored(pieces),
        }
    }

    /// Returns whether a read may find more after one that found `filled` or less than there was room for.
    #[inline]
    fn may_have_more(&self, filled: bool) -> bool {
        match self {
            SocketStream::Tls(stream) => stream.may_have_more(),
            _ => filled,
        }
    }

    /// Returns the bytes of memory of the socket's buffers.
    #[inline]
    pub fn memory(&self) -> usize {
        match self {
            SocketStream::Tls(stream) => stream.memory(),
            SocketStream::Book(stream) => stream.memory(),
            _ => 0,
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            SocketStream::Tcp(stream) => stream,
            SocketStream::Unix(stream) => stream,
            SocketStream::Tls(stream) => stream.tcp_mut(),
            SocketStream::Book(stream) => stream.tcp_mut(),
        }
    }

    /// Registers for both directions at once and edge-triggered, so that the registration never has to change.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.source(), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Ends the registration.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(self.source())
    }

    /// Sets whether small pieces go out at once, or when more has come together.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        match self {
            SocketStream::Tcp(stream) => stream.set_nodelay(on),
            SocketStream::Tls(stream) => stream.tcp().set_nodelay(on),
            SocketStream::Book(stream) => stream.tcp().set_nodelay(on),
            SocketStream::Unix(_) => Ok(()),
        }
    }

    /// Ends writing; the peer reads the end behind all that was written.
    pub fn end_writing(&self) -> io::Result<()> {
        match self {
            SocketStream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            SocketStream::Unix(stream) => stream.shutdown(Shutdown::Write),
            SocketStream::Tls(stream) => stream.tcp().shutdown(Shutdown::Write),
            SocketStream::Book(stream) => stream.tcp().shutdown(Shutdown::Write),
        }
    }

    /// Returns the socket's number, for CLIENT LIST.
    pub fn fd(&self) -> RawFd {
        match self {
            SocketStream::Tcp(stream) => stream.as_raw_fd(),
            SocketStream::Unix(stream) => stream.as_raw_fd(),
            SocketStream::Tls(stream) => stream.tcp().as_raw_fd(),
            SocketStream::Book(stream) => stream.tcp().as_raw_fd(),
        }
    }
}

/// Readiness of a socket as the poll reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub readable: bool,
    pub hung_up: bool,
    pub writable: bool,
}

impl Readiness {
    /// Returns the readiness that an event reports.
    #[inline]
    pub fn of(event: &Event) -> Readiness {
        let hung_up = event.is_read_closed() || event.is_error();
        Readiness::new(event.is_readable(), event.is_writable(), hung_up)
    }

    /// Creates it from: there is something to read, something can be written, the peer will send no more.
    #[inline]
    pub fn new(readable: bool, writable: bool, hung_up: bool) -> Readiness {
        Readiness { readable: readable || hung_up, writable, hung_up }
    }
}

/// A connection's socket and its known state.
#[derive(Debug)]
pub struct Socket {
    stream: SocketStream,
    /// Whether the socket may have more than was read.
    readable: bool,
    /// Whether bytes wait to be sent and the socket may take more of them.
    takes_more: bool,
    /// Whether the peer will send no more; bytes that it sent before may still have to be read.
    hung_up: bool,
    /// Whether all was read that the peer has sent.
    ended: bool,
}

impl Socket {
    /// Wraps the socket of a new connection: bytes may have come already.
    pub fn new(stream: SocketStream) -> Socket {
        Socket { stream, readable: true, takes_more: false, hung_up: false, ended: false }
    }

    /// Records an event of the poll. `has_unsent`: there is something to send.
    #[inline]
    pub fn note(&mut self, readiness: Readiness, has_unsent: bool) {
        self.readable |= readiness.readable;
        self.hung_up |= readiness.hung_up;
        self.takes_more |= readiness.writable && has_unsent;
        if let SocketStream::Tls(stream) = &mut self.stream
            && readiness.writable
            && stream.has_sealed()
        {
            // An error returns with the next operation.
            let _ = stream.flush();
        }
    }

    /// Returns whether the socket may have more than was read.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// Returns whether bytes wait to be sent and the socket may take more of them.
    #[inline]
    pub fn takes_more(&self) -> bool {
        self.takes_more
    }

    /// Records whether bytes wait to be sent and the socket may take more of them.
    #[inline]
    pub fn set_takes_more(&mut self, more: bool) {
        self.takes_more = more;
    }

    /// Returns whether the peer will send no more.
    #[inline]
    pub fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Returns whether all was read that the peer has sent, and it sends no more.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the bytes of memory of the socket's buffers.
    #[inline]
    pub fn memory(&self) -> usize {
        self.stream.memory()
    }

    /// Returns the stream alone.
    pub fn into_stream(self) -> SocketStream {
        self.stream
    }

    /// Returns the stream that output goes to.
    #[inline]
    pub fn stream(&mut self) -> &mut SocketStream {
        &mut self.stream
    }

    /// Reads once. Zero bytes: nothing is there now, or (then [`has_ended`](Self::has_ended)) ever.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(to)? {
            None => self.readable = false,
            Some(0) => {
                self.readable = false;
                self.ended = true;
            }
            Some(n) => {
                // A read of less than there was room for means that a plain socket is empty: the next bytes are a new
                // event. The end of the stream may have been announced already.
                self.readable = self.stream.may_have_more(n == to.len()) || self.hung_up;
                return Ok(n);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_readable_until_a_read_finds_less_than_there_was_room_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut socket = Socket::new(SocketStream::Unix(ours));
        let mut buffer = [0; 4];
        theirs.write_all(b"abcdef").unwrap();
        assert_eq!((socket.read(&mut buffer).unwrap(), socket.is_readable()), (4, true));
        assert_eq!((socket.read(&mut buffer).unwrap(), socket.is_readable()), (2, false));
        assert_eq!((socket.read(&mut buffer).unwrap(), socket.has_ended()), (0, false));
        theirs.write_all(b"g").unwrap();
        drop(theirs);
        socket.note(Readiness::new(false, false, true), false);
        assert_eq!((socket.read(&mut buffer).unwrap(), socket.is_readable()), (1, true), "the end is still to be read");
        assert_eq!((socket.read(&mut buffer).unwrap(), socket.is_readable()), (0, false));
        assert!(socket.has_ended() && socket.has_hung_up());
    }

    #[test]
    fn a_socket_takes_more_only_of_what_waits() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut socket = Socket::new(SocketStream::Unix(ours));
        let writable = Readiness::new(false, true, false);
        socket.note(writable, false);
        assert!(!socket.takes_more());
        socket.note(writable, true);
        assert!(socket.takes_more());
    }
}
