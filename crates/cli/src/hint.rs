//! Hint for a command line: the part of the command's syntax that the words so far have not used up.
//!
//! The words are matched with the tree of arguments from the left. Neighbours that are optional may appear in any
//! order, also between each other; one that has begun and is not complete is shown first, without its brackets:
//!
//! ```text
//! SET key value EX          seconds [NX|XX|IFEQ comparison-value] [GET]
//! ZADD key CH               [NX|XX] [GT|LT] [INCR] score member [score member ...]
//! ZRANDMEMBER k cnt         nothing: where a number has to be, there is none
//! ```
//!
//! A word counts once a blank follows it. Texts and matching are valkey-cli's, which its test suite fixes, including a
//! few unbalanced brackets.

use crate::argument_tree::{Node, optional_run, take_all};
use crate::docs::{ArgumentKind, Docs, DocumentedArgument};

/// Returns the hint for a line as typed so far, perhaps with a blank behind it; None if no command begins it, or its
/// quotes are open.
pub fn hint(docs: &Docs, line: &[u8]) -> Option<String> {
    let words = resp::words::split(line)?;
    let ends_in_blank = line.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
    let count = if ends_in_blank { words.len() } else { words.len().saturating_sub(1) };
    let (command, name_words) = docs.find(&words[..count])?;
    Some(remaining(&command.arguments, &words[name_words..count]))
}

/// Returns all arguments, for a command of which none was typed.
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

impl Node<'_> {
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
        // `show_repetition` resets `taken`, so a bracket closes that was not opened: the test suite expects it.
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

    /// Shows ` [value ...]` for an argument that may be repeated, whole.
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
        // Optional arguments cannot follow once an argument behind them was typed.
        if end == count || nodes[end].taken == 0 {
            for offset in (0..optional).filter(|offset| !begun[*offset]) {
                show(out, &mut nodes[at + offset], at + offset + 1 == count);
            }
        }
        at = end;
    }
}

/// Runs a file of lines `"input" "expected hint"`, `#` before comments, as the test suite has one. Returns the text for
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
    fn typed_words_are_taken_out_of_a_hint() {
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
    fn a_file_of_cases_is_checked() {
        let docs = Docs::known();
        let text = b"# comment\n\n\"GET \" \"key\"\n\"GET \" \"value\"\n\"open\n";
        let (out, failures, failed) = check_file(&docs, text);
        assert_eq!((out.as_str(), failed), ("FAILURE: 1/2 passed\n", 1));
        assert_eq!(failures, "Test case 'GET ' FAILED: expected 'value', got 'key'\n");
    }

    proptest! {
        /// Checks that any words behind any command get an answer.
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
