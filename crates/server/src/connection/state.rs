//! One client's connection: its socket, its unfinished input, its unsent output.

use crate::connection::output_buffer::OutputBuffer;
use crate::connection::socket::Socket;
use commands::batch::requests::Requests;
use commands::{Session, Work};
use engine::clients::waiters::Ticket;
use resp::Protocol;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A connection that a worker owns.
pub struct Connection {
    pub socket: Socket,
    pub requests: Requests,
    pub session: Session,
    pub protocol: Protocol,
    /// Input of a command that is not complete, or that may not run yet. Its room stays for some time, see
    /// [`shrink_input`](Self::shrink_input).
    pub pending: Vec<u8>,
    pub output: OutputBuffer,
    /// A command that goes on in pieces; nothing else of this connection runs before it has ended.
    pub job: Option<Job>,
    /// A command that waits for a key or a time; likewise.
    pub blocked: Option<Arc<Ticket>>,
    /// Its first request waits for the end of a CLIENT PAUSE; likewise.
    pub postponed: bool,
    /// Its first request wants a lock that a script has for long, and is tried again a little later; likewise.
    pub delayed: bool,
    /// `pending` was put back before it was parsed to its end.
    pub unparsed: bool,
    /// Closed as soon as the output buffer is empty.
    pub closing: bool,
    /// It has a reply in this tick that is not written yet.
    pub noted: bool,
    /// Replies that wait until the log is durable, and their bytes.
    pub held_replies: u32,
    pub held_bytes: usize,
    /// It has pushes in its output buffer that no write was tried for yet.
    pub pushed: bool,
    /// Pushes that wait for the end of a reply in pieces.
    pub held_back: Vec<u8>,
    /// Replies in the output buffer wait for the end of the command in pieces: it may turn out that there is too much of them.
    pub withheld: bool,
    /// Since when it has been above the soft limit of its output, Unix time in milliseconds.
    pub over_soft_since: Option<i64>,
    /// Bytes of memory as they were last shown, and as they are counted among its worker's.
    pub shown_memory: usize,
    pub counted_memory: usize,
    /// For how many visits more it is served after others: it sent much lately, or ran for long, or has never been
    /// served.
    pub deprioritized_visits: u8,
    /// It got much in this tick: the rest of its commands waits for the next one.
    pub has_enough: bool,
    /// Its command may run a script, and has its session.
    pub is_apart: bool,
    /// Already on the list of connections that have something to do in this tick.
    pub enqueued: bool,
    /// Unix time in milliseconds of the last input or output, and of the last output that the socket took.
    pub active_at: i64,
    pub progress_at: i64,
}

/// A command in pieces, with what it was called with.
pub struct Job {
    pub work: Work,
    pub command: &'static commands::core::command::Command,
    /// The client has enough to read for now.
    pub throttled: bool,
    /// Bytes that it has replied.
    pub replied: usize,
}

/// For so many visits a connection is deprioritized. The end of a long pipeline is short, and the next one begins at
/// once.
const DEPRIORITIZED_VISITS: u8 = 8;

/// With this much unsent a connection waits before it runs more commands, in bytes. Little: a crowd that does not read
/// is to touch little memory for the first time, which may take milliseconds where it comes in huge pages.
const OUTPUT_FULL: usize = 256 << 10;
/// It goes on after this long without the peer reading: a client that writes a long pipeline before it reads must not
/// be locked out for good. Milliseconds for as much as an output buffer that is full; longer where there is more.
const OUTPUT_PATIENCE: i64 = 25;
/// So many connections that wait for their peers make each of them wait longer, in proportion.
const THROTTLED_MANY: usize = 8;
/// Bytes of a reply that are kept until it is known whether it comes to more than its limit.
const WITHHELD_MAX: usize = 1 << 20;

/// Bytes of room for the input of who has sent a part of a command, and the most that is kept of it after longer ones.
const INPUT_ROOM: usize = 16 << 10;
const INPUT_ROOM_MAX: usize = 64 << 10;
/// Milliseconds of silence after which no room for input is kept.
const INPUT_IDLE: i64 = 2000;

/// Milliseconds after which connections go on whose peers do not read, when `throttled_count` of a worker's have too much
/// unsent and all of them together have `unsent` bytes: many are to take no more memory than a few.
pub fn patience(unsent: usize, throttled_count: usize) -> i64 {
    let crowd = (throttled_count / THROTTLED_MANY).max(1) as i64;
    OUTPUT_PATIENCE * crowd * (unsent / OUTPUT_FULL).max(1) as i64
}

impl Connection {
    /// Whether nothing is left to be sent.
    pub fn is_drained(&self) -> bool {
        self.output.is_empty() && self.held_replies == 0
    }

    /// Whether it has more to read than it should.
    pub fn is_full(&self) -> bool {
        self.output.len() > OUTPUT_FULL && !self.withheld
    }

    /// Whether its peer is to read something, or was when that was looked at last.
    pub fn waits_for_peer(&self) -> bool {
        !self.output.is_empty() || self.job.is_some() || self.over_soft_since.is_some()
    }

    /// Whether something may be sent as soon as the socket takes it.
    pub fn has_unsent(&self) -> bool {
        !self.output.is_empty() && !self.withheld
    }

    /// Something came from its peer or went to it. Whether it is the first thing at this time, in milliseconds.
    #[inline]
    pub fn note_active(&mut self, now: i64) -> bool {
        let first = self.active_at != now;
        if first {
            self.active_at = now;
            self.session.info.active_at.store(now, Relaxed);
        }
        first
    }

    /// Whether its client waits for what others do, and may be silent for as long as it likes.
    pub fn listens(&self) -> bool {
        self.session.subscriptions.is_some() || self.session.info.monitor.load(Relaxed)
    }

    /// Sends a part of what waits, of about `most` bytes.
    pub fn flush(&mut self, most: usize, now: i64) -> io::Result<()> {
        let flushed = self.output.flush(&mut self.socket.stream, most)?;
        if flushed.went > 0 {
            self.progress_at = now;
            self.note_active(now);
        }
        self.socket.writable = flushed.more;
        Ok(())
    }

    /// True when the connection should not produce more output at `now`. `patience`: that of its worker's connections.
    pub fn output_full(&self, now: i64, worker_patience: i64) -> bool {
        let len = self.output.len();
        self.is_full() && now - self.progress_at < patience(len, 1).max(worker_patience)
    }

    /// Keeps input until more of it comes, with room for that.
    pub fn keep_input(&mut self, part: &[u8]) {
        self.pending.clear();
        if !part.is_empty() {
            self.pending.reserve_exact(part.len().max(INPUT_ROOM));
            self.pending.extend_from_slice(part);
        }
    }

    /// The same with a part of a buffer that is its own.
    pub fn keep_own_input(&mut self, mut own: Vec<u8>, (start, end): (usize, usize)) {
        own.truncate(end);
        own.drain(..start);
        if own.len() <= INPUT_ROOM_MAX {
            own.shrink_to(INPUT_ROOM_MAX);
        }
        self.pending = own;
    }

    /// Who has sent `len` bytes that did not come at once may do so again.
    pub fn expect_input(&mut self, len: usize) {
        let room = len.min(INPUT_ROOM_MAX);
        self.pending.reserve_exact(room.saturating_sub(self.pending.len()));
    }

    /// Gives back room for input: half of it from time to time, and all of it when nothing has come for a while.
    pub fn shrink_input(&mut self, now: i64) {
        if now - self.active_at > INPUT_IDLE {
            self.pending.shrink_to_fit();
            if let Some(large) = self.requests.large_mut() {
                large.shrink();
            }
        } else {
            self.pending.shrink_to((self.pending.capacity() / 2).max(INPUT_ROOM));
        }
    }

    pub fn deprioritize(&mut self) {
        self.deprioritized_visits = DEPRIORITIZED_VISITS;
    }

    /// True when it is served after others: it asks for much, or for more than it reads.
    #[inline]
    pub fn deprioritized(&self) -> bool {
        self.deprioritized_visits > 0 || !self.output.is_empty()
    }

    /// True while a command in pieces waits for the peer to read. A peer that does not is waited for, unless it has
    /// something to say and may be unable to read before it has said it.
    pub fn throttled(&self, now: i64, patience: i64) -> bool {
        self.is_full() && (self.output_full(now, patience) || !self.socket.readable)
    }

    /// Keeps a part of a reply that may still come to be above a limit, as long as it is not much.
    pub fn withhold(&mut self, bytes: &[u8]) -> bool {
        let may = self.job.is_some() && self.output.len() + bytes.len() <= WITHHELD_MAX;
        if may && (self.withheld || self.output.is_empty()) {
            self.withheld = true;
            self.output.append(bytes);
            return true;
        }
        false
    }

    /// Whether a throttled command may go on; it does not rest any more then.
    pub fn wakes(&mut self, now: i64, patience: i64) -> bool {
        let may = !self.throttled(now, patience);
        match &mut self.job {
            Some(job) if may => std::mem::take(&mut job.throttled),
            _ => false,
        }
    }

    /// It ends without what has not been sent.
    #[cold]
    pub fn abort(&mut self) {
        self.closing = true;
        self.output = OutputBuffer::default();
    }

    /// True while commands must not run: one is not over, or the end is near.
    pub fn is_held(&self) -> bool {
        self.is_busy() || self.closing || self.has_much_held()
    }

    /// Whether so much waits for the log that it runs nothing more before that has gone: its peer cannot read it yet.
    pub fn has_much_held(&self) -> bool {
        self.held_bytes > OUTPUT_FULL
    }

    /// True while a command is not over: it goes on in pieces, or waits, or is to be tried again.
    pub fn is_busy(&self) -> bool {
        self.job.is_some() || self.is_waiting() || self.is_apart || self.delayed
    }

    /// True while a reply is being written, or is on its way here from whoever ended a wait: pushes come after it.
    pub fn owes_reply(&self) -> bool {
        self.job.is_some() || self.blocked.as_ref().is_some_and(|ticket| !ticket.is_waiting())
    }

    /// True while a command waits for others.
    pub fn is_waiting(&self) -> bool {
        self.blocked.is_some() || self.postponed
    }

    /// Bytes that a command in pieces has replied: to limits its reply is one.
    pub fn job_output(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.replied)
    }
}
