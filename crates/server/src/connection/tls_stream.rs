//! A client's socket with TLS: read and written like any other.
//!
//! **Reading.** Bytes that have come and are not taken are never forgotten: as long as there may be some,
//! [`may_have_more`](TlsStream::may_have_more) returns true, and the poll need not report them again.
//!
//! **Writing.** Bytes count as written when the socket has all of their records. A socket that takes a part leaves the
//! rest of the records here, and the caller with the same bytes: it offers them again, as it would bytes that a plain
//! socket did not take. So only the connection's output knows the unsent bytes, with their limits.

use cinnabar_tls::records::{RECORD_MAX, Records, sealed_max};
use mio::net::TcpStream;
use rustls::{Error, ServerConfig};
use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

/// Plaintext that is sealed at a time.
const SEAL_MAX: usize = 4 * RECORD_MAX;
/// Bytes that are read at a time, at least and at most.
const READ_MIN: usize = 4 << 10;
const READ_MAX: usize = 64 << 10;
/// First byte of a connection with TLS: the type of a record of the handshake.
const HANDSHAKE: u8 = 22;

thread_local! {
    /// Records of one reading or writing.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket and its records.
#[derive(Debug)]
pub struct TlsStream {
    tcp: TcpStream,
    records: Records,
    /// Bytes of the sealed records that have gone.
    went: usize,
    /// Plaintext of the sealed records that the caller still offers.
    claimed: usize,
    /// Whether the socket, or bytes read from it, may have more.
    more: bool,
    /// Whether the peer has begun as TLS does.
    speaks_tls: bool,
}

impl TlsStream {
    /// Wraps a socket on which nothing has been read.
    pub fn new(tcp: TcpStream, settings: Arc<ServerConfig>) -> Result<TlsStream, Error> {
        let records = Records::new(settings)?;
        Ok(TlsStream { tcp, records, went: 0, claimed: 0, more: true, speaks_tls: false })
    }

    /// Returns the socket.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns the socket, for its registration.
    pub fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Returns the certificate that the peer has shown.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.records.peer_certificate()
    }

    /// Returns the bytes of memory of the socket's buffers.
    pub fn memory(&self) -> usize {
        self.records.memory()
    }

    /// Returns whether a read may find something without an event of the poll.
    pub fn may_have_more(&self) -> bool {
        self.more
    }

    /// Returns whether records wait for the socket to take them.
    pub fn has_sealed(&self) -> bool {
        !self.records.sealed.is_empty()
    }

    /// Continues the handshake as far as the socket goes; true when it is done.
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        loop {
            let is_flushed = self.flush()?;
            if !self.records.is_handshaking() {
                return Ok(is_flushed);
            }
            if self.read_records(&mut [], READ_MIN)?.is_none() {
                self.flush()?;
                return Ok(false);
            }
            if self.records.has_ended() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads once; None when nothing has arrived, zero at the end.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        let kept = self.records.take_plain(to);
        if kept > 0 {
            // The poll may have reported more in the socket meanwhile.
            self.more = true;
            return Ok(Some(kept));
        }
        loop {
            if self.records.has_ended() {
                self.more = false;
                return Ok(Some(0));
            }
            match self.read_records(to, to.len().clamp(READ_MIN, READ_MAX))? {
                None => return Ok(None),
                Some(0) if self.records.has_ended() => {}
                Some(0) if !self.more => return Ok(None),
                Some(0) => {}
                Some(n) => return Ok(Some(n)),
            }
        }
    }

    /// Reads at most `most` bytes of records once, and opens the complete ones. None when nothing has arrived; zero
    /// bytes of plaintext do not mean the end.
    fn read_records(&mut self, to: &mut [u8], most: usize) -> io::Result<Option<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let kept = self.records.partial().len();
            if scratch.len() < kept + most {
                scratch.resize(kept + most, 0);
            }
            let read = retry(|| self.tcp.read(&mut scratch[kept..kept + most]))?;
            self.more = read == Some(most);
            let Some(read) = read else { return Ok(None) };
            if read == 0 {
                self.records.end();
                return Ok(Some(0));
            }
            scratch[..kept].copy_from_slice(self.records.partial());
            self.speaks_tls |= scratch[0] == HANDSHAKE;
            let opened = self.records.open(&mut scratch[..kept + read], to);
            self.more |= self.records.has_plain();
            // A peer that speaks something else gets no answer.
            if self.speaks_tls && (opened.is_err() || !self.records.is_handshaking()) {
                self.flush()?;
            }
            opened.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        })
    }

    /// Writes once; None when the socket takes nothing now.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if !self.flush()? {
            return Ok(None);
        }
        let offered = || pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.claimed > 0 {
            let went = offered().min(self.claimed);
            self.claimed -= went;
            return Ok(Some(went));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let most = sealed_max(SEAL_MAX.min(offered()), pieces.len());
            if scratch.len() < most {
                scratch.resize(most, 0);
            }
            let (plain, sealed) = self.seal(pieces, scratch)?;
            // Records of the protocol itself go first.
            if !self.flush()? {
                self.keep(&scratch[..sealed], plain);
                return Ok(None);
            }
            let mut went = 0;
            while went < sealed {
                match retry(|| self.tcp.write(&scratch[went..sealed]))? {
                    Some(n) => went += n,
                    None => {
                        self.keep(&scratch[went..sealed], plain);
                        return Ok(None);
                    }
                }
            }
            Ok(Some(plain))
        })
    }

    /// Seals as many of the pieces as go at a time. Returns the bytes of plaintext and of records.
    fn seal(&mut self, pieces: &[IoSlice<'_>], to: &mut [u8]) -> io::Result<(usize, usize)> {
        let (mut plain, mut sealed) = (0, 0);
        for piece in pieces {
            let part = &piece[..piece.len().min(SEAL_MAX - plain)];
            if !part.is_empty() {
                sealed += self.records.seal(part, &mut to[sealed..]).map_err(io::Error::other)?;
                plain += part.len();
            }
        }
        Ok((plain, sealed))
    }

    /// Retains records that the socket did not take, of bytes that will be offered again.
    fn keep(&mut self, sealed: &[u8], plain: usize) {
        self.records.sealed.extend_from_slice(sealed);
        self.claimed = plain;
    }

    /// Sends sealed records as far as the socket takes them; true when none is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.went < self.records.sealed.len() {
            match retry(|| self.tcp.write(&self.records.sealed[self.went..]))? {
                Some(n) => self.went += n,
                None => return Ok(false),
            }
        }
        if self.went > 0 {
            (self.records.sealed, self.went) = (Vec::new(), 0);
        }
        Ok(true)
    }
}

impl Drop for TlsStream {
    /// Notifies the peer that all has been sent, if the socket takes that.
    fn drop(&mut self) {
        let mut record = [0; sealed_max(2, 1)];
        if !self.records.is_handshaking()
            && matches!(self.flush(), Ok(true))
            && let Ok(len) = self.records.seal_end(&mut record)
        {
            let _ = self.tcp.write(&record[..len]);
        }
    }
}

/// Repeats an operation that a signal interrupted, and distinguishes "not now" from failure.
pub(super) fn retry(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match io() {
            Ok(n) => return Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
