//! End of a snapshot that arrives over a link: after a number of bytes, or at a mark that was announced before.

use crate::replid::ID_LEN;

/// Part of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart<'b> {
    /// Bytes of the snapshot.
    Data(&'b [u8]),
    /// The snapshot has ended.
    End,
    /// More bytes have to arrive.
    Incomplete,
}

/// Way in which the end is recognised, and progress towards it.
#[derive(Clone, Debug)]
pub enum Frame {
    /// The snapshot has a known length.
    Length {
        /// Length of the whole snapshot.
        total: u64,
        /// Bytes that have not arrived.
        left: u64,
    },
    /// The snapshot ends at this mark.
    Mark([u8; ID_LEN]),
}

impl Frame {
    /// Reads the part behind the `$` of the line before a snapshot.
    pub fn parse(line: &[u8]) -> Option<Frame> {
        if let Some(mark) = line.strip_prefix(b"EOF:") {
            return mark.get(..ID_LEN).and_then(|mark| mark.try_into().ok()).map(Frame::Mark);
        }
        let total = std::str::from_utf8(line).ok()?.parse().ok()?;
        Some(Frame::Length { total, left: total })
    }

    /// Returns the length of the whole snapshot, if it is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Frame::Length { total, .. } => Some(*total),
            Frame::Mark(_) => None,
        }
    }

    /// Takes the next part of `input`. Bytes that may begin the mark are not taken before more have arrived.
    pub fn take<'b>(&mut self, input: &'b [u8]) -> (usize, FramePart<'b>) {
        match self {
            Frame::Length { left: 0, .. } => (0, FramePart::End),
            Frame::Length { left, .. } => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= len as u64;
                (len, if len == 0 { FramePart::Incomplete } else { FramePart::Data(&input[..len]) })
            }
            Frame::Mark(mark) => match memchr::memmem::find(input, mark) {
                Some(0) => (ID_LEN, FramePart::End),
                Some(at) => (at, FramePart::Data(&input[..at])),
                None => {
                    let sure = input.len().saturating_sub(ID_LEN - 1);
                    (sure, if sure == 0 { FramePart::Incomplete } else { FramePart::Data(&input[..sure]) })
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the snapshot that a frame reads of input in chunks, and the bytes behind its end.
    fn read(line: &[u8], input: &[u8], piece: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut frame = Frame::parse(line)?;
        let (mut pending, mut data, mut pieces) = (Vec::new(), Vec::new(), input.chunks(piece));
        loop {
            let (taken, part) = frame.take(&pending);
            match part {
                FramePart::Data(part) => data.extend_from_slice(part),
                FramePart::End => {
                    pending.drain(..taken);
                    pending.extend(pieces.flatten());
                    return Some((data, pending));
                }
                FramePart::Incomplete => {
                    pending.extend_from_slice(pieces.next()?);
                    continue;
                }
            }
            pending.drain(..taken);
        }
    }

    #[test]
    fn the_end_is_found_however_the_bytes_come() {
        let mark = [b'm'; ID_LEN];
        let marked = [b"EOF:", &mark[..]].concat();
        let text = [b"data mmmm data", &mark[..ID_LEN - 1], b" more", &mark[..], b"*1\r\n"].concat();
        for piece in 1..text.len() {
            let (data, rest) = read(&marked, &text, piece).unwrap();
            assert_eq!((data.len(), &rest[..]), (14 + ID_LEN - 1 + 5, &b"*1\r\n"[..]), "pieces of {piece}");
            assert_eq!(read(b"9", b"abcdefghi*1", piece), Some((b"abcdefghi".to_vec(), b"*1".to_vec())));
        }
        assert_eq!(read(b"0", b"", 1), Some((vec![], vec![])));
        assert_eq!(read(b"10", b"abc", 1), None);
        for line in [&b"EOF:short"[..], b"-1", b"x", b""] {
            assert!(Frame::parse(line).is_none());
        }
    }
}
