//! Requests: bytes of a client's connection in, commands out.
//!
//! A request is either a *multibulk* (sent by client libraries) or an *inline* line (typed into telnet by a person):
//!
//! ```text
//!   *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $5\r\n hello\r\n        SET k "hello\n"\r\n
//!   ^count ^length ^bytes
//! ```
//!
//! The parser does no I/O and copies no argument. It reports the arguments' places in the buffer that it was given, as
//! [`Span`]s relative to the first byte of the command. Between two calls it remembers its position, so that a command
//! which arrives in many pieces is still read only once; an idle parser is one null pointer. The state between two
//! calls lies in a box that lives only while a command is unfinished:
//!
//! ```text
//!   buf        *3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000\r\nxxxxxx          what the connection holds of the command
//!              |       |          |                |
//!   spans               [8,3]      [17,1]          |
//!   position                                       next byte to look at
//! ```
//!
//! # Large arguments
//!
//! A bulk of [`LARGE`] bytes or more that is incomplete bypasses the connection's buffer. The parser returns
//! [`Progress::Large`], having moved the received bytes into a vector of the argument's own, and the connection reads
//! the rest straight into [`RequestParser::large_mut`]:
//!
//! ```text
//!   loop {
//!       match parser.parse(&pending, &limits, &mut spans)? {
//!           Progress::Large { keep } => {
//!               pending.truncate(keep);                     // the rest was taken
//!               let large = parser.large_mut().unwrap();
//!               while large.missing() > 0 {                 // or stop at WouldBlock and come back here
//!                   let n = stream.read(large.unfilled())?;     // 0: the client is gone
//!                   large.advance(n);
//!               }
//!           }                                               // then parse again, on the same pending
//!           ...
//! ```
//!
//! A connection that ignores this and continues to append to its buffer (after the truncation) loses only the saved
//! copy: `parse` moves the bytes over itself. The announced length is not trusted: room is cleared only as bytes
//! arrive, and at most 1 MiB is reserved ahead.
//!
//! # Limits and errors
//!
//! Boundaries and texts are those of Valkey 8.1 and 9, asked byte by byte. If those servers' answer depends on how the
//! bytes were cut into reads (a line of just over 64 KiB), this parser takes the answer for single bytes, so that the
//! outcome never depends on fragmentation. As in Valkey 9, a `\r` without its `\n` is an error.

mod inline;
mod large;
mod protocol_error;
mod short;
mod span;

use memchr::{memchr, memchr2};

use self::inline::split_inline;
pub use self::large::LargeArg;
pub use self::protocol_error::ProtocolError;
use self::short::SHORT_MAX;
pub use self::short::{RequestPrefix, short};
pub use self::span::Span;
use crate::number::parse_i64;

/// Longest inline request, and longest line with a count or a length, in bytes.
pub const LINE_MAX: usize = 64 * 1024;
/// From this many bytes on, an argument that is not complete yet is received into its own vector.
pub const LARGE: usize = 32 * 1024;
/// Most arguments of a command before authentication.
pub const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
/// Longest such line before authentication: strangers' bytes that are no request end early.
pub const UNAUTHENTICATED_LINE_MAX: usize = 4 * 1024;
/// Longest argument before authentication, in bytes.
pub const UNAUTHENTICATED_BULK_MAX: i64 = 16 * 1024;
/// Most arguments of a command.
pub const ARGS_MAX: i64 = i32::MAX as i64;

/// Limits of the requests that a client may send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest argument in bytes: `proto-max-bulk-len`. For a link to a primary: no limit, `i64::MAX`.
    pub max_bulk_len: i64,
    /// False while the connection still has to authenticate.
    pub authenticated: bool,
}

impl RequestLimits {
    /// Returns the longest line without an argument's length before it.
    fn line_max(&self) -> usize {
        if self.authenticated { LINE_MAX } else { UNAUTHENTICATED_LINE_MAX }
    }

    /// Returns whether everything is allowed that [`short`] understands.
    #[inline]
    pub fn take_short(&self) -> bool {
        self.authenticated && self.max_bulk_len >= SHORT_MAX
    }
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { max_bulk_len: 512 * 1024 * 1024, authenticated: true }
    }
}

/// The result of [`RequestParser::parse`].
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// A command. Its arguments were appended to the spans.
    Command {
        /// Bytes of the buffer that the command took; the next one begins after them.
        consumed: usize,
        /// Arguments that do not lie in the buffer, by argument index in rising order: large ones, and inline ones that
        /// had quotes. Their spans are empty. Nearly always empty itself, and then unallocated.
        owned: Vec<(usize, Vec<u8>)>,
    },
    /// A request without arguments (`*0`, `*-1`, a blank line): drop the bytes, reply nothing.
    Empty {
        /// Bytes of the buffer to drop.
        consumed: usize,
    },
    /// The command continues past the end of the buffer. Call again with the same bytes and more behind them.
    Incomplete,
    /// A large argument is on its way: see [`RequestParser::large_mut`].
    Large {
        /// The buffer must be cut to this many bytes before more is appended to it: the others were moved into the
        /// argument.
        keep: usize,
    },
}

/// The state of one connection's requests.
#[derive(Debug, Default)]
pub struct RequestParser {
    partial: Option<Box<Partial>>,
}

/// State of an incomplete command.
#[derive(Debug, Default)]
struct Partial {
    cursor: Cursor,
    spans: Vec<Span>,
    owned: Vec<(usize, Vec<u8>)>,
    large: Option<LargeArg>,
}

/// The parser's position in the command.
#[derive(Debug, Default, Clone, Copy)]
struct Cursor {
    /// First byte not parsed yet.
    position: usize,
    /// No line end lies before this byte; at `position` or after it.
    scanned: usize,
    /// Arguments still to come; 0 before the count is known.
    remaining: u32,
    /// Length of the argument at `position`, once known.
    bulk: Option<usize>,
}

/// The end of a stretch of parsing.
enum Stop {
    Done,
    Empty,
    Incomplete,
    /// An argument of [`LARGE`] bytes or more, not all there.
    Large,
}

impl RequestParser {
    /// Returns a parser at the start of a connection.
    pub fn new() -> RequestParser {
        RequestParser::default()
    }

    /// Parses one command. `buf` begins at the first byte of the current command and holds everything received since,
    /// less the bytes moved into large arguments. The spans of a complete command are appended to `out`; otherwise
    /// `out` is as it was. After an error the connection is of no more use.
    ///
    /// # Errors
    /// The request breaks the protocol or goes beyond `limits`.
    #[inline]
    pub fn parse(
        &mut self,
        buf: &[u8],
        limits: &RequestLimits,
        out: &mut Vec<Span>,
    ) -> Result<Progress, ProtocolError> {
        if self.partial.is_some() { self.resume(buf, limits, out) } else { self.begin(buf, limits, out) }
    }

    /// Returns the large argument that is being received, after [`Progress::Large`]. Call [`parse`](Self::parse) again
    /// when [`LargeArg::missing`] is 0.
    pub fn large_mut(&mut self) -> Option<&mut LargeArg> {
        self.partial.as_mut()?.large.as_mut()
    }

    /// Returns whether the parser is between two commands.
    pub fn is_idle(&self) -> bool {
        self.partial.is_none()
    }

    /// Returns the bytes received of a large argument.
    pub fn large_len(&self) -> usize {
        self.partial.as_ref().and_then(|partial| partial.large.as_ref()).map_or(0, LargeArg::filled)
    }

    /// Returns the bytes held for the unfinished command besides the connection's buffer, for accounts and limits.
    pub fn memory(&self) -> usize {
        let Some(partial) = &self.partial else {
            return 0;
        };
        size_of::<Partial>()
            + partial.spans.capacity() * size_of::<Span>()
            + partial.owned.iter().map(|(_, bytes)| bytes.capacity() + size_of::<(usize, Vec<u8>)>()).sum::<usize>()
            + partial.large.as_ref().map_or(0, |large| large.memory())
    }

    /// Parses from the first byte of a command, straight into `out`. The state is boxed only if the command is not
    /// complete.
    #[inline]
    fn begin(&mut self, buf: &[u8], limits: &RequestLimits, out: &mut Vec<Span>) -> Result<Progress, ProtocolError> {
        let mut cursor = Cursor::default();
        let first_span = out.len();
        let stop = match buf.first() {
            None => return Ok(Progress::Incomplete),
            Some(b'*') => multibulk(&mut cursor, buf, limits, out),
            Some(_) => {
                let mut owned = Vec::new();
                let stop = inline(&mut cursor, buf, limits, out, &mut owned);
                if let (Ok(Stop::Done), false) = (&stop, owned.is_empty()) {
                    return Ok(Progress::Command { consumed: cursor.position, owned });
                }
                stop
            }
        };
        match stop {
            Ok(Stop::Done) => Ok(Progress::Command { consumed: cursor.position, owned: Vec::new() }),
            Ok(Stop::Empty) => Ok(Progress::Empty { consumed: cursor.position }),
            Ok(stop) => {
                let mut partial = Box::new(Partial { cursor, spans: out.split_off(first_span), ..Partial::default() });
                let progress = partial.suspend(buf, stop);
                self.partial = Some(partial);
                Ok(progress)
            }
            Err(error) => {
                out.truncate(first_span);
                Err(error)
            }
        }
    }

    /// Continues with a command of which a part was parsed before.
    #[cold]
    fn resume(&mut self, buf: &[u8], limits: &RequestLimits, out: &mut Vec<Span>) -> Result<Progress, ProtocolError> {
        let Some(partial) = &mut self.partial else {
            return Ok(Progress::Incomplete);
        };
        if !partial.receive_large(buf)? {
            return Ok(Progress::Large { keep: partial.cursor.position });
        }
        let stop = if buf.first() == Some(&b'*') {
            multibulk(&mut partial.cursor, buf, limits, &mut partial.spans)?
        } else {
            inline(&mut partial.cursor, buf, limits, &mut partial.spans, &mut partial.owned)?
        };
        let consumed = partial.cursor.position;
        match stop {
            Stop::Incomplete | Stop::Large => Ok(partial.suspend(buf, stop)),
            Stop::Empty => {
                self.partial = None;
                Ok(Progress::Empty { consumed })
            }
            Stop::Done => {
                out.append(&mut partial.spans);
                let owned = std::mem::take(&mut partial.owned);
                self.partial = None;
                Ok(Progress::Command { consumed, owned })
            }
        }
    }
}

impl Partial {
    /// Puts the state away until more bytes are there.
    fn suspend(&mut self, buf: &[u8], stop: Stop) -> Progress {
        let (Stop::Large, Some(len)) = (stop, self.cursor.bulk) else {
            return Progress::Incomplete;
        };
        let keep = self.cursor.position;
        self.large = Some(LargeArg::new(len, &buf[keep..]));
        Progress::Large { keep }
    }

    /// Gives the large argument that is being received its part of `buf`. True if none is being received (any more).
    fn receive_large(&mut self, buf: &[u8]) -> Result<bool, ProtocolError> {
        let Some(large) = &mut self.large else {
            return Ok(true);
        };
        let taken = large.take(&buf[self.cursor.position..]);
        if large.missing() > 0 {
            return Ok(false);
        }
        if let Some(large) = self.large.take() {
            self.owned.push((self.spans.len(), large.finish()?));
        }
        self.spans.push(Span::default());
        self.cursor.position += taken;
        self.cursor.bulk = None;
        self.cursor.remaining -= 1;
        Ok(true)
    }
}

/// Parses a multibulk request from the cursor on.
#[inline]
fn multibulk(
    cursor: &mut Cursor,
    buf: &[u8],
    limits: &RequestLimits,
    spans: &mut Vec<Span>,
) -> Result<Stop, ProtocolError> {
    if cursor.position == 0 {
        let Some(count) = number_line(cursor, buf, Line::Count, limits)? else {
            return Ok(Stop::Incomplete);
        };
        if count > ARGS_MAX {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        if count <= 0 {
            return Ok(Stop::Empty);
        }
        cursor.remaining = count as u32;
    }
    while cursor.remaining > 0 {
        let len = match cursor.bulk {
            Some(len) => len,
            None => {
                let Some(len) = number_line(cursor, buf, Line::Bulk, limits)? else {
                    return Ok(Stop::Incomplete);
                };
                let len = bulk_len(len, limits)?;
                cursor.bulk = Some(len);
                len
            }
        };
        let start = cursor.position;
        let rest = &buf[start..];
        // Not len + 2 <= rest.len(): the length is the client's word and may be near the end of the type.
        if rest.len() < 2 || rest.len() - 2 < len {
            return Ok(if len >= LARGE { Stop::Large } else { Stop::Incomplete });
        }
        if rest[len..len + 2] != *b"\r\n" {
            return Err(ProtocolError::InvalidCrlf);
        }
        spans.push(Span { start, len });
        cursor.position = start + len + 2;
        cursor.bulk = None;
        cursor.remaining -= 1;
    }
    Ok(Stop::Done)
}

#[inline]
fn bulk_len(len: i64, limits: &RequestLimits) -> Result<usize, ProtocolError> {
    if len < 0 || len > limits.max_bulk_len {
        return Err(ProtocolError::InvalidBulkLength);
    }
    if len > UNAUTHENTICATED_BULK_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)
}

/// The two lines of a multibulk request that hold a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Count,
    Bulk,
}

/// Reads the line at the cursor, a sign and an integer, and steps over it. None if it does not end in `buf`.
fn number_line(
    cursor: &mut Cursor,
    buf: &[u8],
    line: Line,
    limits: &RequestLimits,
) -> Result<Option<i64>, ProtocolError> {
    let (too_long, invalid) = match line {
        Line::Count => (ProtocolError::BigMultibulkCount, ProtocolError::InvalidMultibulkLength),
        Line::Bulk => (ProtocolError::BigBulkCount, ProtocolError::InvalidBulkLength),
    };
    let start = cursor.position;
    let from = cursor.scanned.max(start);
    let end = memchr(b'\r', &buf[from..]).map_or(buf.len(), |at| from + at);
    cursor.scanned = end;
    if end - start > limits.line_max() {
        return Err(too_long);
    }
    if buf.len() < end + 2 {
        return Ok(None);
    }
    if line == Line::Bulk && buf[start] != b'$' {
        return Err(ProtocolError::ExpectedDollar(buf[start]));
    }
    if buf[end + 1] != b'\n' {
        return Err(ProtocolError::InvalidCrlf);
    }
    let value = parse_i64(&buf[start + 1..end]).ok_or(invalid)?;
    cursor.position = end + 2;
    Ok(Some(value))
}

/// Parses an inline request. As in Valkey, a NUL hides the rest of the buffer, so that binary garbage ends in an error,
/// and a line may be of any length if its end has come with the rest.
fn inline(
    cursor: &mut Cursor,
    buf: &[u8],
    limits: &RequestLimits,
    spans: &mut Vec<Span>,
    owned: &mut Vec<(usize, Vec<u8>)>,
) -> Result<Stop, ProtocolError> {
    let end = memchr2(b'\n', 0, &buf[cursor.scanned..]).map_or(buf.len(), |at| cursor.scanned + at);
    cursor.scanned = end;
    let ended = buf.get(end) == Some(&b'\n');
    if !ended {
        return if buf.len() > limits.line_max() { Err(ProtocolError::BigInline) } else { Ok(Stop::Incomplete) };
    }
    let line = &buf[..end];
    let before = spans.len();
    split_inline(line.strip_suffix(b"\r").unwrap_or(line), spans, owned)?;
    cursor.position = end + 1;
    Ok(if spans.len() == before { Stop::Empty } else { Stop::Done })
}

/// Fuzz hook: however the bytes are cut into reads, and whether the connection receives large arguments or the parser
/// does, the same commands come out.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Some((&seed, data)) = data.split_first() else {
        return;
    };
    let limits = RequestLimits { max_bulk_len: 100_000, authenticated: seed & 1 == 0 };
    let at_once = fragmented(data, data.len().max(1), &limits, true);
    if data.len() > limits.line_max() && fragmented(data, 1, &limits, true).1 == Some(ProtocolError::BigInline) {
        // The verdict on a line that is too long depends on how much of it has come.
        return;
    }
    assert_eq!(at_once, fragmented(data, 1, &limits, true));
    assert_eq!(at_once, fragmented(data, 1 + usize::from(seed), &limits, false));
}

/// Returns the commands in `data` when it arrives in chunks of `step` bytes, and the error that ends them. `direct`:
/// large arguments are read straight into their vectors.
#[cfg(any(test, feature = "fuzzing"))]
fn fragmented(
    data: &[u8],
    step: usize,
    limits: &RequestLimits,
    direct: bool,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut commands, mut pending, mut parser) = (Vec::new(), Vec::new(), RequestParser::new());
    // The span of a command parsed before in the same batch.
    let mut spans = vec![Span { start: 1, len: 1 }];
    for mut piece in data.chunks(step) {
        while let Some(large) = parser.large_mut().filter(|large| direct && large.missing() > 0 && !piece.is_empty()) {
            let room = large.unfilled();
            let n = room.len().min(piece.len());
            room[..n].copy_from_slice(&piece[..n]);
            large.advance(n);
            piece = &piece[n..];
        }
        pending.extend_from_slice(piece);
        loop {
            match parser.parse(&pending, limits, &mut spans) {
                Ok(Progress::Command { consumed, owned }) => {
                    assert!(parser.is_idle());
                    let mut args: Vec<Vec<u8>> = spans.drain(1..).map(|span| span.of(&pending).to_vec()).collect();
                    owned.into_iter().for_each(|(index, bytes)| args[index] = bytes);
                    commands.push(args);
                    pending.drain(..consumed);
                }
                Ok(Progress::Empty { consumed }) => {
                    pending.drain(..consumed);
                }
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Large { keep }) => {
                    pending.truncate(keep);
                    break;
                }
                Err(error) => return (commands, Some(error)),
            }
            assert_eq!(spans, [Span { start: 1, len: 1 }]);
        }
    }
    (commands, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_value::encode_command;
    use proptest::prelude::*;

    /// Returns the reply to a request that breaks the protocol; empty if it is good or incomplete.
    fn answer(data: impl AsRef<[u8]>, authenticated: bool) -> String {
        let data = data.as_ref();
        let limits = RequestLimits { authenticated, ..RequestLimits::default() };
        let mut wire = Vec::new();
        if let Some(error) = fragmented(data, data.len(), &limits, true).1 {
            error.write_to(&mut wire);
        }
        wire.escape_ascii().to_string()
    }

    #[test]
    fn lines_of_strangers_end_early() {
        let most = UNAUTHENTICATED_LINE_MAX;
        let long = |prefix: &str| format!("{prefix}{}", "1".repeat(most));
        for (request, text) in [
            (long(""), ""),
            (long("x"), "too big inline request"),
            (long("*"), "too big mbulk count string"),
            (long("*1\r\n$"), "too big bulk count string"),
        ] {
            let of =
                |text: &str| if text.is_empty() { String::new() } else { format!("-ERR Protocol error: {text}\\r\\n") };
            assert_eq!((answer(&request, false), answer(&request, true)), (of(text), String::new()), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_valkey() {
        let big = |prefix: &str, len: usize| format!("{prefix}{}", "1".repeat(len - prefix.len()));
        let line = LINE_MAX;
        for (request, text) in [
            ("*0\r\n*-1\r\n*-10\r\n\r\n\n   \r\n".into(), ""),
            ("*2147483647\r\n".into(), ""),
            ("*2147483648\r\n".into(), "invalid multibulk length"),
            ("*3000000000\r\n".into(), "invalid multibulk length"),
            ("*\r\n".into(), "invalid multibulk length"),
            ("*+1\r\n".into(), "invalid multibulk length"),
            ("*01\r\n".into(), "invalid multibulk length"),
            ("* 1\r\n".into(), "invalid multibulk length"),
            ("*-0\r\n".into(), "invalid multibulk length"),
            ("*\x001\r\n".into(), "invalid multibulk length"),
            ("*1\n$4\nping\n".into(), ""),
            ("*1\rX".into(), "invalid CRLF in request"),
            ("*x\rX".into(), "invalid CRLF in request"),
            ("*1\r\n$4\rX".into(), "invalid CRLF in request"),
            ("*1\r\n$4\r\nPINGxy".into(), "invalid CRLF in request"),
            (big("*", line), ""),
            (big("*", line + 1), "too big mbulk count string"),
            (big("*", line) + "\r\n", "invalid multibulk length"),
            (format!("*1\r\n{}", big("$", line)), ""),
            (format!("*1\r\n{}", big("$", line + 1)), "too big bulk count string"),
            (format!("*1\r\n{}", big("x", line + 1)), "too big bulk count string"),
            ("*1\r\nxyz".into(), ""),
            ("*1\r\nfoo\r\n".into(), "expected \\'$\\', got \\'f\\'"),
            ("*1\r\nx\rX".into(), "expected \\'$\\', got \\'x\\'"),
            ("*1\r\n\n\r\n".into(), "expected \\'$\\', got \\' \\'"),
            ("*1\r\n\r\n".into(), "expected \\'$\\', got \\' \\'"),
            ("*1\r\n\0\r\n".into(), "expected \\'$\\', got \\'\\x00\\'"),
            ("*1\r\n$-1\r\n".into(), "invalid bulk length"),
            ("*1\r\n$-10\r\n".into(), "invalid bulk length"),
            ("*1\r\n$\r\n".into(), "invalid bulk length"),
            ("*1\r\n$blabla\r\n".into(), "invalid bulk length"),
            ("*1\r\n$04\r\nPING\r\n".into(), "invalid bulk length"),
            ("*1\r\n$536870912\r\n".into(), ""),
            ("*1\r\n$536870913\r\n".into(), "invalid bulk length"),
            (big("ECHO ", line), ""),
            (big("ECHO ", line + 1), "too big inline request"),
            (big("ECHO ", line + 1) + "\r\n", ""),
            (format!("pi\0ng\r\n{}", big("", line)), "too big inline request"),
            ("pi\0ng\r\n".into(), ""),
            ("set \"\"\"k\"\"\" v\r\n".into(), ""),
            ("echo \"a\r\n".into(), "unbalanced quotes in request"),
            ("echo 'a\r\n".into(), "unbalanced quotes in request"),
            ("echo \"a\\\r\n".into(), "unbalanced quotes in request"),
            ("echo 'a'b\r\n".into(), ""),
            ("echo 'a'b'\r\n".into(), "unbalanced quotes in request"),
        ] {
            let wire = if text.is_empty() { String::new() } else { format!("-ERR Protocol error: {text}\\r\\n") };
            assert_eq!(answer(&request, true), wire, "{:?}", &request[..request.len().min(40)]);
        }
        assert_eq!(answer(b"*1\r\n\xff\r\n", true), "-ERR Protocol error: expected \\'$\\', got \\'\\xff\\'\\r\\n");
        assert_eq!(ProtocolError::ExpectedDollar(b'x').to_string(), "-ERR Protocol error: expected '$', got 'x'");
    }

    #[test]
    fn less_is_allowed_before_authentication() {
        for (request, text) in [
            ("*10\r\n", ""),
            ("*11\r\n", "unauthenticated multibulk length"),
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*1\r\n$16384\r\n", ""),
            ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ] {
            let wire = if text.is_empty() { String::new() } else { format!("-ERR Protocol error: {text}\\r\\n") };
            assert_eq!(answer(request, false), wire, "{request:?}");
        }
    }

    #[test]
    fn an_idle_parser_is_tiny_and_a_cut_command_costs_one_box() {
        assert!(size_of::<RequestParser>() <= 32);
        let mut parser = RequestParser::new();
        assert_eq!(parser.memory(), 0);
        let progress = parser.parse(b"*2147483647\r\n$536870912\r\n", &RequestLimits::default(), &mut Vec::new());
        assert_eq!(progress, Ok(Progress::Large { keep: 25 }));
        assert!(parser.memory() < 256, "an announcement reserves nothing: {}", parser.memory());
    }

    fn args() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let arg = prop_oneof![
            20 => prop::collection::vec(any::<u8>(), 0..40),
            1 => (LARGE - 3..LARGE + 3, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        ];
        prop::collection::vec(arg, 1..6)
    }

    proptest! {
        #[test]
        fn commands_cut_anywhere_parse_the_same(
            commands in prop::collection::vec(args(), 1..5),
            step in prop_oneof![1usize..40, 1000usize..40_000],
            direct: bool,
        ) {
            let mut data = Vec::new();
            commands.iter().for_each(|command| encode_command(&mut data, command));
            prop_assert_eq!(fragmented(&data, step, &RequestLimits::default(), direct), (commands, None));
        }

        #[test]
        fn garbage_cut_anywhere_parses_the_same(data in prop::collection::vec(prop::sample::select(&b"*$-\r\n\r\n0123456 \"'\\x\0p"[..]), 0..80)) {
            fuzz(&data);
        }
    }
}
