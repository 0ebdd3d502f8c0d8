//! Replies that the socket has not taken yet.

use crate::stream::Stream;
use std::io;

/// Bytes waiting for a socket, empty most of the time and then without memory.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

/// Memory that an outbox keeps when it has become empty, in bytes.
const KEEP: usize = 0;
/// Sent bytes are cut off when they are at least this many and half of all.
const COMPACT: usize = 64 << 10;

impl Outbox {
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends `bytes` after what waits already: at once as far as the socket takes them, the rest is kept.
    pub fn send(&mut self, stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes;
        if self.is_empty() {
            while !bytes.is_empty() {
                match stream.write(bytes)? {
                    Some(n) => bytes = &bytes[n..],
                    None => break,
                }
            }
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds bytes that go with the next [`flush`](Self::flush).
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Sends what waits, as far as the socket takes it; returns how many bytes went.
    pub fn flush(&mut self, stream: &mut Stream) -> io::Result<usize> {
        let before = self.len();
        while !self.is_empty() {
            match stream.write(&self.bytes[self.sent..])? {
                Some(n) => self.sent += n,
                None => break,
            }
        }
        let went = before - self.len();
        if self.is_empty() {
            self.sent = 0;
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
        } else if self.sent >= COMPACT && self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(went)
    }
}
