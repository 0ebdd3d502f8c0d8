//! The server's state at one moment: INFO, LATENCY HISTOGRAM, CLIENT LIST and HOTKEYS, read into fields.
//!
//! Servers differ in their commands. A field that a server refuses, or does not report, is absent here.

use std::collections::BTreeMap;
use std::time::Duration;

use resp::Value;

use resp::reply_fields::{field, fields, items, text};

/// Commands that are sent, in this order, each time.
pub const QUESTIONS: [&[&str]; 4] =
    [&["INFO", "all"], &["LATENCY", "HISTOGRAM"], &["CLIENT", "LIST"], &["HOTKEYS", "GET"]];

/// The replies to one round of commands.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct ServerSample {
    /// Time at which they arrived, since some start.
    pub at: Duration,
    pub info: BTreeMap<String, String>,
    pub commands: BTreeMap<String, CommandCounts>,
    /// Number of calls of each command that took at most so many microseconds.
    pub histograms: Option<BTreeMap<String, Vec<(u64, u64)>>>,
    pub clients: Option<Vec<BTreeMap<String, String>>>,
    pub hot_keys: HotKeys,
}

/// A command's counters since the server began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CommandCounts {
    pub calls: u64,
    pub usec: u64,
    /// Calls that failed or were refused.
    pub failed: u64,
}

/// Hot keys, as far as the server reports them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum HotKeys {
    /// The server has no HOTKEYS, or this user may not run it.
    #[default]
    Absent,
    /// No client has started tracking.
    Off,
    Tracked {
        is_active: bool,
        keys: Vec<HotKey>,
    },
}

/// A key and its share of each tracked total.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HotKey {
    pub key: Vec<u8>,
    pub usec: Option<u64>,
    pub bytes: Option<u64>,
}

impl ServerSample {
    /// Reads the replies to [`QUESTIONS`]; None without an INFO that can be read.
    pub fn read(at: Duration, replies: &[Value]) -> Option<ServerSample> {
        let [info, histograms, clients, hot_keys] = replies else { return None };
        let info = read_info(&text_of(info)?);
        let commands = info.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("cmdstat_")?.replace('|', " ");
            Some((name, read_counts(value)))
        });
        Some(ServerSample {
            at,
            commands: commands.collect(),
            histograms: read_histograms(histograms),
            clients: text_of(clients).map(|text| text.lines().map(read_client).collect()),
            hot_keys: read_hot_keys(hot_keys),
            info,
        })
    }

    /// Returns a number of INFO.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.info.get(name)?.parse().ok()
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(text) | Value::Verbatim(_, text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

fn read_info(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// `calls=1,usec=2,...`
fn read_counts(text: &str) -> CommandCounts {
    let number = |name: &str| {
        let value = text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0u64)
    };
    let failed = number("failed_calls").saturating_add(number("rejected_calls"));
    CommandCounts { calls: number("calls"), usec: number("usec"), failed }
}

/// `id=3 addr=127.0.0.1:5 ...`
fn read_client(line: &str) -> BTreeMap<String, String> {
    let pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn read_histograms(reply: &Value) -> Option<BTreeMap<String, Vec<(u64, u64)>>> {
    if matches!(reply, Value::Error(_)) {
        return None;
    }
    let buckets = |docs: &Value| -> Vec<(u64, u64)> {
        let counts = field(docs, "histogram_usec").map(fields).unwrap_or_default();
        counts.into_iter().filter_map(|(upto, count)| Some((natural(upto)?, natural(count)?))).collect()
    };
    let commands =
        fields(reply).into_iter().filter_map(|(name, docs)| Some((text(name)?.replace('|', " "), buckets(docs))));
    Some(commands.collect())
}

fn natural(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => text(value)?.parse().ok(),
    }
}

/// Reads the reply of Redis 8.6: an array around one map. Null: nothing was tracked.
fn read_hot_keys(reply: &Value) -> HotKeys {
    let report = match reply {
        Value::Null => return HotKeys::Off,
        Value::Array(reports) if reports.len() == 1 => &reports[0],
        Value::Map(_) => reply,
        _ => return HotKeys::Absent,
    };
    let Some(active) = field(report, "tracking-active").and_then(natural) else { return HotKeys::Absent };
    let mut keys: Vec<HotKey> = Vec::new();
    for (name, is_time) in [("by-cpu-time-us", true), ("by-net-bytes", false)] {
        for (key, value) in field(report, name).map(pairs).unwrap_or_default() {
            let at = keys.iter().position(|known| known.key == key).unwrap_or_else(|| {
                keys.push(HotKey { key, ..HotKey::default() });
                keys.len() - 1
            });
            if is_time {
                keys[at].usec = Some(value);
            } else {
                keys[at].bytes = Some(value);
            }
        }
    }
    HotKeys::Tracked { is_active: active == 1, keys }
}

/// Returns keys and their numbers: in turns, or each pair an array of its own.
fn pairs(value: &Value) -> Vec<(Vec<u8>, u64)> {
    let pair = |key: &Value, number: &Value| match key {
        Value::Bulk(key) | Value::Simple(key) => Some((key.clone(), natural(number)?)),
        _ => None,
    };
    let nested = items(value).iter().filter_map(|item| match item {
        Value::Array(two) if two.len() == 2 => pair(&two[0], &two[1]),
        _ => None,
    });
    let nested: Vec<_> = nested.collect();
    if !nested.is_empty() {
        return nested;
    }
    fields(value).into_iter().filter_map(|(key, number)| pair(key, number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    fn array(values: Vec<Value>) -> Value {
        Value::Array(values)
    }

    #[test]
    fn answers_are_read() {
        let info = "# Server\r\nvalkey_version:9.1.2\r\nuptime_in_seconds:5\r\n\
            cmdstat_config|get:calls=2,usec=10,usec_per_call=5.00,rejected_calls=1,failed_calls=3\r\nnonsense\r\n";
        let histogram = array(vec![
            bulk("config|get"),
            array(vec![
                bulk("calls"),
                Value::Int(2),
                bulk("histogram_usec"),
                array(vec![Value::Int(4), Value::Int(2)]),
            ]),
        ]);
        let clients = bulk("id=3 addr=h:1 name= cmd=get\nid=4 addr=h:2\n");
        let sample = ServerSample::read(Duration::ZERO, &[bulk(info), histogram, clients, Value::Null]).unwrap();
        assert_eq!((sample.number("uptime_in_seconds"), sample.number("valkey_version")), (Some(5.0), None));
        assert_eq!(sample.commands["config get"], CommandCounts { calls: 2, usec: 10, failed: 4 });
        assert_eq!(sample.histograms.unwrap()["config get"], [(4, 2)]);
        assert_eq!(sample.clients.unwrap()[0]["name"], "");
        assert_eq!(sample.hot_keys, HotKeys::Off);
    }

    #[test]
    fn figures_that_a_server_does_not_know_are_absent() {
        let no = || Value::Error(b"ERR unknown".to_vec());
        let sample = ServerSample::read(Duration::ZERO, &[bulk(""), no(), no(), no()]).unwrap();
        assert_eq!((sample.histograms, sample.clients, sample.hot_keys), (None, None, HotKeys::Absent));
        assert!(ServerSample::read(Duration::ZERO, &[no(), no(), no(), no()]).is_none());
        assert!(ServerSample::read(Duration::ZERO, &[]).is_none());
    }

    #[test]
    fn hot_keys_are_read_by_time_and_by_bytes() {
        let by = |key: &str, number| array(vec![bulk(key), Value::Int(number)]);
        let fields = vec![
            (bulk("tracking-active"), Value::Int(1)),
            (bulk("by-cpu-time-us"), by("a", 9)),
            (bulk("by-net-bytes"), array(vec![by("b", 7), by("a", 5)])),
        ];
        let HotKeys::Tracked { is_active, keys } = read_hot_keys(&array(vec![Value::Map(fields)])) else { panic!() };
        let key = |key: &str, usec, bytes| HotKey { key: key.into(), usec, bytes };
        assert!(is_active);
        assert_eq!(keys, [key("a", Some(9), Some(5)), key("b", None, Some(7))]);
        assert_eq!(read_hot_keys(&array(vec![by("a", 1), by("b", 2)])), HotKeys::Absent);
    }
}
