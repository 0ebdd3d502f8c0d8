//! The book protocol: the length-prefixed binary protocol of the tutorials that this project grew from.
//!
//! All integers are little-endian.
//!
//! ```text
//!   request   u32 total | u32 nstr | nstr times: u32 len, len bytes          4 <= total <= 4096
//!   reply     u32 total | value                                              total <= 4096
//!
//!   value     0                         nil
//!             1 | i32 code | u32 len | len bytes      err
//!             2 | u32 len | len bytes                 str
//!             3 | i64                                 int
//!             4 | f64                                 dbl
//!             5 | u32 n | n values                    arr
//! ```
//!
//! A request is at most 4100 bytes, so the parser has no state between two calls: a request is parsed once it is
//! complete. Only its length is judged before. This module holds the server's parser of requests and the client's half;
//! a server translates the replies of its commands from RESP.

use std::fmt;

use crate::request::Span;

/// Longest request without its length, in bytes.
pub const REQUEST_MAX: usize = 4096;
/// Longest value of a reply, in bytes.
pub const REPLY_MAX: usize = 4096;

/// Tags of values.
pub mod tag {
    /// No content.
    pub const NIL: u8 = 0;
    /// i32 code, u32 length, text.
    pub const ERR: u8 = 1;
    /// u32 length, bytes.
    pub const STR: u8 = 2;
    /// i64.
    pub const INT: u8 = 3;
    /// f64.
    pub const DBL: u8 = 4;
    /// u32 count, values.
    pub const ARR: u8 = 5;
}

/// Codes of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// No such command, or not allowed.
    Unknown = 1,
    /// The reply is longer than [`REPLY_MAX`].
    TooBig = 2,
    /// The key holds another type.
    Type = 3,
    /// A wrong argument.
    Argument = 4,
}

/// Most strings of a request.
pub const STRINGS_MAX: usize = 200_000;
/// Arrays within arrays that the client's decoder follows.
const DEPTH_MAX: usize = 32;

/// A message that breaks the framing. A server closes the connection without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The message's length is not within its bounds.
    Total,
    /// More than [`STRINGS_MAX`] strings are announced.
    TooManyStrings,
    /// A length points past the end of the message.
    PastEnd,
    /// Bytes are left after the last string or value.
    LeftOver,
    /// A value of an unknown kind.
    UnknownTag(u8),
    /// Arrays are nested too deeply.
    TooDeep,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Total => f.write_str("message length out of bounds"),
            Malformed::TooManyStrings => f.write_str("too many strings in the message"),
            Malformed::PastEnd => f.write_str("a length reaches past the end of the message"),
            Malformed::LeftOver => f.write_str("bytes left at the end of the message"),
            Malformed::UnknownTag(tag) => write!(f, "unknown value tag {tag}"),
            Malformed::TooDeep => f.write_str("arrays nested too deeply"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Parses one request at the start of `buf`, appends its strings to `out` as spans from there, and returns how many
/// bytes it took; None if it is incomplete. After an error `out` is as it was.
///
/// # Errors
/// The bytes are no request of this protocol, or one longer than [`REQUEST_MAX`].
pub fn parse_request(buf: &[u8], out: &mut Vec<Span>) -> Result<Option<usize>, Malformed> {
    let Some(mut message) = Message::framed(buf, 4, REQUEST_MAX)? else {
        return Ok(None);
    };
    let first_span = out.len();
    let parsed = message.strings(out);
    if parsed.is_err() {
        out.truncate(first_span);
    }
    parsed.map(|()| Some(message.bytes.len()))
}

/// Appends a request. Err if it is longer than [`REQUEST_MAX`]; `out` is then as it was.
///
/// # Errors
/// The request would be longer than [`REQUEST_MAX`].
pub fn encode_request(out: &mut Vec<u8>, args: &[impl AsRef<[u8]>]) -> Result<(), Malformed> {
    let sizes = args.iter().map(|arg| arg.as_ref().len().saturating_add(4));
    let total = sizes.fold(4usize, usize::saturating_add);
    if total > REQUEST_MAX {
        return Err(Malformed::Total);
    }
    out.extend_from_slice(&(total as u32).to_le_bytes());
    out.extend_from_slice(&(args.len() as u32).to_le_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(&(arg.len() as u32).to_le_bytes());
        out.extend_from_slice(arg);
    }
    Ok(())
}

/// A reply, as the client sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum BookValue {
    /// No value.
    Nil,
    /// A code and a text.
    Err(i32, Vec<u8>),
    /// A string of any bytes.
    Str(Vec<u8>),
    /// An integer.
    Int(i64),
    /// A float.
    Dbl(f64),
    /// Values.
    Arr(Vec<BookValue>),
}

/// Decodes one reply at the start of `buf` and returns it with how many bytes it took; None if it is incomplete.
///
/// # Errors
/// The bytes are no reply of this protocol.
pub fn decode_reply(buf: &[u8]) -> Result<Option<(BookValue, usize)>, Malformed> {
    let Some(mut message) = Message::framed(buf, 1, REPLY_MAX)? else {
        return Ok(None);
    };
    let value = message.value(DEPTH_MAX)?;
    message.end()?;
    Ok(Some((value, message.bytes.len())))
}

/// A cursor over a whole message that cannot leave it.
struct Message<'b> {
    bytes: &'b [u8],
    position: usize,
}

impl<'b> Message<'b> {
    /// Returns the message at the start of `buf`, the cursor behind its length; None if it is incomplete.
    fn framed(buf: &'b [u8], min: usize, max: usize) -> Result<Option<Message<'b>>, Malformed> {
        let Some(total) = buf.first_chunk::<4>() else {
            return Ok(None);
        };
        let total = u32::from_le_bytes(*total) as usize;
        if !(min..=max).contains(&total) {
            return Err(Malformed::Total);
        }
        Ok(buf.get(..4 + total).map(|bytes| Message { bytes, position: 4 }))
    }

    fn strings(&mut self, out: &mut Vec<Span>) -> Result<(), Malformed> {
        let count = self.u32()? as usize;
        if count > STRINGS_MAX {
            return Err(Malformed::TooManyStrings);
        }
        for _ in 0..count {
            let len = self.u32()? as usize;
            out.push(Span { start: self.position, len });
            self.take(len)?;
        }
        self.end()
    }

    fn value(&mut self, depth: usize) -> Result<BookValue, Malformed> {
        Ok(match self.array::<1>()?[0] {
            tag::NIL => BookValue::Nil,
            tag::ERR => {
                let code = i32::from_le_bytes(self.array()?);
                BookValue::Err(code, self.sized()?)
            }
            tag::STR => BookValue::Str(self.sized()?),
            tag::INT => BookValue::Int(i64::from_le_bytes(self.array()?)),
            tag::DBL => BookValue::Dbl(f64::from_le_bytes(self.array()?)),
            tag::ARR => {
                let depth = depth.checked_sub(1).ok_or(Malformed::TooDeep)?;
                // The count is not trusted: the first missing value ends the loop.
                let count = self.u32()?;
                BookValue::Arr((0..count).map(|_| self.value(depth)).collect::<Result<_, _>>()?)
            }
            unknown => return Err(Malformed::UnknownTag(unknown)),
        })
    }

    fn sized(&mut self) -> Result<Vec<u8>, Malformed> {
        let len = self.u32()? as usize;
        self.take(len).map(<[u8]>::to_vec)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.first_chunk().copied().ok_or(Malformed::PastEnd)
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], Malformed> {
        let taken = self.bytes[self.position..].get(..len).ok_or(Malformed::PastEnd)?;
        self.position += len;
        Ok(taken)
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.position == self.bytes.len() { Ok(()) } else { Err(Malformed::LeftOver) }
    }
}

/// Fuzz hook: however the bytes are cut into reads, the same requests come out.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Some((&seed, data)) = data.split_first() else {
        return;
    };
    let at_once = fragmented(data, data.len().max(1));
    assert_eq!(at_once, fragmented(data, 1));
    assert_eq!(at_once, fragmented(data, 1 + usize::from(seed)));
    for request in &at_once.0 {
        let mut encoded = Vec::new();
        encode_request(&mut encoded, request).expect("what was parsed fits a request");
        let mut spans = Vec::new();
        assert_eq!(parse_request(&encoded, &mut spans), Ok(Some(encoded.len())));
        assert!(spans.iter().map(|span| span.of(&encoded)).eq(request.iter().map(Vec::as_slice)));
    }
    let _ = decode_reply(data);
}

/// Returns the requests in `data` when it arrives in chunks of `step` bytes, and the error that ends them.
#[cfg(any(test, feature = "fuzzing"))]
fn fragmented(data: &[u8], step: usize) -> (Vec<Vec<Vec<u8>>>, Option<Malformed>) {
    let (mut requests, mut pending) = (Vec::new(), Vec::new());
    for piece in data.chunks(step) {
        pending.extend_from_slice(piece);
        let mut spans = Vec::new();
        loop {
            match parse_request(&pending, &mut spans) {
                Ok(Some(consumed)) => {
                    requests.push(spans.drain(..).map(|span| span.of(&pending).to_vec()).collect());
                    pending.drain(..consumed);
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Arguments, request, reply and its meaning, captured from the tutorials' servers.
    type Example = (Vec<&'static [u8]>, &'static str, &'static str, BookValue);

    #[rustfmt::skip]
    fn examples() -> Vec<Example> {
        use BookValue::{Arr, Dbl, Err, Int, Nil, Str};
        vec![
            (
                vec![&b"get"[..], b"nokey"],
                "14 00 00 00 02 00 00 00 03 00 00 00 67 65 74 05 00 00 00 6e 6f 6b 65 79",
                "01 00 00 00 00",
                Nil,
            ),
            (
                vec![&b"set"[..], b"k", b"v"],
                "15 00 00 00 03 00 00 00 03 00 00 00 73 65 74 01 00 00 00 6b 01 00 00 00 76",
                "01 00 00 00 00",
                Nil,
            ),
            (
                vec![&b"get"[..], b"k"],
                "10 00 00 00 02 00 00 00 03 00 00 00 67 65 74 01 00 00 00 6b",
                "06 00 00 00 02 01 00 00 00 76",
                Str(b"v".to_vec()),
            ),
            (
                vec![&b"del"[..], b"k"],
                "10 00 00 00 02 00 00 00 03 00 00 00 64 65 6c 01 00 00 00 6b",
                "09 00 00 00 03 01 00 00 00 00 00 00 00",
                Int(1),
            ),
            (
                vec![&b"keys"[..]],
                "0c 00 00 00 01 00 00 00 04 00 00 00 6b 65 79 73",
                "05 00 00 00 05 00 00 00 00",
                Arr(Vec::new()),
            ),
            (
                vec![&b"keys"[..]],
                "0c 00 00 00 01 00 00 00 04 00 00 00 6b 65 79 73",
                "0e 00 00 00 05 01 00 00 00 02 04 00 00 00 6f 6e 6c 79",
                Arr(vec![Str(b"only".to_vec())]),
            ),
            (
                vec![&b"zadd"[..], b"z", b"1", b"n1"],
                "1c 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 01 00 00 00 31 02 00 00 00 6e 31",
                "09 00 00 00 03 01 00 00 00 00 00 00 00",
                Int(1),
            ),
            (
                vec![&b"zadd"[..], b"z", b"1.1", b"n1"],
                "1e 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 03 00 00 00 31 2e 31 02 00 00 00 6e 31",
                "09 00 00 00 03 00 00 00 00 00 00 00 00",
                Int(0),
            ),
            (
                vec![&b"zscore"[..], b"z", b"n1"],
                "19 00 00 00 03 00 00 00 06 00 00 00 7a 73 63 6f 72 65 01 00 00 00 7a 02 00 00 00 6e 31",
                "09 00 00 00 04 9a 99 99 99 99 99 f1 3f",
                Dbl(1.1),
            ),
            (
                vec![&b"zscore"[..], b"z", b"nope"],
                "1b 00 00 00 03 00 00 00 06 00 00 00 7a 73 63 6f 72 65 01 00 00 00 7a 04 00 00 00 6e 6f 70 65",
                "01 00 00 00 00",
                Nil,
            ),
            (
                vec![&b"zquery"[..], b"z", b"2", b"c", b"0", b"100"],
                "29 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 32 01 00 00 00 63 01 00 00 00 30 03 00 00 00 31 30 30",
                "23 00 00 00 05 04 00 00 00 02 01 00 00 00 63 04 00 00 00 00 00 00 00 40 02 01 00 00 00 64 04 00 00 00 00 00 00 0c 40",
                Arr(vec![Str(b"c".to_vec()), Dbl(2.0), Str(b"d".to_vec()), Dbl(3.5)]),
            ),
            (
                vec![&b"zquery"[..], b"z", b"1", b"", b"0", b"0"],
                "26 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 30 01 00 00 00 30",
                "05 00 00 00 05 00 00 00 00",
                Arr(Vec::new()),
            ),
            (
                vec![&b"zquery"[..], b"z", b"1", b"", b"0", b"3"],
                "26 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 30 01 00 00 00 33",
                "23 00 00 00 05 04 00 00 00 02 01 00 00 00 61 04 00 00 00 00 00 00 f0 3f 02 01 00 00 00 62 04 00 00 00 00 00 00 00 40",
                Arr(vec![Str(b"a".to_vec()), Dbl(1.0), Str(b"b".to_vec()), Dbl(2.0)]),
            ),
            (
                vec![&b"pttl"[..], b"k"],
                "11 00 00 00 02 00 00 00 04 00 00 00 70 74 74 6c 01 00 00 00 6b",
                "09 00 00 00 03 ff ff ff ff ff ff ff ff",
                Int(-1),
            ),
            (
                vec![&b"pttl"[..], b"nokey"],
                "15 00 00 00 02 00 00 00 04 00 00 00 70 74 74 6c 05 00 00 00 6e 6f 6b 65 79",
                "09 00 00 00 03 fe ff ff ff ff ff ff ff",
                Int(-2),
            ),
            (
                vec![&b"pexpire"[..], b"k", b"50000"],
                "1d 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 05 00 00 00 35 30 30 30 30",
                "09 00 00 00 03 01 00 00 00 00 00 00 00",
                Int(1),
            ),
            (
                vec![&b"pexpire"[..], b"k", b"-1"],
                "1a 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 02 00 00 00 2d 31",
                "09 00 00 00 03 01 00 00 00 00 00 00 00",
                Int(1),
            ),
            (
                vec![&b"pexpire"[..], b"k", b"x"],
                "19 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 01 00 00 00 78",
                "15 00 00 00 01 04 00 00 00 0c 00 00 00 65 78 70 65 63 74 20 69 6e 74 36 34",
                Err(4, b"expect int64".to_vec()),
            ),
            (
                vec![&b"zadd"[..], b"z", b"abc", b"n"],
                "1d 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 03 00 00 00 61 62 63 01 00 00 00 6e",
                "15 00 00 00 01 04 00 00 00 0c 00 00 00 65 78 70 65 63 74 20 66 6c 6f 61 74",
                Err(4, b"expect float".to_vec()),
            ),
            (
                vec![&b"zquery"[..], b"z", b"x", b"", b"0", b"10"],
                "27 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 78 00 00 00 00 01 00 00 00 30 02 00 00 00 31 30",
                "19 00 00 00 01 04 00 00 00 10 00 00 00 65 78 70 65 63 74 20 66 70 20 6e 75 6d 62 65 72",
                Err(4, b"expect fp number".to_vec()),
            ),
            (
                vec![&b"zquery"[..], b"z", b"1", b"", b"x", b"10"],
                "27 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 78 02 00 00 00 31 30",
                "13 00 00 00 01 04 00 00 00 0a 00 00 00 65 78 70 65 63 74 20 69 6e 74",
                Err(4, b"expect int".to_vec()),
            ),
            (
                vec![&b"zadd"[..], b"s", b"1", b"n"],
                "1b 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 73 01 00 00 00 31 01 00 00 00 6e",
                "14 00 00 00 01 03 00 00 00 0b 00 00 00 65 78 70 65 63 74 20 7a 73 65 74",
                Err(3, b"expect zset".to_vec()),
            ),
            (
                vec![&b"get"[..], b"z"],
                "10 00 00 00 02 00 00 00 03 00 00 00 67 65 74 01 00 00 00 7a",
                "1b 00 00 00 01 03 00 00 00 12 00 00 00 6e 6f 74 20 61 20 73 74 72 69 6e 67 20 76 61 6c 75 65",
                Err(3, b"not a string value".to_vec()),
            ),
            (
                vec![&b"set"[..], b"z", b"v"],
                "15 00 00 00 03 00 00 00 03 00 00 00 73 65 74 01 00 00 00 7a 01 00 00 00 76",
                "22 00 00 00 01 03 00 00 00 19 00 00 00 61 20 6e 6f 6e 2d 73 74 72 69 6e 67 20 76 61 6c 75 65 20 65 78 69 73 74 73",
                Err(3, b"a non-string value exists".to_vec()),
            ),
            (
                vec![&b"get"[..], b"\x00\xffk"],
                "12 00 00 00 02 00 00 00 03 00 00 00 67 65 74 03 00 00 00 00 ff 6b",
                "0a 00 00 00 02 05 00 00 00 00 01 0d 0a fe",
                Str(b"\x00\x01\x0d\x0a\xfe".to_vec()),
            ),
        ]
    }

    fn unhex(text: &str) -> Vec<u8> {
        text.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    fn write(out: &mut Vec<u8>, value: &BookValue) {
        let write_sized = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        };
        match value {
            BookValue::Nil => out.push(tag::NIL),
            BookValue::Err(code, text) => {
                out.push(tag::ERR);
                out.extend(code.to_le_bytes());
                write_sized(out, text);
            }
            BookValue::Str(bytes) => {
                out.push(tag::STR);
                write_sized(out, bytes);
            }
            BookValue::Int(value) => {
                out.push(tag::INT);
                out.extend(value.to_le_bytes());
            }
            BookValue::Dbl(value) => {
                out.push(tag::DBL);
                out.extend(value.to_le_bytes());
            }
            BookValue::Arr(values) => {
                out.push(tag::ARR);
                out.extend((values.len() as u32).to_le_bytes());
                values.iter().for_each(|value| write(out, value));
            }
        }
    }

    fn framed(value: &BookValue) -> Vec<u8> {
        let mut frame = vec![0; 4];
        write(&mut frame, value);
        let total = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&total.to_le_bytes());
        frame
    }

    #[test]
    fn captured_examples_byte_for_byte() {
        for (args, request, reply, value) in examples() {
            let (request, reply) = (unhex(request), unhex(reply));
            let mut encoded = Vec::new();
            encode_request(&mut encoded, &args).unwrap();
            assert_eq!(encoded, request, "{args:?}");
            let mut spans = Vec::new();
            assert_eq!(parse_request(&request, &mut spans), Ok(Some(request.len())));
            assert!(spans.iter().map(|span| span.of(&request)).eq(args.iter().copied()));
            assert_eq!(framed(&value), reply, "{value:?}");
            assert_eq!(decode_reply(&reply), Ok(Some((value, reply.len()))));
        }
    }

    #[test]
    fn malformed_requests() {
        for (bytes, error) in [
            ("01 10 00 00", Malformed::Total),
            ("03 00 00 00", Malformed::Total),
            ("04 00 00 00 41 0d 03 00", Malformed::TooManyStrings),
            ("04 00 00 00 01 00 00 00", Malformed::PastEnd),
            ("09 00 00 00 01 00 00 00 02 00 00 00 78", Malformed::PastEnd),
            ("08 00 00 00 01 00 00 00 ff ff ff ff", Malformed::PastEnd),
            ("05 00 00 00 00 00 00 00 78", Malformed::LeftOver),
        ] {
            let mut spans = vec![Span::default()];
            assert_eq!(parse_request(&unhex(bytes), &mut spans), Err(error), "{bytes}");
            assert_eq!(spans.len(), 1);
        }
        let mut spans = Vec::new();
        assert_eq!(parse_request(&unhex("04 00 00 00 00 00 00 00"), &mut spans), Ok(Some(8)));
        assert!(spans.is_empty());
        assert_eq!(encode_request(&mut Vec::new(), &[[b'x'; REQUEST_MAX - 8]]), Ok(()));
        assert_eq!(encode_request(&mut Vec::new(), &[[b'x'; REQUEST_MAX - 7]]), Err(Malformed::Total));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let body = [[5, 1, 0, 0, 0].repeat(depth), vec![0]].concat();
            decode_reply(&[(body.len() as u32).to_le_bytes().to_vec(), body].concat()).map(|found| found.is_some())
        };
        assert_eq!(nested(DEPTH_MAX), Ok(true));
        assert_eq!(nested(DEPTH_MAX + 1), Err(Malformed::TooDeep));
    }

    proptest! {
        #[test]
        fn fragmentation_changes_nothing(
            requests in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5), 0..5),
            garbage in prop::collection::vec(any::<u8>(), 0..20),
            step: u8,
        ) {
            let mut data = vec![step];
            for request in &requests {
                encode_request(&mut data, request).unwrap();
            }
            prop_assert_eq!(fragmented(&data[1..], usize::from(step) + 1), (requests, None));
            data.extend(garbage);
            fuzz(&data);
        }
    }
}
