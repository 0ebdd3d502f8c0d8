//! Sizes of keys: a step's types are asked for at once, then their sizes.
//!
//! A size is the count by the type's own command, or the result of MEMORY USAGE.

use resp::Value;

use super::keyspace_walk::refused;
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use resp::words::quoted;

/// Types, each with the command that returns a key's length, and the unit of that length.
pub const TYPES: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("set", "SCARD", "members"),
    ("hash", "HLEN", "fields"),
    ("zset", "ZCARD", "members"),
    ("stream", "XLEN", "entries"),
];

/// Returns the keys that still exist, with their types' names.
pub fn typed<'k>(session: &mut RespSession, keys: &'k [Vec<u8>]) -> Result<Vec<(&'k [u8], String)>, ClientFailure> {
    let commands: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
    let mut found = Vec::new();
    for (key, reply) in keys.iter().zip(session.ask_all(&commands)?) {
        match reply {
            // The key has vanished since the SCAN.
            Value::Simple(name) if name == b"none" => {}
            Value::Simple(name) => found.push((&key[..], String::from_utf8_lossy(&name).into_owned())),
            other => return Err(unexpected("TYPE", key, &other)),
        }
    }
    Ok(found)
}

/// Returns the length of each key, as its type counts it; None for types without a length.
pub fn lengths(session: &mut RespSession, keys: &[(&[u8], String)]) -> Result<Vec<Option<u64>>, ClientFailure> {
    let command_of = |(key, name): &(&[u8], String)| {
        let (_, command, _) = TYPES.iter().find(|(known, ..)| known == name)?;
        Some(vec![command.as_bytes().to_vec(), key.to_vec()])
    };
    sizes(session, keys, command_of)
}

/// Returns the memory of each key, by a sample of so many of its elements.
pub fn memory(
    session: &mut RespSession,
    keys: &[(&[u8], String)],
    samples: Option<u64>,
) -> Result<Vec<Option<u64>>, ClientFailure> {
    sizes(session, keys, |(key, _)| {
        let mut command = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.to_vec()];
        if let Some(samples) = samples {
            command.extend([b"SAMPLES".to_vec(), samples.to_string().into_bytes()]);
        }
        Some(command)
    })
}

fn sizes(
    session: &mut RespSession,
    keys: &[(&[u8], String)],
    command_of: impl Fn(&(&[u8], String)) -> Option<Vec<Vec<u8>>>,
) -> Result<Vec<Option<u64>>, ClientFailure> {
    let commands: Vec<_> = keys.iter().map(command_of).collect();
    let asked: Vec<_> = commands.iter().flatten().cloned().collect();
    let mut replies = session.ask_all(&asked)?.into_iter();
    let mut sizes = Vec::new();
    for ((key, _), command) in keys.iter().zip(&commands) {
        sizes.push(match command.as_ref().and_then(|_| replies.next()) {
            None => None,
            Some(Value::Int(size)) => Some(u64::try_from(size).unwrap_or(0)),
            // A key that has vanished or changed its type counts as 0, as in valkey-cli.
            Some(Value::Null | Value::Error(_)) => Some(0),
            Some(other) => return Err(unexpected("Size", key, &other)),
        });
    }
    Ok(sizes)
}

fn unexpected(what: &str, key: &[u8], reply: &Value) -> ClientFailure {
    match reply {
        Value::Error(text) => refused(&format!("{what} of {}", quoted(key)), text),
        _ => ClientFailure::Lost(format!("{what} of {} has an unexpected reply", quoted(key))),
    }
}
