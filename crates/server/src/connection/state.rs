//! One client's connection: its parts, and the rules that span several of them.

use crate::connection::chunked::Chunked;
use crate::connection::input::Input;
use crate::connection::memory_usage::MemoryUsage;
use crate::connection::output::Output;
use crate::connection::rate_limit::RateLimit;
use crate::connection::sched_state::Visits;
use crate::connection::slow_reader_timeout::SlowReaderTimeout;
use crate::connection::socket::{Readiness, Socket, SocketStream};
use crate::connection::waiting::Waiting;
use commands::Session;
use engine::stats::metrics::WorkerMetrics;
use engine::time::{Nanos, UnixMs};
use resp::Protocol;
use resp::ReplyBytes;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Milliseconds of silence after which no room for input is retained.
const INPUT_IDLE: i64 = 2000;

/// A connection that a worker owns.
pub struct Connection {
    /// Socket that the connection reads from and writes to.
    pub socket: Socket,
    /// Input that has not run.
    pub input: Input,
    /// Output that is to be sent.
    pub output: Output,
    /// Times at which the connection is served.
    pub visits: Visits,
    /// Events that its command waits for.
    pub waiting: Waiting,
    /// Chunked command of the connection.
    pub chunked: Chunked,
    /// Memory of the connection.
    pub memory: MemoryUsage,
    /// Use of its user's quota.
    pub meter: RateLimit,
    /// Client, as commands see it.
    pub session: Session,
    /// The protocol of its replies.
    pub protocol: Protocol,
    /// Whether the connection is closed as soon as the output is empty.
    closing: bool,
    /// Unix time in milliseconds of the last input or output.
    active_at: UnixMs,
    /// Time at which another worker gave the connection to this one.
    pub moved_at: Option<Nanos>,
    /// Whether another thread is to serve the connection, as a replica's: nothing of it runs here any more.
    leaving: bool,
}

impl Connection {
    /// Creates a connection that begins at this time, Unix time in milliseconds.
    pub fn new(stream: SocketStream, session: Session, now: UnixMs) -> Connection {
        // A translation from RESP3 tells floats and nulls from strings.
        let is_book = stream.is_book();
        let protocol = if is_book { Protocol::Resp3 } else { Protocol::Resp2 };
        Connection {
            socket: Socket::new(stream),
            input: Input::new(is_book),
            output: Output::new(now),
            visits: Visits::default(),
            waiting: Waiting::default(),
            chunked: Chunked::default(),
            memory: MemoryUsage::default(),
            meter: RateLimit::default(),
            session,
            protocol,
            closing: false,
            active_at: now,
            moved_at: None,
            leaving: false,
        }
    }

    /// Returns its client's number.
    #[inline]
    pub fn client(&self) -> u64 {
        self.session.info.id
    }

    /// Ends the connection as soon as its output is empty.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Ends the connection and drops its unsent output.
    #[cold]
    pub fn abort(&mut self) {
        self.closing = true;
        self.output.abort();
    }

    /// Returns whether the connection ends as soon as its output is empty.
    #[inline]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Marks the connection for another thread.
    pub fn detach(&mut self) {
        self.leaving = true;
    }

    /// Returns whether further requests are for the debugger of its script.
    #[inline]
    pub fn debugs(&self) -> bool {
        self.leaving && self.session.debug_session.is_some()
    }

    /// Returns whether another thread is to serve the connection, and may have it now.
    pub fn leaves(&self) -> bool {
        self.leaving && !self.output.is_listed() && self.output.is_drained() && !self.closing
    }

    /// Returns whether nothing keeps the connection from ending.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closing && self.output.is_drained()
    }

    /// Records an event of the connection's socket.
    #[inline]
    pub fn note_readiness(&mut self, readiness: Readiness) {
        self.socket.note(readiness, self.output.has_unsent());
    }

    /// Records that bytes came from the peer or went to it.
    #[inline]
    pub fn note_active(&mut self, now: UnixMs) {
        if self.active_at != now {
            self.active_at = now;
            self.session.info.active_at.store(now.0, Relaxed);
        }
    }

    /// Counts bytes that were read.
    #[inline]
    pub fn count_read(&self, bytes: usize, metrics: &WorkerMetrics) {
        metrics.reads.add(1);
        metrics.input_bytes.add(bytes as u64);
        self.session.info.count_input(bytes);
    }

    /// Shifts the recorded times, since the time of day was set by so many milliseconds: the time that has passed
    /// stays.
    pub fn set_clock(&mut self, by: i64) {
        self.active_at = self.active_at.after(by);
        self.session.info.active_at.store(self.active_at.0, Relaxed);
        self.session.info.connected_at.fetch_add(by, Relaxed);
        self.output.set_clock(by);
    }

    /// Returns the milliseconds of silence.
    pub fn silence(&self, now: UnixMs) -> i64 {
        now.since(self.active_at)
    }

    /// Returns whether the client waits for others' actions, and may be silent for as long as it likes.
    pub fn listens(&self) -> bool {
        self.session.subscriptions.is_some() || self.session.info.monitor.load(Relaxed)
    }

    /// Sends as much of a reply as the socket takes now, at most `most` bytes.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], most: usize, now: UnixMs) -> io::Result<()> {
        self.note_active(now);
        self.output.send(&mut self.socket, bytes, most, now)
    }

    /// Sends as much of a reply with shared strings as the socket takes now, about `most` bytes.
    pub fn send_pieces(&mut self, bytes: ReplyBytes<'_>, most: usize, now: UnixMs) -> io::Result<()> {
        self.note_active(now);
        self.output.send_pieces(&mut self.socket, bytes, most, now)
    }

    /// Sends a part of the unsent bytes, about `most` of them.
    pub fn flush(&mut self, most: usize, now: UnixMs) -> io::Result<()> {
        if self.output.flush(&mut self.socket, most, now)? {
            self.note_active(now);
        }
        Ok(())
    }

    /// Sends the unsent bytes, as far as the socket takes them.
    pub fn flush_all(&mut self) -> io::Result<()> {
        self.output.flush_all(&mut self.socket)
    }

    /// Returns whether the peer is to read something, or was when that was looked at last.
    pub fn waits_for_peer(&self) -> bool {
        self.output.waits_for_peer() || self.chunked.is_running()
    }

    /// Returns whether the connection is served after others: its client asks for much, or for more than it reads.
    #[inline]
    pub fn deprioritized(&self) -> bool {
        self.visits.is_deprioritized() || !self.output.unsent().is_empty()
    }

    /// Returns whether the client has more to read than it should. `patience`: the patience of its worker's
    /// connections.
    #[inline]
    pub fn output_full(&self, now: UnixMs, patience: SlowReaderTimeout) -> bool {
        self.output.must_wait(now, patience)
    }

    /// Returns whether a chunked command waits for the peer to read. A command waits for such a peer, unless the peer
    /// has sent something and may be unable to read before its input has been taken.
    pub fn throttled(&self, now: UnixMs, patience: SlowReaderTimeout) -> bool {
        self.output.is_full() && (self.output_full(now, patience) || !self.socket.is_readable())
    }

    /// Returns whether a throttled command may resume; it is throttled no more then.
    #[inline]
    pub fn wakes(&mut self, now: UnixMs, patience: SlowReaderTimeout) -> bool {
        self.chunked.is_running() && !self.throttled(now, patience) && self.chunked.wake()
    }

    /// Returns whether a command has not ended: it is chunked, or waits, or is to be retried.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.chunked.is_running() || self.waiting.is_busy()
    }

    /// Returns whether commands must not run: one has not ended, or the connection ends, or too much is held.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_busy() || self.closing || self.leaving || self.output.has_much_held()
    }

    /// Returns whether another worker may serve the connection from now on: it is between two commands, its worker has
    /// nothing for it but its output, and no thread sends it messages by way of its worker.
    pub fn is_movable(&self) -> bool {
        !self.is_held() && !self.output.is_listed() && !self.session.is_told() && !self.socket.has_hung_up()
    }

    /// Returns whether another worker may serve the connection when this one is to end: this includes a client that
    /// waits for a key, or tracks, which [is not worth it](Self::is_movable) otherwise.
    pub fn may_leave(&self) -> bool {
        let is_held = self.chunked.is_running() || self.waiting.is_busy_here() || self.closing || self.leaving;
        let is_told = self.session.subscriptions.is_some() || self.session.info.monitor.load(Relaxed);
        !is_held && !self.output.has_held() && !self.output.is_listed() && !is_told && !self.socket.has_hung_up()
    }

    /// Returns whether the connection's requests may run now.
    #[inline]
    pub fn may_run(&self, now: UnixMs, patience: SlowReaderTimeout) -> bool {
        !self.is_held() && !self.output_full(now, patience)
    }

    /// Returns whether a reply is being written, or is on its way here from the thread that ended a wait: pushes come
    /// after it.
    pub fn owes_reply(&self) -> bool {
        self.chunked.is_running() || self.waiting.is_served()
    }

    /// Frees room for input that was not needed lately.
    pub fn shrink_input(&mut self, now: UnixMs, metrics: &WorkerMetrics) {
        if self.input.has_room() {
            self.input.shrink(self.silence(now) > INPUT_IDLE);
            self.note_memory(metrics);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::clients::registry::ClientInfo;
    use engine::time::UnixMs;
    use mio::net::UnixStream;
    use std::io::Read;
    use std::sync::Arc;

    fn connection() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let session = Session::new(Arc::new(ClientInfo::new(9, "", "", 0, 0, UnixMs(1000))));
        (Connection::new(SocketStream::Unix(ours), session, UnixMs(1000)), theirs)
    }

    #[test]
    fn a_connection_ends_when_all_has_been_sent() {
        let (mut connection, mut theirs) = connection();
        connection.output.push(b"+OK\r\n");
        connection.close();
        assert!(connection.is_closing() && connection.is_held() && !connection.is_closed());
        connection.flush_all().unwrap();
        assert!(connection.is_closed());
        assert_eq!(theirs.read(&mut [0; 8]).unwrap(), 5);
    }

    #[test]
    fn an_abort_loses_what_is_unsent() {
        let (mut connection, _theirs) = connection();
        connection.output.push(b"+OK\r\n");
        connection.abort();
        assert!(connection.is_closed());
    }

    #[test]
    fn a_client_that_does_not_read_is_served_after_others_and_then_not_at_all() {
        let (mut connection, _theirs) = connection();
        connection.visits.count_read(false);
        let patience = SlowReaderTimeout::default();
        assert!(!connection.deprioritized() && connection.may_run(UnixMs(1000), patience));
        connection.output.push(&[b'x'; 300_000]);
        assert!(connection.deprioritized() && !connection.may_run(UnixMs(1000), patience));
        assert!(connection.may_run(UnixMs(2000), patience), "it may be unable to read before it has said all");
        connection.output.hold(300_000);
        assert!(!connection.may_run(UnixMs(2000), patience), "it cannot read that yet");
    }

    #[test]
    fn activity_is_noted_to_the_millisecond() {
        let (mut connection, _theirs) = connection();
        [1000, 1001, 1001].into_iter().for_each(|now| connection.note_active(UnixMs(now)));
        assert_eq!((connection.silence(UnixMs(1051)), connection.session.info.active_at.load(Relaxed)), (50, 1001));
    }
}
