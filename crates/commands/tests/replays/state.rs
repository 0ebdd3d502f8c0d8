//! The visible state of a database, for comparisons.

use resp::reply_value::Value;

/// Returns each key with its expiry and its value, a line each; each field of a hash with its own. `ask` runs a
/// command.
pub fn state(ask: &mut dyn FnMut(&[&str]) -> Value) -> Vec<String> {
    let mut lines = Vec::new();
    for key in sorted(ask(&["KEYS", "*"])) {
        let (kind, at) = (shown(&ask(&["TYPE", &key])), shown(&ask(&["PEXPIRETIME", &key])));
        lines.push(format!("{key}: {kind}, ends {at}"));
        match kind.as_str() {
            "string" => lines.push(format!("{key} = {}", shown(&ask(&["GET", &key])))),
            "list" => lines.push(format!("{key} = {}", shown(&ask(&["LRANGE", &key, "0", "-1"])))),
            "set" => lines.push(format!("{key} = {}", sorted(ask(&["SMEMBERS", &key])).join(" "))),
            "zset" => lines.push(format!("{key} = {}", shown(&ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])))),
            "hash" => {
                for field in sorted(ask(&["HKEYS", &key])) {
                    let value = shown(&ask(&["HGET", &key, &field]));
                    let at = shown(&ask(&["HPEXPIRETIME", &key, "FIELDS", "1", &field]));
                    lines.push(format!("{key} {field} = {value}, ends {at}"));
                }
            }
            "stream" => stream(ask, &key, &mut lines),
            other => panic!("{key} is a {other}"),
        }
    }
    lines
}

fn stream(ask: &mut dyn FnMut(&[&str]) -> Value, key: &str, lines: &mut Vec<String>) {
    lines.push(format!("{key} = {}", shown(&ask(&["XRANGE", key, "-", "+"]))));
    let Value::Array(info) = ask(&["XINFO", "STREAM", key]) else { panic!("{key} is a stream") };
    for pair in info.chunks(2) {
        let name = shown(&pair[0]);
        // The internal form is not part of the content.
        if !name.starts_with("radix-tree") {
            lines.push(format!("{key} {name} {}", shown(&pair[1])));
        }
    }
    let Value::Array(groups) = ask(&["XINFO", "GROUPS", key]) else { panic!("{key} is a stream") };
    for group in groups {
        lines.push(format!("{key} {}", shown(&group)));
        let Value::Array(words) = group else { panic!("a group has properties") };
        let name = shown(&words[1]);
        lines.push(format!("{key} {name} {}", shown(&ask(&["XPENDING", key, &name, "-", "+", "9"]))));
    }
}

/// Returns the words of an array, in order.
pub fn sorted(array: Value) -> Vec<String> {
    let Value::Array(words) = array else { panic!("{array:?} is no array") };
    let mut words: Vec<String> = words.iter().map(shown).collect();
    words.sort();
    words
}

/// Returns a reply in a form for people.
pub fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Simple(bytes) | Value::Bulk(bytes) => text(bytes),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Int(number) => number.to_string(),
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        other => format!("{other:?}"),
    }
}
