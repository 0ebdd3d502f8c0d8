//! How large keys are: a step's types are asked for in one go, then their sizes.
//!
//! A size is what a type's own command counts, or what MEMORY USAGE says.

use resp::Value;

use super::keyspace_walk::{quoted, refused};
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;

/// Types with the command that tells a key's length, and what it counts.
pub const TYPES: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("set", "SCARD", "members"),
    ("hash", "HLEN", "fields"),
    ("zset", "ZCARD", "members"),
    ("stream", "XLEN", "entries"),
];

/// The keys that are still there, with their types' names.
pub fn typed<'k>(session: &mut RespSession, keys: &'k [Vec<u8>]) -> Result<Vec<(&'k [u8], String)>, ClientFailure> {
    let commands: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
    let mut found = Vec::new();
    for (key, reply) in keys.iter().zip(session.ask_all(&commands)?) {
        match reply {
            // Gone since the SCAN.
            Value::Simple(name) if name == b"none" => {}
            Value::Simple(name) => found.push((&key[..], String::from_utf8_lossy(&name).into_owned())),
            other => return Err(unexpected("TYPE", key, &other)),
        }
    }
    Ok(found)
}

/// The length of each key, as its type counts it; None for types that nobody counts.
pub fn lengths(session: &mut RespSession, keys: &[(&[u8], String)]) -> Result<Vec<Option<u64>>, ClientFailure> {
    let command_of = |(key, name): &(&[u8], String)| {
        let (_, command, _) = TYPES.iter().find(|(known, ..)| known == name)?;
        Some(vec![command.as_bytes().to_vec(), key.to_vec()])
    };
    sizes(session, keys, command_of)
}

/// What each key takes up in memory, looking at so many of its elements.
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
            // Gone, or of another type since: as valkey-cli counts it.
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
