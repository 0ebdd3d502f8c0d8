//! `--lru-test`: a cache whose keys are read by the rule of 80 to 20, and how many of the reads hit.
//!
//! Each round writes some keys and reads others. The text of each second is valkey-cli's.

use std::time::{Duration, Instant};

use fastrand::Rng;
use resp::Value;

use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::transport::print;

/// Commands of a kind that are sent together.
const ROUND: usize = 250;
/// Bytes of a value.
const VALUE_SIZE: usize = 5;

/// Replies of one second.
#[derive(Debug, Default)]
struct Second {
    hits: u64,
    misses: u64,
}

/// Runs until the program is ended.
pub fn run(session: &mut RespSession, keys: u64) -> Result<(), ClientFailure> {
    let mut rng = Rng::new();
    loop {
        let (start, mut second) = (Instant::now(), Second::default());
        while start.elapsed() < Duration::from_secs(1) {
            let writes = round(|| vec![b"SET".to_vec(), key(&mut rng, keys), value()]);
            for reply in session.ask_all(&writes)? {
                complain(&reply);
            }
            let reads = round(|| vec![b"GET".to_vec(), key(&mut rng, keys)]);
            for reply in session.ask_all(&reads)? {
                second.count(&reply);
            }
        }
        print(second.line().as_bytes());
    }
}

fn round(command: impl FnMut() -> Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    std::iter::repeat_with(command).take(ROUND).collect()
}

fn value() -> Vec<u8> {
    std::iter::repeat_with(|| fastrand::u8(b'A'..=b'z')).take(VALUE_SIZE).collect()
}

/// Draws one of so many keys: of the first fifth at four of five times, and within each part by the same rule.
fn key(rng: &mut Rng, keys: u64) -> Vec<u8> {
    // Numbers below 1 lie below 0.2 after this power with the share 0.8.
    let power = 0.2f64.ln() / 0.8f64.ln();
    let number = (rng.f64().powf(power) * keys as f64) as u64;
    format!("lru:{}", number.min(keys.saturating_sub(1)) + 1).into_bytes()
}

fn complain(reply: &Value) {
    if let Value::Error(text) = reply {
        eprintln!("{}", String::from_utf8_lossy(text));
    }
}

impl Second {
    fn count(&mut self, reply: &Value) {
        complain(reply);
        match reply {
            Value::Null => self.misses += 1,
            Value::Error(_) => {}
            _ => self.hits += 1,
        }
    }

    fn line(&self) -> String {
        let all = self.hits + self.misses;
        let percent = |count: u64| count as f64 * 100.0 / all.max(1) as f64;
        format!(
            "{all} Gets/sec | Hits: {} ({:.2}%) | Misses: {} ({:.2}%)\n",
            self.hits,
            percent(self.hits),
            self.misses,
            percent(self.misses)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_keys_is_asked_for_four_times_of_five() {
        let mut rng = Rng::with_seed(7);
        let number = |key: Vec<u8>| String::from_utf8(key).unwrap()[4..].parse::<u64>().unwrap();
        let numbers: Vec<_> = (0..10_000).map(|_| number(key(&mut rng, 1000))).collect();
        assert!(numbers.iter().all(|number| (1..=1000).contains(number)));
        let few = numbers.iter().filter(|number| **number <= 200).count();
        assert!((7_800..8_200).contains(&few), "{few}");
        assert_eq!(key(&mut rng, 0), b"lru:1");
    }

    #[test]
    fn a_second_is_told_in_a_line() {
        let mut second = Second::default();
        for reply in [Value::Bulk(b"v".to_vec()), Value::Null, Value::Bulk(b"w".to_vec()), Value::Null] {
            second.count(&reply);
        }
        assert_eq!(second.line(), "4 Gets/sec | Hits: 2 (50.00%) | Misses: 2 (50.00%)\n");
    }
}
