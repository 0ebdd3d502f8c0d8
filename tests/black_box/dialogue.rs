//! Tables of commands and the replies to them, as one reads them.
//!
//! A command is written as words between blanks; `''` is an empty argument. A reply is written like this:
//!
//! ```text
//! OK  PONG            simple strings             "v"           bulk string
//! 7                   integer                    nil           null
//! -ERR no such key    error                      [1, "v"]      array
//! (double) 1.5        double, RESP3              {"a": 1}      map, RESP3
//! ```

use redis::{Connection, ErrorKind, RedisError, Value};

/// Runs the commands and compares every reply; all the differences are shown at once.
#[track_caller]
pub fn dialogue(connection: &mut Connection, exchanges: &[(&str, &str)]) {
    let mut differences = String::new();
    for (command, expected) in exchanges {
        let found = ask(connection, command);
        if found != *expected {
            differences += &format!("{command}\n    found    {found}\n    expected {expected}\n");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

pub fn ask(connection: &mut Connection, command: &str) -> String {
    let mut words = command.split_whitespace().map(|word| if word == "''" { "" } else { word });
    let mut request = redis::cmd(words.next().expect("a command"));
    for word in words {
        request.arg(word);
    }
    match request.query::<Value>(connection) {
        Ok(value) => show(&value),
        Err(error) => show_error(&error),
    }
}

/// An integer reply.
#[track_caller]
pub fn ask_integer(connection: &mut Connection, command: &str) -> i64 {
    let reply = ask(connection, command);
    reply.parse().unwrap_or_else(|_| panic!("{command}: {reply}"))
}

pub fn show(value: &Value) -> String {
    let list = |items: &[Value]| format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "));
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::VerbatimString { text, .. } => format!("(text) {text}"),
        Value::Array(items) => list(items),
        Value::Set(items) => format!("(set) {}", list(items)),
        Value::Double(number) => format!("(double) {number}"),
        Value::Boolean(flag) => format!("(boolean) {flag}"),
        Value::Map(pairs) => {
            let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{}: {}", show(k), show(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::ServerError(error) => format!("-{} {}", error.code(), error.details().unwrap_or("")),
        other => format!("{other:?}"),
    }
}

pub fn show_error(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::Client => {
            panic!("the client gave up: {error}")
        }
        _ => format!("-{} {}", error.code().unwrap_or("?"), error.detail().unwrap_or("")),
    }
}
