//! Counts requests by hopping over them.
//!
//! A request states the lengths of its parts, so that only its headers need to be read to find its end:
//!
//! ```text
//!   *3\r\n $3\r\n SET\r\n $5\r\n key:1\r\n $4\r\n data\r\n *1\r\n ...
//!   ^^^^^^ ^^^^^^ hop --> ^^^^^^ hop ----> ^^^^^^ hop --->
//! ```
//! That costs a few nanoseconds a part, whatever the sizes, and it is exact: bytes that look like a request inside of a
//! value are never read. It is no parser: names and values are not found, limits and syntax not checked. On garbage the
//! count is garbage, but the counter neither fails nor allocates.

/// Counts the requests in a stream of bytes that arrives in any pieces.
#[derive(Debug, Default)]
pub struct RequestCounter {
    /// Bytes of an argument, with its line end, that are still to be hopped over.
    hop: usize,
    /// Arguments of the present request that did not begin yet.
    arguments: usize,
    line: Line,
    /// The number of the present line's digits so far.
    number: usize,
}

/// The line that is being read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A line of which no byte has arrived.
    #[default]
    Start,
    /// `*`: the number of arguments.
    Array,
    /// `$`: the length of an argument.
    Bulk,
    /// A request on one line.
    Inline,
}

impl RequestCounter {
    /// Returns the number of requests that end in `bytes`.
    pub fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut requests = 0;
        loop {
            if self.hop >= bytes.len() {
                // The request ends with the hop, which its last byte completes.
                let ends = self.hop > 0 && self.hop == bytes.len() && self.arguments == 0;
                self.hop -= bytes.len();
                return requests + usize::from(ends);
            }
            if self.hop > 0 {
                bytes = &bytes[self.hop..];
                self.hop = 0;
                requests += usize::from(self.arguments == 0);
            }
            let Some(rest) = self.read_line(bytes, &mut requests) else { return requests };
            bytes = rest;
        }
    }

    /// Continues in a line, and returns the bytes behind it, unless it continues beyond `bytes`.
    #[inline]
    fn read_line<'b>(&mut self, bytes: &'b [u8], requests: &mut usize) -> Option<&'b [u8]> {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => self.number = self.number.saturating_mul(10).saturating_add(usize::from(byte - b'0')),
                b'\n' => {
                    *requests += usize::from(self.end_line());
                    return Some(&bytes[at + 1..]);
                }
                b'\r' => continue,
                _ => {}
            }
            if self.line == Line::Start {
                self.line = match byte {
                    b'*' if self.arguments == 0 => Line::Array,
                    b'$' if self.arguments > 0 => Line::Bulk,
                    _ => Line::Inline,
                };
            }
        }
        None
    }

    /// Returns whether a request ends with the line. A request without arguments, or an empty line, is none.
    #[inline]
    fn end_line(&mut self) -> bool {
        let number = std::mem::take(&mut self.number);
        match std::mem::take(&mut self.line) {
            Line::Start => false,
            Line::Array => {
                self.arguments = number;
                false
            }
            Line::Bulk => {
                self.arguments -= 1;
                self.hop = number.saturating_add(2);
                false
            }
            Line::Inline => {
                self.arguments = 0;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"*3\r\n$3\r\nSET\r\n$5\r\nkey:1\r\n$14\r\n\r\n*1\r\n$4\r\nPING\r\n\
        PING\r\n\r\n*0\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$12\r\n............\r\nset 1 2\r\n";

    #[test]
    fn counts_what_ends() {
        assert_eq!(RequestCounter::default().count(STREAM), 5);
        assert_eq!(RequestCounter::default().count(&STREAM.repeat(3)), 15);
    }

    #[test]
    fn pieces_do_not_matter() {
        for first in 0..STREAM.len() {
            for second in first..STREAM.len() {
                let mut counter = RequestCounter::default();
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(pieces.iter().map(|piece| counter.count(piece)).sum::<usize>(), 5, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_request_counts_when_its_last_byte_arrives() {
        let request = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n";
        let mut counter = RequestCounter::default();
        let counts: Vec<usize> = request.iter().map(|byte| counter.count(&[*byte])).collect();
        let (last, others) = counts.split_last().unwrap();
        assert!(*last == 1 && others.iter().all(|count| *count == 0), "{counts:?}");
    }

    #[test]
    fn garbage_does_no_harm() {
        let mut counter = RequestCounter::default();
        counter.count(b"*99999999999999999999999999\r\n$999999999999999999999999\r\nx");
        let mut counter = RequestCounter::default();
        assert_eq!(counter.count(b"$5\r\n*2\r\n*2\r\n*1\r\n$1\r\nx\r\n"), 3);
    }
}
