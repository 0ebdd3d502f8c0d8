//! A walk over the keyspace with SCAN, and `--scan`, which prints the keys that it finds.

use std::thread;

use resp::{Value, json};

use crate::protocol_client::ClientFailure;
use crate::reply_format::OutputFormat;
use crate::resp_session::RespSession;
use crate::transport::print;
use resp::words::quote;

/// Position of a walk.
#[derive(Debug)]
pub struct Scan {
    /// The cursor to continue with; `None` after the last step.
    cursor: Option<Vec<u8>>,
}

impl Scan {
    pub fn from(cursor: u64) -> Scan {
        Scan { cursor: Some(cursor.to_string().into_bytes()) }
    }

    /// Returns the cursor to continue with; None at the end.
    pub fn into_cursor(self) -> Option<Vec<u8>> {
        self.cursor
    }

    /// Returns the keys of the next step, which may be none; `None` at the end.
    pub fn next(&mut self, session: &mut RespSession) -> Result<Option<Vec<Vec<u8>>>, ClientFailure> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        let selection = &session.options().keys;
        let mut command = vec![b"SCAN".to_vec(), cursor];
        for (word, value) in [(&b"MATCH"[..], &selection.pattern), (b"TYPE", &selection.kind)] {
            if let Some(value) = value {
                command.extend([word.to_vec(), value.clone()]);
            }
        }
        if let Some(count) = selection.count {
            command.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        let (cursor, keys) = match session.ask(&command)? {
            Value::Error(text) => {
                return Err(ClientFailure::ErrorReply(format!("SCAN error: {}", String::from_utf8_lossy(&text))));
            }
            reply => step(reply).ok_or_else(|| ClientFailure::Lost("SCAN has an unexpected reply".to_owned()))?,
        };
        self.cursor = (cursor != b"0").then_some(cursor);
        Ok(Some(keys))
    }
}

/// Returns the cursor and the keys of a reply.
fn step(reply: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(items) = reply else {
        return None;
    };
    let Ok([Value::Bulk(cursor), Value::Array(keys)]) = <[Value; 2]>::try_from(items) else {
        return None;
    };
    let keys = keys.into_iter().map(|key| if let Value::Bulk(key) = key { Some(key) } else { None });
    Some((cursor, keys.collect::<Option<_>>()?))
}

/// Runs `--scan`: a line a key; as JSON, a string a line.
pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let mut scan = Scan::from(0);
    while let Some(keys) = scan.next(session)? {
        let mut out = Vec::new();
        for key in keys {
            match session.options().output {
                OutputFormat::Formatted => quote(&mut out, &key),
                OutputFormat::Json => json::string(&mut out, &key),
                OutputFormat::QuotedJson => json::quoted_string(&mut out, &key),
                OutputFormat::Raw | OutputFormat::Csv => out.extend(key),
            }
            out.push(b'\n');
        }
        print(&out);
        thread::sleep(session.options().interval);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_cursor_and_keys() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let reply = Value::Array(vec![bulk("17"), Value::Array(vec![bulk("a"), bulk("b")])]);
        assert_eq!(step(reply), Some((b"17".to_vec(), vec![b"a".to_vec(), b"b".to_vec()])));
        assert_eq!(step(Value::Array(vec![bulk("17"), Value::Null])), None);
        assert_eq!(step(Value::Array(vec![bulk("17")])), None);
        assert_eq!(step(Value::Array(vec![bulk("0"), Value::Array(vec![Value::Int(1)])])), None);
        assert_eq!(step(Value::Null), None);
    }
}
