//! Checks a file of the log: reports where its good part ends, and the fault behind it, in the words of
//! `valkey-check-aof`.
//!
//! ```text
//!   *3 $3 SET $1 k $1 v   *1 $5 MULTI   *3 $3 SET $1 k $1 v   *1 $4 EXE
//!   good up to here ----^                                     what is wrong: 2 bytes less than stated
//! ```
//!
//! The good part ends before a transaction that is not complete. The checker skips words as they arrive and trusts no
//! length.

use std::io::{self, BufRead};

/// Findings about a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Bytes in its good part.
    pub good: u64,
    /// Offset of the first remark of a time that is later than asked for.
    pub late: Option<u64>,
    /// The message about the end of the reading, if there is one. The file may end early without a message.
    pub complaint: Option<String>,
    /// A remark is malformed: nothing may be cut off.
    pub has_bad_stamp: bool,
}

/// Bytes of a line of a count, at most.
const LINE_MAX: usize = 127;

/// Reads a file from `offset` on, where `from` is. Messages call the file `name`; `lines` counts up from file to file,
/// without remarks. `until`: Unix seconds, if the caller looks for remarks of later times.
///
/// # Errors
/// The I/O error of `from`. Faults of the file's content are in the [`Analysis`].
pub fn analyze(
    from: &mut dyn BufRead,
    offset: u64,
    name: &str,
    until: Option<i64>,
    lines: &mut u64,
) -> io::Result<Analysis> {
    let mut reader = Reader { from, at: offset, mark: offset, lines, complaint: None };
    let mut found = Analysis { good: offset, ..Analysis::default() };
    let mut in_transaction = false;
    loop {
        if !in_transaction {
            found.good = reader.at;
        }
        let Some(first) = reader.peek()? else { break };
        if first == b'#' {
            let start = reader.at;
            let line = reader.line(usize::MAX)?;
            let Some((until, digits)) = until.zip(line.strip_prefix(b"#TS:")) else { continue };
            let digits = digits.strip_suffix(b"\n").unwrap_or(digits);
            match resp::number::parse_i64(digits.strip_suffix(b"\r").unwrap_or(digits)) {
                Some(stamp) if stamp > until => {
                    found.late = Some(start);
                    return Ok(found);
                }
                Some(_) => {}
                None => {
                    found.has_bad_stamp = true;
                    return Ok(found);
                }
            }
            continue;
        }
        if first != b'*' {
            found.complaint = Some(format!("AOF {name} format error"));
            return Ok(found);
        }
        match reader.command(name, in_transaction)? {
            Some(next) => in_transaction = next,
            None => {
                found.complaint = reader.complaint;
                return Ok(found);
            }
        }
    }
    if in_transaction {
        reader.complain("Reached EOF before reading EXEC for MULTI");
        found.complaint = reader.complaint;
    }
    Ok(found)
}

struct Reader<'r> {
    from: &'r mut dyn BufRead,
    at: u64,
    /// Offset at which the subject of a complaint begins.
    mark: u64,
    lines: &'r mut u64,
    complaint: Option<String>,
}

impl Reader<'_> {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.from.fill_buf()?.first().copied())
    }

    fn complain(&mut self, text: &str) {
        self.complaint = Some(format!("0x{:>16x}: {text}", self.mark));
    }

    /// Passes over a command, and returns whether the reader is in a transaction afterwards; None: the command is not
    /// complete, or not allowed there.
    fn command(&mut self, name: &str, in_transaction: bool) -> io::Result<Option<bool>> {
        let Some(count) = self.count(b'*')? else { return Ok(None) };
        let mut is_in = in_transaction;
        for index in 0..count {
            let Some(len) = self.count(b'$')? else { return Ok(None) };
            // The end of the line takes two more bytes.
            let Some(len) = u64::try_from(len).ok().filter(|len| *len < i64::MAX as u64 - 2) else {
                self.complain(&format!("Expected to read string of {len} bytes, which is not in the suitable range"));
                return Ok(None);
            };
            let Some(word) = self.word(len)? else { return Ok(None) };
            if index > 0 {
                continue;
            }
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            let (begins, ends) = (is(b"multi"), is(b"exec"));
            if begins && in_transaction {
                self.complain(&format!("Unexpected MULTI in AOF {name}"));
                return Ok(None);
            }
            if ends && !in_transaction {
                self.complain(&format!("Unexpected EXEC in AOF {name}"));
                return Ok(None);
            }
            is_in = begins || in_transaction && !ends;
        }
        Ok(Some(is_in))
    }

    /// Takes a line with a sign and a number.
    fn count(&mut self, sign: u8) -> io::Result<Option<i64>> {
        self.mark = self.at;
        let line = self.line(LINE_MAX)?;
        let Some(first) = line.first() else { return Ok(None) };
        if *first != sign {
            let (sign, first) = (char::from(sign), char::from(*first));
            self.complain(&format!("Expected prefix '{sign}', got: '{first}'"));
            return Ok(None);
        }
        let rest = &line[1..];
        let digits = rest.strip_prefix(b"-").unwrap_or(rest).iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = if digits > 0 { rest.len() - rest.strip_prefix(b"-").unwrap_or(rest).len() + digits } else { 0 };
        if !rest[end..].starts_with(b"\r\n") {
            self.complain_of_end(&rest[end..]);
            return Ok(None);
        }
        *self.lines += 1;
        // A number that does not fit is outside every range.
        Ok(Some(resp::number::parse_i64(&rest[..end]).unwrap_or(i64::MAX)))
    }

    fn complain_of_end(&mut self, found: &[u8]) {
        let byte = |index: usize| found.get(index).copied().unwrap_or(0);
        self.complain(&format!("Expected \\r\\n, got: {:02x}{:02x}", byte(0), byte(1)));
    }

    /// Takes a line with its end, or `max` bytes of it.
    fn line(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let there = self.from.fill_buf()?;
            let there = &there[..there.len().min(max - line.len())];
            let end = there.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(there.len(), |end| end + 1);
            line.extend_from_slice(&there[..taken]);
            self.from.consume(taken);
            self.at += taken as u64;
            if end.is_some() || taken == 0 {
                return Ok(line);
            }
        }
    }

    /// Passes over a word and the line's end, and returns its first bytes.
    fn word(&mut self, len: u64) -> io::Result<Option<Vec<u8>>> {
        const KEPT: usize = 8;
        self.mark = self.at;
        let (wanted, mut read) = (len + 2, 0);
        let (mut start, mut end) = (Vec::new(), Vec::new());
        while read < wanted {
            let there = self.from.fill_buf()?;
            let taken = there.len().min(usize::try_from(wanted - read).unwrap_or(usize::MAX));
            if taken == 0 {
                self.complain(&format!("Expected to read {wanted} bytes, got {read} bytes"));
                return Ok(None);
            }
            let there = &there[..taken];
            let of_word = usize::try_from(len.saturating_sub(read)).unwrap_or(usize::MAX).min(taken);
            start.extend(there[..of_word].iter().take(KEPT - start.len()));
            end.extend_from_slice(&there[of_word..]);
            self.from.consume(taken);
            read += taken as u64;
            self.at += taken as u64;
        }
        if end != b"\r\n" {
            self.complain_of_end(&end);
            return Ok(None);
        }
        *self.lines += 1;
        Ok(Some(start))
    }
}

/// Checks that a good part is a whole number of commands: without the rest nothing is wrong.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let run = |mut data: &[u8]| analyze(&mut data, 0, "x", None, &mut 1).unwrap_or_default();
    let found = run(data);
    let good = &data[..usize::try_from(found.good).unwrap_or(usize::MAX)];
    assert_eq!(run(good), Analysis { good: found.good, ..Analysis::default() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";

    fn run(bytes: &[u8], until: Option<i64>) -> (Analysis, u64) {
        let mut lines = 1;
        let mut from = io::BufReader::with_capacity(5, bytes);
        (analyze(&mut from, 0, "x", until, &mut lines).unwrap(), lines)
    }

    /// The numbers are those that valkey-check-aof prints for these files.
    #[test]
    fn mistakes_are_told_with_their_places() {
        let cases: &[(String, u64, u64, &str)] = &[
            (SET[..24].to_owned(), 0, 7, "0x              18: Expected to read 3 bytes, got 0 bytes"),
            (format!("{SET}{}", &SET[..9]), 27, 10, "0x              23: Expected to read 5 bytes, got 1 bytes"),
            (format!("{SET}{MULTI}{SET}"), 27, 18, "0x              42: Reached EOF before reading EXEC for MULTI"),
            (format!("{SET}{EXEC}"), 27, 11, "0x              23: Unexpected EXEC in AOF x"),
            (format!("{SET}{MULTI}{SET}{MULTI}"), 27, 21, "0x              4d: Unexpected MULTI in AOF x"),
            (format!("{SET}!!!x"), 27, 8, "AOF x format error"),
            (format!("{SET}*1\r\n$3\r\nGETXX"), 27, 10, "0x              23: Expected \\r\\n, got: 5858"),
            (format!("{SET}*1\r\n:1\r\n"), 27, 9, "0x              1f: Expected prefix '$', got: ':'"),
            (format!("{SET}*abc\r\n"), 27, 8, "0x              1b: Expected \\r\\n, got: 6162"),
            (
                format!("{SET}*1\r\n$-1\r\n"),
                27,
                10,
                "0x              1f: Expected to read string of -1 bytes, which is not in the suitable range",
            ),
        ];
        for (text, good, lines, complaint) in cases {
            let (found, counted) = run(text.as_bytes(), None);
            let complaint = Some((*complaint).to_owned());
            assert_eq!(
                (found, counted),
                (Analysis { good: *good, complaint, ..Analysis::default() }, *lines),
                "{text}"
            );
        }
        let (found, lines) = run(format!("{SET}*3\r\n").as_bytes(), None);
        assert_eq!((found, lines), (Analysis { good: 27, ..Analysis::default() }, 9));
    }

    #[test]
    fn a_remark_later_than_the_limit_is_found() {
        let text = format!("#TS:10\r\n{SET}#TS:20\r\n{MULTI}{SET}{EXEC}");
        let late = |until| run(text.as_bytes(), Some(until)).0.late;
        assert_eq!((late(5), late(10), late(19), late(20)), (Some(0), Some(35), Some(35), None));
        assert!(run(b"#TS:x\r\n", Some(1)).0.has_bad_stamp && !run(b"#TS:x\r\n", None).0.has_bad_stamp);
    }

    proptest! {
        #[test]
        fn the_good_part_is_good_by_itself(bytes in prop::collection::vec(prop::sample::select(b"*$#123\r\nMULTI".to_vec()), 0..60)) {
            fuzz(&bytes);
        }
    }
}
