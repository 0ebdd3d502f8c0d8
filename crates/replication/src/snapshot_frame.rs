//! Where a snapshot ends that comes over a link: after so many bytes, or at a mark that was told before.

use crate::ids::ID_LEN;

/// What a piece of input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart<'b> {
    /// Bytes of the snapshot.
    Data(&'b [u8]),
    /// The snapshot has ended.
    End,
    /// More has to come.
    Incomplete,
}

/// How the end is known, and how far it is.
#[derive(Clone, Debug)]
pub enum Frame {
    /// So many bytes are still to come.
    Length {
        /// All of them.
        total: u64,
        /// Those that have not come.
        left: u64,
    },
    /// It ends where this is.
    Mark([u8; ID_LEN]),
}

impl Frame {
    /// What comes behind the `$` of the line before a snapshot.
    pub fn parse(line: &[u8]) -> Option<Frame> {
        if let Some(mark) = line.strip_prefix(b"EOF:") {
            return mark.get(..ID_LEN).and_then(|mark| mark.try_into().ok()).map(Frame::Mark);
        }
        let total = std::str::from_utf8(line).ok()?.parse().ok()?;
        Some(Frame::Length { total, left: total })
    }

    /// Bytes of the whole snapshot, if that was told.
    pub fn size(&self) -> Option<u64> {
        match self {
            Frame::Length { total, .. } => Some(*total),
            Frame::Mark(_) => None,
        }
    }

    /// Takes what `input` begins with. What may be the beginning of the mark is not taken before more has come.
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

    /// What a frame makes of input that comes chunk by chunk, and what is left behind its end.
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
