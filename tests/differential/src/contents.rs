//! All that a server holds, read by ordinary commands, so that servers of both kinds can be compared: values,
//! deadlines of keys and fields, streams with their groups, consumers and pending entries, functions.
//!
//! A key or field whose deadline has passed is not seen, whether or not the server has removed it, nor is a hash whose
//! fields all have. A consumer's own times are left out: servers do not propagate when it was seen.

use crate::client::{Client, command};
use crate::grammar::Command;
use crate::value::{Value, quoted};
use std::collections::BTreeMap;
use std::io::{Error, Result};

/// Databases that are looked at.
const DBS: usize = 16;

/// Contents of each key, by its database and name.
pub type Contents = BTreeMap<String, String>;

/// Scope of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Eye {
    /// Everything.
    All,
    /// State that servers of all kinds have: without pending entries that no consumer has, which a real server gives to
    /// a consumer without a name, or drops when they are deleted.
    Common,
    /// State that a real server tells its replicas of, however they come to it: without consumers that have nothing
    /// pending, too. Snapshots have all of them, the stream only some.
    Told,
}

/// Reads all keys of all databases.
pub fn contents(client: &mut Client, eye: Eye) -> Result<Contents> {
    let mut found = Contents::new();
    for db in 0..DBS {
        client.call(&command(&format!("SELECT {db}")))?;
        let keys = client.call(&command("KEYS *"))?;
        let Some(keys) = keys.elements() else { return Err(Error::other(format!("KEYS is answered {keys}"))) };
        let names: Vec<&[u8]> = keys.iter().filter_map(Value::text).collect();
        let ask = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Command>();
        let looks: Vec<Command> =
            names.iter().flat_map(|name| [ask(&[b"TYPE", name]), ask(&[b"PEXPIRETIME", name])]).collect();
        client.send(&looks);
        let heads = looks.iter().map(|_| client.receive()).collect::<Result<Vec<Value>>>()?;
        for (name, head) in names.iter().zip(heads.chunks(2)) {
            let kind = head[0].text().unwrap_or_default();
            let value = value(client, name, kind, eye)?;
            if kind == b"hash" && value.is_empty() {
                continue;
            }
            found.insert(format!("db {db} {}", quoted(name)), format!("ends {} {value}", head[1]));
        }
    }
    client.call(&command("SELECT 0"))?;
    let functions = client.call(&command("FUNCTION LIST WITHCODE"))?;
    found.insert("functions".to_owned(), sorted(&functions));
    Ok(found)
}

/// The lines that are in one of them only, or not the same.
pub fn differing(one: &Contents, other: &Contents) -> Vec<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    let shown = |value: Option<&String>| value.map_or_else(|| "(none)".to_owned(), Clone::clone);
    names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| {
            let (one, other) = (shown(one.get(name)), shown(other.get(name)));
            let (one, other) = around_difference(&one, &other);
            format!("{name}\n      is   {one}\n      here {other}")
        })
        .collect()
}

/// The parts of two texts where they begin to differ.
fn around_difference(one: &str, other: &str) -> (String, String) {
    const BEFORE: usize = 120;
    const SHOWN: usize = 300;
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(BEFORE)).take(SHOWN).collect::<String>();
    (part(one), part(other))
}

fn value(client: &mut Client, name: &[u8], kind: &[u8], eye: Eye) -> Result<String> {
    let mut ask = |words: &[&[u8]]| {
        let mut command: Command = words.iter().map(|word| word.to_vec()).collect();
        command.insert(1 + usize::from(words[0] == b"XINFO"), name.to_vec());
        client.call(&command)
    };
    Ok(match kind {
        b"string" => exact(&ask(&[b"GET"])?),
        b"list" => exact(&ask(&[b"LRANGE", b"0", b"-1"])?),
        b"set" => sorted(&ask(&[b"SMEMBERS"])?),
        b"zset" => scores(&ask(&[b"ZRANGE", b"0", b"-1", b"WITHSCORES"])?),
        b"hash" => hash(client, name)?,
        b"stream" => stream(&ask(&[b"XINFO", b"STREAM", b"FULL", b"COUNT", b"0"])?, eye),
        other => format!("of type {}", quoted(other)),
    })
}

/// Members and scores. A score of minus zero loses its sign, here as in real servers, when a set is loaded in its small
/// form.
fn scores(reply: &Value) -> String {
    let words = reply.elements().unwrap_or_default().chunks(2);
    let pair = |pair: &[Value]| match pair {
        [member, score] if score.text() == Some(b"-0") => format!("{} {}", exact(member), whole(b"0")),
        pair => pair.iter().map(exact).collect::<Vec<_>>().join(" "),
    };
    format!("[{}]", words.map(pair).collect::<Vec<_>>().join(" "))
}

/// Each field with its value and deadline.
fn hash(client: &mut Client, name: &[u8]) -> Result<String> {
    let all = client.call(&vec![b"HGETALL".to_vec(), name.to_vec()])?;
    let words: Vec<&[u8]> = all.elements().unwrap_or_default().iter().filter_map(Value::text).collect();
    let count = words.len() / 2;
    let mut times: Command =
        vec![b"HPEXPIRETIME".to_vec(), name.to_vec(), b"FIELDS".to_vec(), count.to_string().into_bytes()];
    times.extend(words.chunks(2).map(|pair| pair[0].to_vec()));
    let times = client.call(&times)?;
    let times = times.elements().unwrap_or_default();
    let mut lines: Vec<String> = words
        .chunks(2)
        .enumerate()
        .map(|(at, pair)| {
            let ends = times.get(at).map_or_else(String::new, Value::to_string);
            format!("{} = {} ends {ends}", whole(pair[0]), whole(pair.get(1).copied().unwrap_or_default()))
        })
        .collect();
    lines.sort();
    Ok(lines.join(", "))
}

fn sorted(value: &Value) -> String {
    let mut lines: Vec<String> = value.elements().unwrap_or_default().iter().map(deeply_sorted).collect();
    lines.sort();
    lines.join(", ")
}

/// Sorts the functions of a library, which have an order of their own, and a function's flags, which do too.
fn deeply_sorted(value: &Value) -> String {
    match value.elements() {
        Some(elements) if elements.iter().any(|element| element.elements().is_some()) => {
            let mut lines: Vec<String> = elements.iter().map(deeply_sorted).collect();
            lines.sort();
            format!("[{}]", lines.join(" "))
        }
        _ => exact(value),
    }
}

/// A reply as a text that no other reply has.
fn exact(value: &Value) -> String {
    match (value.text(), value.elements()) {
        (Some(text), _) => whole(text),
        (_, Some(elements)) => format!("[{}]", elements.iter().map(exact).collect::<Vec<_>>().join(" ")),
        _ => value.to_string(),
    }
}

/// Bytes as a quoted text; a long one with its hash, since its middle is left out.
fn whole(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let shown = quoted(bytes);
    if shown.len() > bytes.len() { shown } else { format!("{shown} #{hash:x}") }
}

/// Properties of streams, groups and consumers that servers of both kinds have, and propagate. A group's lag is left
/// out: each kind makes it from the others in its own way.
const PROPAGATED: &[&[u8]] = &[
    b"length",
    b"last-generated-id",
    b"max-deleted-entry-id",
    b"entries-added",
    b"recorded-first-entry-id",
    b"entries",
    b"groups",
    b"name",
    b"last-delivered-id",
    b"entries-read",
    b"pel",
    b"pel-count",
    b"pending",
    b"consumers",
];

/// Whether this is a consumer without a name, or a pending entry of it.
fn is_nameless(element: &Value) -> bool {
    let parts = element.elements().unwrap_or_default();
    let is_consumer = parts.first().and_then(Value::text) == Some(b"name");
    let is_pending = parts.len() == 4;
    (is_consumer || is_pending) && parts[1].text() == Some(b"")
}

/// Whether this is a consumer with nothing pending: a group has the count of all its consumers, and their list.
fn is_idle_consumer(element: &Value) -> bool {
    let has = |name: &[u8], value: Option<&Value>| {
        let pairs = element.elements().unwrap_or_default().chunks_exact(2);
        pairs.into_iter().any(|pair| pair[0].text() == Some(name) && value.is_none_or(|value| *value == pair[1]))
    };
    has(b"name", None) && has(b"pel-count", Some(&Value::Integer(0))) && !has(b"consumers", None)
}

/// XINFO STREAM FULL without what is not propagated: names and values stand in turns, at all depths.
fn stream(info: &Value, eye: Eye) -> String {
    let Some(elements) = info.elements() else { return exact(info) };
    let is_named = elements.len() % 2 == 0
        && elements.first().and_then(Value::text).is_some_and(|name| name == b"length" || name == b"name");
    if !is_named {
        let is_seen = |element: &&Value| match eye {
            Eye::All => true,
            Eye::Common => !is_nameless(element),
            Eye::Told => !is_nameless(element) && !is_idle_consumer(element),
        };
        let seen = elements.iter().filter(is_seen);
        return format!("[{}]", seen.map(|element| stream(element, eye)).collect::<Vec<_>>().join(" "));
    }
    let is_seen = |name: &[u8]| PROPAGATED.contains(&name) && (eye == Eye::All || name != b"pel-count");
    let pairs = elements.chunks(2).filter(|pair| pair[0].text().is_some_and(is_seen));
    let lines: Vec<String> = pairs
        .map(|pair| {
            let name = String::from_utf8_lossy(pair[0].text().unwrap_or_default()).into_owned();
            // Entries hold what clients have named.
            let value = if name == "entries" { exact(&pair[1]) } else { stream(&pair[1], eye) };
            format!("{name} {value}")
        })
        .collect();
    format!("{{{}}}", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn a_stream_is_shown_without_what_is_not_propagated() {
        let consumer = Value::Array(vec![bulk("name"), bulk("c"), bulk("seen-time"), Value::Integer(5)]);
        let group = Value::Array(vec![bulk("name"), bulk("g"), bulk("consumers"), Value::Array(vec![consumer])]);
        let info = Value::Array(vec![
            bulk("length"),
            Value::Integer(1),
            bulk("radix-tree-keys"),
            Value::Integer(1),
            bulk("groups"),
            Value::Array(vec![group]),
        ]);
        let shown = stream(&info, Eye::All);
        assert!(shown.contains("consumers [{name") && shown.contains("length"), "{shown}");
        assert!(!shown.contains("seen-time") && !shown.contains("radix"), "{shown}");
    }

    #[test]
    fn pending_entries_without_a_consumer_are_not_common() {
        let pending = |id: &str, consumer: &str| {
            Value::Array(vec![bulk(id), bulk(consumer), Value::Integer(0), Value::Integer(1)])
        };
        let group =
            |entries: Vec<Value>| Value::Array(vec![bulk("name"), bulk("g"), bulk("pending"), Value::Array(entries)]);
        let (one, both) = (group(vec![pending("1-1", "c")]), group(vec![pending("1-1", "c"), pending("1-2", "")]));
        assert_eq!(stream(&one, Eye::Common), stream(&both, Eye::Common));
        assert_ne!(stream(&one, Eye::All), stream(&both, Eye::All));
    }

    #[test]
    fn consumers_with_nothing_pending_are_not_told_of() {
        let consumer = |name: &str, pending: i64| {
            Value::Array(vec![bulk("name"), bulk(name), bulk("pel-count"), Value::Integer(pending)])
        };
        let group = |consumers: Vec<Value>| {
            let consumers = Value::Array(consumers);
            Value::Array(vec![Value::Array(vec![
                bulk("name"),
                bulk("g"),
                bulk("pel-count"),
                Value::Integer(0),
                bulk("consumers"),
                consumers,
            ])])
        };
        let (few, more) = (group(vec![consumer("a", 1)]), group(vec![consumer("a", 1), consumer("b", 0)]));
        assert_eq!(stream(&few, Eye::Told), stream(&more, Eye::Told));
        assert_ne!(stream(&few, Eye::Common), stream(&more, Eye::Common));
        assert!(stream(&few, Eye::Told).contains("name \"a\"") && stream(&few, Eye::Told).contains("name \"g\""));
    }

    #[test]
    fn a_score_of_minus_zero_is_zero_and_a_member_is_not() {
        let of = |words: &[&str]| scores(&Value::Array(words.iter().map(|word| bulk(word)).collect()));
        assert_eq!(of(&["a", "-0", "b", "1"]), of(&["a", "0", "b", "1"]));
        assert_ne!(of(&["-0", "1"]), of(&["0", "1"]));
    }

    #[test]
    fn differences_are_told_by_key() {
        let of = |lines: &[(&str, &str)]| lines.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        let one: Contents = of(&[("a", "1"), ("b", "2")]);
        assert!(differing(&one, &one).is_empty());
        assert_eq!(differing(&one, &of(&[("a", "1"), ("b", "3"), ("c", "4")])).len(), 2);
        assert_eq!(differing(&one, &of(&[("b", "2")])).len(), 1);
    }
}
