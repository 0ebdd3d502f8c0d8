//! `--bigkeys` and `--memkeys`: the biggest key of each type, and what the keys of a type hold on average.
//!
//! Each new record is printed at once, the summary at the end or after Ctrl-C. The texts are those of valkey-cli,
//! plurals too; as JSON there is one document at the end.

use resp::Value;
use resp::json::{decimal, integer, object, text};

use super::key_sizing::{self, TYPES};
use super::keyspace_walk::{WalkProgress, introduction, walk};
use crate::options::Mode;
use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::print;
use resp::words::quoted;

/// Totals of one type.
#[derive(Debug)]
struct Tally {
    name: String,
    unit: &'static str,
    biggest: Option<(u64, Vec<u8>)>,
    size: u64,
    keys: u64,
}

#[derive(Debug)]
struct BigKeys {
    tallies: Vec<Tally>,
    by_memory: bool,
    keys: u64,
    key_bytes: u64,
}

pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let mut big_keys = BigKeys::new(session.options().mode == Mode::MemoryKeys);
    let is_json = session.options().output.is_json();
    let end = walk(session, &introduction("biggest keys"), |session, keys, progress| {
        big_keys.look_at(session, keys, progress, is_json)
    })?;
    if is_json {
        let report = big_keys.report(end.interrupted_at.is_some());
        print(&reply_format::reply(&report, session.options()));
    } else {
        print(big_keys.summary().as_bytes());
    }
    Ok(())
}

impl BigKeys {
    fn new(by_memory: bool) -> BigKeys {
        let tallies = TYPES.map(|(name, _, unit)| Tally::new(name, unit)).into();
        BigKeys { tallies, by_memory, keys: 0, key_bytes: 0 }
    }

    fn look_at(
        &mut self,
        session: &mut RespSession,
        keys: &[Vec<u8>],
        progress: &mut WalkProgress,
        is_silent: bool,
    ) -> Result<(), ClientFailure> {
        let typed = key_sizing::typed(session, keys)?;
        let sizes = if self.by_memory {
            let samples = session.options().memory_samples;
            key_sizing::memory(session, &typed, samples)?
        } else {
            key_sizing::lengths(session, &typed)?
        };
        for ((key, name), size) in typed.iter().zip(sizes) {
            let tally = self.tally_of(name);
            if let Some(line) = self.note(tally, key, size.unwrap_or(0), progress.percent)
                && !is_silent
            {
                progress.print(&line);
            }
        }
        Ok(())
    }

    fn tally_of(&mut self, name: &str) -> usize {
        self.tallies.iter().position(|tally| tally.name == name).unwrap_or_else(|| {
            self.tallies.push(Tally::new(name, "?"));
            self.tallies.len() - 1
        })
    }

    /// Counts a key; returns the line to print when it is a record.
    fn note(&mut self, tally: usize, key: &[u8], size: u64, percent: f64) -> Option<String> {
        self.keys += 1;
        self.key_bytes += key.len() as u64;
        let by_memory = self.by_memory;
        let tally = &mut self.tallies[tally];
        tally.keys += 1;
        tally.size += size;
        if size <= tally.biggest.as_ref().map_or(0, |(biggest, _)| *biggest) {
            return None;
        }
        tally.biggest = Some((size, key.to_vec()));
        let (name, unit, key) = (&tally.name, tally.unit(by_memory), quoted(key));
        Some(format!("[{percent:05.2}%] Biggest {name:<6} found so far '{key}' with {size} {unit}\n"))
    }

    fn summary(&self) -> String {
        let mut text = format!(
            "\n-------- Summary --------\n\nSampled {} keys in the keyspace!\n\
             Total key length in bytes is {} (avg len {:.2})\n\n",
            self.keys,
            self.key_bytes,
            average(self.key_bytes, self.keys)
        );
        for tally in &self.tallies {
            if let Some((size, key)) = &tally.biggest {
                let (unit, key) = (tally.unit(self.by_memory), quoted(key));
                text.push_str(&format!("Biggest {:>6} found '{key}' has {size} {unit}\n", tally.name));
            }
        }
        text.push('\n');
        for tally in &self.tallies {
            text.push_str(&format!(
                "{} {}s with {} {} ({:05.2}% of keys, avg size {:.2})\n",
                tally.keys,
                tally.name,
                tally.size,
                tally.unit(self.by_memory),
                100.0 * average(tally.keys, self.keys),
                average(tally.size, tally.keys)
            ));
        }
        text
    }

    fn report(&self, was_interrupted: bool) -> Value {
        let types = self.tallies.iter().filter(|tally| tally.keys > 0).map(|tally| {
            let biggest = tally.biggest.as_ref().map_or(Value::Null, |(size, key)| {
                object([("key", Value::Bulk(key.clone())), ("size", integer(*size))])
            });
            object([
                ("type", text(&tally.name)),
                ("keys", integer(tally.keys)),
                ("unit", text(tally.unit(self.by_memory))),
                ("size", integer(tally.size)),
                ("average", decimal(average(tally.size, tally.keys), 2)),
                ("biggest", biggest),
            ])
        });
        object([
            ("keys_sampled", integer(self.keys)),
            ("key_bytes", integer(self.key_bytes)),
            ("interrupted", Value::Bool(was_interrupted)),
            ("types", Value::Array(types.collect())),
        ])
    }
}

fn average(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

impl Tally {
    fn new(name: &str, unit: &'static str) -> Tally {
        Tally { name: name.to_owned(), unit, biggest: None, size: 0, keys: 0 }
    }

    fn unit(&self, by_memory: bool) -> &'static str {
        if by_memory { "bytes" } else { self.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_the_summary_read_as_those_of_valkey_cli() {
        let mut big_keys = BigKeys::new(false);
        let list = big_keys.tally_of("list");
        let odd = big_keys.tally_of("vectorset");
        assert_eq!(
            big_keys.note(list, b"l\n", 4, 0.0).as_deref(),
            Some("[00.00%] Biggest list   found so far '\"l\\n\"' with 4 items\n")
        );
        assert_eq!(big_keys.note(list, b"m", 4, 12.5), None);
        assert_eq!(big_keys.note(odd, b"v", 0, 12.5), None);
        let summary = big_keys.summary();
        assert!(summary.starts_with(
            "\n-------- Summary --------\n\nSampled 3 keys in the keyspace!\n\
             Total key length in bytes is 4 (avg len 1.33)\n\nBiggest   list found '\"l\\n\"' has 4 items\n\n"
        ));
        assert!(summary.contains("2 lists with 8 items (66.67% of keys, avg size 4.00)\n"));
        assert!(summary.contains("0 zsets with 0 members (00.00% of keys, avg size 0.00)\n"));
        assert!(summary.ends_with("1 vectorsets with 0 ? (33.33% of keys, avg size 0.00)\n"));
    }

    #[test]
    fn a_report_has_the_types_that_were_found() {
        let mut big_keys = BigKeys::new(true);
        let list = big_keys.tally_of("list");
        big_keys.note(list, b"a\xff", 5, 0.0);
        let mut out = Vec::new();
        resp::json::write(&mut out, &big_keys.report(true), resp::json::quoted_string);
        let expected = "{\"keys_sampled\":1,\"key_bytes\":2,\"interrupted\":true,\"types\":[{\"type\":\"list\",\"keys\":1,\
            \"unit\":\"bytes\",\"size\":5,\"average\":5.00,\"biggest\":{\"key\":\"a\\\\xff\",\"size\":5}}]}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
