//! A link's bytes, and a reader of the snapshot in them.

use crate::replication::link_thread::Wanted;
use crate::replication::link_voice::LinkVoice;
use crate::system::{clock, log};
use engine::clients::registry::{BufferSizes, ClientInfo};
use engine::host::peers::Peer;
use engine::status::replication_status::{ReplicationStatus, SyncTotal};
use replication::link_event::Arrived;
use replication::primary_link::PrimaryLink;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Bytes that are read at once, if they are there.
const READ: usize = 256 << 10;
/// Room for input that is retained.
const KEPT: usize = 768 << 10;
/// Divisor of the contents by which the buffer grows, if that is more than is read at once.
const GROWTH: usize = 4;
/// Factor by which more room may be reserved than bytes have come, for an argument of announced length.
const AHEAD: usize = 2048;

/// A connection to a primary, with input that has not been taken.
pub struct Wire {
    voice: Arc<LinkVoice>,
    bytes: Vec<u8>,
    /// Range of `bytes` that has come and has not been taken.
    filled: Range<usize>,
    /// Time that it waits for bytes.
    patience: Duration,
    /// Bytes that have come since it was connected.
    read: u64,
}

impl Wire {
    /// Wraps a new connection, for whose bytes it waits that long.
    ///
    /// # Errors
    /// The connection is of no use.
    pub fn new(mut peer: Box<dyn Peer>, patience: Duration) -> io::Result<Wire> {
        peer.set_patience(patience)?;
        Ok(Wire { voice: Arc::new(LinkVoice::new(peer)), bytes: vec![0; READ], filled: 0..0, patience, read: 0 })
    }

    /// Returns the side on which the replica speaks.
    pub fn voice(&self) -> &Arc<LinkVoice> {
        &self.voice
    }

    /// Sets the time that it waits for bytes.
    ///
    /// # Errors
    /// The connection is of no use.
    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        if patience != self.patience {
            self.voice.with_peer(|peer| peer.set_patience(patience))?;
            self.patience = patience;
        }
        Ok(())
    }

    /// Returns the milliseconds since the connection was made.
    pub fn now(&self) -> u64 {
        self.voice.now()
    }

    /// Shows in a client's entry what has come and gone over the connection, and what is kept of it.
    pub fn show(&self, client: &ClientInfo) {
        client.input_bytes.store(self.read, Relaxed);
        client.output_bytes.store(self.voice.said(), Relaxed);
        let (query, room) = (self.filled.len(), self.bytes.capacity());
        client.buffers.show(BufferSizes { query, query_free: room - query, ..BufferSizes::default() });
        client.memory.store(size_of::<Wire>() + size_of::<ClientInfo>() + room, Relaxed);
    }

    /// Returns input that has not been taken.
    pub fn input(&self) -> &[u8] {
        &self.bytes[self.filled.clone()]
    }

    /// Takes so much of the input.
    pub fn advance(&mut self, len: usize) {
        self.filled.start += len;
        if self.filled.is_empty() {
            self.filled = 0..0;
        }
        if self.bytes.len() > KEPT && self.filled.len() <= KEPT / 2 {
            self.compact();
            self.bytes.truncate(KEPT);
            self.bytes.shrink_to(KEPT);
        }
    }

    /// Takes so many bytes out as they are, if they are most of the input and many.
    pub fn take_large(&mut self, len: usize) -> Option<Vec<u8>> {
        if len <= KEPT || self.filled.len() - len > READ {
            return None;
        }
        let (start, end) = (self.filled.start, self.filled.start + len);
        let mut rest = self.bytes[end..self.filled.end].to_vec();
        self.filled = 0..rest.len();
        rest.resize(2 * READ, 0);
        let mut taken = std::mem::replace(&mut self.bytes, rest);
        taken.truncate(end);
        taken.drain(..start);
        Some(taken)
    }

    /// Takes out all input, which is of no use.
    pub fn discard(&mut self) -> Vec<u8> {
        self.filled = 0..0;
        std::mem::take(&mut self.bytes)
    }

    fn compact(&mut self) {
        if self.filled.start == 0 {
            return;
        }
        self.bytes.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
    }

    /// Reads once, within the peer's patience. Returns the number of bytes. An end of the connection is an error.
    pub fn fill(&mut self, status: &ReplicationStatus) -> io::Result<usize> {
        self.fill_at_most(status, usize::MAX)
    }

    /// Reads in the same way. `expected`: the length of the input at the end of an argument that is on its way, if that
    /// is known. The buffer grows to this length at once, and gets no bytes behind a long argument, so that
    /// [`take_large`](Self::take_large) takes it as it is.
    pub fn fill_up_to(&mut self, status: &ReplicationStatus, expected: usize) -> io::Result<usize> {
        let missing = expected.saturating_sub(self.filled.len());
        if missing == 0 || expected <= KEPT || self.filled.len() < READ {
            return self.fill(status);
        }
        self.compact();
        // Short arguments may follow.
        let ahead = (expected + READ).min(self.filled.len().saturating_mul(AHEAD));
        self.bytes.reserve_exact(ahead.saturating_sub(self.bytes.len()));
        self.fill_at_most(status, missing)
    }

    /// Reads at most so many bytes, at least one, in the same way.
    pub fn fill_at_most(&mut self, status: &ReplicationStatus, most: usize) -> io::Result<usize> {
        let wanted = most.min(READ / 2);
        if self.bytes.len() - self.filled.end < wanted {
            self.compact();
            let room = self.bytes.capacity() - self.filled.end;
            // Room that is reserved is cleared as bytes come in; the buffer grows with its contents.
            let more = if room >= wanted { READ.min(room) } else { (self.filled.len() / GROWTH).max(READ) };
            let len = self.bytes.len().max(self.filled.end + more);
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
        let room = &mut self.bytes[self.filled.end..];
        let most = room.len().min(most);
        match self.voice.with_peer(|peer| peer.read(&mut room[..most])) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.filled.end += read;
                self.read += read as u64;
                status.counts.input_bytes.fetch_add(read as u64, Relaxed);
                Ok(read)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the words of the link.
    pub fn send(&mut self, link: &mut PrimaryLink) {
        let output = link.take_output();
        if !output.is_empty() {
            self.voice.say(&output);
        }
    }
}

/// Bytes of a snapshot that are returned at once.
const STRIDE: usize = 16 << 10;

/// Reader of the snapshot that a link brings.
pub struct SnapshotReader<'r> {
    wire: &'r mut Wire,
    link: &'r mut PrimaryLink,
    status: &'r ReplicationStatus,
    wanted: Wanted<'r>,
    /// Bytes of the input that are the snapshot's.
    data: usize,
    progress: SyncProgress,
    /// Whether the snapshot has come to its end.
    pub has_ended: bool,
}

impl<'r> SnapshotReader<'r> {
    /// Creates the reader of a link whose snapshot has begun.
    pub fn new(
        wire: &'r mut Wire,
        link: &'r mut PrimaryLink,
        status: &'r ReplicationStatus,
        wanted: Wanted<'r>,
    ) -> SnapshotReader<'r> {
        let progress = SyncProgress::new(status.link().sync_total, wire.now());
        SnapshotReader { wire, link, status, wanted, data: 0, progress, has_ended: false }
    }

    /// Reads the rest, which must be the snapshot's end.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(ErrorKind::InvalidData.into()),
            Err(error) => Err(error),
        }
    }
}

impl Read for SnapshotReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.data == 0 && !self.has_ended {
            if !self.wanted.is_wanted() {
                return Err(io::Error::other("another primary is wanted"));
            }
            let now = self.wire.now();
            match self.link.take(self.wire.input(), now).map_err(io::Error::other)? {
                (taken, Arrived::Data(_)) => self.data = taken,
                (taken, Arrived::SnapshotEnd) => {
                    self.wire.advance(taken);
                    self.has_ended = true;
                    self.progress.end(now);
                }
                (0, _) => {
                    self.link.tick(now).map_err(io::Error::other)?;
                    if self.wire.fill(self.status)? > 0 {
                        let now = clock::nanos().ms();
                        self.status.update_link(|link| link.last_io = now);
                    }
                }
                (taken, _) => self.wire.advance(taken),
            }
        }
        let len = self.data.min(to.len()).min(STRIDE);
        to[..len].copy_from_slice(&self.wire.input()[..len]);
        self.wire.advance(len);
        self.data -= len;
        self.status.update_link(|link| link.sync_read += len as u64);
        self.progress.note(len as u64, self.wire.now());
        Ok(len)
    }
}

/// Progress of a snapshot, for the log.
struct SyncProgress {
    total: SyncTotal,
    read: u64,
    /// Time of the beginning in milliseconds, as the connection counts them.
    began: u64,
    told: u64,
}

impl SyncProgress {
    /// Milliseconds between two lines.
    const EVERY: u64 = 5000;

    fn new(total: SyncTotal, now: u64) -> SyncProgress {
        SyncProgress { total, read: 0, began: now, told: now }
    }

    fn note(&mut self, bytes: u64, now: u64) {
        self.read += bytes;
        if now.saturating_sub(self.told) >= Self::EVERY {
            self.told = now;
            let of_all = match self.total {
                SyncTotal::Known(total) => {
                    format!(" of {total} ({:.2}%)", self.read as f64 * 100.0 / total.max(1) as f64)
                }
                SyncTotal::Awaited | SyncTotal::Unknown => String::new(),
            };
            let (read, speed) = (self.read, self.speed(now));
            log::notice(format_args!("PRIMARY <-> REPLICA sync: {read}{of_all} bytes received, {speed:.2} MB/s"));
        }
    }

    fn end(&self, now: u64) {
        let (read, seconds) = (self.read, now.saturating_sub(self.began) as f64 / 1000.0);
        let speed = self.speed(now);
        log::notice(format_args!(
            "PRIMARY <-> REPLICA sync: {read} bytes received in {seconds:.3} seconds, {speed:.2} MB/s"
        ));
    }

    /// Returns the megabytes a second.
    fn speed(&self, now: u64) -> f64 {
        self.read as f64 / 1000.0 / now.saturating_sub(self.began).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A primary that has sent all of it, and takes no input.
    struct Sent(io::Cursor<Vec<u8>>);

    impl Read for Sent {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Peer for Sent {
        fn set_patience(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    /// A primary that died behind its last bytes.
    struct Dead(Sent);

    impl Read for Dead {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Dead {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Peer for Dead {
        fn set_patience(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_of_a_dead_primary_are_read_to_their_end() {
        let sent = Sent(io::Cursor::new(b"SET a 1".to_vec()));
        let mut wire = Wire::new(Box::new(Dead(sent)), Duration::ZERO).unwrap();
        wire.voice().say(b"REPLCONF ACK 7");
        assert_eq!(wire.voice().said(), 14, "half of it may have gone");
        wire.voice().say(b"REPLCONF ACK 7");
        assert_eq!(wire.voice().said(), 14, "no word follows half of one");
        let status = ReplicationStatus::default();
        assert_eq!(wire.fill(&status).unwrap(), 7);
        assert_eq!(wire.input(), b"SET a 1");
        assert_eq!(wire.fill(&status).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_large_value_leaves_no_room_behind_and_takes_little_more_than_itself() {
        let status = ReplicationStatus::default();
        let (large, behind) = (20 << 20, b"behind");
        for before in [0, 1 << 20] {
            let bytes: Vec<u8> = (0..before + large).map(|n| n as u8).chain(*behind).collect();
            let mut wire = Wire::new(Box::new(Sent(io::Cursor::new(bytes.clone()))), Duration::ZERO).unwrap();
            while wire.input().len() < bytes.len() {
                assert!(wire.fill(&status).unwrap() > 0);
                assert!(wire.bytes.capacity() <= wire.input().len() / GROWTH * 5 + 2 * READ);
            }
            wire.advance(before);
            assert!(wire.take_large(KEPT).is_none(), "it is not most of it");
            let taken = wire.take_large(large).expect("most of it");
            assert!(taken == bytes[before..before + large] && wire.input() == behind);
            assert!(wire.bytes.capacity() <= KEPT);
        }
    }

    #[test]
    fn a_buffer_of_announced_length_is_moved_once_and_taken_as_it_is() {
        let status = ReplicationStatus::default();
        let (large, behind) = (20 << 20, b"behind");
        let bytes: Vec<u8> = (0..large).map(|n| n as u8).chain(*behind).collect();
        let mut wire = Wire::new(Box::new(Sent(io::Cursor::new(bytes.clone()))), Duration::ZERO).unwrap();
        let mut places = Vec::new();
        while wire.input().len() < large {
            assert!(wire.fill_up_to(&status, large).unwrap() > 0);
            places.push(wire.input().as_ptr());
        }
        places.dedup();
        let place = *places.last().unwrap();
        assert!(places.len() <= 4 && wire.input().len() == large, "{} places", places.len());
        let taken = wire.take_large(large).expect("all of it");
        assert!(taken.as_ptr() == place && taken == bytes[..large] && taken.capacity() <= large + READ);
        assert!(wire.fill_up_to(&status, 0).unwrap() == behind.len() && wire.input() == behind);
    }

    #[test]
    fn an_announcement_that_is_not_kept_reserves_little() {
        let mut wire = Wire::new(Box::new(Sent(io::Cursor::new(vec![7; READ]))), Duration::ZERO).unwrap();
        let status = ReplicationStatus::default();
        while wire.input().len() < READ {
            wire.fill_up_to(&status, usize::MAX / 2).unwrap();
        }
        assert!(wire.fill_up_to(&status, usize::MAX / 2).is_err() && wire.bytes.capacity() <= AHEAD * READ);
    }

    #[test]
    fn room_for_input_goes_with_the_input() {
        let mut wire = Wire::new(Box::new(Sent(io::Cursor::new(vec![7; 9 << 20]))), Duration::ZERO).unwrap();
        while wire.input().len() < 9 << 20 {
            wire.fill(&ReplicationStatus::default()).unwrap();
        }
        wire.advance((9 << 20) - KEPT / 2);
        assert!(wire.bytes.capacity() <= KEPT && wire.input() == vec![7; KEPT / 2]);
        wire.advance(KEPT / 2);
        assert!(wire.input().is_empty() && wire.bytes.capacity() <= KEPT);
    }
}
