//! Words of a line matched, from the left, with the tree of a command's arguments: which arguments they have used up.
//!
//! Neighbours that are optional may appear in any order, also between each other. Matching follows valkey-cli.

use crate::docs::{ArgumentKind, DocumentedArgument};

/// Argument, with how much of it the words have used up.
pub struct Node<'d> {
    pub argument: &'d DocumentedArgument,
    pub children: Vec<Node<'d>>,
    /// Number of words that belong to the argument.
    pub taken: usize,
    /// Whether the token was typed; whether the value was.
    pub token: bool,
    pub value: bool,
    /// Whether the argument lacks nothing and cannot be repeated.
    pub complete: bool,
}

impl<'d> Node<'d> {
    pub fn new(argument: &'d DocumentedArgument) -> Node<'d> {
        let children = match &argument.kind {
            ArgumentKind::Block(children) | ArgumentKind::OneOf(children) => children.iter().map(Node::new).collect(),
            _ => Vec::new(),
        };
        Node { argument, children, taken: 0, token: false, value: false, complete: false }
    }

    /// Resets the argument to the state in which no word of it was typed.
    pub fn reset(&mut self) {
        *self = Node::new(self.argument);
    }

    /// Matches words with the argument, as often as it may be repeated; returns how many belong to it.
    fn take(&mut self, words: &[Vec<u8>]) -> usize {
        let mut taken = self.take_once(words);
        if !self.argument.repeats {
            return taken;
        }
        while self.complete && taken < words.len() {
            self.reset();
            taken += if self.argument.token.is_some() && !self.argument.repeats_token {
                // The token stood before the first one and counts for all.
                let more = self.take_value(&words[taken..]);
                self.token = self.taken > 0;
                more
            } else {
                self.take_once(&words[taken..])
            };
        }
        self.complete = false;
        taken
    }

    fn take_once(&mut self, words: &[Vec<u8>]) -> usize {
        let Some(token) = &self.argument.token else {
            return self.take_value(words);
        };
        if !words.first().is_some_and(|word| word.eq_ignore_ascii_case(token.as_bytes())) {
            return 0;
        }
        self.token = true;
        self.taken = 1;
        if matches!(self.argument.kind, ArgumentKind::Token) {
            self.complete = true;
            return 1;
        }
        if words.len() == 1 { 1 } else { self.take_value(&words[1..]) }
    }

    /// Matches words with the value, which follows the token or stands alone. The count that is returned includes the
    /// token.
    fn take_value(&mut self, words: &[Vec<u8>]) -> usize {
        let fits = match &self.argument.kind {
            ArgumentKind::Block(_) => {
                self.taken += take_all(&mut self.children, words);
                self.complete = self.children.iter().all(|child| child.complete);
                return self.taken;
            }
            ArgumentKind::OneOf(_) => {
                if let Some(child) = self.children.iter_mut().find_map(|child| (child.take(words) > 0).then_some(child))
                {
                    self.taken += child.taken;
                    self.complete = child.complete;
                }
                return self.taken;
            }
            ArgumentKind::Integer => words.first().is_some_and(|word| begins_with_integer(word)),
            ArgumentKind::Double => words.first().is_some_and(|word| begins_with_double(word)),
            ArgumentKind::Text | ArgumentKind::Token => true,
        };
        self.taken = if fits { self.taken + 1 } else { 0 };
        self.value = fits;
        self.complete |= fits;
        self.taken
    }
}

/// Matches words with arguments in their order; returns how many match, 0 if a required argument does not fit.
pub fn take_all(nodes: &mut [Node<'_>], words: &[Vec<u8>]) -> usize {
    let (mut word, mut at) = (0, 0);
    while word < words.len() && at < nodes.len() {
        let optional = optional_run(&nodes[at..]);
        if optional > 0 {
            word += take_optional(&mut nodes[at..at + optional], &words[word..]);
            at += optional;
        } else {
            match nodes[at].take(&words[word..]) {
                0 => return 0,
                taken => word += taken,
            }
            at += 1;
        }
    }
    word
}

/// Returns how many of the first arguments are optional.
pub fn optional_run(nodes: &[Node<'_>]) -> usize {
    nodes.iter().take_while(|node| node.argument.optional).count()
}

/// Matches words with optional arguments in any order.
fn take_optional(nodes: &mut [Node<'_>], words: &[Vec<u8>]) -> usize {
    let mut word = 0;
    let mut last = None;
    while word < words.len() {
        let rest = &words[word..];
        let next = nodes.iter_mut().enumerate().filter(|(_, node)| node.taken == 0).find_map(|(at, node)| {
            let taken = node.take(rest);
            (taken > 0).then_some((at, taken))
        });
        let Some((at, taken)) = next else { break };
        // Once another one has begun, nothing can be added to this.
        if let Some(last) = last.replace(at) {
            nodes[last].complete = true;
        }
        word += taken;
    }
    word
}

/// Reads numbers as C's `scanf` does: bytes after the first digits do not matter.
fn begins_with_integer(word: &[u8]) -> bool {
    let word = word.trim_ascii_start();
    let digits = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
    digits.first().is_some_and(u8::is_ascii_digit)
}

fn begins_with_double(word: &[u8]) -> bool {
    let word = word.trim_ascii_start();
    let digits = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
    let behind_point = digits.strip_prefix(b".").unwrap_or(digits);
    let named = |name: &[u8]| digits.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    behind_point.first().is_some_and(u8::is_ascii_digit) || named(b"inf") || named(b"nan")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_scanf_does() {
        assert!(["1", "-1x", " +2", "0x"].iter().all(|word| begins_with_integer(word.as_bytes())));
        assert!(["", "x", "-", ".5"].iter().all(|word| !begins_with_integer(word.as_bytes())));
        assert!(["1.5", "-.5", "inf", "-INFINITY", "NaN"].iter().all(|word| begins_with_double(word.as_bytes())));
        assert!(["", ".", "badvalue", "-x"].iter().all(|word| !begins_with_double(word.as_bytes())));
    }
}
