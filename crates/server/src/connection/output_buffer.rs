//! Replies that the socket has not taken yet.
//!
//! ```text
//!   first   [ sent | unsent      ]        as much room as the client's replies have needed lately (1 to 16 KiB)
//!   list    [ unsent             ]        20 KiB each, or as large as what was added at once
//!           [ unsent |    free   ]
//! ```
//!
//! All of it is allocated when the socket takes no more, and freed when it has taken everything: empty, an output
//! buffer is a few numbers. The first buffer is no reason to disconnect a client; `client-output-buffer-limit` limits
//! the others.

use crate::connection::socket::SocketStream;
use engine::time::UnixMs;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::sync::Arc;

/// Unsent bytes, and how large the first buffer for them should be.
#[derive(Debug)]
pub struct OutputBuffer {
    buffers: VecDeque<Buffer>,
    /// Whether the front one is the first buffer.
    has_first: bool,
    /// Bytes of the front buffer that were sent.
    sent: usize,
    /// Unsent bytes.
    len: usize,
    /// Capacity of the buffers behind the first.
    list_bytes: usize,
    room: u32,
    peak: u32,
    /// Unix time in milliseconds when `peak` was last measured anew.
    measured_at: UnixMs,
}

/// Unsent bytes that lie together.
#[derive(Debug)]
enum Buffer {
    Own(Vec<u8>),
    /// A string that others have, too.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Own(bytes) => bytes,
            Buffer::Shared(bytes) => bytes,
        }
    }
}

impl Buffer {
    /// Returns the bytes of memory that it counts for: a shared string counts like a copy of it.
    fn room(&self) -> usize {
        match self {
            Buffer::Own(bytes) => bytes.capacity(),
            Buffer::Shared(bytes) => bytes.len(),
        }
    }
}

/// Bytes of a buffer behind the first, at least: the size of Valkey's, so that limits end the same replies.
pub const CHUNK: usize = 20 << 10;
/// Bytes of the first buffer.
const FIRST_MIN: u32 = 1 << 10;
const FIRST_MAX: u32 = 16 << 10;
/// Bytes of a buffer behind a shared string, at least: little comes between two of them.
const BETWEEN: usize = 1 << 10;
/// Buffers that are sent together.
const SLICES: usize = 16;
/// Bytes that are sent at a time when everything is to go.
const FLUSH_MAX: usize = 64 << 10;

/// Result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes that were sent.
    pub went: usize,
    /// Whether the socket may take more.
    pub more: bool,
}

/// Change of the first buffer's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    No,
    Smaller,
    Larger,
}

impl Default for OutputBuffer {
    fn default() -> Self {
        OutputBuffer {
            buffers: VecDeque::new(),
            has_first: false,
            sent: 0,
            len: 0,
            list_bytes: 0,
            room: FIRST_MAX,
            peak: FIRST_MAX,
            measured_at: UnixMs(0),
        }
    }
}

impl OutputBuffer {
    /// Returns the unsent bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing is unsent.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the room of the first buffer, and the most that was needed of it lately.
    pub fn room(&self) -> (usize, usize) {
        (self.room as usize, self.peak as usize)
    }

    /// Returns the unsent bytes of the first buffer.
    pub fn first_len(&self) -> usize {
        match self.buffers.front() {
            Some(first) if self.has_first => first.len() - self.sent,
            _ => 0,
        }
    }

    /// Returns the number of buffers behind the first, and their bytes.
    pub fn list(&self) -> (usize, usize) {
        (self.buffers.len() - usize::from(self.has_first), self.list_bytes)
    }

    /// Returns the bytes of memory of the buffers.
    pub fn memory(&self) -> usize {
        let first = if self.has_first { self.buffers.front().map_or(0, Buffer::room) } else { 0 };
        self.list_bytes + first + self.buffers.capacity() * size_of::<Buffer>()
    }

    /// Sends `bytes` after the unsent ones: at most `most` of them at once and as far as the socket takes them, the
    /// rest is retained. True when the socket may take more of it.
    pub fn send(&mut self, stream: &mut SocketStream, bytes: &[u8], most: usize) -> io::Result<bool> {
        self.peak = self.peak.max(bytes.len().min(self.room as usize) as u32);
        let mut went = 0;
        let mut takes = self.is_empty();
        while takes && went < bytes.len().min(most) {
            match stream.write(&bytes[went..bytes.len().min(most)])? {
                Some(n) => went += n,
                None => takes = false,
            }
        }
        self.append(&bytes[went..]);
        Ok(takes && went < bytes.len())
    }

    /// Adds bytes that go with the next [`flush`](Self::flush).
    pub fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.buffers.is_empty() {
            self.buffers.push_back(Buffer::Own(Vec::with_capacity(self.room as usize)));
            self.has_first = true;
        }
        self.len += bytes.len();
        let (mut rest, mut least) = (bytes, BETWEEN);
        if let Some(Buffer::Own(last)) = self.buffers.back_mut() {
            least = CHUNK;
            let (now, later) = bytes.split_at(bytes.len().min(last.capacity() - last.len()));
            last.extend_from_slice(now);
            rest = later;
        }
        if !rest.is_empty() {
            let mut chunk = Vec::with_capacity(rest.len().max(least));
            chunk.extend_from_slice(rest);
            self.list_bytes += chunk.capacity();
            self.buffers.push_back(Buffer::Own(chunk));
        }
    }

    /// Adds a string that goes with the next [`flush`](Self::flush), and is not copied.
    pub fn append_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        // The sent bytes of the first buffer are counted there.
        debug_assert!(!self.buffers.is_empty(), "a header is before it");
        self.len += bytes.len();
        self.list_bytes += bytes.len();
        self.buffers.push_back(Buffer::Shared(Arc::clone(bytes)));
    }

    /// Sends unsent bytes, as far as the socket takes them and up to `most` or a few more: the kernel takes long to
    /// copy them, and others wait meanwhile.
    pub fn flush(&mut self, stream: &mut SocketStream, most: usize) -> io::Result<Flushed> {
        let before = self.len;
        while !self.is_empty() && before - self.len < most {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let (mut count, mut left) = (0, most);
            for (slice, buffer) in slices.iter_mut().zip(&self.buffers) {
                let unsent = &buffer[if count == 0 { self.sent } else { 0 }..];
                *slice = IoSlice::new(&unsent[..unsent.len().min(left)]);
                left -= slice.len();
                count += 1;
            }
            match stream.write_vectored(&slices[..count])? {
                Some(n) => self.take_off(n),
                None => return Ok(Flushed { went: before - self.len, more: false }),
            }
        }
        Ok(Flushed { went: before - self.len, more: !self.is_empty() })
    }

    /// Sends the unsent bytes, as far as the socket takes them.
    pub fn flush_all(&mut self, stream: &mut SocketStream) -> io::Result<()> {
        while self.flush(stream, FLUSH_MAX)?.more {}
        Ok(())
    }

    /// Removes the bytes that were sent.
    fn take_off(&mut self, n: usize) {
        self.len -= n;
        self.sent += n;
        while let Some(front) = self.buffers.front()
            && self.sent >= front.len()
        {
            self.sent -= front.len();
            if !std::mem::take(&mut self.has_first) {
                self.list_bytes -= front.room();
            }
            self.buffers.pop_front();
        }
        if self.buffers.is_empty() {
            self.buffers = VecDeque::new();
        }
    }

    /// Fits the first buffer's room, from its next allocation on, to the recent need: larger when all of it was in use,
    /// smaller when less than half. `peak_reset_time`: milliseconds that "recent" lasts, negative for ever.
    pub fn resize(&mut self, now: UnixMs, peak_reset_time: i64) -> Resized {
        let room = self.room;
        if self.room / 2 >= FIRST_MIN && self.peak < self.room / 2 {
            self.room = FIRST_MIN.max(self.peak + 1);
        } else if self.room < FIRST_MAX && self.peak == self.room {
            self.room = (self.room * 2).min(FIRST_MAX);
        }
        if peak_reset_time >= 0 && now.since(self.measured_at) > peak_reset_time {
            self.peak = self.first_len().min(self.room as usize) as u32;
            self.measured_at = now;
        }
        match self.room {
            new if new < room => Resized::Smaller,
            new if new > room => Resized::Larger,
            _ => Resized::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::UnixStream;
    use std::io::Read;

    #[test]
    fn bytes_that_the_socket_does_not_take_go_later_in_the_same_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = SocketStream::Unix(ours);
        let mut output = OutputBuffer::default();
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        for (number, part) in sent.chunks(70_001).enumerate() {
            if number % 3 == 1 {
                output.append(&part[..11]);
                output.append_shared(&Arc::new(part[11..].to_vec()));
            } else {
                output.send(&mut stream, part, usize::MAX).unwrap();
            }
        }
        let (count, bytes) = output.list();
        assert!(count > 1 && output.first_len() > 0 && output.len() <= output.first_len() + bytes);
        assert!(output.memory() >= output.len());
        let mut got = Vec::new();
        let mut buffer = vec![0; 100_000];
        while got.len() < sent.len() {
            while let Ok(n) = theirs.read(&mut buffer) {
                got.extend_from_slice(&buffer[..n]);
            }
            let Flushed { went, more } = output.flush(&mut stream, FLUSH_MAX).unwrap();
            assert!(went < 2 * FLUSH_MAX && (!more || went >= FLUSH_MAX));
        }
        assert!(got == sent);
        assert_eq!((output.len(), output.list(), output.memory()), (0, (0, 0), 0));
    }

    #[test]
    fn no_more_goes_at_once_than_may() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = SocketStream::Unix(ours);
        let mut output = OutputBuffer::default();
        assert!(output.send(&mut stream, b"0123456789", 4).unwrap(), "the socket takes more");
        assert!(!output.send(&mut stream, b"ab", 4).unwrap(), "nothing was tried");
        let mut buffer = [0; 20];
        assert_eq!((theirs.read(&mut buffer).unwrap(), output.len()), (4, 8));
        output.flush_all(&mut stream).unwrap();
        assert_eq!(theirs.read(&mut buffer[4..]).unwrap(), 8);
        assert_eq!(&buffer[..12], b"0123456789ab");
        assert!(!output.send(&mut stream, b"cd", 2).unwrap(), "nothing is left");
    }

    #[test]
    fn the_first_buffer_follows_the_size_of_replies() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut stream = SocketStream::Unix(ours);
        let mut output = OutputBuffer::default();
        assert_eq!(output.resize(UnixMs(101), 100), Resized::No, "until now all of it might have been needed");
        output.send(&mut stream, &[0; 3000], usize::MAX).unwrap();
        assert_eq!((output.resize(UnixMs(150), 100), output.room()), (Resized::Smaller, (3001, 3000)));
        assert_eq!((output.resize(UnixMs(202), 100), output.resize(UnixMs(203), 100)), (Resized::No, Resized::Smaller));
        assert_eq!(output.room(), (1024, 0));
        for (room, peak) in [(2048, 1024), (4096, 2048), (8192, 4096), (16384, 8192)] {
            output.send(&mut stream, &[0; 20_000], usize::MAX).unwrap();
            assert_eq!((output.resize(UnixMs(300), -1), output.room()), (Resized::Larger, (room, peak)));
        }
        output.send(&mut stream, &[0; 20_000], usize::MAX).unwrap();
        assert_eq!((output.resize(UnixMs(300), -1), output.room()), (Resized::No, (16384, 16384)));
    }
}
