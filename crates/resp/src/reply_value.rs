//! The client's half of RESP: commands into bytes, reply bytes into values.
//!
//! The decoder is incremental: its input is everything received since the first byte of the current reply, it keeps the
//! open aggregates on a stack of its own, and looks at no byte twice.
//!
//! ```text
//!   *2\r\n :1\r\n %1\r\n +k\r\n ...           open: [array: 1 of 2 read] [map: 1 of 2 read]
//! ```
//!
//! A server is not trusted either: no announced length or count reserves memory, and nesting is bounded. Streamed
//! strings and aggregates (`$?`) are not understood; no server sends them.

use std::fmt;

use memchr::memchr;

use crate::number::{parse_f64_c, parse_i64};

/// Aggregates within aggregates that the decoder follows.
pub const DEPTH_MAX: usize = 128;
/// Longest line: a status, an error, a number, a length; in bytes.
pub const LINE_MAX: usize = 1024 * 1024;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `+`: a status.
    Simple(Vec<u8>),
    /// `-` or `!`: an error, its code first.
    Error(Vec<u8>),
    /// `:`
    Int(i64),
    /// `$`: a string of any bytes.
    Bulk(Vec<u8>),
    /// `_`, or RESP2's `$-1` and `*-1`.
    Null,
    /// `#`
    Bool(bool),
    /// `,`: the text as sent, which is a number: see [`Value::as_f64`].
    Double(String),
    /// `(`: a sign, perhaps, and digits.
    BigNumber(String),
    /// `=`: text and its format, `txt` or `mkd`.
    Verbatim([u8; 3], Vec<u8>),
    /// `*`
    Array(Vec<Value>),
    /// `~`: in the order sent.
    Set(Vec<Value>),
    /// `%`: in the order sent.
    Map(Vec<(Value, Value)>),
    /// `>`: a message that is no reply.
    Push(Vec<Value>),
    /// `|`: attributes and the value that they belong to.
    Attribute(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// Returns the number, if the value is a double or an integer.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Double(text) => parse_f64_c(text.as_bytes()),
            Value::Int(value) => Some(*value as f64),
            _ => None,
        }
    }
}

/// Bytes that are no reply. The connection is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// No type begins with this byte.
    UnknownType(u8),
    /// A number, length, count or truth value is malformed or out of range.
    InvalidNumber,
    /// A `\r` without its `\n`, or a string that is not followed by both.
    InvalidCrlf,
    /// A verbatim string without its format.
    InvalidVerbatim,
    /// A line over [`LINE_MAX`].
    LineTooLong,
    /// Over [`DEPTH_MAX`] aggregates within each other.
    TooDeep,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            DecodeError::UnknownType(byte) => {
                write!(f, "got '{}' as reply type byte", byte.escape_ascii())
            }
            DecodeError::InvalidNumber => f.write_str("invalid number in reply"),
            DecodeError::InvalidCrlf => f.write_str("invalid line end in reply"),
            DecodeError::InvalidVerbatim => f.write_str("verbatim string without a format"),
            DecodeError::LineTooLong => f.write_str("line too long in reply"),
            DecodeError::TooDeep => write!(f, "reply nested more than {DEPTH_MAX} levels deep"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Appends a command as client libraries send it.
pub fn encode_command(out: &mut Vec<u8>, args: &[impl AsRef<[u8]>]) {
    let mut number = itoa::Buffer::new();
    let mut header = |out: &mut Vec<u8>, kind: u8, n: usize| {
        out.push(kind);
        out.extend_from_slice(number.format(n).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    header(out, b'*', args.len());
    for arg in args {
        let arg = arg.as_ref();
        header(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// The state of one connection's replies.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Aggregates begun and not ended, the outermost first.
    open: Vec<Open>,
    /// First byte not decoded yet.
    position: usize,
    /// No line end lies before this byte.
    scanned: usize,
    /// A string whose header was read: its kind and length.
    string: Option<(u8, usize)>,
}

#[derive(Debug)]
struct Open {
    kind: u8,
    remaining: usize,
    items: Vec<Value>,
}

/// A decoded element.
enum Element {
    Value(Value),
    Open(Open),
}

impl Decoder {
    /// Returns a decoder at the start of a connection.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Decodes one reply. `buf` begins at its first byte and holds everything received since. Returns the value and how
    /// many bytes it took; None if it is incomplete: call again with the same bytes and more behind them.
    ///
    /// # Errors
    /// The bytes are no reply, or one that is nested too deeply. The connection is of no more use then.
    pub fn decode(&mut self, buf: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
        while let Some(element) = self.element(buf)? {
            let mut value = match element {
                Element::Open(open) if open.remaining > 0 => {
                    if self.open.len() == DEPTH_MAX {
                        return Err(DecodeError::TooDeep);
                    }
                    self.open.push(open);
                    continue;
                }
                Element::Open(open) => open.close(),
                Element::Value(value) => value,
            };
            // An element may be the last of its aggregate, and that the last of the one around it.
            loop {
                let Some(top) = self.open.last_mut() else {
                    let consumed = self.position;
                    *self = Decoder::default();
                    return Ok(Some((value, consumed)));
                };
                top.items.push(value);
                top.remaining -= 1;
                if top.remaining > 0 {
                    break;
                }
                let Some(closed) = self.open.pop() else { break };
                value = closed.close();
            }
        }
        Ok(None)
    }

    /// Decodes a scalar or the header of an aggregate; None if it is incomplete.
    fn element(&mut self, buf: &[u8]) -> Result<Option<Element>, DecodeError> {
        if let Some((kind, len)) = self.string {
            return self.string_body(buf, kind, len);
        }
        let Some(&kind) = buf.get(self.position) else {
            return Ok(None);
        };
        if !b"+-:$_#,(=!*~%>|".contains(&kind) {
            return Err(DecodeError::UnknownType(kind));
        }
        let Some(line) = self.line(buf)? else {
            return Ok(None);
        };
        let value = match kind {
            b'+' => Value::Simple(line.to_vec()),
            b'-' => Value::Error(line.to_vec()),
            b':' => Value::Int(parse_i64(line).ok_or(DecodeError::InvalidNumber)?),
            b'_' if line.is_empty() => Value::Null,
            b'#' if line == b"t" => Value::Bool(true),
            b'#' if line == b"f" => Value::Bool(false),
            b',' => Value::Double(double_text(line)?),
            b'(' => Value::BigNumber(big_number(line)?),
            b'$' | b'*' if line == b"-1" => Value::Null,
            b'$' | b'=' | b'!' => {
                let len = length(line)?;
                self.string = Some((kind, len));
                return self.string_body(buf, kind, len);
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                return Open::new(kind, length(line)?).map(|open| Some(Element::Open(open)));
            }
            _ => return Err(DecodeError::InvalidNumber),
        };
        Ok(Some(Element::Value(value)))
    }

    /// Returns the text of the line at the position, behind its first byte, and moves the position past the line; None
    /// if it does not end in `buf`.
    fn line<'b>(&mut self, buf: &'b [u8]) -> Result<Option<&'b [u8]>, DecodeError> {
        let (start, from) = (self.position, self.scanned.max(self.position));
        let end = memchr(b'\r', &buf[from..]).map_or(buf.len(), |at| from + at);
        self.scanned = end;
        if end - start > LINE_MAX {
            return Err(DecodeError::LineTooLong);
        }
        match buf.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.position = end + 2;
                Ok(Some(&buf[start + 1..end]))
            }
            Some(_) => Err(DecodeError::InvalidCrlf),
        }
    }

    fn string_body(&mut self, buf: &[u8], kind: u8, len: usize) -> Result<Option<Element>, DecodeError> {
        let rest = &buf[self.position..];
        if rest.len() < 2 || rest.len() - 2 < len {
            return Ok(None);
        }
        let (text, end) = rest.split_at(len);
        if !end.starts_with(b"\r\n") {
            return Err(DecodeError::InvalidCrlf);
        }
        self.position += len + 2;
        self.string = None;
        let value = match (kind, text) {
            (b'$', _) => Value::Bulk(text.to_vec()),
            (b'!', _) => Value::Error(text.to_vec()),
            (_, [a, b, c, b':', text @ ..]) => Value::Verbatim([*a, *b, *c], text.to_vec()),
            _ => return Err(DecodeError::InvalidVerbatim),
        };
        Ok(Some(Element::Value(value)))
    }
}

impl Open {
    /// Returns an aggregate with `count` announced elements, or pairs for a map.
    fn new(kind: u8, count: usize) -> Result<Open, DecodeError> {
        let remaining = match kind {
            b'%' => count.checked_mul(2),
            // The value that the attributes belong to is one element more.
            b'|' => count.checked_mul(2).and_then(|pairs| pairs.checked_add(1)),
            _ => Some(count),
        };
        Ok(Open { kind, remaining: remaining.ok_or(DecodeError::InvalidNumber)?, items: Vec::new() })
    }

    /// Returns the value, all of its elements read.
    fn close(mut self) -> Value {
        match self.kind {
            b'~' => Value::Set(self.items),
            b'>' => Value::Push(self.items),
            b'%' => Value::Map(pairs(self.items)),
            b'|' => {
                let value = self.items.pop().unwrap_or(Value::Null);
                Value::Attribute(pairs(self.items), Box::new(value))
            }
            _ => Value::Array(self.items),
        }
    }
}

fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut items = items.into_iter();
    std::iter::from_fn(|| items.next().zip(items.next())).collect()
}

fn length(line: &[u8]) -> Result<usize, DecodeError> {
    let len = parse_i64(line).ok_or(DecodeError::InvalidNumber)?;
    usize::try_from(len).map_err(|_| DecodeError::InvalidNumber)
}

fn double_text(line: &[u8]) -> Result<String, DecodeError> {
    let text = str::from_utf8(line).map_err(|_| DecodeError::InvalidNumber)?;
    // NaN has several spellings; the number itself is not of interest here.
    let known = text.eq_ignore_ascii_case("-nan") || parse_f64_c(line).is_some();
    if known { Ok(text.to_owned()) } else { Err(DecodeError::InvalidNumber) }
}

fn big_number(line: &[u8]) -> Result<String, DecodeError> {
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecodeError::InvalidNumber);
    }
    String::from_utf8(line.to_vec()).map_err(|_| DecodeError::InvalidNumber)
}

/// Fuzz hook: however the bytes are cut into reads, the same values come out.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Some((&seed, data)) = data.split_first() else {
        return;
    };
    let at_once = fragmented(data, data.len().max(1));
    assert_eq!(at_once, fragmented(data, 1));
    assert_eq!(at_once, fragmented(data, 1 + usize::from(seed)));
}

/// Returns the values in `data` when it arrives in chunks of `step` bytes, and the error that ends them.
#[cfg(any(test, feature = "fuzzing"))]
fn fragmented(data: &[u8], step: usize) -> (Vec<Value>, Option<DecodeError>) {
    let (mut values, mut pending, mut decoder) = (Vec::new(), Vec::new(), Decoder::new());
    for piece in data.chunks(step) {
        pending.extend_from_slice(piece);
        loop {
            match decoder.decode(&pending) {
                Ok(Some((value, consumed))) => {
                    values.push(value);
                    pending.drain(..consumed);
                }
                Ok(None) => break,
                Err(error) => return (values, Some(error)),
            }
        }
    }
    (values, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{Protocol, Reply};
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<Option<Value>, DecodeError> {
        let found = Decoder::new().decode(bytes)?;
        Ok(found.map(|(value, consumed)| {
            assert_eq!(consumed, bytes.len());
            value
        }))
    }

    #[test]
    fn types_that_no_reply_of_ours_has() {
        let bulk = |text: &str| Value::Bulk(text.into());
        for (bytes, value) in [
            ("$-1\r\n", Value::Null),
            ("*-1\r\n", Value::Null),
            ("!5\r\nERR x\r\n", Value::Error(b"ERR x".to_vec())),
            (",-nan\r\n", Value::Double("-nan".into())),
            ("(+12\r\n", Value::BigNumber("+12".into())),
            ("*0\r\n", Value::Array(vec![])),
            ("%0\r\n", Value::Map(vec![])),
            ("*1\r\n*0\r\n", Value::Array(vec![Value::Array(vec![])])),
            ("|0\r\n:1\r\n", Value::Attribute(vec![], Box::new(Value::Int(1)))),
            (
                "*2\r\n|1\r\n+ttl\r\n:9\r\n$1\r\na\r\n$0\r\n\r\n",
                Value::Array(vec![
                    Value::Attribute(vec![(Value::Simple(b"ttl".to_vec()), Value::Int(9))], Box::new(bulk("a"))),
                    bulk(""),
                ]),
            ),
        ] {
            assert_eq!(decoded(bytes.as_bytes()), Ok(Some(value)), "{bytes:?}");
        }
    }

    #[test]
    fn malformed_replies() {
        for (bytes, error) in [
            ("x", DecodeError::UnknownType(b'x')),
            (":\r\n", DecodeError::InvalidNumber),
            (":+1\r\n", DecodeError::InvalidNumber),
            ("$-2\r\n", DecodeError::InvalidNumber),
            ("$?\r\n", DecodeError::InvalidNumber),
            ("~-1\r\n", DecodeError::InvalidNumber),
            ("#x\r\n", DecodeError::InvalidNumber),
            ("_x\r\n", DecodeError::InvalidNumber),
            (",1.5x\r\n", DecodeError::InvalidNumber),
            ("(1-\r\n", DecodeError::InvalidNumber),
            ("(-\r\n", DecodeError::InvalidNumber),
            ("=2\r\nab\r\n", DecodeError::InvalidVerbatim),
            ("+a\rb", DecodeError::InvalidCrlf),
            ("$1\r\nabc", DecodeError::InvalidCrlf),
        ] {
            assert_eq!(decoded(bytes.as_bytes()), Err(error), "{bytes:?}");
        }
        assert_eq!(decoded(&[b'+'; LINE_MAX + 1]), Err(DecodeError::LineTooLong));
        assert_eq!(decoded(&[b'+'; LINE_MAX]), Ok(None));
    }

    #[test]
    fn nesting_is_bounded_and_counts_are_not_believed() {
        assert_eq!(decoded("*1\r\n".repeat(DEPTH_MAX).as_bytes()), Ok(None));
        assert_eq!(decoded("*1\r\n".repeat(DEPTH_MAX + 1).as_bytes()), Err(DecodeError::TooDeep));
        assert_eq!(decoded(b"*9223372036854775807\r\n$9223372036854775807\r\n"), Ok(None));
    }

    /// Generates a value and the form in which a handler would write it in RESP3.
    fn value() -> impl Strategy<Value = Value> {
        let bytes = prop::collection::vec(any::<u8>(), 0..12);
        let leaf = prop_oneof![
            "[ -~]{0,12}".prop_map(|text| Value::Simple(text.into())),
            "ERR [ -~]{0,12}".prop_map(|text| Value::Error(text.into())),
            any::<i64>().prop_map(Value::Int),
            bytes.clone().prop_map(Value::Bulk),
            bytes.prop_map(|text| Value::Verbatim(*b"mkd", text)),
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<f64>().prop_map(|value| Value::Double(crate::format_double(value).as_str().into())),
            "-?[1-9][0-9]{0,40}".prop_map(Value::BigNumber),
        ];
        leaf.prop_recursive(4, 40, 12, |inner| {
            let items = prop::collection::vec(inner.clone(), 0..12);
            let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..12);
            prop_oneof![
                items.clone().prop_map(Value::Array),
                items.clone().prop_map(Value::Set),
                items.prop_map(Value::Push),
                pairs.clone().prop_map(Value::Map),
                (pairs, inner).prop_map(|(pairs, value)| Value::Attribute(pairs, Box::new(value))),
            ]
        })
    }

    fn write(reply: &mut Reply, value: &Value) {
        match value {
            Value::Simple(text) => reply.simple(str::from_utf8(text).unwrap()),
            Value::Error(text) => reply.error(text),
            Value::Int(value) => reply.int(*value),
            Value::Bulk(bytes) => reply.bulk(bytes),
            Value::Null => reply.null(),
            Value::Bool(value) => reply.boolean(*value),
            Value::Double(_) => reply.double(value.as_f64().unwrap()),
            Value::BigNumber(digits) => reply.big_number(digits),
            Value::Verbatim(format, text) => reply.verbatim(format, text),
            Value::Array(items) => {
                reply.array(items.len());
                items.iter().for_each(|item| write(reply, item));
            }
            Value::Set(items) => {
                let mark = reply.begin_set();
                items.iter().for_each(|item| write(reply, item));
                reply.end_set(mark, items.len());
            }
            Value::Push(items) => {
                reply.push(items.len());
                items.iter().for_each(|item| write(reply, item));
            }
            Value::Map(pairs) => {
                let mark = reply.begin_map();
                pairs.iter().for_each(|(key, value)| (write(reply, key), write(reply, value)).1);
                reply.end_map(mark, pairs.len());
            }
            Value::Attribute(pairs, value) => {
                assert!(reply.attribute(pairs.len()));
                pairs.iter().for_each(|(key, value)| (write(reply, key), write(reply, value)).1);
                write(reply, value);
            }
        }
    }

    proptest! {
        #[test]
        fn replies_round_trip_in_any_pieces(values in prop::collection::vec(value(), 0..4), step in 1usize..40) {
            let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
            values.iter().for_each(|value| write(&mut reply, value));
            prop_assert_eq!(fragmented(reply.as_slice(), step), (values, None));
        }

        #[test]
        fn fragmentation_changes_nothing(data in prop::collection::vec(prop::sample::select(&b"*$:+-_#,(=!~%>|\r\n0123tfx"[..]), 0..60)) {
            fuzz(&data);
        }
    }
}
