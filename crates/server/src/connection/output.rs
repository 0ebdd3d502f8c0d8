//! A connection's output: bytes that its socket has not taken, and replies that have to wait before they may go there.
//!
//! ```text
//!   replies of this tick   in the worker's buffer    (noted)
//!   held replies           wait until the log is durable; they lie with the worker and are counted here
//!   unsent                 bytes that the socket has not taken; a chunked command's are withheld until its end
//!   held back              messages that wait for the end of the reply before them
//! ```

use crate::connection::output_buffer::{OutputBuffer, Resized};
use crate::connection::slow_reader_timeout::{OUTPUT_FULL, SlowReaderTimeout};
use crate::connection::socket::Socket;
use engine::status::acknowledgement::AckNeed;
use engine::time::UnixMs;
use resp::{Piece, ReplyBytes};
use std::io;

/// Bytes of a reply that are withheld until it is known whether the reply exceeds its limit.
const WITHHELD_MAX: usize = 1 << 20;

/// A connection's output.
#[derive(Debug, Default)]
pub struct Output {
    unsent: OutputBuffer,
    /// Whether a reply of this tick is not written yet.
    noted: bool,
    /// Replies that wait until the log is durable, and their bytes.
    held_replies: u32,
    held_bytes: usize,
    /// Acknowledgement that the last of them waits for.
    held_need: AckNeed,
    /// Whether messages are among the unsent bytes that no write was tried for yet.
    pushed: bool,
    /// Messages that wait for the end of a chunked reply.
    held_back: Vec<u8>,
    /// Whether the unsent bytes wait for the end of the chunked command: there may turn out to be too many.
    withheld: bool,
    /// Unix time in milliseconds at which the output exceeded the soft limit.
    over_soft_since: Option<UnixMs>,
    /// Unix time in milliseconds of the last output that the socket took.
    progress_at: UnixMs,
    /// Lapses of the node's slot map before the first write that unsent bytes acknowledge; None: they acknowledge none
    /// that replicas do not have.
    acknowledges_by: Option<u64>,
}

impl Output {
    /// Creates the output of a connection that begins at this time.
    pub fn new(now: UnixMs) -> Output {
        Output { progress_at: now, ..Output::default() }
    }

    /// Returns the bytes that the socket has not taken.
    #[inline]
    pub fn unsent(&self) -> &OutputBuffer {
        &self.unsent
    }

    /// Returns whether nothing is unsent or held.
    #[inline]
    pub fn is_drained(&self) -> bool {
        self.unsent.is_empty() && self.held_replies == 0
    }

    /// Returns whether something may be sent as soon as the socket takes it.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() && !self.withheld
    }

    /// Returns whether the client has more to read than it should.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.unsent.len() > OUTPUT_FULL && !self.withheld
    }

    /// Returns whether the connection should not produce more at `now`.
    #[inline]
    pub fn must_wait(&self, now: UnixMs, patience: SlowReaderTimeout) -> bool {
        self.is_full() && now.since(self.progress_at) < patience.with(self.unsent.len())
    }

    /// Sends `bytes` after the unsent ones: at most `most` of them at once and as far as the socket takes them.
    #[inline]
    pub fn send(&mut self, socket: &mut Socket, bytes: &[u8], most: usize, now: UnixMs) -> io::Result<()> {
        if self.unsent.is_empty() {
            self.progress_at = now;
            self.acknowledges_by = None;
        }
        if std::mem::take(&mut self.withheld) {
            self.unsent.append(bytes);
            return self.unsent.flush_all(socket.stream());
        }
        if self.unsent.send(socket.stream(), bytes, most)? {
            socket.set_takes_more(true);
        }
        Ok(())
    }

    /// Sends bytes after the unsent ones as [`send`](Self::send) does. Shared strings are not copied.
    pub fn send_pieces(
        &mut self,
        socket: &mut Socket,
        bytes: ReplyBytes<'_>,
        most: usize,
        now: UnixMs,
    ) -> io::Result<()> {
        let is_first = self.unsent.is_empty();
        if is_first {
            self.progress_at = now;
            self.acknowledges_by = None;
        }
        let was_withheld = std::mem::take(&mut self.withheld);
        bytes.pieces().for_each(|piece| match piece {
            Piece::Written(written) => self.unsent.append(written),
            Piece::Shared(shared) => self.unsent.append_shared(shared),
        });
        if is_first || was_withheld {
            let more = self.unsent.flush(socket.stream(), most)?.more;
            socket.set_takes_more(more);
        }
        Ok(())
    }

    /// Sends a part of the unsent bytes, about `most` of them. True if some of them went.
    pub fn flush(&mut self, socket: &mut Socket, most: usize, now: UnixMs) -> io::Result<bool> {
        let flushed = self.unsent.flush(socket.stream(), most)?;
        if flushed.went > 0 {
            self.progress_at = now;
        }
        socket.set_takes_more(flushed.more);
        Ok(flushed.went > 0)
    }

    /// Sends the unsent bytes, as far as the socket takes them.
    pub fn flush_all(&mut self, socket: &mut Socket) -> io::Result<()> {
        self.unsent.flush_all(socket.stream())
    }

    /// Records that what was [sent](Self::send) last acknowledges writes that replicas may not have, by a slot map that
    /// had lapsed so often.
    #[inline]
    pub fn note_acknowledged(&mut self, lapses: u64) {
        if !self.unsent.is_empty() {
            self.acknowledges_by.get_or_insert(lapses);
        }
    }

    /// Returns how often the slot map had lapsed before the first write that unsent bytes acknowledge.
    #[inline]
    pub fn acknowledges_by(&self) -> Option<u64> {
        self.acknowledges_by.filter(|_| !self.unsent.is_empty())
    }

    /// Drops the unsent bytes.
    #[cold]
    pub fn abort(&mut self) {
        self.unsent = OutputBuffer::default();
    }

    /// Withholds a part of a chunked reply that may still exceed a limit, as long as it is not much.
    pub fn withhold(&mut self, bytes: &[u8]) -> bool {
        let may = self.unsent.len() + bytes.len() <= WITHHELD_MAX && (self.withheld || self.unsent.is_empty());
        if may {
            self.acknowledges_by = self.acknowledges_by();
            self.withheld = true;
            self.unsent.append(bytes);
        }
        may
    }

    /// Fits the first buffer's room to the recent need of it.
    pub fn resize(&mut self, now: UnixMs, peak_reset_time: i64) -> Resized {
        self.unsent.resize(now, peak_reset_time)
    }

    /// Records a reply of this tick that is not written yet.
    #[inline]
    pub fn note_reply(&mut self) {
        self.noted = true;
    }

    /// Records that the replies of this tick are written, or held.
    #[inline]
    pub fn end_reply(&mut self) {
        self.noted = false;
    }

    /// Returns whether messages go out behind replies that are on their way: of this tick, or held.
    pub fn has_replies_ahead(&self) -> bool {
        self.noted || self.held_replies > 0
    }

    /// Returns whether replies wait until the log is durable.
    pub fn has_held(&self) -> bool {
        self.held_replies > 0
    }

    /// Returns whether the worker's lists have something for the connection: a reply of this tick, held replies,
    /// messages.
    pub fn is_listed(&self) -> bool {
        self.has_replies_ahead() || self.pushed
    }

    /// Returns the bytes of replies that wait until the log is durable.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the need of a reply that is held behind others.
    pub fn hold_need(&mut self, need: AckNeed) -> AckNeed {
        self.held_need = if self.held_replies > 0 { self.held_need.and(need) } else { need };
        self.held_need
    }

    /// Counts a reply that waits until the log is durable.
    pub fn hold(&mut self, bytes: usize) {
        self.held_replies += 1;
        self.held_bytes += bytes;
    }

    /// Removes a held reply from the count.
    pub fn release(&mut self, bytes: usize) {
        self.held_replies -= 1;
        self.held_bytes -= bytes;
    }

    /// Returns whether so much is held that the connection runs nothing more before that has gone: its peer cannot read
    /// it yet.
    #[inline]
    pub fn has_much_held(&self) -> bool {
        self.held_bytes > OUTPUT_FULL
    }

    /// Adds a message behind the unsent bytes. True if it is the first that no write was tried for.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.acknowledges_by = self.acknowledges_by();
        self.unsent.append(bytes);
        !std::mem::replace(&mut self.pushed, true)
    }

    /// Returns whether there were messages that no write was tried for; one is tried now.
    pub fn take_pushed(&mut self) -> bool {
        std::mem::take(&mut self.pushed)
    }

    /// Holds a message back until the end of the reply before it. Returns the bytes of all such messages.
    pub fn hold_back(&mut self, bytes: &[u8]) -> usize {
        self.held_back.extend_from_slice(bytes);
        self.held_back.len()
    }

    /// Takes the messages that waited for the end of the reply.
    pub fn take_held_back(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held_back)
    }

    /// Returns the milliseconds for which the output has been above its soft limit, which it exceeds `now`.
    pub fn over_soft_for(&mut self, now: UnixMs) -> i64 {
        now.since(*self.over_soft_since.get_or_insert(now))
    }

    /// Shifts the recorded times, since the time of day was set by so many milliseconds.
    pub fn set_clock(&mut self, by: i64) {
        self.progress_at = self.progress_at.after(by);
        self.over_soft_since = self.over_soft_since.map(|since| since.after(by));
    }

    /// Records that the output is not above its soft limit.
    #[inline]
    pub fn within_soft(&mut self) {
        self.over_soft_since = None;
    }

    /// Returns whether something is unsent, or the output was above its soft limit when that was looked at last.
    pub fn waits_for_peer(&self) -> bool {
        !self.unsent.is_empty() || self.over_soft_since.is_some()
    }

    /// Returns the bytes of memory of the output.
    #[inline]
    pub fn memory(&self) -> usize {
        self.unsent.memory() + self.held_back.capacity() + self.held_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::socket::SocketStream;
    use mio::net::UnixStream;
    use std::io::{BufRead, Read};

    fn sockets() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Socket::new(SocketStream::Unix(ours)), theirs)
    }

    #[test]
    fn a_client_that_does_not_read_waits_for_a_while() {
        let (mut output, patience) = (Output::new(UnixMs(0)), SlowReaderTimeout::default());
        output.push(&vec![b'x'; OUTPUT_FULL]);
        assert!(!output.must_wait(UnixMs(0), patience));
        output.push(b"x");
        assert!(output.is_full() && output.must_wait(UnixMs(24), patience) && !output.must_wait(UnixMs(25), patience));
        let (mut socket, _theirs) = sockets();
        assert!(output.flush(&mut socket, 1, UnixMs(100)).unwrap());
        assert!(socket.takes_more());
        output.push(&[b'x'; 100_000]);
        assert!(output.must_wait(UnixMs(124), patience), "it has read something since");
    }

    #[test]
    fn a_reply_is_withheld_as_long_as_it_is_not_much() {
        let (mut socket, mut theirs) = sockets();
        let mut output = Output::new(UnixMs(0));
        assert!(output.withhold(b"ab") && output.withhold(b"cd"));
        assert!(!output.has_unsent() && !output.is_full() && !output.is_drained());
        assert!(!output.withhold(&vec![b'x'; WITHHELD_MAX]), "it would be too much");
        output.send(&mut socket, b"ef", usize::MAX, UnixMs(1)).unwrap();
        let mut got = [0; 8];
        assert_eq!((theirs.read(&mut got).unwrap(), &got[..6]), (6, &b"abcdef"[..]));
        output.push(b"x");
        assert!(!output.withhold(b"y"), "it would come before what is on its way");
    }

    #[test]
    fn unsent_acknowledgements_are_known_until_they_are_sent() {
        let (mut socket, theirs) = sockets();
        let mut output = Output::new(UnixMs(0));
        output.send(&mut socket, b"+OK", usize::MAX, UnixMs(0)).unwrap();
        output.note_acknowledged(1);
        assert_eq!(output.acknowledges_by(), None, "it has gone");
        let much = vec![b'x'; 4 << 20];
        output.send(&mut socket, &much, usize::MAX, UnixMs(0)).unwrap();
        assert!(output.has_unsent() && output.acknowledges_by().is_none(), "these are reads");
        output.send(&mut socket, b"+OK", usize::MAX, UnixMs(0)).unwrap();
        output.note_acknowledged(1);
        output.send(&mut socket, b"+OK", usize::MAX, UnixMs(0)).unwrap();
        output.note_acknowledged(2);
        assert_eq!(output.acknowledges_by(), Some(1));
        let mut theirs = std::io::BufReader::with_capacity(64 << 10, theirs);
        while output.has_unsent() {
            let len = theirs.fill_buf().unwrap().len();
            theirs.consume(len);
            output.flush_all(&mut socket).unwrap();
        }
        assert_eq!(output.acknowledges_by(), None);
        output.push(b"message");
        assert_eq!(output.acknowledges_by(), None, "the message acknowledges nothing");
    }

    #[test]
    fn held_replies_count_until_they_go() {
        let mut output = Output::new(UnixMs(0));
        output.hold(OUTPUT_FULL);
        assert!(!output.has_much_held());
        output.hold(10);
        assert!(output.has_much_held() && output.has_replies_ahead() && !output.is_drained());
        assert_eq!((output.held_bytes(), output.memory()), (OUTPUT_FULL + 10, OUTPUT_FULL + 10));
        output.release(OUTPUT_FULL);
        assert!(!output.has_much_held() && output.has_held());
        output.release(10);
        assert!(output.is_drained() && !output.has_held());
    }

    #[test]
    fn messages_wait_for_the_end_of_a_reply() {
        let mut output = Output::new(UnixMs(0));
        assert_eq!((output.hold_back(b"ab"), output.hold_back(b"c")), (2, 3));
        assert_eq!(output.take_held_back(), b"abc");
        assert!(output.take_held_back().is_empty());
        assert!(output.push(b"d") && !output.push(b"e"));
        assert!(output.take_pushed() && !output.take_pushed() && output.push(b"f"));
    }

    #[test]
    fn the_time_above_a_soft_limit_begins_anew_after_one_below() {
        let mut output = Output::new(UnixMs(0));
        assert_eq!((output.over_soft_for(UnixMs(100)), output.over_soft_for(UnixMs(130))), (0, 30));
        assert!(output.waits_for_peer());
        output.within_soft();
        assert!(!output.waits_for_peer());
        assert_eq!(output.over_soft_for(UnixMs(140)), 0);
    }
}
