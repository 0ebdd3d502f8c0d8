//! A connection's input that has not run yet.
//!
//! ```text
//!   socket -> a large argument: into its final place
//!          -> anything else, behind what is pending: to the worker's arena, or to an own buffer if long
//!   parsed as far as it goes -> the rest is pending until more comes
//! ```
//!
//! A connection with no input holds no memory for it: room for pending input stays for two seconds of silence.

use crate::connection::book::book_requests;
use crate::connection::socket::Socket;
use commands::Args;
use commands::batch::Batch;
use commands::batch::item::BatchItem;
use commands::batch::parse::{Filled, RequestSource};
use commands::batch::requests::Requests;
use resp::Span;
use std::io;
use std::ops::Range;

/// Unfinished input longer than this is parsed where it lies instead of being copied to the arena.
pub const PENDING_COPY_MAX: usize = 16 << 10;
/// Factor by which more may be read at a time for a large argument, which is not parsed.
const LARGE: usize = 4;
/// Bytes of room for the input of a client that has sent a part of a command, and the most that is retained after
/// longer ones.
const INPUT_ROOM: usize = 16 << 10;
const INPUT_ROOM_MAX: usize = 32 << 10;

/// A connection's input.
#[derive(Debug)]
pub struct Input {
    requests: Requests,
    /// Input of a command that is not complete, or that may not run yet.
    pending: Vec<u8>,
    /// Whether `pending` was put back before it was parsed to its end.
    unparsed: bool,
    /// Whether the input is the book protocol's.
    is_book: bool,
}

/// Place of input that is to be parsed.
#[derive(Debug)]
pub enum InputBytes {
    /// In this range of the worker's arena.
    Arena(Range<usize>),
    /// In the connection's own buffer.
    Own(Vec<u8>),
}

/// Input that was gathered for one connection.
#[derive(Debug)]
pub struct Gathered {
    /// Input that is to be parsed.
    pub bytes: InputBytes,
    /// Bytes that came from the socket.
    pub read: usize,
    /// Whether there is more to parse than before.
    pub more: bool,
    /// Whether the input belongs to a large argument.
    pub is_large: bool,
}

/// A connection's input in bytes, for CLIENT LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputSizes {
    /// Unfinished requests, and free room behind them.
    pub query: usize,
    pub free: usize,
    /// Requests that wait, and complete arguments.
    pub args: usize,
}

impl Input {
    /// Creates the input of a connection that has sent nothing.
    pub fn new(is_book: bool) -> Input {
        Input { requests: Requests::default(), pending: Vec::new(), unparsed: false, is_book }
    }

    /// Returns whether the connection speaks the book protocol.
    pub fn is_book(&self) -> bool {
        self.is_book
    }

    /// Returns whether there is something to parse or run without more input.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.unparsed || self.requests.has_parsed()
    }

    /// Returns whether pending input was not parsed to its end, since nothing may run.
    #[inline]
    pub fn set_unparsed(&mut self, unparsed: bool) {
        self.unparsed = unparsed;
    }

    /// Returns the pending input.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Reads at most `most` bytes: a large argument into its final place, anything else behind the pending input, which
    /// is to be at `start` of the arena (for which room is left) or, when it is long, is in a buffer of its own.
    pub fn gather(&mut self, socket: &mut Socket, arena: &mut [u8], start: usize, most: usize) -> io::Result<Gathered> {
        let mut read = 0;
        let mut more = false;
        if let Some(large) = self.requests.large_mut() {
            while large.missing() > 0 && socket.is_readable() && read < LARGE * most {
                let room = large.unfilled().len().min(LARGE * most - read);
                let n = socket.read(&mut large.unfilled()[..room])?;
                large.advance(n);
                read += n;
            }
            if large.missing() > 0 {
                let own = std::mem::take(&mut self.pending);
                return Ok(Gathered { bytes: InputBytes::Own(own), read, more, is_large: true });
            }
            more = true;
            let len = self.requests.large_len();
            self.reserve(len);
        }
        let is_large = more;
        // Bytes that have come are to run before there are more of them.
        let reads = socket.is_readable() && !self.unparsed;
        let kept = self.pending.len();
        if kept > PENDING_COPY_MAX {
            let mut own = std::mem::take(&mut self.pending);
            if reads {
                let n = socket.read(&mut arena[start..start + most])?;
                own.extend_from_slice(&arena[start..start + n]);
                read += n;
            }
            return Ok(Gathered { bytes: InputBytes::Own(own), read, more: more || read > 0, is_large });
        }
        let mut end = start + kept;
        if reads {
            let n = socket.read(&mut arena[end..end + most])?;
            end += n;
            read += n;
        }
        Ok(Gathered { bytes: InputBytes::Arena(start..end), read, more: more || read > 0, is_large })
    }

    /// Moves the pending input to the place that was left for it before the bytes that were read.
    #[inline]
    pub fn move_to(&mut self, arena: &mut [u8], start: usize) {
        arena[start..start + self.pending.len()].copy_from_slice(&self.pending);
        self.pending.clear();
    }

    /// Adds the requests in `bytes` from `offset` on to a batch.
    #[inline]
    pub fn fill<'b>(
        &mut self,
        source: &mut RequestSource<'_>,
        bytes: &'b [u8],
        offset: &mut usize,
        batch: &mut Batch<'b>,
    ) -> Filled {
        if self.is_book {
            return book_requests::fill(source, &mut self.requests, bytes, offset, batch);
        }
        batch.fill(source, &mut self.requests, bytes, offset)
    }

    /// Takes the arguments of all parsed requests, for a thread that runs them in another way.
    pub fn take_queued(&mut self) -> Vec<Args<'static>> {
        self.requests.take_queued()
    }

    /// Retains the request of a batch that cannot run now.
    pub fn put_back(&mut self, item: &mut BatchItem<'_>, spans: &[Span]) {
        item.put_back(&mut self.requests, spans);
    }

    /// Retains input until more of it comes, with room for that.
    pub fn keep(&mut self, part: &[u8]) {
        self.pending.clear();
        if !part.is_empty() {
            self.pending.reserve_exact(part.len().max(INPUT_ROOM));
            self.pending.extend_from_slice(part);
        }
    }

    /// Retains a part of the connection's own buffer.
    pub fn keep_own(&mut self, mut own: Vec<u8>, (start, end): (usize, usize)) {
        own.truncate(end);
        own.drain(..start);
        if own.len() <= INPUT_ROOM_MAX {
            own.shrink_to(INPUT_ROOM_MAX);
        }
        self.pending = own;
    }

    /// Retains all of the connection's own buffer.
    pub fn give_back(&mut self, own: Vec<u8>) {
        self.pending = own;
    }

    /// Reserves room for a client that has sent `len` bytes in parts, and may do so again.
    fn reserve(&mut self, len: usize) {
        let room = len.min(INPUT_ROOM_MAX);
        self.pending.reserve_exact(room.saturating_sub(self.pending.len()));
    }

    /// Returns whether there is room for pending input, used or not.
    pub fn has_room(&self) -> bool {
        self.pending.capacity() > 0
    }

    /// Frees room: half of it from time to time, and all of it when the connection `is_silent`.
    pub fn shrink(&mut self, is_silent: bool) {
        if is_silent {
            self.pending.shrink_to_fit();
            if let Some(large) = self.requests.large_mut() {
                large.shrink();
            }
        } else {
            self.pending.shrink_to((self.pending.capacity() / 2).max(INPUT_ROOM));
        }
    }

    /// Returns the bytes of memory of the input.
    #[inline]
    pub fn memory(&self) -> usize {
        self.pending.capacity() + self.requests.parser_memory() + self.requests.queued_memory()
    }

    /// Returns the sizes for CLIENT LIST.
    pub fn sizes(&self) -> InputSizes {
        let (large, pending) = (self.requests.large_len(), self.pending.len());
        let free = self.pending.capacity() - pending + self.requests.parser_memory().saturating_sub(large);
        // Arguments before a large one are complete.
        let (query, args) = if large > 0 { (large, pending) } else { (pending, 0) };
        InputSizes { query, free, args: args + self.requests.queued_memory() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::socket::{Readiness, SocketStream};
    use commands::batch::command_cache::CommandCache;
    use commands::batch::prefetch::Prefetcher;
    use engine::{Engine, NullHost, Options};
    use mio::net::UnixStream;
    use resp::RequestLimits;
    use std::io::Write;
    use std::sync::Arc;

    const MOST: usize = 8 << 10;

    /// A connection, its peer, and its worker.
    struct Wire {
        engine: Engine,
        input: Input,
        socket: Socket,
        peer: UnixStream,
        arena: Vec<u8>,
    }

    impl Wire {
        fn new() -> Wire {
            commands::install(&[]);
            let (ours, peer) = UnixStream::pair().unwrap();
            Wire {
                engine: Engine::new(&Options::default(), Arc::new(NullHost)),
                input: Input::new(false),
                socket: Socket::new(SocketStream::Unix(ours)),
                peer,
                arena: vec![0; 10 + PENDING_COPY_MAX + MOST],
            }
        }

        fn gather(&mut self) -> Gathered {
            self.input.gather(&mut self.socket, &mut self.arena, 10, MOST).unwrap()
        }

        /// Sends, reads and parses; returns whether the input lay in a buffer of its own, and how many bytes of it are
        /// retained.
        fn send(&mut self, bytes: &[u8]) -> (bool, usize) {
            self.peer.write_all(bytes).unwrap();
            self.socket.note(Readiness::new(true, false, false), false);
            let gathered = self.gather();
            let own;
            let (is_own, bytes) = match gathered.bytes {
                InputBytes::Arena(range) => {
                    self.input.move_to(&mut self.arena, range.start);
                    (false, &self.arena[range])
                }
                InputBytes::Own(bytes) => {
                    own = bytes;
                    (true, &own[..])
                }
            };
            let (mut batch, mut offset) = (Batch::default().renewed(), 0);
            let command_cache = &mut CommandCache::default();
            let mut source = RequestSource {
                engine: &self.engine,
                token: 0,
                db: 0,
                limits: RequestLimits::default(),
                command_cache,
            };
            let Filled::Input { keep } = self.input.fill(&mut source, bytes, &mut offset, &mut batch) else {
                panic!("the batch has room");
            };
            let len = keep.len();
            self.input.keep(&bytes[keep]);
            (is_own, len)
        }
    }

    #[test]
    fn a_part_of_a_request_is_pending_until_more_comes() {
        let mut wire = Wire::new();
        assert_eq!(wire.send(b"*1\r\n$4\r\nPING\r\n*1\r\n$4"), (false, 6));
        assert_eq!((wire.input.pending(), wire.input.sizes().query), (&b"*1\r\n$4"[..], 6));
        assert!(wire.input.has_room() && wire.input.memory() >= INPUT_ROOM);
        assert_eq!(wire.send(b"\r\nPING\r\n"), (false, 0));
        assert_eq!(wire.input.pending(), b"");
        wire.input.shrink(false);
        assert!(wire.input.has_room());
        wire.input.shrink(true);
        assert!(!wire.input.has_room());
    }

    #[test]
    fn nothing_is_read_before_what_has_come_was_parsed() {
        let mut wire = Wire::new();
        wire.peer.write_all(b"PING\r\n").unwrap();
        wire.input.keep(b"PING\r\n");
        wire.input.set_unparsed(true);
        let gathered = wire.gather();
        assert!(matches!(gathered.bytes, InputBytes::Arena(range) if range == (10..16)));
        assert!((gathered.read, gathered.more) == (0, false) && wire.input.has_waiting());
        wire.input.set_unparsed(false);
        assert_eq!(wire.gather().read, 6);
    }

    #[test]
    fn a_violation_that_could_not_run_is_tried_again_without_more_input() {
        let mut wire = Wire::new();
        let spans = [];
        let (mut batch, mut prefetcher, mut offset) = (Batch::default().renewed(), Prefetcher::default(), 0);
        let command_cache = &mut CommandCache::default();
        let (engine, limits) = (&wire.engine, RequestLimits::default());
        let mut source = RequestSource { engine, token: 0, db: 0, limits, command_cache };
        wire.input.fill(&mut source, b"*x\r\n", &mut offset, &mut batch);
        assert!(!wire.input.has_waiting());
        let (items, _) = batch.begin(engine, &mut prefetcher);
        wire.input.put_back(&mut items[0], &spans);
        assert!(wire.input.has_waiting());
    }

    #[test]
    fn long_pending_input_stays_where_it_is() {
        let mut wire = Wire::new();
        let words = vec![b'x'; PENDING_COPY_MAX + 1];
        wire.input.keep(&words);
        wire.peer.write_all(b"yz").unwrap();
        let gathered = wire.gather();
        let InputBytes::Own(own) = gathered.bytes else { panic!("it is too long for the arena") };
        assert!(own.len() == words.len() + 2 && own.ends_with(b"xyz") && gathered.read == 2);
        let end = own.len();
        wire.input.keep_own(own, (end - 2, end));
        assert_eq!(wire.input.pending(), b"yz");
    }

    #[test]
    fn a_large_argument_is_read_to_where_it_stays() {
        let mut wire = Wire::new();
        assert!(!wire.send(b"*2\r\n$4\r\nECHO\r\n$40000\r\n").0);
        wire.peer.write_all(&[b'x'; 30_000]).unwrap();
        wire.socket.note(Readiness::new(true, false, false), false);
        let gathered = wire.gather();
        assert!(gathered.is_large && !gathered.more && gathered.read == 30_000);
        let InputBytes::Own(own) = gathered.bytes else { panic!("nothing is to be parsed") };
        wire.input.give_back(own);
        assert_eq!(wire.input.sizes().query, 30_000);
        wire.peer.write_all(&[b'x'; 10_000]).unwrap();
        wire.peer.write_all(b"\r\n").unwrap();
        wire.socket.note(Readiness::new(true, false, false), false);
        let gathered = wire.gather();
        assert!(gathered.is_large && gathered.more && gathered.read == 10_002);
    }
}
