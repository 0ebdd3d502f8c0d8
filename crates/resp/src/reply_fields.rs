//! Replies that are names and values, in either protocol: RESP3 sends a map, RESP2 an array with both in turns.

use crate::Value;

/// Returns names and values, which RESP2 sends as one array; none of any other reply.
pub fn fields(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(items) => items.as_chunks::<2>().0.iter().map(|[name, value]| (name, value)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the value with a name.
pub fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    fields(value).into_iter().find(|(key, _)| text(key).as_deref() == Some(name)).map(|(_, value)| value)
}

/// Returns the text with a name.
pub fn text_field(value: &Value, name: &str) -> Option<String> {
    field(value, name).and_then(text)
}

/// Returns the elements of an array or a set; none of any other reply.
pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// Returns a string's text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols_have_the_same_fields() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let pairs = [("name", bulk("get")), ("arity", Value::Int(2))];
        let map = Value::Map(pairs.iter().map(|(name, value)| (bulk(name), value.clone())).collect());
        let array = Value::Array(pairs.iter().flat_map(|(name, value)| [bulk(name), value.clone()]).collect());
        for value in [map, array] {
            assert_eq!(text_field(&value, "name").as_deref(), Some("get"));
            assert_eq!(field(&value, "arity"), Some(&Value::Int(2)));
            assert_eq!((fields(&value).len(), text_field(&value, "arity"), field(&value, "group")), (2, None, None));
        }
        assert!(items(&Value::Int(1)).is_empty() && fields(&Value::Int(1)).is_empty());
    }
}
