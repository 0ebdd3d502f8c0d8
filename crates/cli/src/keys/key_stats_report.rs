//! The result of `--keystats`, as redis-cli lays it out, or for JSON.

use resp::Value;
use resp::json::{self, decimal, integer, object};

use super::key_stats::{KeyStats, NAME_LENGTHS, TypeStats};
use super::keyspace_walk::WalkEnd;
use crate::human_bytes::human_u64;
use resp::words::quoted;

pub const INTRODUCTION: &str = "
# Scanning the entire keyspace to find the biggest keys and distribution information.
# Use -i 0.1 to sleep 0.1 sec per 100 SCAN commands (not usually needed).
# Use --cursor <n> to start the scan at the cursor <n> (usually after a Ctrl-C).
# Use --top <n> to display <n> top key sizes (default is 10).
# Ctrl-C to stop the scan.

";

pub fn text(stats: &KeyStats, end: &WalkEnd) -> String {
    let mut text = summary(stats, end);
    text.push_str(&top(stats));
    text.push_str(&records(stats));
    text.push_str(&sizes(stats));
    text.push_str(&names(stats));
    text.push_str(&types(stats));
    if let Some(cursor) = &end.interrupted_at {
        let cursor = String::from_utf8_lossy(cursor);
        text.push_str(&format!(
            "\nScan interrupted:\nUse 'cinnabar-cli --keystats --cursor {cursor}' to restart from the last cursor.\n"
        ));
    }
    text
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

fn summary(stats: &KeyStats, end: &WalkEnd) -> String {
    let walked = percent(end.seen, end.total).min(100.0);
    format!("{walked:6.2}% keys scanned\nKeys sampled: {}\nKeys size:    {}\n\n", stats.keys, human_u64(stats.size))
}

fn top(stats: &KeyStats) -> String {
    let mut text = format!("--- Top {} key sizes ---\n", stats.top_max);
    for (place, top) in stats.top.iter().enumerate() {
        let (size, name) = (human_u64(top.size), &stats.types[top.kind].name);
        text.push_str(&format!("{:3} {size:>8} {name:<10} {}\n", place + 1, quoted(&top.key)));
    }
    text + "\n"
}

fn found(stats: &KeyStats) -> impl Iterator<Item = &TypeStats> {
    stats.types.iter().filter(|stats| stats.keys > 0)
}

fn records(stats: &KeyStats) -> String {
    let mut text = String::from("--- Top size per type ---\n");
    for stats in found(stats) {
        if let Some((size, key)) = &stats.largest {
            text.push_str(&format!("{:<10} {} is {}\n", stats.name, plain(key), human_u64(*size)));
        }
    }
    text.push_str("\n--- Top length and cardinality per type ---\n");
    for stats in found(stats) {
        if let (Some((length, key)), Some(unit)) = (&stats.longest, stats.unit) {
            text.push_str(&format!("{:<10} {} has {}\n", stats.name, plain(key), count(*length, unit)));
        }
    }
    text + "\n"
}

/// Returns a key without quotes around it.
fn plain(key: &[u8]) -> String {
    let quoted = quoted(key);
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// Formats a length: bytes with their units, all else as a count.
fn count(length: u64, unit: &str) -> String {
    if unit == "bytes" { human_u64(length) } else { format!("{length} {unit}") }
}

fn sizes(stats: &KeyStats) -> String {
    let mut text = String::from("Key size Percentile Total keys\n-------- ---------- -----------\n");
    for (percentile, value, count) in size_steps(stats) {
        text.push_str(&format!("{:>8} {percentile:9.4}% {count:11}\n", human_u64(value)));
    }
    let [mean, deviation] = [stats.sizes.mean(), stats.sizes.stdev()].map(|value| human_u64(value as u64));
    text + &format!("Note: 0.01% size precision, Mean: {mean}, StdDeviation: {deviation}\n\n")
}

/// Returns percentiles, each halving what the one before it left, with the largest size within and the number of keys;
/// steps that add nothing are left out.
fn size_steps(stats: &KeyStats) -> Vec<(f64, u64, u64)> {
    let mut steps: Vec<(f64, u64, u64)> = Vec::new();
    for step in stats.sizes.iter_quantiles(1) {
        let value = step.value_iterated_to();
        let count = stats.sizes.count_between(0, value);
        if steps.last().is_none_or(|(_, _, last)| *last != count) {
            let percentile = if count == stats.sizes.len() { 100.0 } else { step.quantile_iterated_to() * 100.0 };
            steps.push((percentile, value, count));
        }
    }
    steps
}

fn names(stats: &KeyStats) -> String {
    let mut text = String::from("Key name length Percentile Total keys\n--------------- ---------- -----------\n");
    let mut seen = 0;
    for (upto, count) in NAME_LENGTHS.iter().zip(stats.names).filter(|(_, count)| *count > 0) {
        seen += count;
        let upto = human_u64((*upto).min(stats.name_max));
        text.push_str(&format!("{upto:>15} {:9.4}% {seen:11}\n", percent(seen, stats.keys)));
    }
    // An average of no keys does not exist, so it has no unit.
    let average = stats.name_bytes.checked_div(stats.keys).map_or("0".to_owned(), human_u64);
    text + &format!("Total key length is {} ({average} avg)\n\n", human_u64(stats.name_bytes))
}

fn types(stats: &KeyStats) -> String {
    let mut text = String::from(
        "Type        Total keys  Keys % Tot size Avg size  Total length/card Avg ln/card\n\
         --------- ------------ ------- -------- -------- ------------------ -----------\n",
    );
    for kind in found(stats) {
        let (size, average) = (human_u64(kind.size), human_u64(kind.size / kind.keys));
        let (length, average_length) = match kind.unit {
            None => ("- ".to_owned(), "- ".to_owned()),
            Some("bytes") => {
                // The average is rounded, as in redis-cli, which truncates other averages.
                let average = (kind.length as f64 / kind.keys as f64).round() as u64;
                (human_u64(kind.length), human_u64(average))
            }
            Some(unit) => (count(kind.length, unit), format!("{:.2}", kind.length as f64 / kind.keys as f64)),
        };
        text.push_str(&format!(
            "{:<10} {:11} {:6.2}% {size:>8} {average:>8} {length:>18} {average_length:>11}\n",
            kind.name,
            kind.keys,
            percent(kind.keys, stats.keys)
        ));
    }
    text
}

/// Returns the result as a value for programs.
pub fn as_value(stats: &KeyStats, end: &WalkEnd) -> Value {
    let key = |key: &[u8]| Value::Bulk(key.to_vec());
    let record = |record: &Option<(u64, Vec<u8>)>, what: &'static str| {
        record.as_ref().map_or(Value::Null, |(value, name)| object([("key", key(name)), (what, integer(*value))]))
    };
    let top = stats.top.iter().map(|top| {
        let name = json::text(&stats.types[top.kind].name);
        object([("key", key(&top.key)), ("type", name), ("size", integer(top.size))])
    });
    let types = found(stats).map(|kind| {
        object([
            ("type", json::text(&kind.name)),
            ("keys", integer(kind.keys)),
            ("size", integer(kind.size)),
            ("largest", record(&kind.largest, "size")),
            ("length_unit", kind.unit.map_or(Value::Null, json::text)),
            ("length", kind.unit.map_or(Value::Null, |_| integer(kind.length))),
            ("longest", record(&kind.longest, "length")),
        ])
    });
    let sizes = size_steps(stats).into_iter().map(|(percentile, size, count)| {
        object([("size", integer(size)), ("percentile", decimal(percentile, 4)), ("keys", integer(count))])
    });
    object([
        ("keys_sampled", integer(stats.keys)),
        ("size", integer(stats.size)),
        ("name_bytes", integer(stats.name_bytes)),
        ("name_bytes_max", integer(stats.name_max)),
        ("cursor", end.interrupted_at.as_ref().map_or(Value::Null, |cursor| Value::Bulk(cursor.clone()))),
        ("top", Value::Array(top.collect())),
        ("types", Value::Array(types.collect())),
        ("sizes", Value::Array(sizes.collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> (KeyStats, WalkEnd) {
        let mut stats = KeyStats::new(2);
        for (key, kind, size, length) in [
            ("st", "stream", 4736, Some(1)),
            ("vs", "vectorset", 2512, None),
            ("q\"", "string", 72, Some(3)),
            ("l2", "list", 64, Some(3)),
            ("l", "list", 64, Some(2)),
        ] {
            stats.note(key.as_bytes(), kind, size, length);
        }
        (stats, WalkEnd { interrupted_at: Some(b"17".to_vec()), seen: 5, total: 10 })
    }

    #[test]
    fn the_report_reads_as_that_of_redis_cli() {
        let (stats, end) = some();
        let expected = " 50.00% keys scanned
Keys sampled: 5
Keys size:    7.27K

--- Top 2 key sizes ---
  1    4.62K stream     \"st\"
  2    2.45K vectorset  \"vs\"

--- Top size per type ---
string     q\\\" is 72B
list       l2 is 64B
stream     st is 4.62K
vectorset  vs is 2.45K

--- Top length and cardinality per type ---
string     q\\\" has 3B
list       l2 has 3 items
stream     st has 1 entries

Key size Percentile Total keys
-------- ---------- -----------
     64B    0.0000%           2
     72B   50.0000%           3
   2.45K   75.0000%           4
   4.62K  100.0000%           5
Note: 0.01% size precision, Mean: 1.45K, StdDeviation: 1.83K

Key name length Percentile Total keys
--------------- ---------- -----------
             2B  100.0000%           5
Total key length is 9B (1B avg)

Type        Total keys  Keys % Tot size Avg size  Total length/card Avg ln/card
--------- ------------ ------- -------- -------- ------------------ -----------
string               1  20.00%      72B      72B                 3B          3B
list                 2  40.00%     128B      64B            5 items        2.50
stream               1  20.00%    4.62K    4.62K          1 entries        1.00
vectorset            1  20.00%    2.45K    2.45K                 -           - 

Scan interrupted:
Use 'cinnabar-cli --keystats --cursor 17' to restart from the last cursor.
";
        assert_eq!(text(&stats, &end), expected);
    }

    #[test]
    fn programs_get_the_same() {
        let (stats, end) = some();
        let mut out = Vec::new();
        json::write(&mut out, &as_value(&stats, &end), json::string);
        let report = String::from_utf8(out).unwrap();
        for part in [
            "\"keys_sampled\":5,\"size\":7448,\"name_bytes\":9,\"name_bytes_max\":2,\"cursor\":\"17\",",
            "\"top\":[{\"key\":\"st\",\"type\":\"stream\",\"size\":4736},",
            "{\"type\":\"vectorset\",\"keys\":1,\"size\":2512,\"largest\":{\"key\":\"vs\",\"size\":2512},\
             \"length_unit\":null,\"length\":null,\"longest\":null}",
            "{\"size\":64,\"percentile\":0.0000,\"keys\":2}",
        ] {
            assert!(report.contains(part), "{part} in {report}");
        }
    }
}
