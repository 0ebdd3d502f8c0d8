//! Replies as the wire carries them, RESP2 and RESP3.
//!
//! This decoder is the differential test's own and shares nothing with the server's `resp` crate, so that one mistake
//! cannot hide on both ends. It keeps all that a client could tell apart: the three nulls are three values, and a
//! double stays the text that was sent.
//!
//! ```text
//!   +OK\r\n            Simple        _\r\n          Null            %1\r\n k v     Map
//!   -ERR text\r\n      Error         #t\r\n         Bool            ~1\r\n v       Set
//!   :1\r\n             Integer       ,1.5\r\n       Double          >1\r\n v       Push
//!   $1\r\nx\r\n        Bulk          (123\r\n       Number
//!   $-1\r\n            NullBulk      !5\r\nERR x    BlobError
//!   *1\r\n v           Array         =5\r\ntxt:x    Verbatim
//!   *-1\r\n            NullArray
//! ```

use std::fmt;
use std::io::{self, BufRead, Error, ErrorKind, Read};

/// A reply. `Lost` stands for one that never arrived: the connection broke, or the bytes were not RESP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    NullBulk,
    Array(Vec<Value>),
    NullArray,
    Null,
    Bool(bool),
    Double(Vec<u8>),
    Number(Vec<u8>),
    BlobError(Vec<u8>),
    Verbatim(Vec<u8>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Lost(String),
}

/// Deeper nesting than any reply has; a limit keeps a broken server from exhausting the stack.
const DEPTH_MAX: usize = 32;

impl Value {
    /// Reads one whole reply.
    pub fn read(from: &mut impl BufRead) -> io::Result<Value> {
        Self::read_nested(from, 0)
    }

    fn read_nested(from: &mut impl BufRead, depth: usize) -> io::Result<Value> {
        if depth > DEPTH_MAX {
            return Err(malformed("a reply nested too deeply", b""));
        }
        let line = read_line(from)?;
        let (&kind, rest) = line.split_first().ok_or_else(|| malformed("an empty line", &line))?;
        Ok(match kind {
            b'+' => Value::Simple(rest.to_vec()),
            b'-' => Value::Error(rest.to_vec()),
            b':' => Value::Integer(number(rest)?),
            b'$' if rest == b"-1" => Value::NullBulk,
            b'$' => Value::Bulk(read_blob(from, rest)?),
            b'*' if rest == b"-1" => Value::NullArray,
            b'*' => Value::Array(read_values(from, number(rest)?, depth)?),
            b'_' => Value::Null,
            b'#' => Value::Bool(rest == b"t"),
            b',' => Value::Double(rest.to_vec()),
            b'(' => Value::Number(rest.to_vec()),
            b'!' => Value::BlobError(read_blob(from, rest)?),
            b'=' => Value::Verbatim(read_blob(from, rest)?),
            b'~' => Value::Set(read_values(from, number(rest)?, depth)?),
            b'>' => Value::Push(read_values(from, number(rest)?, depth)?),
            b'%' => {
                let flat = read_values(from, number(rest)?.saturating_mul(2), depth)?;
                let mut flat = flat.into_iter();
                let mut pairs = Vec::new();
                while let (Some(key), Some(value)) = (flat.next(), flat.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
            _ => return Err(malformed("an unknown reply type", &line)),
        })
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_) | Value::BlobError(_))
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Value::Array(values) | Value::Set(values) | Value::Push(values) => Some(values),
            _ => None,
        }
    }

    /// The bytes of a bulk or simple string.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Bulk(text) | Value::Simple(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the type of the reply.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Simple(_) => "simple",
            Value::Error(_) => "error",
            Value::Integer(_) => "integer",
            Value::Bulk(_) => "bulk",
            Value::NullBulk => "null bulk",
            Value::Array(_) => "array",
            Value::NullArray => "null array",
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Double(_) => "double",
            Value::Number(_) => "big number",
            Value::BlobError(_) => "blob error",
            Value::Verbatim(_) => "verbatim",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::Push(_) => "push",
            Value::Lost(_) => "lost",
        }
    }
}

/// One line, so that two replies can be laid above each other; long texts are cut in the middle.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Simple(text)
            | Value::Error(text)
            | Value::Bulk(text)
            | Value::Double(text)
            | Value::Number(text)
            | Value::BlobError(text)
            | Value::Verbatim(text) => write!(f, "({}) {}", self.kind(), quoted(text)),
            Value::Integer(n) => write!(f, "(integer) {n}"),
            Value::Bool(b) => write!(f, "(bool) {b}"),
            Value::NullBulk | Value::NullArray | Value::Null => write!(f, "({})", self.kind()),
            Value::Array(values) | Value::Set(values) | Value::Push(values) => {
                write!(f, "({} of {}) [", self.kind(), values.len())?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(pairs) => {
                write!(f, "(map of {}) {{", pairs.len())?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Value::Lost(why) => write!(f, "no reply: {why}"),
        }
    }
}

/// Bytes as a quoted, escaped string; of more than 200 bytes the middle is left out.
pub fn quoted(bytes: &[u8]) -> String {
    const WHOLE_MAX: usize = 200;
    const END: usize = 40;
    if bytes.len() <= WHOLE_MAX {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    let (head, tail) = (&bytes[..END], &bytes[bytes.len() - END..]);
    format!("\"{}\" ... {} bytes ... \"{}\"", head.escape_ascii(), bytes.len() - 2 * END, tail.escape_ascii())
}

fn read_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was closed"));
    }
    if !line.ends_with(b"\r\n") {
        return Err(malformed("a line that does not end in CR LF", &line));
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

fn read_blob(from: &mut impl BufRead, length: &[u8]) -> io::Result<Vec<u8>> {
    let length = usize::try_from(number(length)?).map_err(|_| malformed("a negative length", length))?;
    let mut blob = Vec::new();
    from.by_ref().take(length as u64).read_to_end(&mut blob)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if end != *b"\r\n" {
        return Err(malformed("a blob that does not end in CR LF", &end));
    }
    Ok(blob)
}

fn read_values(from: &mut impl BufRead, count: i64, depth: usize) -> io::Result<Vec<Value>> {
    if count < 0 {
        return Err(malformed("a negative count", count.to_string().as_bytes()));
    }
    (0..count).map(|_| Value::read_nested(from, depth + 1)).collect()
}

fn number(text: &[u8]) -> io::Result<i64> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("a malformed number", text))
}

fn malformed(what: &str, seen: &[u8]) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the server sent {what}: {}", quoted(seen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(wire: &[u8]) -> io::Result<Value> {
        let mut from = wire;
        let value = Value::read(&mut from)?;
        assert!(from.is_empty(), "bytes left over: {from:?}");
        Ok(value)
    }

    #[test]
    fn the_nulls_stay_apart() {
        assert_eq!(read(b"$-1\r\n").unwrap(), Value::NullBulk);
        assert_eq!(read(b"*-1\r\n").unwrap(), Value::NullArray);
        assert_eq!(read(b"_\r\n").unwrap(), Value::Null);
    }

    #[test]
    fn aggregates_nest() {
        let pair = (Value::Simple(b"k".to_vec()), Value::Integer(-7));
        assert_eq!(
            read(b"*2\r\n%1\r\n+k\r\n:-7\r\n~1\r\n$2\r\n\r\n\r\n").unwrap(),
            Value::Array(vec![Value::Map(vec![pair]), Value::Set(vec![Value::Bulk(b"\r\n".to_vec())])])
        );
    }

    #[test]
    fn bytes_that_are_not_resp_are_an_error() {
        for wire in [&b""[..], b"OK\r\n", b":1\n", b":x\r\n", b"$2\r\nabc\r\n", b"$5\r\nab", b"*-2\r\n"] {
            assert!(read(wire).is_err(), "{wire:?}");
        }
        assert!(read("*1\r\n".repeat(100).as_bytes()).is_err());
    }
}
