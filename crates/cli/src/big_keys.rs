//! `--bigkeys` and `--memkeys`: the biggest key of each type, and what the keys of a type hold on average.
//!
//! The keyspace is walked with SCAN; the types of a step's keys are asked for in one go, then their sizes. Each new
//! record is printed at once, the summary at the end or after Ctrl-C. The texts are those of valkey-cli, plurals too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use resp::Value;

use crate::options::Mode;
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::scan_keys::Scan;
use crate::transport::print;
use resp::words::quote;

/// What starts every walk for records.
pub const INTRODUCTION: &str = "
# Scanning the entire keyspace to find {what} as well as
# average sizes per key type.  You can use -i 0.1 to sleep 0.1 sec
# per 100 SCAN commands (not usually needed).

";

/// Types with the command that tells a key's size, and what it counts.
const TYPES: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("set", "SCARD", "members"),
    ("hash", "HLEN", "fields"),
    ("zset", "ZCARD", "members"),
    ("stream", "XLEN", "entries"),
];

/// What has been seen of one type.
#[derive(Debug)]
struct Tally {
    name: String,
    size_command: Option<&'static str>,
    unit: &'static str,
    biggest: Option<(u64, String)>,
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
    let by_memory = session.options().mode == Mode::MemoryKeys;
    print(INTRODUCTION.replace("{what}", "biggest keys").as_bytes());
    let mut survey = BigKeys::new(by_memory);
    walk(session, |session, keys, percent| survey.look_at(session, keys, percent))?;
    print(survey.summary().as_bytes());
    Ok(())
}

/// Calls `look` with the keys of every step and with how much of the keyspace came before them, in percent. Rests as
/// the options say, and ends early at Ctrl-C.
pub fn walk(
    session: &mut RespSession,
    mut look: impl FnMut(&mut RespSession, &[Vec<u8>], f64) -> Result<(), ClientFailure>,
) -> Result<(), ClientFailure> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))
        .map_err(|error| ClientFailure::Lost(error.to_string()))?;
    // Of a cluster's replica one may only read, and only after this; elsewhere it changes nothing.
    session.ask(&["READONLY"])?;
    let total = match session.ask(&["DBSIZE"])? {
        Value::Int(count) => count.max(1) as f64,
        Value::Error(text) => return Err(refused("Couldn't determine DBSIZE", &text)),
        _ => 1.0,
    };
    let (mut scan, mut seen, mut steps) = (Scan::new(), 0, 0);
    while !stop.load(Ordering::Relaxed)
        && let Some(keys) = scan.next(session)?
    {
        look(session, &keys, (100.0 * seen as f64 / total).min(100.0))?;
        seen += keys.len();
        steps += 1;
        if steps % 100 == 0 {
            thread::sleep(session.options().interval);
        }
    }
    Ok(())
}

pub fn refused(what: &str, text: &[u8]) -> ClientFailure {
    ClientFailure::ErrorReply(format!("{what}: {}", String::from_utf8_lossy(text)))
}

pub fn quoted(key: &[u8]) -> String {
    let mut text = Vec::new();
    quote(&mut text, key);
    String::from_utf8_lossy(&text).into_owned()
}

impl BigKeys {
    fn new(by_memory: bool) -> BigKeys {
        let tally = |(name, command, unit): (&str, _, _)| Tally::new(name, Some(command), unit);
        BigKeys { tallies: TYPES.map(tally).into(), by_memory, keys: 0, key_bytes: 0 }
    }

    fn look_at(&mut self, session: &mut RespSession, keys: &[Vec<u8>], percent: f64) -> Result<(), ClientFailure> {
        let types: Vec<_> = keys.iter().map(|key| vec![b"TYPE".to_vec(), key.clone()]).collect();
        let mut found = Vec::new();
        for (key, reply) in keys.iter().zip(session.ask_all(&types)?) {
            match reply {
                // Gone since the SCAN.
                Value::Simple(name) if name == b"none" => {}
                Value::Simple(name) => found.push((key, self.tally_of(&String::from_utf8_lossy(&name)))),
                other => return Err(unexpected("TYPE", key, &other)),
            }
        }
        let samples = session.options().memory_samples;
        let sized =
            found.iter().filter_map(|&(key, tally)| Some((key, tally, self.size_command(key, tally, samples)?)));
        let (measured, commands): (Vec<_>, Vec<_>) = sized.map(|(key, tally, command)| ((key, tally), command)).unzip();
        let mut sizes = measured.into_iter().zip(session.ask_all(&commands)?).peekable();
        for (key, tally) in found {
            let size = match sizes.next_if(|((sized, _), _)| *sized == key) {
                Some((_, Value::Int(size))) => u64::try_from(size).unwrap_or(0),
                // Gone, or of another type since: as valkey-cli counts it.
                Some((_, Value::Null | Value::Error(_))) | None => 0,
                Some((_, other)) => return Err(unexpected("Size", key, &other)),
            };
            if let Some(line) = self.note(tally, key, size, percent) {
                print(line.as_bytes());
            }
        }
        Ok(())
    }

    fn tally_of(&mut self, name: &str) -> usize {
        self.tallies.iter().position(|tally| tally.name == name).unwrap_or_else(|| {
            self.tallies.push(Tally::new(name, None, "?"));
            self.tallies.len() - 1
        })
    }

    fn size_command(&self, key: &[u8], tally: usize, samples: Option<u64>) -> Option<Vec<Vec<u8>>> {
        if !self.by_memory {
            return Some(vec![self.tallies[tally].size_command?.into(), key.to_vec()]);
        }
        let mut command = vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.to_vec()];
        if let Some(samples) = samples {
            command.extend([b"SAMPLES".to_vec(), samples.to_string().into_bytes()]);
        }
        Some(command)
    }

    /// Counts a key; the line to print when it is a record.
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
        let key = quoted(key);
        let unit = tally.unit(by_memory);
        let line = format!("[{percent:05.2}%] Biggest {:<6} found so far '{key}' with {size} {unit}\n", tally.name);
        tally.biggest = Some((size, key));
        Some(line)
    }

    fn summary(&self) -> String {
        let average = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        let mut text = format!(
            "\n-------- Summary --------\n\nSampled {} keys in the keyspace!\n\
             Total key length in bytes is {} (avg len {:.2})\n\n",
            self.keys,
            self.key_bytes,
            average(self.key_bytes, self.keys)
        );
        for tally in &self.tallies {
            if let Some((size, key)) = &tally.biggest {
                let unit = tally.unit(self.by_memory);
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
}

impl Tally {
    fn new(name: &str, size_command: Option<&'static str>, unit: &'static str) -> Tally {
        Tally { name: name.to_owned(), size_command, unit, biggest: None, size: 0, keys: 0 }
    }

    fn unit(&self, by_memory: bool) -> &'static str {
        if by_memory { "bytes" } else { self.unit }
    }
}

fn unexpected(what: &str, key: &[u8], reply: &Value) -> ClientFailure {
    match reply {
        Value::Error(text) => refused(&format!("{what} of {}", quoted(key)), text),
        _ => ClientFailure::Lost(format!("{what} of {} has an unexpected reply", quoted(key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_the_summary_read_as_those_of_valkey_cli() {
        let mut survey = BigKeys::new(false);
        let list = survey.tally_of("list");
        let odd = survey.tally_of("vectorset");
        assert_eq!(
            survey.note(list, b"l\n", 4, 0.0).as_deref(),
            Some("[00.00%] Biggest list   found so far '\"l\\n\"' with 4 items\n")
        );
        assert_eq!(survey.note(list, b"m", 4, 12.5), None);
        assert_eq!(survey.note(odd, b"v", 0, 12.5), None);
        let summary = survey.summary();
        assert!(summary.starts_with(
            "\n-------- Summary --------\n\nSampled 3 keys in the keyspace!\n\
             Total key length in bytes is 4 (avg len 1.33)\n\nBiggest   list found '\"l\\n\"' has 4 items\n\n"
        ));
        assert!(summary.contains("2 lists with 8 items (66.67% of keys, avg size 4.00)\n"));
        assert!(summary.contains("0 zsets with 0 members (00.00% of keys, avg size 0.00)\n"));
        assert!(summary.ends_with("1 vectorsets with 0 ? (33.33% of keys, avg size 0.00)\n"));
    }
}
