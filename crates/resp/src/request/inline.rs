//! Splits an inline request into arguments, as a shell would, nearly.
//!
//! ```text
//!   SET k "two words\n" 'it\'s'        blanks separate, quotes hold together
//! ```
//!
//! An argument without quotes is a span of the line; one with quotes gets bytes of its own.

use super::protocol_error::ProtocolError;
use super::span::Span;

/// Returns whether C's `isspace` accepts a byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns whether a byte ends an argument outside of quotes: only these of all blanks do.
fn ends_argument(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Splits a line into arguments at blanks. `"..."` knows the escapes `\n \r \t \b \a \xHH` and a backslash before any
/// other byte stands for that byte; `'...'` knows only `\'`. Quotes may open and close anywhere within an argument.
pub(super) fn split_inline(
    line: &[u8],
    spans: &mut Vec<Span>,
    owned: &mut Vec<(usize, Vec<u8>)>,
) -> Result<(), ProtocolError> {
    let first = spans.len();
    let mut at = 0;
    loop {
        at += line[at..].iter().take_while(|&&byte| is_space(byte)).count();
        if at == line.len() {
            return Ok(());
        }
        let start = at;
        at = end_of_plain(line, at);
        if matches!(line.get(at), Some(b'"' | b'\'')) {
            let mut argument = line[start..at].to_vec();
            while let Some(&quote @ (b'"' | b'\'')) = line.get(at) {
                let plain = unquote(line, at + 1, quote, &mut argument)?;
                at = end_of_plain(line, plain);
                argument.extend_from_slice(&line[plain..at]);
            }
            owned.push((spans.len() - first, argument));
            spans.push(Span::default());
        } else {
            spans.push(Span { start, len: at - start });
        }
    }
}

/// Returns the position where an argument that continues at `at` ends, or a quote opens.
fn end_of_plain(line: &[u8], at: usize) -> usize {
    at + line[at..].iter().take_while(|&&byte| !ends_argument(byte) && !matches!(byte, b'"' | b'\'')).count()
}

/// Appends the bytes from `at` to the closing quote to `argument` and returns the position of the rest. As in Valkey,
/// an escape that reaches to the end of the line is none.
fn unquote(line: &[u8], mut at: usize, quote: u8, argument: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\\', b'x', high, low, _, ..] if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                argument.push(hex(high) << 4 | hex(low));
                at += 4;
            }
            [b'\\', escaped, _, ..] if quote == b'"' => {
                argument.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                at += 2;
            }
            [b'\\', b'\'', _, ..] if quote == b'\'' => {
                argument.push(b'\'');
                at += 2;
            }
            [byte, ..] if byte == quote => return Ok(at + 1),
            [byte, ..] => {
                argument.push(byte);
                at += 1;
            }
        }
    }
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        // Spans of commands before this one must not matter.
        let (mut spans, mut owned) = (vec![Span::default()], Vec::new());
        split_inline(line, &mut spans, &mut owned)?;
        let mut args: Vec<Vec<u8>> = spans[1..].iter().map(|span| span.of(line).to_vec()).collect();
        owned.into_iter().for_each(|(index, bytes)| args[index] = bytes);
        Ok(args)
    }

    #[test]
    fn inline_arguments_split_as_in_valkey() {
        for (line, args) in [
            ("ping", &["ping"][..]),
            (" ping \x0b\x0c\r\r", &["ping"]),
            ("echo\ta", &["echo", "a"]),
            ("echo a\x0bb", &["echo", "a\x0bb"]),
            ("echo a\rb", &["echo", "a", "b"]),
            ("echo \"a b\"", &["echo", "a b"]),
            ("echo \"a\\x41\\n\\r\\t\\b\\a\\q\\\\\\\"\"", &["echo", "aA\n\r\t\x08\x07q\\\""]),
            ("echo \"\\xZZ\" \"\\x4\" \"\\x00z\"", &["echo", "xZZ", "x4", "\0z"]),
            ("echo 'a\\'b\\n\"' '\\''", &["echo", "a'b\\n\"", "'"]),
            ("echo a\"b\" x\"y z\" a\\nb", &["echo", "ab", "xy z", "a\\nb"]),
            ("echo \"a\"\x0b", &["echo", "a\x0b"]),
            ("echo \"a\"b'c'\"d\"e f", &["echo", "abcde", "f"]),
            ("echo \"a\\\"", &["echo", "a\\"]),
            ("echo 'a\\'", &["echo", "a\\"]),
            ("\"\"", &[""]),
        ] {
            let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
            assert_eq!(split(line.as_bytes()), Ok(args), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_arguments_survive(args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5)) {
            let mut line = Vec::new();
            for arg in &args {
                line.extend_from_slice(b" \"");
                arg.iter().for_each(|byte| line.extend(format!("\\x{byte:02x}").bytes()));
                line.push(b'"');
            }
            prop_assert_eq!(split(&line), Ok(args));
        }
    }
}
