//! Replies in RESP3 to frames of the book protocol.
//!
//! | RESP3 | frame |
//! | --- | --- |
//! | `+OK`, `_` | nil |
//! | `-BOOKTYPE text`, `-BOOKARGUMENT text` | err with the code of the word |
//! | `-ERR text` | err, code by the text's first word |
//! | `:1`, `#t` | int |
//! | `$1 x`, `=5 txt:x`, `(1` | str |
//! | `,1.5` | dbl |
//! | `*n ~n >n`, `%n` | arr |
//!
//! A frame is at most [`REPLY_MAX`] bytes. Bytes that do not fit any more are dropped as they come, so that a huge
//! answer costs no memory here, and the frame becomes an error.

use resp::book::{Code, REPLY_MAX, tag};
use resp::number::{parse_f64_c, parse_i64};

/// First word of an error about a key's type, whose text is the rest.
pub const TYPE: &str = "BOOKTYPE";
/// First word of an error about an argument, whose text is the rest.
pub const ARGUMENT: &str = "BOOKARGUMENT";

/// The state of a stream of replies that arrives in any parts.
#[derive(Debug, Default)]
pub struct ReplyFrames {
    /// A value's first line, as far as it has come.
    line: Vec<u8>,
    /// Bytes of a string that are to come, its line's end among them.
    string: usize,
    /// Values of the open reply that are to come.
    left: u64,
    /// Frame's value, up to one byte more than may be sent.
    value: Vec<u8>,
}

impl ReplyFrames {
    /// Returns the bytes of memory of the open reply.
    pub fn memory(&self) -> usize {
        self.line.capacity() + self.value.capacity()
    }

    /// Translates the next bytes of the stream; frames of replies that end in them are appended to `out`.
    pub fn translate(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let is_end;
            (bytes, is_end) = if self.string > 0 { self.take_string(bytes) } else { self.take_line(bytes) };
            if is_end && self.left == 0 && !self.value.is_empty() {
                self.end_frame(out);
            }
        }
        if self.value.is_empty() {
            self.value = Vec::new();
        }
        if self.line.is_empty() {
            self.line = Vec::new();
        }
    }

    /// Takes bytes of a string. Returns the rest, and whether a value has ended.
    fn take_string<'b>(&mut self, bytes: &'b [u8]) -> (&'b [u8], bool) {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.string));
        let content = taken.len().min(self.string.saturating_sub(2));
        self.put(&taken[..content]);
        self.string -= taken.len();
        (rest, self.string == 0)
    }

    /// Takes bytes of a value's first line. Returns the rest, and whether a value has ended.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> (&'b [u8], bool) {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
            self.line.extend_from_slice(bytes);
            return (&[], false);
        };
        self.line.extend_from_slice(&bytes[..end]);
        let line = std::mem::take(&mut self.line);
        self.put_value(line.strip_suffix(b"\r").unwrap_or(&line));
        self.line = line;
        self.line.clear();
        (&bytes[end + 1..], self.string == 0)
    }

    /// Writes the value that a line begins.
    fn put_value(&mut self, line: &[u8]) {
        let Some((kind, text)) = line.split_first() else { return };
        self.left = self.left.max(1) - 1;
        match kind {
            b'-' => self.put_error(text),
            b':' => self.put_int(parse_i64(text).unwrap_or(0)),
            b'#' => self.put_int(i64::from(text == b"t")),
            b',' => {
                self.put(&[tag::DBL]);
                self.put(&parse_f64_c(text).unwrap_or(f64::NAN).to_le_bytes());
            }
            b'(' => self.put_str(text),
            b'$' | b'=' if let Some(len) = count(text) => {
                self.put(&[tag::STR]);
                self.put(&(len as u32).to_le_bytes());
                self.string = len + 2;
            }
            b'*' | b'~' | b'>' | b'%' if let Some(count) = count(text) => {
                let values = if *kind == b'%' { 2 * count } else { count };
                self.put(&[tag::ARR]);
                self.put(&(values as u32).to_le_bytes());
                self.left += values as u64;
            }
            _ => self.put(&[tag::NIL]),
        }
    }

    fn put_int(&mut self, value: i64) {
        self.put(&[tag::INT]);
        self.put(&value.to_le_bytes());
    }

    fn put_str(&mut self, bytes: &[u8]) {
        self.put(&[tag::STR]);
        self.put_sized(bytes);
    }

    /// Writes an error; the one that ends a connection because of its bytes has no frame.
    fn put_error(&mut self, text: &[u8]) {
        let (first, rest) = match text.iter().position(|&byte| byte == b' ') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b""[..]),
        };
        let (code, text) = match first {
            b"ERR" if rest.starts_with(b"Protocol error") => return,
            b"ERR" if rest.starts_with(b"unknown command") => (Code::Unknown, &b"Unknown cmd"[..]),
            b"NOAUTH" => (Code::Unknown, &b"authentication required"[..]),
            b"NOPERM" => (Code::Unknown, text),
            b"WRONGTYPE" => (Code::Type, text),
            word if word == TYPE.as_bytes() => (Code::Type, rest),
            word if word == ARGUMENT.as_bytes() => (Code::Argument, rest),
            _ => (Code::Argument, text),
        };
        self.put_coded(code, text);
    }

    fn put_coded(&mut self, code: Code, text: &[u8]) {
        self.put(&[tag::ERR]);
        self.put(&(code as i32).to_le_bytes());
        self.put_sized(text);
    }

    fn put_sized(&mut self, bytes: &[u8]) {
        self.put(&(bytes.len() as u32).to_le_bytes());
        self.put(bytes);
    }

    /// Appends to the value. Beyond the limit only so many bytes are stored that the value is known to be too long.
    fn put(&mut self, bytes: &[u8]) {
        let room = (REPLY_MAX + 1).saturating_sub(self.value.len());
        self.value.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Writes the frame, or an error if its value became too long.
    fn end_frame(&mut self, out: &mut Vec<u8>) {
        if self.value.len() > REPLY_MAX {
            self.value.clear();
            self.put_coded(Code::TooBig, b"response is too big");
        }
        out.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        out.append(&mut self.value);
    }
}

/// Returns a length; None in the place of a null.
fn count(text: &[u8]) -> Option<usize> {
    usize::try_from(parse_i64(text)?).ok()
}
