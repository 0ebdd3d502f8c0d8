//! Lines to words and back: the quoting of the configuration file.
//!
//! ```text
//! save 900 1                     three words
//! requirepass "p\x20a \"q\""     double quotes: \n \r \t \a \b \xHH, and \c for any other c
//! requirepass 'it\'s'            single quotes: nothing but \'
//! ```

/// Splits a line at blanks; `None` when a quote does not close, or closes in the middle of a word.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|&c| !is_blank(c)).unwrap_or(rest.len());
        rest = &rest[start..];
        // A NUL ends the line: these words name files and hosts to the operating system.
        if matches!(rest.first(), None | Some(0)) {
            return Some(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] | [0, ..] => return Some((word, rest)),
            [c, ..] if is_blank(*c) => return Some((word, rest)),
            [b'"', after @ ..] => return double_quoted(word, after),
            [b'\'', after @ ..] => return single_quoted(word, after),
            [c, after @ ..] => {
                word.push(*c);
                rest = after;
            }
        }
    }
}

fn double_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b'"', after @ ..] => return ends_word(after).then_some((word, after)),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            [b'\\', c, after @ ..] => {
                word.push(match c {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [c, after @ ..] => {
                word.push(*c);
                rest = after;
            }
        }
    }
}

fn single_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    loop {
        match rest {
            [] => return None,
            [b'\'', after @ ..] => return ends_word(after).then_some((word, after)),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [c, after @ ..] => {
                word.push(*c);
                rest = after;
            }
        }
    }
}

fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&c| is_blank(c) || c == 0)
}

fn is_blank(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// Appends `text` in double quotes, so that [`split`] reads back the same bytes.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &c in text {
        match c {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', c]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(c),
            _ => out.extend_from_slice(format!("\\x{c:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Option<Vec<String>> {
        Some(split(line.as_bytes())?.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(words("  save 900\t1 "), Some(vec!["save".into(), "900".into(), "1".into()]));
        assert_eq!(words(r#"a "b c" 'd\'e' "#), Some(vec!["a".into(), "b c".into(), "d'e".into()]));
        assert_eq!(words(r#""\x41\n\q" """#), Some(vec!["A\nq".into(), "".into()]));
        assert_eq!(words(""), Some(vec![]));
        for unbalanced in [r#"a "b"#, "a 'b", r#""a"b"#, r"'a'b", r#"""#] {
            assert_eq!(words(unbalanced), None, "{unbalanced}");
        }
    }

    proptest! {
        #[test]
        fn quoting_round_trips(texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..4)) {
            let mut line = Vec::new();
            for text in &texts {
                quote(text, &mut line);
                line.push(b' ');
            }
            prop_assert_eq!(split(&line), Some(texts));
        }

        #[test]
        fn any_line_is_split_or_refused(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(words) = split(&line) {
                prop_assert!(words.len() <= line.len());
            }
        }
    }
}
