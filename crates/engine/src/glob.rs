//! Glob patterns as KEYS, SCAN, CONFIG GET and channel patterns have them.
//!
//! ```text
//! *        any bytes, also none        [abc]    one of these bytes
//! ?        any one byte                [a-z]    one of a range, whichever end comes first
//! \x       the byte x                  [^a-c]   any other byte
//! ```
//!
//! A class that does not close ends with the pattern, and a `\` at the very end is itself. In a class `\` takes the
//! next byte as it is, also in case. Range ends compare as signed bytes. A pattern that is not empty never matches the
//! empty text: commands for which `*` means everything look for it themselves. All of this is what clients observe of
//! Valkey.
//!
//! Only the last `*` is ever tried again, because the last one can take any bytes that an earlier one could still take:
//! a match costs at most the product of the two lengths, however many stars there are.

/// Runs of stars that a match goes through; a pattern that would take more does not match. Clients rely on Valkey's
/// limit.
const STARS_MAX: usize = 1000;

/// Whether all of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, false)
}

/// As [`matches()`], with ASCII letters of either case equal.
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    run(pattern, text, true)
}

fn run(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Positions for a retry when the rest does not match: after the last star, with that star one byte longer.
    let mut retry: Option<(usize, usize)> = None;
    let mut stars = 0;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            stars += usize::from(retry != Some((p - 1, t)));
            if stars > STARS_MAX {
                return false;
            }
            retry = Some((p, t));
            continue;
        }
        match step(&pattern[p..], text[t], ignore_case) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => {
                let Some((after_star, from)) = retry else {
                    return false;
                };
                (p, t) = (after_star, from + 1);
                retry = Some((p, t));
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Matches one byte against the head of the pattern, which is no star; returns how much of the pattern that took.
fn step(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let (used, matched) = match pattern {
        [] => return None,
        [b'?', ..] => (1, true),
        [b'[', class @ ..] => {
            let (length, matched) = in_class(class, byte, ignore_case);
            (1 + length, matched)
        }
        [b'\\', literal, ..] => (2, equal(*literal, byte, ignore_case)),
        [literal, ..] => (1, equal(*literal, byte, ignore_case)),
    };
    matched.then_some(used)
}

/// Reads a class after its `[`: its length with the `]`, and whether `byte` is in it.
fn in_class(class: &[u8], byte: u8, ignore_case: bool) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= in_range(*from, *to, byte, ignore_case);
                at += 3;
            }
            [literal, ..] => {
                found |= equal(*literal, byte, ignore_case);
                at += 1;
            }
        }
    }
    (at, found != negated)
}

fn in_range(from: u8, to: u8, byte: u8, ignore_case: bool) -> bool {
    let (from, to) = if from.cast_signed() > to.cast_signed() { (to, from) } else { (from, to) };
    let fold = |c: u8| if ignore_case { c.to_ascii_lowercase() } else { c }.cast_signed();
    (fold(from)..=fold(to)).contains(&fold(byte))
}

fn equal(a: u8, b: u8, ignore_case: bool) -> bool {
    if ignore_case { a.eq_ignore_ascii_case(&b) } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every star tries every length, by recursion.
    fn naive(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| naive(rest, &text[taken..], ignore_case)),
            (_, [byte, after @ ..]) => {
                step(pattern, *byte, ignore_case).is_some_and(|used| naive(&pattern[used..], after, ignore_case))
            }
            _ => false,
        }
    }

    #[test]
    fn known_answers() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("*", "", false),
            ("*", "a", true),
            ("a*", "a", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[b-a]llo", "hallo", true),
            ("[a-", "a", true),
            ("[a-", "-", true),
            ("[abc", "b", true),
            ("[", "[", false),
            ("[^", "x", true),
            ("[]", "]", false),
            ("\\", "\\", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a\\", "a", false),
            ("[\\]]", "]", true),
            ("*a*b*", "xxaxxbxx", true),
            ("user:*:[0-9]", "user:x:y:7", true),
            ("ab*cd", "abcdcdx", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn case_is_ignored_except_after_a_backslash_in_a_class() {
        assert!(
            matches_ignoring_case(b"HeL?[A-C]", b"helloB".get(..5).unwrap())
                == matches_ignoring_case(b"hel?[a-c]", b"hello")
        );
        assert!(matches_ignoring_case(b"[A-C]x", b"bX"));
        assert!(matches_ignoring_case(b"\\A", b"a"));
        assert!(!matches_ignoring_case(b"[\\A]", b"a"));
        assert!(!matches(b"A", b"a"));
    }

    #[test]
    fn many_stars_cost_no_more_than_one() {
        let pattern = b"a*".repeat(200);
        let pattern = [&pattern, b"b".as_slice()].concat();
        assert!(!matches(&pattern, &b"a".repeat(20_000)));
    }

    #[test]
    fn a_thousand_stars_are_the_most() {
        let text = b"a".repeat(3000);
        for unit in ["*?", "*a", "**a"] {
            assert!(matches(unit.repeat(1000).as_bytes(), &text), "{unit}");
            assert!(matches((unit.repeat(1000) + "*").as_bytes(), &text), "{unit}");
            assert!(!matches(unit.repeat(1001).as_bytes(), &text), "{unit}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_model(
            pattern in "[ab*?\\[\\]\\\\^-]{0,10}",
            text in "[ab\\[\\]\\\\^-]{1,8}",
            ignore_case: bool,
        ) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(run(pattern, text, ignore_case), naive(pattern, text, ignore_case));
        }

        #[test]
        fn a_text_matches_itself_escaped(text in proptest::collection::vec(any::<u8>(), 1..20)) {
            let pattern: Vec<u8> = text.iter().flat_map(|&c| [b'\\', c]).collect();
            prop_assert!(matches(&pattern, &text));
        }
    }
}
