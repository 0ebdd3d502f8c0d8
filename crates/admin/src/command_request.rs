//! Commands as JSON, both ways.
//!
//! ```text
//! { "db": 0, "commands": [["SCAN", "0"], ["GET", "k"]] }
//!     -> { "replies": [["0", ["k"]], "v"] }
//! ```
//!
//! **Strings are bytes.** A character of a JSON string is one byte, U+0000 to U+00FF; others are refused. So any key
//! and any value passes unchanged, and text outside of ASCII is UTF-8 whose bytes are characters each.
//!
//! | reply | JSON |
//! |---|---|
//! | string, null, boolean | the same |
//! | integer | a number; as `{"integer": "9223372036854775807"}` where a browser would round it |
//! | array | an array |
//! | status, error, double, big number | `{"status": "OK"}`, `{"error": "ERR .."}`, `{"double": "1.5"}`, `{"big": "12"}` |
//! | verbatim text | `{"verbatim": "text", "format": "txt"}` |
//! | set, push, map | `{"set": [..]}`, `{"push": [..]}`, `{"map": [[key, value], ..]}` |
//! | attribute | `{"attribute": [[key, value], ..], "value": ..}` |

use resp::Value as Reply;
use serde_json::{Value, json};

/// Commands in one request.
pub(crate) const COMMANDS_MAX: usize = 256;

/// The largest integer that browsers distinguish from its neighbours.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// A request's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRequest {
    /// The database that the commands are for.
    pub db: u32,
    /// At least one, each with its name at least.
    pub commands: Vec<Vec<Vec<u8>>>,
}

/// Reads the body of a request, or returns its mistake.
pub(crate) fn parse(body: &[u8]) -> Result<CommandRequest, &'static str> {
    let Ok(Value::Object(mut body)) = serde_json::from_slice(body) else { return Err("the body is no JSON object") };
    let db = match body.remove("db") {
        None => Some(0),
        Some(db) => db.as_u64().and_then(|db| u32::try_from(db).ok()),
    };
    let db = db.ok_or("db is no number of a database")?;
    let Some(Value::Array(commands)) = body.remove("commands") else { return Err("commands is no array") };
    if !body.is_empty() {
        return Err("there is more than db and commands");
    }
    if commands.is_empty() || commands.len() > COMMANDS_MAX {
        return Err("there are no commands, or more than 256");
    }
    let commands = commands.into_iter().map(words).collect::<Option<_>>();
    let commands = commands.ok_or("a command is no array of strings with characters up to U+00FF")?;
    Ok(CommandRequest { db, commands })
}

fn words(command: Value) -> Option<Vec<Vec<u8>>> {
    let Value::Array(words) = command else { return None };
    let words: Vec<Vec<u8>> = words.iter().map(|word| bytes(word.as_str()?)).collect::<Option<_>>()?;
    Some(words).filter(|words| !words.is_empty())
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Returns a reply in the page's form.
pub(crate) fn json(reply: &Reply) -> Value {
    let all = |items: &[Reply]| -> Value { items.iter().map(json).collect() };
    let pairs = |pairs: &[(Reply, Reply)]| -> Value { pairs.iter().map(|(a, b)| json!([json(a), json(b)])).collect() };
    match reply {
        Reply::Bulk(bytes) => json!(text(bytes)),
        Reply::Null => Value::Null,
        Reply::Bool(value) => json!(value),
        Reply::Int(value) if value.unsigned_abs() <= SAFE_INTEGER_MAX => json!(value),
        Reply::Int(value) => json!({ "integer": value.to_string() }),
        Reply::Array(items) => all(items),
        Reply::Simple(line) => json!({ "status": text(line) }),
        Reply::Error(line) => json!({ "error": text(line) }),
        Reply::Double(number) => json!({ "double": number }),
        Reply::BigNumber(digits) => json!({ "big": digits }),
        Reply::Verbatim(format, shown) => json!({ "verbatim": text(shown), "format": text(format) }),
        Reply::Set(items) => json!({ "set": all(items) }),
        Reply::Push(items) => json!({ "push": all(items) }),
        Reply::Map(entries) => json!({ "map": pairs(entries) }),
        Reply::Attribute(entries, value) => json!({ "attribute": pairs(entries), "value": json(value) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_bytes() {
        let request = parse("{\"commands\": [[\"SET\", \"\\u0000\u{ff}é\", \"\"]], \"db\": 3}".as_bytes()).unwrap();
        assert_eq!(request.db, 3);
        assert_eq!(request.commands, [vec![b"SET".to_vec(), vec![0, 0xff, 0xe9], Vec::new()]]);
        assert_eq!(json(&Reply::Bulk((0..=255).collect())), json!((0..=255).map(char::from).collect::<String>()));
        assert_eq!(parse(br#"{"commands":[["PING"]]}"#).unwrap().db, 0);
    }

    #[test]
    fn a_text_that_is_no_request_is_refused() {
        let many = format!("{{\"commands\":[{}[\"PING\"]]}}", "[\"PING\"],".repeat(COMMANDS_MAX));
        let deep = "[".repeat(10_000);
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"commands":[]}"#,
            r#"{"commands":[[]]}"#,
            r#"{"commands":["PING"]}"#,
            r#"{"commands":[["GET",1]]}"#,
            r#"{"commands":[["GET","€"]]}"#,
            r#"{"db":-1,"commands":[["PING"]]}"#,
            r#"{"db":4294967296,"commands":[["PING"]]}"#,
            r#"{"db":"0","commands":[["PING"]]}"#,
            r#"{"user":"a","commands":[["PING"]]}"#,
            &many,
            &deep,
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong:.40}");
        }
    }

    #[test]
    fn every_type_of_reply_is_told_apart() {
        let pair = || vec![(Reply::Simple(b"a".to_vec()), Reply::Int(1))];
        let pair_json = json!([[{"status": "a"}, 1]]);
        for (reply, shown) in [
            (Reply::Null, Value::Null),
            (Reply::Bool(true), json!(true)),
            (Reply::Int(-9_007_199_254_740_991), json!(-9_007_199_254_740_991_i64)),
            (Reply::Int(i64::MIN), json!({"integer": "-9223372036854775808"})),
            (Reply::Error(b"ERR \xff".to_vec()), json!({"error": "ERR ÿ"})),
            (Reply::Double("inf".to_owned()), json!({"double": "inf"})),
            (Reply::BigNumber("12".to_owned()), json!({"big": "12"})),
            (Reply::Verbatim(*b"txt", b"a\n".to_vec()), json!({"verbatim": "a\n", "format": "txt"})),
            (Reply::Array(vec![Reply::Array(Vec::new())]), json!([[]])),
            (Reply::Set(vec![Reply::Null]), json!({"set": [null]})),
            (Reply::Push(Vec::new()), json!({"push": []})),
            (Reply::Map(pair()), json!({"map": pair_json})),
            (Reply::Attribute(pair(), Box::new(Reply::Null)), json!({"attribute": pair_json, "value": null})),
        ] {
            assert_eq!(json(&reply), shown);
        }
    }
}
