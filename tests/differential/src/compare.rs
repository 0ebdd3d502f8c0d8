//! Whether two replies to the same command mean the same.
//!
//! Nearly all must be equal to the byte, errors included. The exceptions are rules, which the families' tables give to
//! commands whose reply has no defined order, or contains the time, or the server's own name. An error is always
//! compared exactly, under any rule.

use crate::families;
use crate::value::Value;
use crate::words::ABSOLUTE_SECS;

/// How replies of a command are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Exact,
    /// An array, a set or a map whose order says nothing.
    Unordered,
    /// An array of arrays in which no order says anything.
    Nested,
    /// A whole iteration, made by the replayer: a set of keys.
    Scan,
    /// The time that a key has left, which passes between the executions on the two servers. In parts of a second.
    TimeLeft(i64),
    /// A key's deadline: the same if it was given, about the same if it was counted from now. In parts of a second.
    Deadline(i64),
    /// A reply of XINFO or XPENDING, without the times of the execution and how long they are past, and without the
    /// numbers of nodes: only one of the servers has a radix tree, and keeps nodes in which every entry is marked as
    /// deleted.
    Times,
    /// Only what kind of value it is.
    Kind,
    /// The name of an encoding. Each version decides itself which strings are `int`, `embstr` and `raw`, by the length
    /// of the string, of its key, by whether it has a deadline and a script has written it; so these are taken for one.
    Encoding,
    /// A map without the fields in which servers may differ.
    Hello,
    /// A reply of ACL LOG, without times and facts about the client.
    Denials,
    /// Rows of the command table, in which flags, categories and subcommands have no order.
    CommandInfo,
}

/// The rule of a command, found by its name or its name and subcommand.
pub fn rule_of(command: &[Vec<u8>]) -> Rule {
    let capitals = |args: &[Vec<u8>]| args.join(&b' ').to_ascii_uppercase();
    let names = [capitals(&command[..command.len().min(1)]), capitals(&command[..command.len().min(2)])];
    families::ALL
        .iter()
        .chain(&[&families::EVENTS])
        .flat_map(|family| family.rules)
        .find(|(name, _)| names.iter().any(|n| n == name.as_bytes()))
        .map_or(Rule::Exact, |(_, rule)| *rule)
}

/// Whether the replies agree under the rule. A lost reply agrees with nothing.
pub fn agree(rule: Rule, peer: &Value, subject: &Value) -> bool {
    if matches!(peer, Value::Lost(_)) || matches!(subject, Value::Lost(_)) {
        return false;
    }
    if peer == subject {
        return true;
    }
    match rule {
        Rule::TimeLeft(per_sec) => about_the_same(peer, subject, per_sec),
        Rule::Deadline(per_sec) => {
            let given = ABSOLUTE_SECS.start * per_sec..ABSOLUTE_SECS.end * per_sec;
            let is_given = matches!(peer, Value::Integer(n) if given.contains(n));
            !is_given && about_the_same(peer, subject, per_sec)
        }
        Rule::Kind => peer.kind() == subject.kind() && !peer.is_error(),
        _ => normalised(rule, peer) == normalised(rule, subject),
    }
}

/// The reply in the form in which it is compared.
pub fn normalised(rule: Rule, value: &Value) -> Value {
    match rule {
        Rule::Unordered | Rule::Scan => sorted(value),
        Rule::Nested => deeply_sorted(value),
        Rule::Hello => without_fields(value, HELLO_HIDDEN),
        Rule::Denials => match value {
            Value::Array(entries) => {
                Value::Array(entries.iter().map(|entry| without_fields(entry, DENIAL_HIDDEN)).collect())
            }
            other => other.clone(),
        },
        Rule::Times => without_times(value),
        Rule::CommandInfo => deeply_sorted(value),
        Rule::Encoding if matches!(value.text(), Some(b"int" | b"embstr")) => Value::Bulk(b"raw".to_vec()),
        _ => value.clone(),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(values) => {
            let mut values = values.clone();
            values.sort();
            Value::Array(values)
        }
        Value::Set(values) => {
            let mut values = values.clone();
            values.sort();
            Value::Set(values)
        }
        Value::Map(pairs) => {
            let mut pairs = pairs.clone();
            pairs.sort();
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

/// Servers may lag behind each other by this much.
const LAG_SECS: u64 = 5;

/// Whether two large numbers are close; small and negative ones must be equal: -1 and -2 have a meaning of their own.
fn about_the_same(peer: &Value, subject: &Value, per_sec: i64) -> bool {
    match (peer, subject) {
        (Value::Integer(a), Value::Integer(b)) => {
            *a > 1000 && *b > 1000 && a.abs_diff(*b) <= LAG_SECS * per_sec.unsigned_abs()
        }
        _ => false,
    }
}

/// Hidden fields of HELLO: the server's name, version and modules and the number of the connection.
const HELLO_HIDDEN: &[&[u8]] = &[b"server", b"version", b"modules", b"id"];
/// Hidden fields of an entry of ACL LOG: its number, its time, its client.
const DENIAL_HIDDEN: &[&[u8]] =
    &[b"entry-id", b"age-seconds", b"timestamp-created", b"timestamp-last-updated", b"client-info"];

/// A map without the values of some fields, of which only the kinds stay.
fn without_fields(map: &Value, hidden: &[&[u8]]) -> Value {
    let hide = |key: &Value, value: &Value| match key.text() {
        Some(name) if hidden.contains(&name) => Value::Simple(value.kind().into()),
        _ => value.clone(),
    };
    match map {
        Value::Map(pairs) => Value::Map(pairs.iter().map(|(k, v)| (k.clone(), hide(k, v))).collect()),
        Value::Array(flat) => Value::Array(
            flat.iter().enumerate().map(|(i, v)| if i % 2 == 1 { hide(&flat[i - 1], v) } else { v.clone() }).collect(),
        ),
        other => other.clone(),
    }
}

/// Integers from here on are Unix times in milliseconds of the execution; smaller ones were given.
const TIMES_FROM: i64 = 1_000_000_000_000;

/// -1 stands for none and stays.
fn without_times(reply: &Value) -> Value {
    let hide = |value: &Value| match value {
        Value::Integer(0..) => Value::Simple(b"time".to_vec()),
        other => without_times(other),
    };
    let is_duration =
        |name: &Value| matches!(name.text(), Some(b"idle" | b"inactive" | b"radix-tree-keys" | b"radix-tree-nodes"));
    match reply {
        Value::Integer(n) if *n >= TIMES_FROM => Value::Simple(b"time".to_vec()),
        Value::Map(pairs) => {
            let hidden =
                |name: &Value, value: &Value| if is_duration(name) { hide(value) } else { without_times(value) };
            Value::Map(pairs.iter().map(|(name, value)| (name.clone(), hidden(name, value))).collect())
        }
        Value::Array(values) => match values.as_slice() {
            // An id, a consumer, for how long, how often.
            [id @ Value::Bulk(_), consumer @ Value::Bulk(_), idle @ Value::Integer(_), times @ Value::Integer(_)] => {
                Value::Array(vec![id.clone(), consumer.clone(), hide(idle), times.clone()])
            }
            values => {
                let hidden = |(at, value): (usize, &Value)| {
                    if at % 2 == 1 && is_duration(&values[at - 1]) { hide(value) } else { without_times(value) }
                };
                Value::Array(values.iter().enumerate().map(hidden).collect())
            }
        },
        other => other.clone(),
    }
}

/// Sorts every list of names, of table rows (subcommands) and of what has a name (functions), at all depths. An empty
/// set is taken for an empty array: versions differ in how they say that a command has no subcommands.
fn deeply_sorted(value: &Value) -> Value {
    let all = |values: &[Value]| values.iter().map(deeply_sorted).collect::<Vec<_>>();
    let is_row = |value: &Value| match value {
        Value::Map(pairs) => pairs.first().is_some_and(|(key, _)| key.text() == Some(b"name")),
        other => other.elements().is_some_and(|e| e.len() > 6 || e.first().and_then(Value::text) == Some(b"name")),
    };
    match value {
        Value::Map(pairs) => Value::Map(pairs.iter().map(|(k, v)| (k.clone(), deeply_sorted(v))).collect()),
        Value::Set(values) if values.is_empty() => Value::Array(Vec::new()),
        Value::Set(values) => {
            let mut values = all(values);
            values.sort();
            Value::Set(values)
        }
        Value::Array(values) => {
            let mut values = all(values);
            if values.iter().all(|v| v.text().is_some()) || values.iter().all(is_row) {
                values.sort();
            }
            Value::Array(values)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulks(texts: &[&str]) -> Value {
        Value::Array(texts.iter().map(|t| Value::Bulk(t.as_bytes().to_vec())).collect())
    }

    fn error(text: &str) -> Value {
        Value::Error(text.into())
    }

    fn rule(command: &str) -> Rule {
        rule_of(&command.split_whitespace().map(|a| a.into()).collect::<Vec<_>>())
    }

    #[test]
    fn rules_are_found_in_any_case_and_by_subcommand() {
        assert_eq!(rule("keys *"), Rule::Unordered);
        assert_eq!(rule("Command inFo GET"), Rule::CommandInfo);
        assert_eq!(rule("COMMAND"), Rule::Exact);
        assert_eq!(rule("COMMAND GETKEYS GET k"), Rule::Exact);
        assert_eq!(rule("PTTL"), Rule::TimeLeft(1000));
        assert_eq!(rule(""), Rule::Exact);
    }

    #[test]
    fn order_matters_only_where_it_is_defined() {
        let (ab, ba, b) = (bulks(&["a", "b"]), bulks(&["b", "a"]), bulks(&["b"]));
        assert!(agree(Rule::Unordered, &ab, &ba) && !agree(Rule::Exact, &ab, &ba));
        assert!(!agree(Rule::Unordered, &ab, &b));
    }

    #[test]
    fn errors_and_lost_replies_have_no_leniency() {
        for rule in [Rule::Exact, Rule::Unordered, Rule::Kind, Rule::Hello, Rule::TimeLeft(1), Rule::CommandInfo] {
            assert!(!agree(rule, &error("ERR a"), &error("ERR b")), "{rule:?}");
            assert!(!agree(rule, &Value::Lost("x".into()), &Value::Lost("x".into())), "{rule:?}");
        }
    }

    #[test]
    fn times_may_differ_by_the_lag_unless_they_were_given() {
        let check = |rule, a, b| agree(rule, &Value::Integer(a), &Value::Integer(b));
        for rule in [Rule::TimeLeft(1), Rule::Deadline(1)] {
            assert!(check(rule, 100_000, 100_003) && !check(rule, 100_000, 100_010));
            assert!(!check(rule, -1, -2) && !check(rule, 0, 1));
        }
        assert!(check(Rule::TimeLeft(1000), 86_400_000, 86_402_000));
        let given = ABSOLUTE_SECS.start + 1;
        assert!(check(Rule::TimeLeft(1), given, given + 1));
        assert!(!check(Rule::Deadline(1), given, given + 1));
        assert!(!check(Rule::Deadline(1000), given * 1000, given * 1000 + 1));
    }

    #[test]
    fn embedded_strings_are_raw_strings() {
        let check = |a: &str, b: &str| agree(Rule::Encoding, &Value::Bulk(a.into()), &Value::Bulk(b.into()));
        assert!(check("embstr", "raw") && check("embstr", "int") && !check("listpack", "skiplist"));
    }

    #[test]
    fn hello_hides_names_in_both_protocols() {
        let text = |t: &str| Value::Bulk(t.into());
        let hello = |server, id, mode| {
            vec![(text("server"), text(server)), (text("id"), Value::Integer(id)), (text("mode"), text(mode))]
        };
        let flat = |pairs: Vec<(Value, Value)>| Value::Array(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect());
        let (a, b, c) = (hello("x", 1, "m"), hello("y", 2, "m"), hello("x", 1, "n"));
        assert!(agree(Rule::Hello, &Value::Map(a.clone()), &Value::Map(b.clone())));
        assert!(!agree(Rule::Hello, &Value::Map(a.clone()), &Value::Map(c.clone())));
        assert!(agree(Rule::Hello, &flat(a.clone()), &flat(b)));
        assert!(!agree(Rule::Hello, &flat(a.clone()), &flat(c)));
        assert!(!agree(Rule::Hello, &flat(a.clone()), &Value::Map(a)));
    }

    #[test]
    fn times_of_the_execution_are_hidden() {
        let pending = |idle, times| {
            let words = [Value::Bulk(b"7-1".to_vec()), Value::Bulk(b"c".to_vec())];
            Value::Array(vec![Value::Array([&words[..], &[Value::Integer(idle), Value::Integer(times)]].concat())])
        };
        assert!(agree(Rule::Times, &pending(5, 2), &pending(9, 2)));
        assert!(
            !agree(Rule::Times, &pending(5, 2), &pending(5, 1)) && !agree(Rule::Times, &pending(5, 1), &pending(-1, 1))
        );
        let info = |name: &str, value| Value::Array(vec![Value::Bulk(name.into()), Value::Integer(value)]);
        for (name, a, b, expected) in [
            ("idle", 1, 2, true),
            ("inactive", -1, 2, false),
            ("lag", 1, 2, false),
            ("seen-time", 1 << 41, 1 << 42, true),
        ] {
            assert_eq!(agree(Rule::Times, &info(name, a), &info(name, b)), expected, "{name}");
            let map = |value| Value::Map(vec![(Value::Bulk(name.into()), Value::Integer(value))]);
            assert_eq!(agree(Rule::Times, &map(a), &map(b)), expected, "{name}");
        }
    }

    #[test]
    fn command_tables_compare_without_order_at_all_depths() {
        let entry = |name: &str, flags: &[&str], subcommands: Vec<Value>| {
            let mut row = vec![Value::Bulk(name.into()), Value::Integer(2), bulks(flags)];
            row.extend([1, 1, 1].map(Value::Integer));
            row.push(Value::Array(subcommands));
            Value::Array(row)
        };
        let (x, y) = (entry("x", &["fast", "write"], vec![]), entry("y", &[], vec![]));
        let a = Value::Array(vec![entry("c", &["a", "b"], vec![x.clone(), y.clone()])]);
        let b = Value::Array(vec![entry("c", &["b", "a"], vec![y, entry("x", &["write", "fast"], vec![])])]);
        let c = Value::Array(vec![entry("c", &["a", "b"], vec![x])]);
        assert!(agree(Rule::CommandInfo, &a, &b) && !agree(Rule::Exact, &a, &b));
        assert!(!agree(Rule::CommandInfo, &a, &c));
    }

    #[test]
    fn functions_of_a_library_compare_without_order() {
        let row = |name: &str| Value::Array(vec![Value::Bulk(b"name".to_vec()), Value::Bulk(name.into()), Value::Null]);
        let map = |name: &str| Value::Map(vec![(Value::Bulk(b"name".to_vec()), Value::Bulk(name.into()))]);
        let all = |values: [Value; 2]| Value::Array(vec![Value::Array(values.into())]);
        for function in [row as fn(&str) -> Value, map] {
            let a = all([function("f"), function("g")]);
            assert!(agree(Rule::Nested, &a, &all([function("g"), function("f")])));
            assert!(!agree(Rule::Nested, &a, &all([function("g"), function("h")])));
        }
    }
}
