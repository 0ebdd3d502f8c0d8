//! The words that may be typed next: tokens of a command's syntax, such as `EX` of SET, for Tab to complete.

use crate::argument_tree::{Node, optional_run, take_all};
use crate::docs::{ArgumentKind, Docs};

/// Returns completions of the last word of `line`, and the byte at which they start. After a blank that word is empty.
pub fn completions(docs: &Docs, line: &str) -> (usize, Vec<String>) {
    let start = line.rfind(|c: char| c.is_ascii_whitespace()).map_or(0, |at| at + 1);
    let (before, typed) = line.split_at(start);
    let found = resp::words::split(before.as_bytes()).and_then(|words| {
        let (command, name) = docs.find(&words)?;
        let mut nodes: Vec<Node<'_>> = command.arguments.iter().map(Node::new).collect();
        let words = &words[name..];
        // Behind words that do not match the syntax, nothing can be completed.
        (take_all(&mut nodes, words) == words.len()).then(|| {
            let mut tokens = Vec::new();
            next_of_all(&nodes, &mut tokens);
            tokens
        })
    });
    let begins = |token: &String| token.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
    let mut words: Vec<String> = found.unwrap_or_default().into_iter().map(str::to_owned).filter(begins).collect();
    words.dedup();
    (start, words)
}

/// Adds the words that may follow, of arguments in order. Returns whether one is required before any that come after.
fn next_of_all<'d>(nodes: &[Node<'d>], tokens: &mut Vec<&'d str>) -> bool {
    let mut at = 0;
    while at < nodes.len() {
        let end = at + optional_run(&nodes[at..]);
        let optional = &nodes[at..end];
        if let Some(begun) = optional.iter().find(|node| node.taken > 0 && !node.complete && !may_end(node)) {
            next_of(begun, tokens);
            return true;
        }
        // Optional arguments cannot follow once an argument behind them was typed.
        if nodes.get(end).is_none_or(|next| next.taken == 0) {
            optional.iter().filter(|node| !node.complete).for_each(|node| _ = next_of(node, tokens));
        }
        let Some(needed) = nodes.get(end) else { return false };
        if !needed.complete && next_of(needed, tokens) && !may_end(needed) {
            return true;
        }
        at = end + 1;
    }
    false
}

/// Returns whether the argument is complete and may still be repeated.
fn may_end(node: &Node<'_>) -> bool {
    node.argument.repeats && node.taken > 0
}

/// Adds the words that may follow, of one argument.
fn next_of<'d>(node: &Node<'d>, tokens: &mut Vec<&'d str>) -> bool {
    let argument = node.argument;
    let is_again = may_end(node);
    match &argument.token {
        Some(token) if !node.token || (is_again && argument.repeats_token) => {
            // The empty token is a value of a kind, which cannot be completed.
            tokens.extend(Some(token.as_str()).filter(|token| !token.is_empty()));
            return true;
        }
        _ => {}
    }
    match &argument.kind {
        ArgumentKind::Block(_) => next_of_all(&node.children, tokens),
        ArgumentKind::OneOf(_) => {
            let begun = node.children.iter().find(|child| child.taken > 0 && !child.complete);
            match begun {
                Some(begun) => next_of(begun, tokens),
                None => {
                    node.children.iter().for_each(|child| _ = next_of(child, tokens));
                    true
                }
            }
        }
        ArgumentKind::Token => false,
        ArgumentKind::Text | ArgumentKind::Integer | ArgumentKind::Double => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static DOCS: LazyLock<Docs> = LazyLock::new(Docs::known);

    fn next(line: &str) -> String {
        completions(&DOCS, line).1.join(" ")
    }

    #[test]
    fn tokens_that_may_follow_are_completed() {
        for (line, expected) in [
            ("set k v e", "EX EXAT"),
            ("SET k v EX 5 ", "NX XX IFEQ GET"),
            ("set k v EX ", ""),
            ("set k ", ""),
            ("get k ", ""),
            ("zadd k ", "NX XX GT LT CH INCR"),
            ("zadd k CH n", "NX"),
            ("zadd k 1 m ", ""),
            ("client kill ty", "TYPE"),
            ("xadd s nomk", "NOMKSTREAM"),
            ("xread coun", "COUNT"),
            ("xread count 5 ", "BLOCK STREAMS"),
            ("nope x ", ""),
            ("set \"k ", ""),
            ("é", ""),
        ] {
            assert_eq!(next(line), expected, "{line}");
        }
        assert_eq!(completions(&DOCS, "set k v ge"), (8, vec!["GET".to_owned()]));
    }

    #[test]
    fn a_servers_own_commands_are_completed() {
        use resp::Value;
        let text = |text: &str| Value::Simple(text.into());
        let pairs = |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().map(|(n, v)| (text(n), v)).collect());
        let token =
            |token: &str| pairs(vec![("name", text("t")), ("type", text("pure-token")), ("token", text(token))]);
        let arguments = Value::Array(vec![pairs(vec![
            ("name", text("how")),
            ("type", text("oneof")),
            ("arguments", Value::Array(vec![token("FAST"), token("SLOW")])),
        ])]);
        let docs = Docs::read(&pairs(vec![("mod.do", pairs(vec![("summary", text("S.")), ("arguments", arguments)]))]));
        assert_eq!(completions(&docs, "MOD.do ").1, ["FAST", "SLOW"]);
        assert_eq!(completions(&docs, "mod.do sl").1, ["SLOW"]);
    }

    proptest! {
        /// Checks, for any words behind any command, that each completion begins with the last word.
        #[test]
        fn any_line_has_an_answer(at in any::<prop::sample::Index>(), words in "( (key|1|-1.5|EX|GET|COUNT|LIMIT|KEYS|[A-Z]{2,4}|\"\")){0,8} ?") {
            let line = format!("{}{words}", DOCS.commands[at.index(DOCS.commands.len())].name);
            let (start, offered) = completions(&DOCS, &line);
            let typed = line[start..].to_ascii_uppercase();
            prop_assert!(offered.iter().all(|word| word.to_ascii_uppercase().starts_with(&typed)));
        }
    }
}
