//! What may follow on a command line: the part of the command's syntax that the words so far have not used up.
//!
//! The words are laid over the tree of arguments from the left. Neighbours that are optional may come in any order,
//! also between each other; one that has begun and is not complete is shown first, without its brackets:
//!
//! ```text
//! SET key value EX          seconds [NX|XX|IFEQ comparison-value] [GET]
//! ZADD key CH               [NX|XX] [GT|LT] [INCR] score member [score member ...]
//! ZRANDMEMBER k cnt         nothing: where a number has to be, there is none
//! ```
//!
//! A word counts once a blank follows it. Texts and matching are valkey-cli's, which its test suite fixes, an
//! unbalanced bracket here and there included.

use crate::docs::{ArgumentKind, Docs, DocumentedArgument};

/// The hint for a line as typed so far, perhaps with a blank behind it; None where no command begins it, or its quotes
/// are open.
pub fn hint(docs: &Docs, line: &[u8]) -> Option<String> {
    let words = resp::words::split(line)?;
    let ends_in_blank = line.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
    let count = if ends_in_blank { words.len() } else { words.len().saturating_sub(1) };
    let (command, name_words) = docs.find(&words[..count])?;
    Some(remaining(&command.arguments, &words[name_words..count]))
}

/// All arguments, where none was typed.
pub fn syntax(arguments: &[DocumentedArgument]) -> String {
    remaining(arguments, &[])
}

fn remaining(arguments: &[DocumentedArgument], words: &[Vec<u8>]) -> String {
    let mut nodes: Vec<Node> = arguments.iter().map(Node::new).collect();
    let mut out = String::new();
    if take_all(&mut nodes, words) == words.len() {
        show_all(&mut out, &mut nodes, " ");
    }
    out
}

/// An argument, and how much of it the words have used up.
struct Node<'d> {
    argument: &'d DocumentedArgument,
    children: Vec<Node<'d>>,
    /// Words of it.
    taken: usize,
    /// Its token was typed; its value was.
    token: bool,
    value: bool,
    /// Nothing of it is missing, nor can come again.
    complete: bool,
}

impl<'d> Node<'d> {
    fn new(argument: &'d DocumentedArgument) -> Node<'d> {
        let children = match &argument.kind {
            ArgumentKind::Block(children) | ArgumentKind::OneOf(children) => children.iter().map(Node::new).collect(),
            _ => Vec::new(),
        };
        Node { argument, children, taken: 0, token: false, value: false, complete: false }
    }

    fn reset(&mut self) {
        *self = Node::new(self.argument);
    }

    /// Lays words over the argument, as often as it may come; answers how many of them are its.
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

    /// What stands behind the token, or alone. The answer counts the token too.
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

    fn show(&mut self, out: &mut String) {
        if self.complete {
            return;
        }
        if self.argument.optional && self.taken == 0 {
            out.push('[');
        }
        if !self.token {
            self.show_token(out);
        }
        match &self.argument.kind {
            ArgumentKind::OneOf(_) if self.taken == 0 => show_all(out, &mut self.children, "|"),
            ArgumentKind::OneOf(_) => {
                self.children.iter_mut().filter(|child| child.taken > 0).for_each(|child| child.show(out))
            }
            ArgumentKind::Block(_) => show_all(out, &mut self.children, " "),
            ArgumentKind::Token => {}
            _ if self.value => {}
            _ => out.push_str(&self.argument.name),
        }
        self.show_repetition(out);
        // A repetition shown makes it look untouched here: the bracket that the test suite wants unbalanced.
        if self.argument.optional && self.taken == 0 {
            out.push(']');
        }
    }

    fn show_token(&self, out: &mut String) {
        if let Some(token) = &self.argument.token {
            out.push_str(if token.is_empty() { "\"\"" } else { token });
            if !matches!(self.argument.kind, ArgumentKind::Token) {
                out.push(' ');
            }
        }
    }

    /// ` [value ...]`, for what may come again, whole.
    fn show_repetition(&mut self, out: &mut String) {
        if !self.argument.repeats {
            return;
        }
        self.reset();
        out.push_str(if out.is_empty() { "[" } else { " [" });
        if self.argument.repeats_token {
            self.show_token(out);
        }
        match &self.argument.kind {
            ArgumentKind::OneOf(_) => show_all(out, &mut self.children, "|"),
            ArgumentKind::Block(_) => show_all(out, &mut self.children, " "),
            ArgumentKind::Token => {}
            _ => out.push_str(&self.argument.name),
        }
        out.push_str(" ...]");
    }
}

/// Lays words over arguments in their order; answers how many have a place, 0 if one that has to be there does not fit.
fn take_all(nodes: &mut [Node<'_>], words: &[Vec<u8>]) -> usize {
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

/// How many optional arguments come first.
fn optional_run(nodes: &[Node<'_>]) -> usize {
    nodes.iter().take_while(|node| node.argument.optional).count()
}

/// Lays words over optional arguments in any order.
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

fn show_all(out: &mut String, nodes: &mut [Node<'_>], separator: &str) {
    let mut start = out.len();
    let count = nodes.len();
    let mut show = |out: &mut String, node: &mut Node<'_>, is_last: bool| {
        node.show(out);
        if out.len() > start && !is_last {
            out.push_str(separator);
            start = out.len();
        }
    };
    let mut at = 0;
    while at < count {
        let optional = optional_run(&nodes[at..]);
        if optional == 0 {
            show(out, &mut nodes[at], at + 1 == count);
            at += 1;
            continue;
        }
        let end = at + optional;
        let begun: Vec<bool> = nodes[at..end].iter().map(|node| node.taken > 0 && !node.complete).collect();
        for offset in (0..optional).filter(|offset| begun[*offset]) {
            show(out, &mut nodes[at + offset], at + 1 == count);
        }
        // They can come no more once what follows them was typed.
        if end == count || nodes[end].taken == 0 {
            for offset in (0..optional).filter(|offset| !begun[*offset]) {
                show(out, &mut nodes[at + offset], at + offset + 1 == count);
            }
        }
        at = end;
    }
}

/// As C's `scanf` reads numbers: what follows the first digits does not matter.
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

/// Runs a file of lines `"input" "expected hint"`, `#` before comments, as the test suite has one. Answers the text for
/// standard output, that for standard error, and how many lines failed.
pub fn check_file(docs: &Docs, text: &[u8]) -> (String, String, usize) {
    let (mut passed, mut failures) = (0, String::new());
    let mut failed = 0;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#")) {
        let words = resp::words::split(line).unwrap_or_default();
        let [input, expected, ..] = &words[..] else { continue };
        let shown = hint(docs, input).unwrap_or_default();
        if shown.trim_end().as_bytes() == expected {
            passed += 1;
        } else {
            failed += 1;
            let [input, expected] = [input, expected].map(|text| String::from_utf8_lossy(text));
            failures.push_str(&format!("Test case '{input}' FAILED: expected '{expected}', got '{shown}'\n"));
        }
    }
    let verdict = if failed == 0 { "SUCCESS" } else { "FAILURE" };
    (format!("{verdict}: {passed}/{} passed\n", passed + failed), failures, failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    #[test]
    fn what_is_typed_is_taken_out() {
        let docs = Docs::known();
        for (line, expected) in [
            ("get ", "key"),
            ("get", "-"),
            ("get a ", ""),
            ("nope ", "-"),
            ("get \"a ", "-"),
            (
                "set k v",
                "value [NX|XX|IFEQ comparison-value] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
            ),
            ("set k v EX 5 ", "[NX|XX|IFEQ comparison-value] [GET] "),
            ("SET k v EX soon ", ""),
            ("config set a ", "value [parameter value ...]"),
            ("mget a b ", "[key ...]"),
            ("zadd k CH ", "[NX|XX] [GT|LT] [INCR] score member [score member ...]"),
            ("zadd k 1.5 ", "member [score member ...]"),
            (
                "migrate h 1 \"\" ",
                "destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]",
            ),
        ] {
            assert_eq!(hint(&docs, line.as_bytes()).as_deref().unwrap_or("-"), expected, "{line:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_scanf_does() {
        assert!(["1", "-1x", " +2", "0x"].iter().all(|word| begins_with_integer(word.as_bytes())));
        assert!(["", "x", "-", ".5"].iter().all(|word| !begins_with_integer(word.as_bytes())));
        assert!(["1.5", "-.5", "inf", "-INFINITY", "NaN"].iter().all(|word| begins_with_double(word.as_bytes())));
        assert!(["", ".", "badvalue", "-x"].iter().all(|word| !begins_with_double(word.as_bytes())));
    }

    #[test]
    fn a_file_of_cases_is_checked() {
        let docs = Docs::known();
        let text = b"# comment\n\n\"GET \" \"key\"\n\"GET \" \"value\"\n\"open\n";
        let (out, failures, failed) = check_file(&docs, text);
        assert_eq!((out.as_str(), failed), ("FAILURE: 1/2 passed\n", 1));
        assert_eq!(failures, "Test case 'GET ' FAILED: expected 'value', got 'key'\n");
    }

    proptest! {
        /// Whatever is typed behind any command, there is an answer.
        #[test]
        fn any_line_has_an_answer(at in any::<prop::sample::Index>(), words in "( (key|1|-1.5|EX|GET|COUNT|LIMIT|KEYS|[A-Z]{2,4}|\"\")){0,8} ?") {
            static DOCS: LazyLock<Docs> = LazyLock::new(Docs::known);
            let docs = &*DOCS;
            let line = format!("{}{words}", docs.commands[at.index(docs.commands.len())].name);
            let shown = hint(docs, line.as_bytes());
            prop_assert!(shown.is_none_or(|shown| !shown.starts_with(' ')));
        }
    }
}
