//! Replies: calls of a command handler become the bytes of the client's protocol.
//!
//! A handler calls the same methods for every client; the [`Protocol`] decides:
//!
//! | method | RESP2 | RESP3 |
//! | --- | --- | --- |
//! | `ok`, `simple` | `+OK` | `+OK` |
//! | `error` | `-ERR text` | `-ERR text` |
//! | `int` | `:1` | `:1` |
//! | `bulk`, `bulk_int`, `verbatim`, `big_number` | `$1 x` | `$1 x`, `=5 txt:x`, `(1` |
//! | `null`, `null_array` | `$-1`, `*-1` | `_` |
//! | `boolean` | `:1` | `#t` |
//! | `double` | `$3 1.5` | `,1.5` |
//! | `array`, `set`, `push`, `map` | `*n`, a map `*2n` | `*n ~n >n %n` |
//! | `attribute` | left out | `\|n` |
//!
//! Replies are appended to a vector that the connection lends and takes back, so no reply allocates. If the number
//! of elements is known only at the end, `begin_*` leaves room for a header of one digit; only a longer one moves the
//! bytes behind it, once.

use crate::double::format_double;
use crate::request::ProtocolError;
use std::ops::Range;
use std::sync::Arc;

/// The protocols of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The default of a RESP connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// A place where the header of an aggregate will be written.
#[must_use]
#[derive(Debug)]
pub struct Mark(usize);

/// The headers of short strings, and how long each is.
static BULK_HEADERS: [([u8; 7], u8); 1000] = {
    let mut headers = [([0; 7], 0); 1000];
    let mut len = 0;
    while len < headers.len() {
        let (hundreds, tens, ones) = (b'0' + (len / 100) as u8, b'0' + (len / 10 % 10) as u8, b'0' + (len % 10) as u8);
        headers[len] = match len {
            0..10 => ([b'$', ones, b'\r', b'\n', 0, 0, 0], 4),
            10..100 => ([b'$', tens, ones, b'\r', b'\n', 0, 0], 5),
            _ => ([b'$', hundreds, tens, ones, b'\r', b'\n', 0], 6),
        };
        len += 1;
    }
    headers
};

/// A string that a reply contains without a copy.
#[derive(Debug)]
struct SharedBytes {
    /// Written bytes before it.
    at: usize,
    bytes: Arc<Vec<u8>>,
}

/// A sink for replies.
#[derive(Debug, Default)]
pub struct Reply {
    buf: Vec<u8>,
    protocol: Protocol,
    /// Strings between the written bytes, in order.
    shared: Vec<SharedBytes>,
    shared_len: usize,
    /// Whether long strings may be [shared](Self::shared_bulk): nobody reads the written bytes but who sends them.
    may_share: bool,
}

/// A piece of replies.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'r> {
    /// Written bytes.
    Written(&'r [u8]),
    /// A string that others have, too.
    Shared(&'r Arc<Vec<u8>>),
}

/// A part of the replies: written bytes, and shared strings between them.
#[derive(Debug, Clone, Copy)]
pub struct ReplyBytes<'r> {
    written: &'r [u8],
    /// Written bytes before these.
    start: usize,
    shared: &'r [SharedBytes],
}

impl<'r> ReplyBytes<'r> {
    /// Returns these bytes, none of which are shared.
    #[inline]
    pub fn of(written: &'r [u8]) -> ReplyBytes<'r> {
        ReplyBytes { written, start: 0, shared: &[] }
    }

    /// Returns the bytes, if none of them are shared.
    #[inline]
    pub fn as_written(&self) -> Option<&'r [u8]> {
        self.shared.is_empty().then_some(self.written)
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.written.len() + self.shared.iter().map(|shared| shared.bytes.len()).sum::<usize>()
    }

    /// Returns whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Returns the pieces in order.
    pub fn pieces(self) -> impl Iterator<Item = Piece<'r>> {
        let mut from = 0;
        let ends = self.shared.iter().map(move |shared| (shared.at - self.start, Some(&shared.bytes)));
        ends.chain([(self.written.len(), None)]).flat_map(move |(end, shared)| {
            let written = Piece::Written(&self.written[std::mem::replace(&mut from, end)..end]);
            [Some(written), shared.map(Piece::Shared)].into_iter().flatten()
        })
    }

    /// Appends a copy of all bytes.
    pub fn copy_to(self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.len());
        self.pieces().for_each(|piece| match piece {
            Piece::Written(written) => bytes.extend_from_slice(written),
            Piece::Shared(shared) => bytes.extend_from_slice(shared),
        });
    }
}

/// Length from which on a string is shared rather than copied.
const SHARED_MIN: usize = 16 << 10;

impl Reply {
    /// Returns a sink that appends to `buf`.
    pub fn new(buf: Vec<u8>, protocol: Protocol) -> Reply {
        Reply { buf, protocol, ..Reply::default() }
    }

    /// Allows that long strings are shared from here on, or forbids it. The sink is read by its
    /// [parts](Self::part) then.
    #[inline]
    pub fn set_may_share(&mut self, may: bool) {
        self.may_share = may;
    }

    /// Returns whether a string of this length is to be [shared](Self::shared_bulk).
    #[inline]
    pub fn shares(&self, len: usize) -> bool {
        len >= SHARED_MIN && self.may_share
    }

    /// Writes a string that stays where it is.
    pub fn shared_bulk(&mut self, bytes: Arc<Vec<u8>>) {
        self.header(b'$', bytes.len() as u64);
        self.shared_len += bytes.len();
        self.shared.push(SharedBytes { at: self.buf.len(), bytes });
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Returns the part with these written bytes. Shared strings belong to the bytes behind them.
    #[inline]
    pub fn part(&self, written: Range<usize>) -> ReplyBytes<'_> {
        let shared = if self.shared.is_empty() { &[][..] } else { self.shared_in(&written) };
        ReplyBytes { written: &self.buf[written.clone()], start: written.start, shared }
    }

    #[cold]
    fn shared_in(&self, written: &Range<usize>) -> &[SharedBytes] {
        let from = self.shared.partition_point(|shared| shared.at < written.start);
        let to = self.shared.partition_point(|shared| shared.at < written.end);
        &self.shared[from..to.max(from)]
    }

    /// Returns the length of all replies, shared strings included.
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.buf.len() + self.shared_len
    }

    /// Returns the protocol in force.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol for the replies from here on.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns everything written, without shared strings.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the number of written bytes.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Takes back everything after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
        while let Some(last) = self.shared.pop_if(|last| last.at >= len) {
            self.shared_len -= last.bytes.len();
        }
    }

    /// Takes all bytes and leaves an empty vector.
    pub fn take(&mut self) -> Vec<u8> {
        if !self.shared.is_empty() {
            let mut bytes = Vec::new();
            self.part(0..self.buf.len()).copy_to(&mut bytes);
            self.truncate(0);
            return bytes;
        }
        std::mem::take(&mut self.buf)
    }

    /// Returns the vector.
    pub fn into_inner(self) -> Vec<u8> {
        self.buf
    }

    /// Appends replies that are encoded already.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.buf.extend_from_slice(encoded);
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// Writes a status: text without line ends.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// Writes an error: its code, a space and its text, such as `ERR no such key`. Line ends in it become spaces, those
    /// at its end nothing.
    #[cold]
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        self.buf.push(b'-');
        self.buf.extend(text[..end].iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Writes the error that a client receives before the connection is closed because of its request.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        error.write_to(&mut self.buf);
    }

    /// Writes an integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.header(b':', value),
            Err(_) => self.line(b':', itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    /// Writes a string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        // The header's digits, two line ends and the sign.
        self.buf.reserve(bytes.len() + 25);
        match BULK_HEADERS.get(bytes.len()) {
            Some((header, len)) => {
                // The header is copied as a whole word, of which only its own bytes stay.
                let end = self.buf.len() + usize::from(*len);
                self.buf.extend_from_slice(header);
                self.buf.truncate(end);
            }
            None => self.header(b'$', bytes.len() as u64),
        }
        self.buf.extend_from_slice(bytes);
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Writes an integer as a string.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes a null.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.buf.extend_from_slice(b"$-1\r\n"),
            Protocol::Resp3 => self.buf.extend_from_slice(b"_\r\n"),
        }
    }

    /// Writes a null in the place of an array.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.buf.extend_from_slice(b"*-1\r\n"),
            _ => self.null(),
        }
    }

    /// Writes a truth value.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp3 => self.buf.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
            _ => self.int(i64::from(value)),
        }
    }

    /// Writes a float, as [`format_double`] prints it.
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(&format_double(value)),
            Protocol::Resp3 => self.line(b',', &format_double(value)),
        }
    }

    /// Writes a float as its digits, where a [`Reply::double`] would not hold it.
    pub fn decimal(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp3 => self.line(b',', digits.as_bytes()),
            _ => self.bulk(digits.as_bytes()),
        }
    }

    /// Writes an integer of any size, as its digits.
    pub fn big_number(&mut self, digits: impl AsRef<[u8]>) {
        match self.protocol {
            Protocol::Resp3 => self.line(b'(', digits.as_ref()),
            _ => self.bulk(digits.as_ref()),
        }
    }

    /// Writes text to be shown as it is; `format` is `txt` or `mkd`.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp3 => {
                self.header(b'=', text.len() as u64 + 4);
                self.buf.extend_from_slice(format);
                self.buf.push(b':');
                self.buf.extend_from_slice(text);
                self.buf.extend_from_slice(b"\r\n");
            }
            _ => self.bulk(text),
        }
    }

    /// Begins an array; its `n` elements follow.
    #[inline]
    pub fn array(&mut self, n: usize) {
        self.aggregate(b'*', n, 1);
    }

    /// Begins a map; `n` keys, each with its value behind it, follow.
    pub fn map(&mut self, n: usize) {
        self.aggregate(b'%', n, 2);
    }

    /// Begins a set; its `n` elements follow.
    pub fn set(&mut self, n: usize) {
        self.aggregate(b'~', n, 1);
    }

    /// Begins a message that is no reply to a request; its `n` elements follow. In RESP2 it looks like an array.
    pub fn push(&mut self, n: usize) {
        self.aggregate(b'>', n, 1);
    }

    /// Begins attributes of the reply that follows them: `n` keys, each with its value. False: this client gets none,
    /// write none of them.
    #[must_use]
    pub fn attribute(&mut self, n: usize) -> bool {
        let written = self.protocol == Protocol::Resp3;
        if written {
            self.header(b'|', n as u64);
        }
        written
    }

    /// Begins an array whose length [`end_array`](Self::end_array) gets. Aggregates within it must be ended first.
    pub fn begin_array(&mut self) -> Mark {
        self.begin()
    }

    /// Ends an array of `n` elements.
    pub fn end_array(&mut self, mark: Mark, n: usize) {
        self.end(mark, b'*', n, 1);
    }

    /// Begins a map whose length [`end_map`](Self::end_map) gets.
    pub fn begin_map(&mut self) -> Mark {
        self.begin()
    }

    /// Ends a map of `n` pairs.
    pub fn end_map(&mut self, mark: Mark, n: usize) {
        self.end(mark, b'%', n, 2);
    }

    /// Begins a set whose length [`end_set`](Self::end_set) gets.
    pub fn begin_set(&mut self) -> Mark {
        self.begin()
    }

    /// Ends a set of `n` elements.
    pub fn end_set(&mut self, mark: Mark, n: usize) {
        self.end(mark, b'~', n, 1);
    }

    /// Returns this protocol's kind of an aggregate, and its count.
    fn kind(&self, kind: u8, n: usize, per_element: usize) -> (u8, u64) {
        match self.protocol {
            Protocol::Resp3 => (kind, n as u64),
            _ => (b'*', (n * per_element) as u64),
        }
    }

    #[inline]
    fn aggregate(&mut self, kind: u8, n: usize, per_element: usize) {
        let (kind, n) = self.kind(kind, n, per_element);
        self.header(kind, n);
    }

    fn begin(&mut self) -> Mark {
        let mark = Mark(self.buf.len());
        self.aggregate(b'*', 0, 1);
        mark
    }

    fn end(&mut self, mark: Mark, kind: u8, n: usize, per_element: usize) {
        let (kind, n) = self.kind(kind, n, per_element);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(n).as_bytes();
        let (first, end) = (mark.0 + 1, self.buf.len());
        // `begin` left room for one digit.
        let more = digits.len() - 1;
        if more > 0 {
            self.buf.resize(end + more, 0);
            self.buf.copy_within(first + 1..end, first + digits.len());
        }
        self.buf[mark.0] = kind;
        self.buf[first..first + digits.len()].copy_from_slice(digits);
    }

    /// Writes a kind, a number and a line end.
    #[inline]
    fn header(&mut self, kind: u8, n: u64) {
        if n < 10 {
            self.buf.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']);
        } else if n < 100 {
            let (tens, ones) = ((n / 10) as u8, (n % 10) as u8);
            self.buf.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        } else {
            self.long_header(kind, n);
        }
    }

    /// Writes a kind, a number and a line end, from the end on: one copy into the buffer.
    fn long_header(&mut self, kind: u8, mut n: u64) {
        const PAIRS: [[u8; 2]; 100] = {
            let mut pairs = [[0; 2]; 100];
            let mut n = 0;
            while n < pairs.len() {
                pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
                n += 1;
            }
            pairs
        };
        // The kind, 20 digits or one zero before them, the line's end.
        let mut line = [0; 24];
        let mut at = 22;
        line[22] = b'\r';
        line[23] = b'\n';
        while n >= 100 {
            at -= 2;
            line[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
            n /= 100;
        }
        at -= 2;
        line[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
        at += usize::from(n < 10);
        at -= 1;
        line[at] = kind;
        self.buf.extend_from_slice(&line[at..]);
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.buf.reserve(text.len() + 3);
        self.buf.push(kind);
        self.buf.extend_from_slice(text);
        self.buf.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl Fn(&mut Reply)) -> String {
        let mut reply = Reply::new(Vec::new(), protocol);
        write(&mut reply);
        String::from_utf8(reply.into_inner()).unwrap()
    }

    #[test]
    fn every_reply_in_resp2_and_resp3() {
        type Write = fn(&mut Reply);
        let table: [(Write, &str, &str); 27] = [
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (|r| r.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (
                |r| r.protocol_error(&ProtocolError::InvalidCrlf),
                "-ERR Protocol error: invalid CRLF in request\r\n",
                "-ERR Protocol error: invalid CRLF in request\r\n",
            ),
            (|r| r.int(7), ":7\r\n", ":7\r\n"),
            (|r| r.int(42), ":42\r\n", ":42\r\n"),
            (|r| r.int(i64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n"),
            (|r| r.int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (|r| r.bulk(&[b'x'; 100]), &LONG, &LONG),
            (|r| r.bulk_int(-12), "$3\r\n-12\r\n", "$3\r\n-12\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (|r| r.boolean(false), ":0\r\n", "#f\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
            (|r| r.big_number("123"), "$3\r\n123\r\n", "(123\r\n"),
            (|r| r.verbatim(b"txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|r| r.array(3), "*3\r\n", "*3\r\n"),
            (|r| r.map(3), "*6\r\n", "%3\r\n"),
            (|r| r.set(3), "*3\r\n", "~3\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| assert_eq!(r.attribute(1), r.protocol() == Protocol::Resp3), "", "|1\r\n"),
            (|r| r.raw(b":1\r\n"), ":1\r\n", ":1\r\n"),
        ];
        for (i, (write, resp2, resp3)) in table.into_iter().enumerate() {
            assert_eq!(written(Protocol::Resp2, write), resp2, "row {i}");
            assert_eq!(written(Protocol::Resp3, write), resp3, "row {i}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_their_digits() {
        let mut number = 1u64;
        for _ in 0..20 {
            for n in [number - 1, number, number.saturating_mul(3)] {
                assert_eq!(written(Protocol::Resp2, |r| r.header(b'*', n)), format!("*{n}\r\n"));
            }
            number = number.saturating_mul(10);
        }
        assert_eq!(written(Protocol::Resp2, |r| r.header(b'*', u64::MAX)), format!("*{}\r\n", u64::MAX));
    }

    static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| format!("$100\r\n{}\r\n", "x".repeat(100)));

    #[test]
    fn deferred_lengths_give_the_same_bytes() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            for n in [0, 1, 4, 5, 9, 10, 99, 100, 12345] {
                let told = written_bytes(protocol, |r| {
                    r.array(2);
                    r.map(n);
                    (0..n).for_each(|i| (r.int(i as i64), r.null()).1);
                    r.set(n);
                    (0..n).for_each(|_| r.int(1));
                });
                let deferred = written_bytes(protocol, |r| {
                    let outer = r.begin_array();
                    let map = r.begin_map();
                    (0..n).for_each(|i| (r.int(i as i64), r.null()).1);
                    r.end_map(map, n);
                    let set = r.begin_set();
                    (0..n).for_each(|_| r.int(1));
                    r.end_set(set, n);
                    r.end_array(outer, 2);
                });
                assert!(told == deferred, "{protocol:?} {n}");
            }
        }
    }

    fn written_bytes(protocol: Protocol, write: impl Fn(&mut Reply)) -> Vec<u8> {
        let mut reply = Reply::new(b"before".to_vec(), protocol);
        write(&mut reply);
        reply.into_inner()
    }
}
