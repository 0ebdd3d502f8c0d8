//! `--hotkeys`: the keys with the highest LFU counters, which OBJECT FREQ returns where the server counts uses.

use resp::Value;
use resp::json::{integer, object};

use super::keyspace_walk::{introduction, refused, walk};
use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::print;
use resp::words::quoted;

/// Default number of keys that are listed.
const LISTED: usize = 16;

/// The keys with the highest counters, the highest first; of equal ones the first found.
#[derive(Debug)]
struct Hottest {
    /// Number of keys that are kept.
    max: usize,
    keys: Vec<(i64, Vec<u8>)>,
}

pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let is_json = session.options().output.is_json();
    let mut hottest = Hottest { max: session.options().hot_keys.unwrap_or(LISTED), keys: Vec::new() };
    let end = walk(session, &introduction("hot keys"), |session, keys, progress| {
        let commands: Vec<_> = keys.iter().map(|key| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()]).collect();
        for (key, reply) in keys.iter().zip(session.ask_all(&commands)?) {
            let counter = match reply {
                Value::Int(counter) => counter,
                Value::Null => 0,
                Value::Error(text) => return Err(refused("Error", &text)),
                _ => return Err(ClientFailure::Lost("OBJECT FREQ has an unexpected reply".to_owned())),
            };
            if hottest.note(counter, key) && !is_json {
                let (percent, key) = (progress.percent, quoted(key));
                progress.print(&format!("[{percent:05.2}%] Hot key '{key}' found so far with counter {counter}\n"));
            }
        }
        Ok(())
    })?;
    if is_json {
        let report = hottest.report(end.seen, end.interrupted_at.is_some());
        print(&reply_format::reply(&report, session.options()));
    } else {
        print(hottest.summary(end.seen).as_bytes());
    }
    Ok(())
}

impl Hottest {
    /// Counts a key; returns whether it is among the hottest so far.
    fn note(&mut self, counter: i64, key: &[u8]) -> bool {
        let place = self.keys.partition_point(|(other, _)| *other >= counter);
        if counter <= 0 || place >= self.max {
            return false;
        }
        self.keys.insert(place, (counter, key.to_vec()));
        self.keys.truncate(self.max);
        true
    }

    fn summary(&self, seen: u64) -> String {
        let mut text = format!("\n-------- Summary --------\n\nSampled {seen} keys in the keyspace!\n");
        for (counter, key) in &self.keys {
            text.push_str(&format!("hot key found with counter: {counter}\tkeyname: {}\n", quoted(key)));
        }
        text
    }

    fn report(&self, seen: u64, was_interrupted: bool) -> Value {
        let keys = self
            .keys
            .iter()
            .map(|(counter, key)| object([("key", Value::Bulk(key.clone())), ("counter", Value::Int(*counter))]));
        object([
            ("keys_sampled", integer(seen)),
            ("interrupted", Value::Bool(was_interrupted)),
            ("hot_keys", Value::Array(keys.collect())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_keys_are_kept_in_order() {
        let mut hottest = Hottest { max: 16, keys: Vec::new() };
        for counter in 1..=20 {
            assert!(hottest.note(counter, format!("k{counter}").as_bytes()));
        }
        assert!(!hottest.note(5, b"late") && !hottest.note(0, b"cold"));
        assert!(hottest.note(20, b"second"));
        let keys: Vec<_> = hottest.keys.iter().map(|(_, key)| &key[..]).collect();
        assert_eq!(keys[..3], [&b"k20"[..], b"second", b"k19"]);
        assert_eq!(keys.len(), 16);
        assert!(!Hottest { max: 0, keys: Vec::new() }.note(20, b"any"));
    }
}
