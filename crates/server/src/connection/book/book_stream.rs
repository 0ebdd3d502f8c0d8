//! A TCP socket whose peer gets replies in the book protocol.
//!
//! Bytes count as written when the socket has all of the frames that they end. A socket that takes a part leaves the
//! rest of the frames here, and the caller with the same bytes: it offers them again, as it would bytes that a plain
//! socket did not take. So only the connection's output knows the unsent bytes, with their limits.

use crate::connection::book::reply_frames::ReplyFrames;
use crate::connection::tls_stream::retry;
use mio::net::TcpStream;
use std::io::{self, IoSlice, Write};

/// A socket, and the replies on their way to it.
#[derive(Debug)]
pub struct BookStream {
    tcp: TcpStream,
    replies: ReplyFrames,
    /// Frames that the socket has not taken, from `went` on.
    frames: Vec<u8>,
    went: usize,
    /// Bytes of these frames' replies that the caller still offers.
    claimed: usize,
}

impl BookStream {
    /// Wraps a socket on which nothing was written.
    pub fn new(tcp: TcpStream) -> BookStream {
        BookStream { tcp, replies: ReplyFrames::default(), frames: Vec::new(), went: 0, claimed: 0 }
    }

    /// Returns the socket.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns the socket, to read from it.
    pub fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Returns the bytes of memory of the frames.
    pub fn memory(&self) -> usize {
        self.frames.capacity() + self.replies.memory()
    }

    /// Writes replies in RESP3; None when the socket takes nothing now.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if !self.flush()? {
            return Ok(None);
        }
        let offered = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.claimed > 0 {
            let went = offered.min(self.claimed);
            self.claimed -= went;
            return Ok(Some(went));
        }
        pieces.iter().for_each(|piece| self.replies.translate(piece, &mut self.frames));
        if self.flush()? {
            return Ok(Some(offered));
        }
        self.claimed = offered;
        Ok(None)
    }

    /// Sends frames as far as the socket takes them; true when it has all.
    fn flush(&mut self) -> io::Result<bool> {
        while self.went < self.frames.len() {
            match retry(|| self.tcp.write(&self.frames[self.went..]))? {
                Some(n) => self.went += n,
                None => return Ok(false),
            }
        }
        (self.frames, self.went) = (Vec::new(), 0);
        Ok(true)
    }
}
