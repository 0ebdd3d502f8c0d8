//! A large argument on its way: bytes of the connection go straight into the vector that the value will own.
//!
//! The announced length is not trusted. The room cleared for reading follows the bytes received; the room reserved
//! beyond, up to a limit, is address space, not memory.

use super::protocol_error::ProtocolError;

/// Most room made ahead for an incomplete large argument of which fewer bytes have arrived, in bytes.
const RESERVE: usize = 1024 * 1024;
/// Room is cleared for reading in windows of at least and at most this many bytes.
const WINDOW_MIN: usize = 16 * 1024;
const WINDOW_MAX: usize = 256 * 1024;
/// Factor by which more room may be reserved than bytes have arrived.
const AHEAD: usize = 16;

/// A large argument on its way, its CRLF included.
///
/// ```text
///   bytes   [ received | cleared, to be read into | reserved, not touched ]
///                      ^ filled                   ^ bytes.len()           ^ bytes.capacity()
/// ```
#[derive(Debug)]
pub struct LargeArg {
    bytes: Vec<u8>,
    filled: usize,
    /// Length of the argument and of its CRLF.
    total: usize,
}

impl LargeArg {
    /// Returns an argument of `len` bytes that begins with `received`, which ends before the argument and its CRLF do.
    pub(super) fn new(len: usize, received: &[u8]) -> LargeArg {
        let mut large = LargeArg { bytes: Vec::new(), filled: 0, total: len.saturating_add(2) };
        large.take(received);
        large
    }

    /// Returns the bytes still to come.
    pub fn missing(&self) -> usize {
        self.total - self.filled
    }

    /// Returns the bytes received.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the bytes of its memory, with the reserved ones.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frees the room for bytes that have not arrived; it is made again as they come.
    pub fn shrink(&mut self) {
        self.bytes.truncate(self.filled);
        self.bytes.shrink_to_fit();
    }

    /// Returns room to read into: never empty while bytes are missing, never more than are missing.
    /// [`advance`](Self::advance) gets the number of bytes read.
    pub fn unfilled(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() && self.missing() > 0 {
            let window = self.filled.clamp(WINDOW_MIN, WINDOW_MAX).min(self.missing());
            self.reserve(self.filled + window, RESERVE);
            self.bytes.resize(self.filled + window, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Records that the first `n` bytes of [`unfilled`](Self::unfilled) were written. More than it had room for counts
    /// as all of it.
    pub fn advance(&mut self, n: usize) {
        self.filled = self.filled.saturating_add(n).min(self.bytes.len());
    }

    /// Takes the argument's bytes from the front of `input` and returns their number.
    pub(super) fn take(&mut self, input: &[u8]) -> usize {
        let taken = input.len().min(self.missing());
        if taken > 0 {
            self.bytes.truncate(self.filled);
            self.reserve(self.filled + taken, 0);
            self.bytes.extend_from_slice(&input[..taken]);
            self.filled += taken;
        }
        taken
    }

    /// Makes the capacity at least `needed`, and at once more: `ahead` or a multiple of the bytes that have arrived, so
    /// that a value is moved seldom, and while it is small beside the whole argument.
    fn reserve(&mut self, needed: usize, ahead: usize) {
        if needed > self.bytes.capacity() {
            let ahead = ahead.max(self.filled.saturating_mul(AHEAD)).max(needed).min(self.total);
            self.bytes.reserve_exact(ahead - self.bytes.len());
        }
    }

    /// Returns the argument without its CRLF, which is checked.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, ProtocolError> {
        if !self.bytes.ends_with(b"\r\n") {
            return Err(ProtocolError::InvalidCrlf);
        }
        self.bytes.truncate(self.total - 2);
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_costs_a_window_at_most() {
        let mut large = LargeArg::new(512 * 1024 * 1024, b"");
        assert_eq!(large.memory(), 0);
        assert_eq!(large.unfilled().len(), WINDOW_MIN);
        assert_eq!(large.unfilled().len(), WINDOW_MIN, "asking twice gives the same room");
        assert!(large.bytes.capacity() <= RESERVE);
        large.advance(usize::MAX);
        assert_eq!(large.filled, WINDOW_MIN);
    }

    #[test]
    fn room_for_what_is_late_is_given_back() {
        let mut large = LargeArg::new(1_000_000, b"ab");
        assert!(large.memory() < 100, "{}", large.memory());
        large.unfilled();
        assert_eq!(large.memory(), 1_000_002, "all of it, as it is no more than may be reserved");
        large.shrink();
        assert!(large.memory() < 100, "{}", large.memory());
        while large.missing() > 2 {
            let n = large.missing() - 2;
            let room = large.unfilled();
            let n = n.min(room.len());
            room[..n].fill(b'c');
            large.advance(n);
        }
        large.take(b"\r\n");
        let bytes = large.finish().unwrap();
        assert!(bytes.starts_with(b"abcc") && bytes.ends_with(b"cc") && bytes.len() == 1_000_000);
    }

    #[test]
    fn the_vector_ends_up_no_larger_than_the_argument() {
        let mut large = LargeArg::new(10_000_000, b"x");
        while large.missing() > 2 {
            let missing = large.missing();
            let room = large.unfilled();
            assert!(!room.is_empty() && room.len() <= missing);
            let n = room.len().min(missing - 2);
            room[..n].fill(b'x');
            large.advance(n);
        }
        assert_eq!(large.take(b"\r\nPING"), 2);
        let bytes = large.finish().unwrap();
        assert!(bytes.iter().all(|&byte| byte == b'x') && bytes.len() == 10_000_000);
        assert!(bytes.capacity() <= bytes.len() + 2);
    }

    #[test]
    fn little_is_moved_while_an_argument_grows() {
        let mut large = LargeArg::new(50_000_000, b"x");
        let (mut moved, mut capacity) = (0, large.bytes.capacity());
        while large.missing() > 0 {
            let n = large.unfilled().len();
            if large.bytes.capacity() != capacity {
                (moved, capacity) = (moved + large.filled, large.bytes.capacity());
            }
            large.advance(n);
        }
        assert!(moved <= 20_000_000, "{moved}");
    }

    #[test]
    fn the_line_end_is_checked() {
        let mut large = LargeArg::new(3, b"abc");
        large.take(b"\rx");
        assert_eq!(large.finish(), Err(ProtocolError::InvalidCrlf));
    }
}
