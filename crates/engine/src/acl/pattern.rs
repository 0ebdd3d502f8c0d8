//! A pattern of keys or channels, parsed once: most match everything, one name, or all names with one prefix.

use crate::glob;

/// A glob-style pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<[u8]>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Everything,
    /// The name itself.
    Exact,
    /// All names that begin with the text but its last byte.
    Prefix,
    Glob,
}

impl Pattern {
    /// Makes a pattern as KEYS knows it.
    pub fn new(text: &[u8]) -> Pattern {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        let kind = match text {
            b"*" => Kind::Everything,
            _ if !text.iter().any(is_special) => Kind::Exact,
            [start @ .., b'*'] if !start.iter().any(is_special) => Kind::Prefix,
            _ => Kind::Glob,
        };
        Pattern { text: text.into(), kind }
    }

    /// Returns the text that it was parsed from.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether every name matches but the empty one.
    pub fn is_everything(&self) -> bool {
        self.kind == Kind::Everything
    }

    /// Whether every name with this prefix matches, as far as the pattern alone shows: a glob that is more than a
    /// prefix covers none.
    pub fn covers(&self, beginning: &[u8]) -> bool {
        match self.kind {
            Kind::Everything => true,
            Kind::Prefix => beginning.starts_with(&self.text[..self.text.len() - 1]),
            Kind::Exact | Kind::Glob => false,
        }
    }

    /// Whether a name matches.
    #[inline]
    pub fn matches(&self, name: &[u8]) -> bool {
        match self.kind {
            // As a glob, `*` is nothing that the empty name has.
            Kind::Everything => !name.is_empty(),
            Kind::Exact => *self.text == *name,
            Kind::Prefix => name.starts_with(&self.text[..self.text.len() - 1]),
            Kind::Glob => glob::matches(&self.text, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pattern_that_covers_a_beginning_matches_all_names_with_it(
            pattern in "[ab*?]{0,4}", beginning in "[ab*]{0,3}", rest in "[ab*]{0,3}",
        ) {
            let (pattern, name) = (Pattern::new(pattern.as_bytes()), format!("{beginning}{rest}"));
            if pattern.covers(beginning.as_bytes()) && !name.is_empty() {
                prop_assert!(pattern.matches(name.as_bytes()));
            }
        }

        #[test]
        fn short_ways_say_what_the_glob_says(pattern in "[ab*?\\[\\]\\\\]{0,6}", name in "[ab*]{0,6}") {
            let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(Pattern::new(pattern).matches(name), glob::matches(pattern, name));
        }
    }
}
