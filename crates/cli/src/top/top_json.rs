//! `--top --json`: the readings for programs, an object a line.

use resp::Value;
use resp::json::{decimal, integer, object, text};

use super::server_sample::HotKeys;
use super::top_reading::{ClientReading, CommandReading, TopReading};

pub fn as_value(reading: &TopReading) -> Value {
    let info = |name: &str| {
        reading.info.get(name).map_or(Value::Null, |value| match value.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => text(value),
        })
    };
    let rates = reading.rates.clone().unwrap_or_default();
    let rate = |rate: f64| if reading.rates.is_some() { decimal(rate, 2) } else { Value::Null };
    let optional = |rate: Option<f64>| rate.map_or(Value::Null, |rate| decimal(rate, 2));
    object([
        ("role", info("role")),
        ("uptime_in_seconds", info("uptime_in_seconds")),
        ("operations", rate(rates.operations)),
        ("hits_percent", optional(rates.hits)),
        ("bytes_in", rate(rates.bytes_in)),
        ("bytes_out", rate(rates.bytes_out)),
        ("cpu_percent", optional(rates.cpu)),
        ("expired", rate(rates.expired)),
        ("evicted", rate(rates.evicted)),
        ("used_memory", info("used_memory")),
        ("used_memory_rss", info("used_memory_rss")),
        ("maxmemory", info("maxmemory")),
        ("connected_clients", info("connected_clients")),
        ("blocked_clients", info("blocked_clients")),
        ("commands", Value::Array(reading.commands.iter().map(command).collect())),
        ("clients", reading.clients.as_ref().map_or(Value::Null, |all| Value::Array(all.iter().map(client).collect()))),
        ("hot_keys", hot_keys(&reading.hot_keys)),
    ])
}

fn command(command: &CommandReading) -> Value {
    let percentile = |value: Option<u64>| value.map_or(Value::Null, integer);
    object([
        ("command", text(&command.name)),
        ("calls", decimal(command.calls, 2)),
        ("share_percent", decimal(command.share, 2)),
        ("usec_per_call", decimal(command.usec_per_call, 2)),
        ("p50_usec", percentile(command.p50)),
        ("p99_usec", percentile(command.p99)),
        ("failed", decimal(command.failed, 2)),
    ])
}

fn client(client: &ClientReading) -> Value {
    let rate = |rate: Option<f64>| rate.map_or(Value::Null, |rate| decimal(rate, 2));
    object([
        ("id", integer(client.id)),
        ("address", text(&client.address)),
        ("name", text(&client.name)),
        ("user", text(&client.user)),
        ("command", text(&client.command)),
        ("age", integer(client.age)),
        ("idle", integer(client.idle)),
        ("output_memory", integer(client.output)),
        ("bytes_in", rate(client.bytes_in)),
        ("bytes_out", rate(client.bytes_out)),
    ])
}

/// Returns the hot keys; null if the server reports none.
fn hot_keys(hot_keys: &HotKeys) -> Value {
    let HotKeys::Tracked { keys, .. } = hot_keys else { return Value::Null };
    let number = |value: Option<u64>| value.map_or(Value::Null, integer);
    let key = keys.iter().map(|key| {
        object([("key", Value::Bulk(key.key.clone())), ("usec", number(key.usec)), ("bytes", number(key.bytes))])
    });
    Value::Array(key.collect())
}
