//! Replies that are names and values, in either protocol: RESP3 sends a map, RESP2 an array with both in turns.

use resp::Value;

/// Names and values, which RESP2 sends as one array.
pub fn fields(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(items) => items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

pub fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    fields(value).into_iter().find(|(key, _)| text(key).as_deref() == Some(name)).map(|(_, value)| value)
}

pub fn text_field(value: &Value, name: &str) -> Option<String> {
    field(value, name).and_then(text)
}

pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
