//! Words of a line: text that a person typed, or wrote into a configuration file, becomes arguments, and bytes become
//! text again.
//!
//! The two directions are each other's inverse. Typed text is split at blanks; a word or a part of it may stand in
//! quotes:
//!
//! ```text
//! "..."   \n \r \t \b \a  control bytes    \xHH  any byte    \c  any other character as itself
//! '...'   everything as itself, but \' for a quote
//! ```
//!
//! A word continues behind a closing quote: `"a"b` is `ab`. A quote never closed is an error. [`quote`] writes any
//! bytes as one double-quoted word of printable ASCII.

/// Splits a line into words, or `None` when its quotes are unbalanced.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = line;
    let mut words = Vec::new();
    loop {
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        // A NUL ends the text, as it would in a C string.
        if matches!(rest, [] | [0, ..]) {
            return Some(words);
        }
        let (word, tail) = take_word(rest)?;
        words.push(word);
        rest = tail;
    }
}

/// Returns the bytes of exactly one word, which may be quoted; `None` when there are none or several or the quotes are
/// unbalanced.
pub fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let mut words = split(text)?;
    if words.len() == 1 { words.pop() } else { None }
}

/// Appends `bytes` as one double-quoted word.
pub fn quote(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
}

/// Returns `bytes` as one double-quoted word.
pub fn quoted(bytes: &[u8]) -> String {
    let mut word = Vec::new();
    quote(&mut word, bytes);
    // The word has printable characters of ASCII only.
    String::from_utf8(word).unwrap_or_default()
}

/// Returns whether C's `isspace` accepts a byte: more bytes than end a word.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn take_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t' | 0, ..] => return Some((word, rest)),
            [b'"', tail @ ..] => rest = take_double_quoted(&mut word, tail)?,
            [b'\'', tail @ ..] => rest = take_single_quoted(&mut word, tail)?,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_double_quoted<'a>(word: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] if *escaped != 0 => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [b'"', tail @ ..] => return Some(tail),
            [] | [0, ..] => return None,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_single_quoted<'a>(word: &mut Vec<u8>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return Some(tail),
            [] | [0, ..] => return None,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?;
        Some(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    #[test]
    fn splits_at_blanks_and_honours_quotes() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t ", &[]),
            ("get a", &["get", "a"]),
            ("  set\tk  v \r\n", &["set", "k", "v"]),
            (r#"set k "a b""#, &["set", "k", "a b"]),
            (r#"set k """#, &["set", "k", ""]),
            (r#"set k'x y'"#, &["set", "kx y"]),
            (r#""\x41\x4a\n\q\"""#, &["AJ\nq\""]),
            (r#""\xg1""#, &["xg1"]),
            (r#"'a\n\'b'"#, &["a\\n'b"]),
            (r#""a"b'c'd "" "#, &["abcd", ""]),
            ("a\0b", &["a"]),
        ];
        for (line, expected) in cases {
            assert_eq!(
                words(line).as_deref(),
                Some(&expected.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..]),
                "{line:?}"
            );
        }
    }

    #[test]
    fn unbalanced_quotes_are_errors() {
        for line in ["\"a", "'a", "\"a\"b'", "get \"a\\", "'a\\'"] {
            assert_eq!(words(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_quoted_argument_is_one_word() {
        assert_eq!(unquote(b"\"a b\""), Some(b"a b".to_vec()));
        assert_eq!(unquote(b"a b"), None);
        assert_eq!(unquote(b""), None);
    }

    #[test]
    fn quotes_everything_unprintable() {
        let mut out = Vec::new();
        quote(&mut out, b"a\"\\\n\r\t\x07\x08\x00\x1f\x7f\xff~");
        assert_eq!(out, br#""a\"\\\n\r\t\a\b\x00\x1f\x7f\xff~""#);
    }

    proptest! {
        #[test]
        fn splitting_undoes_quoting(strings in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..5)) {
            let mut line = Vec::new();
            for string in &strings {
                quote(&mut line, string);
                line.push(b' ');
            }
            prop_assert_eq!(split(&line), Some(strings));
        }

        #[test]
        fn any_line_is_handled(line in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(words) = split(&line) {
                prop_assert!(words.iter().map(Vec::len).sum::<usize>() <= line.len());
            }
        }
    }
}
