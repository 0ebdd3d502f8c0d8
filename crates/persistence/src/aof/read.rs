//! Reading the commands of a file of the log.
//!
//! ```text
//!   #TS:1628217470          a remark, up to the end of its line; this one tells the time
//!   *3 $3 SET $1 k $1 v     a command: a count, then each word with its length; every line ends with \r\n
//! ```
//!
//! No length is trusted: memory for a word grows only as its bytes come in.

use resp::Span;
use std::io::{self, Read};

/// The fault that ended reading early.
#[derive(Debug)]
pub enum CommandFault {
    /// The file ends within a command.
    Truncated,
    /// Bytes that are no command; the text says which were expected.
    Format(String),
    /// The file cannot be read.
    Io(io::Error),
}

/// An item that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// The words are in [`Reader::bytes`] at [`Reader::spans`].
    Command,
    /// A remark of the time, Unix seconds.
    Stamp(i64),
    /// Any other remark.
    Remark,
    /// The file ends here, after a whole command.
    End,
}

const BUFFER: usize = 256 << 10;
/// Bytes of a line of a count, at most.
const LINE_MAX: usize = 128;

/// Commands that are read one after the other.
pub struct Reader<'r> {
    from: &'r mut dyn Read,
    buffer: Vec<u8>,
    at: usize,
    /// Offset in the file of the buffer's first byte.
    before: u64,
    /// The bytes of the last command.
    pub bytes: Vec<u8>,
    /// Positions of its words in them.
    pub spans: Vec<Span>,
}

impl<'r> Reader<'r> {
    /// Returns a reader. `read`: bytes of the file that were read already; `before`: bytes before them.
    pub fn new(from: &'r mut dyn Read, read: Vec<u8>, before: u64) -> Reader<'r> {
        Reader { from, buffer: read, at: 0, before, bytes: Vec::new(), spans: Vec::new() }
    }

    /// Returns the bytes of the file that were taken.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Reads up to the next item's end.
    ///
    /// # Errors
    /// The file ends within a command, has something else in its place, or cannot be read.
    pub fn read_item(&mut self) -> Result<LogItem, CommandFault> {
        self.bytes.clear();
        self.spans.clear();
        if self.ahead(1)? == 0 {
            return Ok(LogItem::End);
        }
        if self.buffer[self.at] == b'#' {
            let line = self.line(usize::MAX)?;
            let stamp = line.strip_prefix(b"#TS:").and_then(|digits| digits.strip_suffix(b"\r\n"));
            return Ok(match stamp.and_then(resp::number::parse_i64) {
                Some(seconds) => LogItem::Stamp(seconds),
                None => LogItem::Remark,
            });
        }
        for _ in 0..self.count(b'*')? {
            let len = self.count(b'$')?;
            let start = self.bytes.len();
            self.copy(len)?;
            self.spans.push(Span { start, len });
            let end = self.ahead(2)?;
            match &self.buffer[self.at..][..end.min(2)] {
                b"\r\n" => self.at += 2,
                b"" | b"\r" => return Err(CommandFault::Truncated),
                other => return Err(CommandFault::Format(format!("Expected \\r\\n, got: {}", hex(other)))),
            }
        }
        Ok(LogItem::Command)
    }

    /// Reads a line with a sign and a count.
    fn count(&mut self, sign: u8) -> Result<usize, CommandFault> {
        if self.ahead(1)? == 0 {
            return Err(CommandFault::Truncated);
        }
        let first = self.buffer[self.at];
        if first != sign {
            let (sign, first) = (char::from(sign), char::from(first));
            return Err(CommandFault::Format(format!("Expected prefix '{sign}', got: '{first}'")));
        }
        let line = self.line(LINE_MAX)?;
        let digits = line[1..].strip_suffix(b"\r\n").and_then(resp::number::parse_i64);
        match digits.and_then(|count| usize::try_from(count).ok()) {
            Some(0) if sign == b'*' => Err(CommandFault::Format("Expected a command, got an empty one".to_owned())),
            Some(count) => Ok(count),
            None => Err(CommandFault::Format(format!(
                "Expected a count, got: {}",
                String::from_utf8_lossy(&line).trim_end()
            ))),
        }
    }

    /// Takes a line with its end.
    fn line(&mut self, max: usize) -> Result<Vec<u8>, CommandFault> {
        let mut seen = 0;
        loop {
            let there = self.ahead(seen + 1)?;
            if there <= seen {
                return Err(CommandFault::Truncated);
            }
            let new = &self.buffer[self.at + seen..self.at + there];
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer[self.at..=self.at + seen + end].to_vec();
                self.at += line.len();
                return Ok(line);
            }
            seen = there;
            if seen > max {
                return Err(CommandFault::Format("Expected the end of a line".to_owned()));
            }
        }
    }

    /// Takes so many bytes into the words.
    fn copy(&mut self, len: usize) -> Result<(), CommandFault> {
        let mut left = len;
        while left > 0 {
            let there = self.ahead(1)?.min(left);
            if there == 0 {
                return Err(CommandFault::Truncated);
            }
            self.bytes.extend_from_slice(&self.buffer[self.at..self.at + there]);
            self.at += there;
            left -= there;
        }
        Ok(())
    }

    /// Makes sure that `wanted` bytes are in the buffer, unless the file ends before; returns how many there are.
    fn ahead(&mut self, wanted: usize) -> Result<usize, CommandFault> {
        while self.buffer.len() - self.at < wanted {
            if self.at > 0 {
                self.before += self.at as u64;
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let old = self.buffer.len();
            self.buffer.resize(old + BUFFER, 0);
            let result = self.from.read(&mut self.buffer[old..]);
            self.buffer.truncate(old + result.as_ref().map_or(0, |n| *n));
            match result {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CommandFault::Io(error)),
            }
        }
        Ok(self.buffer.len() - self.at)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fuzz hook: whatever the bytes are, reading ends, and no item ends beyond them.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(mut data: &[u8]) {
    let len = data.len() as u64;
    let mut reader = Reader::new(&mut data, Vec::new(), 0);
    let mut last = 0;
    while let Ok(item) = reader.read_item() {
        if item == LogItem::End {
            break;
        }
        assert!(reader.offset() > last && reader.offset() <= len);
        assert!(reader.bytes.len() as u64 <= len && reader.spans.len() as u64 <= len);
        last = reader.offset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all commands of a file, and how it ends.
    fn read(mut bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Result<(), CommandFault>, u64) {
        let mut reader = Reader::new(&mut bytes, Vec::new(), 0);
        let (mut commands, mut valid) = (Vec::new(), 0);
        loop {
            match reader.read_item() {
                Ok(LogItem::End) => return (commands, Ok(()), valid),
                Ok(LogItem::Command) => {
                    commands.push(reader.spans.iter().map(|span| span.of(&reader.bytes).to_vec()).collect());
                }
                Ok(_) => {}
                Err(fault) => return (commands, Err(fault), valid),
            }
            valid = reader.offset();
        }
    }

    proptest! {
        #[test]
        fn written_commands_are_read(commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..4), 0..5), cut in 0usize..40) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for command in &commands {
                engine::propagation::log_batch::put_command(&mut bytes, command.iter().map(Vec::as_slice));
                ends.push(bytes.len());
            }
            prop_assert_eq!(&read(&bytes).0, &commands);
            bytes.truncate(bytes.len().saturating_sub(cut));
            let (found, result, valid) = read(&bytes);
            let whole = ends.iter().filter(|end| **end <= bytes.len()).count() - 1;
            prop_assert_eq!(&found[..], &commands[..whole]);
            prop_assert_eq!(valid as usize, ends[whole]);
            prop_assert_eq!(matches!(result, Err(CommandFault::Truncated)), ends[whole] != bytes.len());
        }

        #[test]
        fn anything_else_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz(&bytes);
        }
    }

    #[test]
    fn remarks_and_mistakes() {
        let (commands, result, valid) = read(b"#TS:5\r\n*1\r\n$4\r\nPING\r\n#x\r\n!!!");
        assert_eq!((commands.len(), valid), (1, 25));
        assert!(matches!(result, Err(CommandFault::Format(text)) if text == "Expected prefix '*', got: '!'"));
        for bad in ["*0\r\n", "*x\r\n", "*1\r\n$-1\r\n", "*1\r\n$1\r\naXX", "*1\r\n:1\r\n", "*99999999999999999999\r\n"]
        {
            assert!(matches!(read(bad.as_bytes()).1, Err(CommandFault::Format(_))), "{bad}");
        }
        for short in ["*", "*3\r\n$1\r\n", "*1\r\n$99999999999\r\nab", "#TS:"] {
            assert!(matches!(read(short.as_bytes()).1, Err(CommandFault::Truncated)), "{short}");
        }
    }
}
