//! Values into JSON, in the form that the tools print.
//!
//! Strings may hold any bytes, and JSON's may not: a caller chooses how they are written, as they are or in printable
//! ASCII.

use crate::Value;
use crate::words::quote;

/// The form of a string's bytes.
pub type StringWriter = fn(&mut Vec<u8>, &[u8]);

/// Writes `value` as JSON. An error is `error:"text"`, which is no JSON, so that no reader takes it for a string.
pub fn write(out: &mut Vec<u8>, value: &Value, string: StringWriter) {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) => string(out, text),
        Value::Error(text) => {
            out.extend(b"error:");
            string(out, text);
        }
        Value::Int(number) => out.extend(number.to_string().as_bytes()),
        Value::Double(number) | Value::BigNumber(number) => out.extend(number.as_bytes()),
        Value::Bool(truth) => out.extend(truth.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            out.push(b'[');
            joined(out, items, |out, item| write(out, item, string));
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            joined(out, pairs, |out, (key, value)| {
                write_key(out, key, string);
                out.push(b':');
                write(out, value, string);
            });
            out.push(b'}');
        }
        Value::Attribute(_, value) => write(out, value, string),
    }
}

/// Writes a key: JSON knows only strings as keys, so any other key becomes the string of its own JSON.
fn write_key(out: &mut Vec<u8>, key: &Value, string: StringWriter) {
    let is_string = matches!(key, Value::Simple(_) | Value::Bulk(_) | Value::Verbatim(..) | Value::Error(_));
    if is_string {
        return write(out, key, string);
    }
    out.push(b'"');
    write(out, key, string);
    out.push(b'"');
}

/// Writes a JSON string that leaves bytes above the control characters as they are, UTF-8 or not.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            0..=0x1f => out.extend(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Writes a JSON string of the quoted form of `bytes`, its backslashes doubled.
pub fn quoted_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut quoted = Vec::new();
    quote(&mut quoted, bytes);
    for byte in quoted {
        if byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Returns an object of a report: names and values, in this order.
pub fn object<'n>(fields: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (text(name), value)).collect())
}

/// Returns a string of a report.
pub fn text(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Returns a whole number of a report; numbers above the largest of a reply become that one.
pub fn integer(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns a number of a report with so many decimal places; null for NaN and infinities.
pub fn decimal(number: f64, places: usize) -> Value {
    if number.is_finite() { Value::Double(format!("{number:.places$}")) } else { Value::Null }
}

fn joined<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write(&mut out, value, string);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn strings_are_escaped_or_quoted() {
        let of = |put: StringWriter, bytes: &[u8]| {
            let mut out = Vec::new();
            put(&mut out, bytes);
            String::from_utf8_lossy(&out).into_owned()
        };
        let bytes = b"\\\"\n\r\t\x08\x0c\x00\x7f\xc3\xa9";
        assert_eq!(of(string, bytes), "\"\\\\\\\"\\n\\r\\t\\b\\f\\u0000\x7f\u{e9}\"");
        assert_eq!(of(quoted_string, b"a\xff\n"), "\"a\\\\xff\\\\n\"");
    }

    #[test]
    fn reports_keep_the_order_of_their_fields() {
        let report = object([
            ("b", decimal(1.005, 1)),
            ("a", Value::Array(vec![text("x\"y"), integer(u64::MAX), decimal(f64::NAN, 2)])),
            ("c", object([])),
        ]);
        assert_eq!(written(&report), "{\"b\":1.0,\"a\":[\"x\\\"y\",9223372036854775807,null],\"c\":{}}");
        assert_eq!(written(&Value::Map(vec![(Value::Int(3), Value::Bool(true))])), "{\"3\":true}");
    }
}
