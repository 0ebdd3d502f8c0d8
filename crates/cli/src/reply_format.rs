//! Replies as text: one function over [`Value`] for each output format.
//!
//! The texts are those of valkey-cli, byte for byte, because scripts parse them. Formatted output, for people, numbers
//! the elements of an aggregate and indents nested elements below their number:
//!
//! ```text
//! 1) "a"                      array     1# "k" => "v"     map (a value of several lines starts a line of its own)
//! 2) 1~ (integer) 1           set       (empty array)     aggregates without elements
//!    2~ (double) 1.5                    (nil) (true) (error) ERR text
//! ```
//!
//! Raw output, for pipes, is the bytes alone: elements are joined by a delimiter, and nothing marks their nesting.
//! valkey-cli cannot print a big number (it exits); here it is `(big number) 123`, and its digits in the other formats.
//! Attributes are not printed, only the value that they belong to.

use resp::{Value, json};

use crate::options::Options;
use resp::words::quote;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Formatted,
    Raw,
    Csv,
    Json,
    /// JSON whose strings hold printable ASCII only, other bytes as `\\xHH`.
    QuotedJson,
}

impl OutputFormat {
    /// Returns whether the output is for programs that read JSON.
    pub fn is_json(self) -> bool {
        matches!(self, OutputFormat::Json | OutputFormat::QuotedJson)
    }
}

/// Formats a reply with the end of line or delimiter that its format puts behind it.
pub fn reply(value: &Value, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    match options.output {
        OutputFormat::Formatted => {
            formatted(&mut out, value, "");
            return out;
        }
        OutputFormat::Raw => {
            raw(&mut out, value, &options.element_delimiter);
            out.extend(&options.reply_delimiter);
            return out;
        }
        OutputFormat::Csv => csv(&mut out, value),
        OutputFormat::Json => json::write(&mut out, value, json::string),
        OutputFormat::QuotedJson => json::write(&mut out, value, json::quoted_string),
    }
    out.push(b'\n');
    out
}

/// Formats a push message; on a terminal, invalidations by client tracking take one line.
pub fn push(value: &Value, options: &Options) -> Vec<u8> {
    let keys = match value {
        Value::Push(items) if options.output == OutputFormat::Formatted => match &items[..] {
            [Value::Bulk(kind), Value::Array(keys)] if kind == b"invalidate" => keys,
            _ => return reply(value, options),
        },
        _ => return reply(value, options),
    };
    let mut out = b"-> invalidate: ".to_vec();
    joined(&mut out, keys, b", ", |out, key| {
        out.push(b'\'');
        raw(out, key, b"");
        out.push(b'\'');
    });
    out.push(b'\n');
    out
}

/// Appends `value` as valkey-cli prints it on a terminal, with a line end. Lines after the first start with `indent`.
pub fn formatted(out: &mut Vec<u8>, value: &Value, indent: &str) {
    match value {
        Value::Null => out.extend(b"(nil)"),
        Value::Simple(text) | Value::Verbatim(_, text) => out.extend(text),
        Value::Error(text) => put(out, "(error) ", text),
        Value::Int(number) => put(out, "(integer) ", number.to_string().as_bytes()),
        Value::Double(number) => put(out, "(double) ", number.as_bytes()),
        Value::BigNumber(digits) => put(out, "(big number) ", digits.as_bytes()),
        Value::Bool(true) => out.extend(b"(true)"),
        Value::Bool(false) => out.extend(b"(false)"),
        Value::Bulk(bytes) => quote(out, bytes),
        Value::Array(items) if items.is_empty() => out.extend(b"(empty array)"),
        Value::Set(items) if items.is_empty() => out.extend(b"(empty set)"),
        Value::Push(items) if items.is_empty() => out.extend(b"(empty push)"),
        Value::Map(pairs) if pairs.is_empty() => out.extend(b"(empty hash)"),
        Value::Array(items) | Value::Push(items) => {
            return formatted_items(out, items, ')', indent);
        }
        Value::Set(items) => return formatted_items(out, items, '~', indent),
        Value::Map(pairs) => return formatted_pairs(out, pairs, indent),
        Value::Attribute(_, value) => return formatted(out, value, indent),
    }
    out.push(b'\n');
}

fn formatted_items(out: &mut Vec<u8>, items: &[Value], mark: char, indent: &str) {
    let width = items.len().to_string().len();
    let nested = format!("{indent}{:1$}", "", width + 2);
    for (index, item) in items.iter().enumerate() {
        formatted_number(out, index, width, mark, indent);
        formatted(out, item, &nested);
    }
}

fn formatted_pairs(out: &mut Vec<u8>, pairs: &[(Value, Value)], indent: &str) {
    let width = pairs.len().to_string().len();
    let nested = format!("{indent}{:1$}", "", width + 2);
    for (index, (key, value)) in pairs.iter().enumerate() {
        formatted_number(out, index, width, '#', indent);
        formatted(out, key, &nested);
        // The value follows on the line where the key ended.
        out.pop();
        out.extend(b" => ");
        if takes_lines(value) {
            out.extend(format!("\n{nested}").as_bytes());
        }
        formatted(out, value, &nested);
    }
}

/// Appends a number; the first has no indent of its own: it stands behind its parent's number.
fn formatted_number(out: &mut Vec<u8>, index: usize, width: usize, mark: char, indent: &str) {
    let indent = if index == 0 { "" } else { indent };
    out.extend(format!("{indent}{:>width$}{mark} ", index + 1).as_bytes());
}

fn takes_lines(value: &Value) -> bool {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => match &items[..] {
            [] => false,
            [item] => takes_lines(item),
            _ => true,
        },
        Value::Map(pairs) => match &pairs[..] {
            [] => false,
            [(_, value)] => takes_lines(value),
            _ => true,
        },
        Value::Attribute(_, value) => takes_lines(value),
        _ => false,
    }
}

/// Appends the bytes of `value`, without an end of line; an error has one, also between elements.
pub fn raw(out: &mut Vec<u8>, value: &Value, delimiter: &[u8]) {
    match value {
        Value::Null => {}
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) => out.extend(text),
        Value::Error(text) => {
            out.extend(text);
            out.push(b'\n');
        }
        Value::Int(number) => out.extend(number.to_string().as_bytes()),
        Value::Double(number) | Value::BigNumber(number) => out.extend(number.as_bytes()),
        Value::Bool(truth) => out.extend(if *truth { &b"(true)"[..] } else { b"(false)" }),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            joined(out, items, delimiter, |out, item| raw(out, item, delimiter));
        }
        Value::Map(pairs) => joined(out, pairs, delimiter, |out, (key, value)| {
            raw(out, key, delimiter);
            out.push(b' ');
            raw(out, value, delimiter);
        }),
        Value::Attribute(_, value) => raw(out, value, delimiter),
    }
}

/// Appends `value` as one CSV record without its end; nested aggregates are flattened into it.
pub fn csv(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend(b"NULL"),
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim(_, text) => quote(out, text),
        Value::Error(text) => {
            out.extend(b"ERROR,");
            quote(out, text);
        }
        Value::Int(number) => out.extend(number.to_string().as_bytes()),
        Value::Double(number) | Value::BigNumber(number) => out.extend(number.as_bytes()),
        Value::Bool(truth) => out.extend(truth.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => joined(out, items, b",", csv),
        Value::Map(pairs) => joined(out, pairs, b",", |out, (key, value)| {
            csv(out, key);
            out.push(b',');
            csv(out, value);
        }),
        Value::Attribute(_, value) => csv(out, value),
    }
}

fn joined<T>(out: &mut Vec<u8>, items: &[T], delimiter: &[u8], mut put_item: impl FnMut(&mut Vec<u8>, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.extend(delimiter);
        }
        put_item(out, item);
    }
}

fn put(out: &mut Vec<u8>, label: &str, text: &[u8]) {
    out.extend(label.as_bytes());
    out.extend(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn tty(value: &Value) -> String {
        text(|out| formatted(out, value, ""))
    }

    /// Replies in each format: formatted, raw, CSV, JSON. All but the big number were taken from valkey-cli.
    fn scalars() -> Vec<(Value, [&'static str; 4])> {
        vec![
            (bulk("Hello World"), ["\"Hello World\"\n", "Hello World", "\"Hello World\"", "\"Hello World\""]),
            (bulk("a\n\u{1}"), ["\"a\\n\\x01\"\n", "a\n\u{1}", "\"a\\n\\x01\"", "\"a\\n\\u0001\""]),
            (Value::Simple(b"OK".to_vec()), ["OK\n", "OK", "\"OK\"", "\"OK\""]),
            (
                Value::Error(b"ERR no".to_vec()),
                ["(error) ERR no\n", "ERR no\n", "ERROR,\"ERR no\"", "error:\"ERR no\""],
            ),
            (Value::Int(12345), ["(integer) 12345\n", "12345", "12345", "12345"]),
            (Value::Double("3.141".into()), ["(double) 3.141\n", "3.141", "3.141", "3.141"]),
            (Value::Null, ["(nil)\n", "", "NULL", "null"]),
            (Value::Bool(true), ["(true)\n", "(true)", "true", "true"]),
            (Value::Bool(false), ["(false)\n", "(false)", "false", "false"]),
            (Value::Verbatim(*b"txt", b"a\nb".to_vec()), ["a\nb\n", "a\nb", "\"a\\nb\"", "\"a\\nb\""]),
            (Value::BigNumber("-12".into()), ["(big number) -12\n", "-12", "-12", "-12"]),
            (Value::Array(vec![]), ["(empty array)\n", "", "", "[]"]),
            (Value::Set(vec![]), ["(empty set)\n", "", "", "[]"]),
            (Value::Push(vec![]), ["(empty push)\n", "", "", "[]"]),
            (Value::Map(vec![]), ["(empty hash)\n", "", "", "{}"]),
        ]
    }

    #[test]
    fn every_kind_in_every_format() {
        for (value, [on_terminal, in_pipe, as_csv, as_json]) in scalars() {
            assert_eq!(tty(&value), on_terminal, "{value:?}");
            assert_eq!(text(|out| raw(out, &value, b"\n")), in_pipe, "{value:?}");
            assert_eq!(text(|out| csv(out, &value)), as_csv, "{value:?}");
            assert_eq!(text(|out| json::write(out, &value, json::string)), as_json, "{value:?}");
            // Attributes are for programs.
            let with_attribute = Value::Attribute(vec![(bulk("ttl"), Value::Int(1))], Box::new(value));
            assert_eq!(tty(&with_attribute), on_terminal);
        }
    }

    #[test]
    fn nested_arrays_are_indented() {
        let inner = Value::Array(vec![Value::Int(3), Value::Int(4), Value::Array(vec![])]);
        let value = Value::Array(vec![Value::Int(1), Value::Array(vec![Value::Int(2), inner]), Value::Int(5)]);
        let expected = "\
1) (integer) 1
2) 1) (integer) 2
   2) 1) (integer) 3
      2) (integer) 4
      3) (empty array)
3) (integer) 5
";
        assert_eq!(tty(&value), expected);
        assert_eq!(text(|out| raw(out, &value, b",")), "1,2,3,4,,5");
        assert_eq!(text(|out| csv(out, &value)), "1,2,3,4,,5");
        assert_eq!(text(|out| json::write(out, &value, json::string)), "[1,[2,[3,4,[]]],5]");
    }

    #[test]
    fn numbers_are_aligned() {
        let value = Value::Set((1..=10).map(Value::Int).collect());
        let lines: Vec<_> = tty(&value).lines().map(str::to_owned).collect();
        assert_eq!((lines[0].as_str(), lines[9].as_str()), (" 1~ (integer) 1", "10~ (integer) 10"));
        let value = Value::Array(vec![Value::Null, value]);
        let lines: Vec<_> = tty(&value).lines().map(str::to_owned).collect();
        assert_eq!((lines[1].as_str(), lines[2].as_str()), ("2)  1~ (integer) 1", "    2~ (integer) 2"));
    }

    #[test]
    fn maps_put_long_values_on_their_own_lines() {
        let value = Value::Map(vec![
            (bulk("short"), Value::Array(vec![Value::Array(vec![Value::Int(1)])])),
            (bulk("long"), Value::Array(vec![Value::Int(1), Value::Int(2)])),
            (Value::Int(3), Value::Map(vec![(bulk("a"), Value::Bool(true))])),
        ]);
        let expected = "\
1# \"short\" => 1) 1) (integer) 1
2# \"long\" => 
   1) (integer) 1
   2) (integer) 2
3# (integer) 3 => 1# \"a\" => (true)
";
        assert_eq!(tty(&value), expected);
        assert_eq!(text(|out| raw(out, &value, b"\n")), "short 1\nlong 1\n2\n3 a (true)");
        assert_eq!(text(|out| csv(out, &value)), "\"short\",1,\"long\",1,2,3,\"a\",true");
        let expected = "{\"short\":[[1]],\"long\":[1,2],\"3\":{\"a\":true}}";
        assert_eq!(text(|out| json::write(out, &value, json::string)), expected);
    }
}
