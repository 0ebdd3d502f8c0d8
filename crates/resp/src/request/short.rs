//! Whole short requests, the common case, parsed in one pass; and their beginnings, which repeat.
//!
//! ```text
//!   *2\r\n $3\r\n GET\r\n $16\r\n key:000000012345\r\n
//!   |-- head, 13 bytes --|
//! ```
//!
//! A line with a length is read as one word of eight bytes, which holds sign, digits and line end. Requests in a row
//! are often the same command with as many arguments: two comparisons with a [`RequestPrefix`] that was seen before
//! recognize the beginning of a request.
//!
//! Any unexpected byte leaves the request to the parser that knows all rules and errors.

use super::span::Span;

/// Longest argument of a request that [`short`] understands, and most arguments.
pub(super) const SHORT_MAX: i64 = 9_999;

/// Parses a whole multibulk request with no argument over 9,999 bytes. None, and `out` as it was, for any other, which
/// is for [`RequestParser`](super::RequestParser) to judge. Returns how many bytes it took.
#[inline]
pub fn short(buf: &[u8], out: &mut Vec<Span>) -> Option<usize> {
    let (count, at) = number(buf, b'*')?;
    if count == 0 {
        return None;
    }
    arguments(buf, at, count, out)
}

/// Parses so many arguments from `at` on, or none.
#[inline(always)]
fn arguments(buf: &[u8], mut at: usize, count: usize, out: &mut Vec<Span>) -> Option<usize> {
    let first_span = out.len();
    out.reserve(count);
    for _ in 0..count {
        let Some(span) = argument(buf, at) else {
            out.truncate(first_span);
            return None;
        };
        out.push(span);
        at = span.start + span.len + 2;
    }
    Some(at)
}

#[inline(always)]
fn argument(buf: &[u8], at: usize) -> Option<Span> {
    let (len, line) = number(buf.get(at..)?, b'$')?;
    let start = at + line;
    // Both at once: the argument ends within the buffer, and in a line end.
    (buf.get(start + len..)?.first_chunk() == Some(b"\r\n")).then_some(Span { start, len })
}

/// Returns the number in a line like `$12`, and the line's length. Only for numbers of up to four digits, without zeros
/// before them: one word of eight bytes then holds sign, digits and line end.
#[inline(always)]
fn number(line: &[u8], sign: u8) -> Option<(usize, usize)> {
    const CRLF: u64 = u16::from_le_bytes(*b"\r\n") as u64;
    let word = line.first_chunk().map_or_else(|| last_word(line), |bytes| u64::from_le_bytes(*bytes));
    let digit = |at: u32| ((word >> (8 * at)) as u8).wrapping_sub(b'0');
    let ends = |at: u32| word >> (8 * at) & 0xFFFF == CRLF;
    let mut value = usize::from(digit(1));
    if word as u8 != sign || value > 9 {
        return None;
    }
    for length in 2..=5 {
        if ends(length) {
            return Some((value, length as usize + 2));
        }
        if digit(length) > 9 || value == 0 {
            return None;
        }
        value = 10 * value + usize::from(digit(length));
    }
    None
}

/// Reads fewer than eight bytes, with zeros behind them.
#[cold]
fn last_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Bytes of a request that [`RequestPrefix`]s are compared with.
const HEAD_MAX: usize = 16;

/// The beginning of a request up to the end of its first argument, if that is at most 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestPrefix {
    /// The first eight bytes, and the others with zeros behind them.
    words: [u64; 2],
    /// Bits of the second word that belong to the head.
    mask: u64,
    /// The length of the head and the first argument's place in it.
    end: usize,
    first: Span,
    /// Arguments after the first.
    others: usize,
}

impl Default for RequestPrefix {
    /// Returns a prefix that no request begins with.
    fn default() -> RequestPrefix {
        // A bit of the second word that the mask leaves out.
        RequestPrefix { words: [0, 1], mask: 0, end: 0, first: Span::default(), others: 0 }
    }
}

impl RequestPrefix {
    /// Returns the head of a request that was parsed into these spans, if it is a short one.
    pub fn of(request: &[u8], spans: &[Span]) -> Option<RequestPrefix> {
        let first = *spans.first()?;
        let end = first.start + first.len + 2;
        let mut words = head_words(request)?;
        if !(8..=HEAD_MAX).contains(&end) {
            return None;
        }
        let mask = u64::MAX.checked_shr(8 * (HEAD_MAX - end) as u32).unwrap_or(0);
        words[1] &= mask;
        Some(RequestPrefix { words, mask, end, first, others: spans.len() - 1 })
    }

    /// Returns a number that differs for most heads, of a request of at least 16 bytes.
    #[inline(always)]
    pub fn number_of(request: &[u8]) -> Option<u64> {
        // The number holds up to three letters of the first argument.
        Some(head_words(request)?[1] & 0xFF_FFFF)
    }

    /// Parses a request that begins with this head, as [`short`] does; None for any other.
    #[inline(always)]
    pub fn parse(&self, request: &[u8], out: &mut Vec<Span>) -> Option<usize> {
        let words = head_words(request)?;
        if words[0] != self.words[0] || words[1] & self.mask != self.words[1] {
            return None;
        }
        out.push(self.first);
        let end = arguments(request, self.end, self.others, out);
        if end.is_none() {
            out.pop();
        }
        end
    }
}

#[inline(always)]
fn head_words(request: &[u8]) -> Option<[u64; 2]> {
    let bytes = u128::from_le_bytes(*request.first_chunk::<HEAD_MAX>()?);
    Some([bytes as u64, (bytes >> 64) as u64])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_value::encode_command;
    use crate::request::{Progress, RequestLimits, RequestParser};
    use proptest::prelude::*;

    #[test]
    fn no_request_begins_with_the_head_that_is_none() {
        let mut spans = Vec::new();
        for request in [&[0; 64][..], &[0; 16], b"*1\r\n$4\r\nPING\r\n", b"\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"] {
            assert!(RequestPrefix::default().parse(request, &mut spans).is_none() && spans.is_empty());
        }
    }

    #[test]
    fn a_head_that_was_seen_parses_its_like_only() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
        let mut spans = Vec::new();
        assert_eq!(short(bytes, &mut spans), Some(bytes.len()));
        let head = RequestPrefix::of(bytes, &spans).unwrap();
        for (request, len) in [
            (&b"*2\r\n$3\r\nGET\r\n$5\r\nother\r\n*2"[..], Some(24)),
            (b"*2\r\n$3\r\nget\r\n$3\r\nkey\r\n", None),
            (b"*3\r\n$3\r\nGET\r\n$3\r\nkey\r\n", None),
            (b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r", None),
            (b"*2\r\n$3\r\nGET\r\n$03\r\nkey\r\n", None),
            (b"*2\r\n$3\r\nGET\r\n", None),
        ] {
            let mut found = vec![Span { start: 9, len: 9 }];
            assert_eq!(head.parse(request, &mut found), len, "{}", request.escape_ascii());
            assert_eq!(found.len(), if len.is_some() { 3 } else { 1 });
        }
        assert!(RequestPrefix::of(b"*1\r\n$7\r\nCOMMAND\r\n", &[Span { start: 8, len: 7 }]).is_none(), "too long");
        let mut spans = Vec::new();
        assert_eq!((short(b"*2\r\n$1\r\na\r\n$0\r\n\r\n", &mut spans), spans.len()), (Some(17), 2), "a short end");
        let mut none = Vec::new();
        assert_eq!((RequestPrefix::default().parse(bytes, &mut none), none.len()), (None, 0));
    }

    proptest! {
        #[test]
        fn with_a_head_and_without_requests_are_the_same(
            name in prop::collection::vec(prop::sample::select(&b"ab"[..]), 1..8),
            seen in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
            next in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..4),
            cut in 0usize..4,
        ) {
            let request = |args: &[Vec<u8>]| {
                let mut bytes = Vec::new();
                encode_command(&mut bytes, &[&[name.clone()][..], args].concat());
                bytes
            };
            let (seen, next) = (request(&seen), request(&next));
            let next = &next[..next.len() - cut];
            let (mut spans, mut plain, mut headed) = (Vec::new(), Vec::new(), Vec::new());
            prop_assert_eq!(short(&seen, &mut spans), Some(seen.len()));
            let expected = short(next, &mut plain);
            let mut general = Vec::new();
            let progress = RequestParser::new().parse(next, &RequestLimits::default(), &mut general);
            let is_whole = cut == 0;
            prop_assert_eq!(expected, is_whole.then_some(next.len()));
            prop_assert_eq!(progress == Ok(Progress::Command { consumed: next.len(), owned: Vec::new() }), is_whole);
            prop_assert_eq!(&general, &plain);
            if let Some(head) = RequestPrefix::of(&seen, &spans)
                && let Some(end) = head.parse(next, &mut headed)
            {
                prop_assert_eq!((Some(end), &headed), (expected, &plain));
            } else {
                prop_assert!(headed.is_empty());
            }
        }
    }
}
