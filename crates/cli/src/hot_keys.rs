//! `--hotkeys`: the keys with the highest LFU counters, which OBJECT FREQ tells where the server counts uses.

use resp::Value;

use crate::big_keys::{INTRODUCTION, quoted, refused, walk};
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::transport::print;

/// How many keys are kept.
const KEPT: usize = 16;

/// The keys with the highest counters, the highest first; of equal ones the first found.
#[derive(Debug, Default)]
struct Hottest {
    keys: Vec<(i64, String)>,
}

pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    print(INTRODUCTION.replace("{what}", "hot keys").as_bytes());
    let (mut hottest, mut seen) = (Hottest::default(), 0);
    walk(session, |session, keys, percent| {
        let commands: Vec<_> = keys.iter().map(|key| vec![b"OBJECT".to_vec(), b"FREQ".to_vec(), key.clone()]).collect();
        for (key, reply) in keys.iter().zip(session.ask_all(&commands)?) {
            let counter = match reply {
                Value::Int(counter) => counter,
                Value::Null => 0,
                Value::Error(text) => return Err(refused("Error", &text)),
                _ => return Err(ClientFailure::Lost("OBJECT FREQ has an unexpected reply".to_owned())),
            };
            seen += 1;
            let key = quoted(key);
            if hottest.note(counter, &key) {
                print(format!("[{percent:05.2}%] Hot key '{key}' found so far with counter {counter}\n").as_bytes());
            }
        }
        Ok(())
    })?;
    let mut text = format!("\n-------- Summary --------\n\nSampled {seen} keys in the keyspace!\n");
    for (counter, key) in &hottest.keys {
        text.push_str(&format!("hot key found with counter: {counter}\tkeyname: {key}\n"));
    }
    print(text.as_bytes());
    Ok(())
}

impl Hottest {
    /// Whether the key is among the hottest so far.
    fn note(&mut self, counter: i64, key: &str) -> bool {
        let place = self.keys.partition_point(|(other, _)| *other >= counter);
        if counter <= 0 || place >= KEPT {
            return false;
        }
        self.keys.insert(place, (counter, key.to_owned()));
        self.keys.truncate(KEPT);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_keys_are_kept_in_order() {
        let mut hottest = Hottest::default();
        for counter in 1..=20 {
            assert!(hottest.note(counter, &format!("k{counter}")));
        }
        assert!(!hottest.note(5, "late") && !hottest.note(0, "cold"));
        assert!(hottest.note(20, "second"));
        let keys: Vec<_> = hottest.keys.iter().map(|(_, key)| key.as_str()).collect();
        assert_eq!(keys[..3], ["k20", "second", "k19"]);
        assert_eq!(keys.len(), KEPT);
    }
}
