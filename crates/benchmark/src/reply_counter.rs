//! Counts replies in a stream of bytes without building them.
//!
//! A load generator needs to know how many replies have ended and whether one was an error, nothing else. A reply is a
//! line, or a line that announces so many bytes, or one that announces so many further values; one number, the values
//! that are still to come, is all the state that nesting needs. Bytes arrive in any fragmentation.

use memchr::memchr;

/// State of the counter between two parts of the stream.
#[derive(Debug, Default)]
pub struct ReplyCounter {
    /// Number of values that the present reply still lacks; 0 between replies.
    missing: u64,
    /// Number of bytes of a bulk string, with its line end, that are still missing.
    skip: u64,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// Whether the present value is a push message or an attribute, not a reply.
    aside: bool,
    /// Whether redirections of a cluster's nodes count as replies.
    follows: bool,
    /// Redirections that arrived and have not been taken.
    pub redirections: Vec<String>,
}

/// Reason why counting cannot continue.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A reply was this error.
    Error(String),
    /// The stream is not RESP.
    Protocol,
}

/// Lines longer than this are no headers of anything.
const LINE_MAX: usize = 64 * 1024;

impl ReplyCounter {
    /// Returns a counter; `follows`: redirections of a cluster's nodes count as replies.
    pub fn new(follows: bool) -> ReplyCounter {
        ReplyCounter { follows, ..ReplyCounter::default() }
    }

    /// Reads the next bytes; returns how many replies ended in them.
    pub fn feed(&mut self, mut input: &[u8]) -> Result<u64, Trouble> {
        let mut ended = 0;
        while !input.is_empty() {
            if self.skip > 0 {
                let taken = self.skip.min(input.len() as u64);
                self.skip -= taken;
                input = &input[taken as usize..];
                if self.skip == 0 {
                    ended += self.value_ended();
                }
                continue;
            }
            let Some(end) = memchr(b'\n', input) else {
                self.partial.extend_from_slice(input);
                return if self.partial.len() > LINE_MAX { Err(Trouble::Protocol) } else { Ok(ended) };
            };
            let (line, rest) = input.split_at(end + 1);
            input = rest;
            ended += if self.partial.is_empty() {
                self.line(line)?
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole)?
            };
        }
        Ok(ended)
    }

    /// Reads one line with its line end; returns how many replies ended with it.
    fn line(&mut self, line: &[u8]) -> Result<u64, Trouble> {
        let line = line.strip_suffix(b"\r\n").ok_or(Trouble::Protocol)?;
        let (kind, text) = line.split_first().ok_or(Trouble::Protocol)?;
        let outermost = self.missing == 0;
        if outermost {
            self.missing = 1;
            self.aside = matches!(kind, b'>' | b'|');
        }
        match kind {
            b'-' if outermost && self.follows && (text.starts_with(b"MOVED ") || text.starts_with(b"ASK ")) => {
                self.redirections.push(String::from_utf8_lossy(text).into_owned());
                Ok(self.value_ended())
            }
            b'-' if outermost => Err(Trouble::Error(String::from_utf8_lossy(text).into_owned())),
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => Ok(self.value_ended()),
            b'$' | b'=' | b'!' => match length(text)? {
                Some(len) => {
                    self.skip = len.checked_add(2).ok_or(Trouble::Protocol)?;
                    Ok(0)
                }
                None => Ok(self.value_ended()),
            },
            b'*' | b'~' | b'>' => self.values(length(text)?.unwrap_or(0)),
            b'%' => self.values(length(text)?.and_then(|pairs| pairs.checked_mul(2)).unwrap_or(0)),
            b'|' => {
                // An attribute inside of a reply is followed by its value.
                let pairs = length(text)?.and_then(|pairs| pairs.checked_mul(2)).unwrap_or(0);
                self.values(if outermost { pairs } else { pairs.saturating_add(1) })
            }
            _ => Err(Trouble::Protocol),
        }
    }

    /// Adds the parts of the present value to the missing ones.
    fn values(&mut self, count: u64) -> Result<u64, Trouble> {
        self.missing = self.missing.checked_add(count).ok_or(Trouble::Protocol)?;
        Ok(self.value_ended())
    }

    fn value_ended(&mut self) -> u64 {
        self.missing -= 1;
        u64::from(self.missing == 0 && !self.aside)
    }
}

/// Returns the number of a header; None for the -1 of a null.
fn length(text: &[u8]) -> Result<Option<u64>, Trouble> {
    match resp::number::parse_i64(text) {
        Some(-1) => Ok(None),
        Some(n) => u64::try_from(n).map(Some).map_err(|_| Trouble::Protocol),
        None => Err(Trouble::Protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Replies of every kind; none of them is an error at the outermost level.
    const REPLIES: &[&str] = &[
        "+OK\r\n",
        ":12\r\n",
        "$5\r\na\r\nbc\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*-1\r\n",
        "_\r\n",
        "*3\r\n:1\r\n*2\r\n$1\r\na\r\n-ERR inside\r\n%1\r\n+k\r\n~2\r\n,1.5\r\n#t\r\n",
        "%2\r\n+a\r\n=5\r\ntxt:a\r\n+b\r\n(123\r\n",
        "*2\r\n|1\r\n+ttl\r\n:3\r\n:1\r\n:2\r\n",
    ];
    /// Messages that answer nothing.
    const ASIDES: &[&str] = &[">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n", "|1\r\n+a\r\n:1\r\n"];

    proptest! {
        #[test]
        fn counts_in_any_fragmentation(
            picks in proptest::collection::vec(0..REPLIES.len() + ASIDES.len(), 0..20),
            cuts in proptest::collection::vec(1usize..12, 1..40),
        ) {
            let (mut bytes, mut expected) = (Vec::new(), 0);
            for pick in picks {
                match REPLIES.get(pick) {
                    Some(reply) => { bytes.extend_from_slice(reply.as_bytes()); expected += 1; }
                    None => bytes.extend_from_slice(ASIDES[pick - REPLIES.len()].as_bytes()),
                }
            }
            let (mut counter, mut counted, mut rest, mut cut) = (ReplyCounter::default(), 0, &bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
                counted += counter.feed(piece).unwrap();
                rest = behind;
            }
            prop_assert_eq!(counted, expected);
        }

        #[test]
        fn garbage_is_refused_or_counted_but_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ReplyCounter::default().feed(&bytes);
        }
    }

    #[test]
    fn an_error_is_told() {
        let told = ReplyCounter::default().feed(b"+OK\r\n-ERR no\r\n");
        assert_eq!(told, Err(Trouble::Error("ERR no".into())));
        assert_eq!(ReplyCounter::default().feed(b"$-5\r\n"), Err(Trouble::Protocol));
        assert_eq!(ReplyCounter::default().feed(b"hello\r\n"), Err(Trouble::Protocol));
    }
}
