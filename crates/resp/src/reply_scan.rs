//! Finds the ends of replies in a stream of bytes, for code that passes them on as they are.
//!
//! A reply is a line, or a line that announces so many bytes, or one that announces so many further values. One number,
//! the count of values still to come, is all the state that nesting needs; no length is trusted before the bytes have
//! come.

use crate::number::parse_i64;

/// State of the scan of a buffer's first reply, between two pieces of the stream.
#[derive(Debug, Default)]
pub struct ReplyScan {
    /// Values that the reply lacks, less one; None before its first line.
    missing: Option<u64>,
    /// Position of its next line, which may be beyond the bytes received.
    at: usize,
}

/// The stream is not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotResp;

/// A longer line is no header of anything, nor a simple string that a server sends.
const LINE_MAX: usize = 1 << 20;

impl ReplyScan {
    /// Returns the length of the reply that `bytes` begins with, once it is complete; the next call is about the reply
    /// after it. Otherwise it is called again with more bytes behind the same ones.
    ///
    /// # Errors
    /// The bytes are no reply.
    pub fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, NotResp> {
        while self.missing != Some(0)
            && let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty())
        {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                return if rest.len() > LINE_MAX { Err(NotResp) } else { Ok(None) };
            };
            let line = rest[..end].strip_suffix(b"\r").ok_or(NotResp)?;
            let (kind, text) = line.split_first().ok_or(NotResp)?;
            let (values, skipped) = match kind {
                b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => (0, 0),
                b'$' | b'=' | b'!' => (0, length(text)?.map_or(Some(0), |len| len.checked_add(2)).ok_or(NotResp)?),
                b'*' | b'~' | b'>' => (length(text)?.unwrap_or(0), 0),
                b'%' => (length(text)?.unwrap_or(0).checked_mul(2).ok_or(NotResp)?, 0),
                // The pairs come before the value that they belong to.
                b'|' => (length(text)?.unwrap_or(0).checked_mul(2).and_then(|it| it.checked_add(1)).ok_or(NotResp)?, 0),
                _ => return Err(NotResp),
            };
            let after = usize::try_from(skipped).ok().and_then(|skipped| (self.at + end + 1).checked_add(skipped));
            self.at = after.ok_or(NotResp)?;
            let missing = match self.missing {
                None => values.checked_add(1),
                Some(missing) => missing.checked_add(values),
            };
            let missing = missing.ok_or(NotResp)? - 1;
            self.missing = Some(missing);
        }
        let is_whole = self.missing == Some(0) && self.at <= bytes.len();
        Ok(is_whole.then(|| std::mem::take(self).at))
    }
}

/// Returns the number of a header; None for the -1 of a null.
fn length(text: &[u8]) -> Result<Option<u64>, NotResp> {
    match parse_i64(text).ok_or(NotResp)? {
        -1 => Ok(None),
        n => u64::try_from(n).map(Some).map_err(|_| NotResp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_value::Decoder;
    use proptest::prelude::*;

    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":12\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*2\r\n$1\r\nx\r\n*1\r\n:1\r\n",
        "%1\r\n+a\r\n~2\r\n:1\r\n#t\r\n",
        "_\r\n",
        ",1.5\r\n",
        "(123\r\n",
        "=7\r\ntxt:abc\r\n",
        ">2\r\n+a\r\n+b\r\n",
        "|1\r\n+a\r\n:1\r\n*1\r\n:2\r\n",
    ];

    #[test]
    fn bytes_that_are_no_reply_are_refused() {
        for bytes in ["x\r\n", "\r\n", "$x\r\n", "$-2\r\n", "+a\n", "*9223372036854775808\r\n"] {
            assert_eq!(ReplyScan::default().end(bytes.as_bytes()), Err(NotResp), "{bytes:?}");
        }
        assert_eq!(ReplyScan::default().end(&vec![b'+'; LINE_MAX + 2]), Err(NotResp));
        assert_eq!(ReplyScan::default().end(b"$9223372036854775807\r\nx"), Ok(None), "no length reserves memory");
    }

    proptest! {
        #[test]
        fn replies_end_where_the_decoder_ends_them_however_they_are_cut(
            which in prop::collection::vec(0..REPLIES.len(), 1..8),
            cut in 1usize..12,
        ) {
            let whole: Vec<u8> = which.iter().flat_map(|at| REPLIES[*at].bytes()).collect();
            let (mut scan, mut buffer, mut ends) = (ReplyScan::default(), Vec::new(), Vec::new());
            for piece in whole.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(len) = scan.end(&buffer).unwrap() {
                    ends.push(buffer.drain(..len).collect::<Vec<u8>>());
                }
            }
            prop_assert!(buffer.is_empty());
            let expected: Vec<&[u8]> = which.iter().map(|at| REPLIES[*at].as_bytes()).collect();
            prop_assert_eq!(&ends, &expected);
            for reply in ends.iter().filter(|reply| reply[0] != b'|') {
                prop_assert!(matches!(Decoder::new().decode(reply), Ok(Some((_, len))) if len == reply.len()));
            }
        }

        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            let _ = ReplyScan::default().end(&bytes);
        }
    }
}
