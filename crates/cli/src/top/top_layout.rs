//! The screen as lines: a pure function of what was read, what the user chose, and how large the terminal is.
//!
//! ```text
//!   the server         name, address, role, how long it runs
//!   its rates          operations with the last minute as blocks, hits, traffic, processor time
//!   what it holds      memory, keys
//!   who is there       clients
//!
//!   commands           the table that the user looks at has half of the room at least;
//!   clients            on a small terminal it is the only one
//!   hot keys
//!   keys of the program, or what went wrong
//! ```
//!
//! What a server does not tell is a dash. Every character is one column wide: names and keys come quoted.

use super::server_sample::{HotKey, HotKeys};
use super::top_reading::{ClientReading, CommandReading, HISTORY, TopModel, TopReading};
use super::top_view::{Panel, TopView};
use crate::human_bytes::human_u64;
use crate::keys::keyspace_walk::quoted;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Plain,
    Title,
    /// Names of a table's columns; of the table that the user looks at.
    Heading,
    Chosen,
    Dim,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenLine {
    pub look: Look,
    pub text: String,
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HELP: &str = "q quit  p pause  Tab table  s sort  r reverse  + - interval  h hot keys";
/// Rows above the tables, with a blank one.
const HEADER: usize = 5;
/// With fewer rows for them there is one table only.
const ROOM_FOR_ALL: usize = 14;

/// The whole screen; `problem` takes the place of the help. No line is wider than the terminal, nor are there more.
pub fn screen(
    model: &TopModel,
    view: &TopView,
    address: &str,
    problem: Option<&str>,
    (columns, rows): (usize, usize),
) -> Vec<ScreenLine> {
    let nothing = TopReading::default();
    let reading = model.reading.as_ref().unwrap_or(&nothing);
    let mut lines = vec![
        line(Look::Title, title(reading, view, address)),
        line(Look::Plain, rates(reading, model)),
        line(Look::Plain, memory(reading)),
        line(Look::Plain, who(reading)),
        line(Look::Plain, String::new()),
    ];
    let room = rows.saturating_sub(HEADER + 1);
    for (panel, share) in shares(view.panel, room) {
        lines.extend(table(reading, view, panel, share));
    }
    lines.truncate(rows.saturating_sub(1));
    while lines.len() + 1 < rows {
        lines.push(line(Look::Plain, String::new()));
    }
    lines.push(match problem {
        Some(problem) => line(Look::Warning, problem.to_owned()),
        None => line(Look::Dim, HELP.to_owned()),
    });
    lines.truncate(rows);
    for line in &mut lines {
        line.text = line.text.chars().take(columns).collect();
    }
    lines
}

fn line(look: Look, text: String) -> ScreenLine {
    ScreenLine { look, text }
}

/// How many rows each table has.
fn shares(chosen: Panel, room: usize) -> Vec<(Panel, usize)> {
    if room < ROOM_FOR_ALL {
        return vec![(chosen, room)];
    }
    let other = room / 4;
    let panels = [Panel::Commands, Panel::Clients, Panel::HotKeys];
    panels.map(|panel| (panel, if panel == chosen { room - 2 * other } else { other })).into()
}

fn title(reading: &TopReading, view: &TopView, address: &str) -> String {
    let info = |name: &str| reading.info.get(name).map(String::as_str);
    let version = info("cinnabar_version").map(|version| format!("cinnabar {version}"));
    let version = version.or_else(|| info("valkey_version").map(|version| format!("valkey {version}")));
    let version = version.or_else(|| info("redis_version").map(|version| format!("redis {version}")));
    let role = match info("role") {
        Some("master") => "primary",
        Some("slave") => "replica",
        other => other.unwrap_or("-"),
    };
    let uptime = info("uptime_in_seconds").and_then(|seconds| seconds.parse().ok()).map_or("-".to_owned(), duration);
    let pace = if view.is_paused { "paused".to_owned() } else { format!("every {}s", view.interval.as_secs_f64()) };
    format!("{} at {address}   {role}   up {uptime}   {pace}", version.unwrap_or_else(|| "-".to_owned()))
}

/// `3d 04:05:06`
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

fn rates(reading: &TopReading, model: &TopModel) -> String {
    let of = |rate: Option<f64>, unit: &str| rate.map_or("-".to_owned(), |rate| format!("{rate:.1}{unit}"));
    let rates = reading.rates.as_ref();
    let bytes = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{}/s", human_u64(rate as u64)));
    format!(
        "ops/s {:>11} {}  hits {}  in {}  out {}  cpu {}",
        rates.map_or("-".to_owned(), |rates| grouped(rates.operations as u64)),
        blocks(model),
        of(rates.and_then(|rates| rates.hits), "%"),
        bytes(rates.map(|rates| rates.bytes_in)),
        bytes(rates.map(|rates| rates.bytes_out)),
        of(rates.and_then(|rates| rates.cpu), "%"),
    )
}

/// The last rates, the highest of them as a whole block.
fn blocks(model: &TopModel) -> String {
    let highest = model.history.iter().copied().fold(1.0, f64::max);
    let shown = model.history.iter().skip(model.history.len().saturating_sub(HISTORY / 2));
    let block = |rate: &f64| BLOCKS[((rate / highest * 7.0).round() as usize).min(7)];
    let blocks: String = shown.map(block).collect();
    format!("{blocks:<width$}", width = HISTORY / 2)
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn number(reading: &TopReading, name: &str) -> Option<u64> {
    reading.info.get(name)?.parse().ok()
}

fn memory(reading: &TopReading) -> String {
    let bytes = |name: &str| number(reading, name).map_or("-".to_owned(), human_u64);
    let limit = match number(reading, "maxmemory") {
        Some(0) => "no limit".to_owned(),
        Some(limit) => human_u64(limit),
        None => "-".to_owned(),
    };
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"));
    let rates = reading.rates.as_ref();
    format!(
        "memory {} of {limit}  rss {}  peak {}   keys {}  expired {}  evicted {}",
        bytes("used_memory"),
        bytes("used_memory_rss"),
        bytes("used_memory_peak"),
        keys(reading).map_or("-".to_owned(), grouped),
        rate(rates.map(|rates| rates.expired)),
        rate(rates.map(|rates| rates.evicted)),
    )
}

/// Keys of all databases; None before anything is known.
fn keys(reading: &TopReading) -> Option<u64> {
    let databases = reading.info.iter().filter_map(|(name, value)| {
        name.strip_prefix("db")?.parse::<u32>().ok()?;
        value.strip_prefix("keys=")?.split(',').next()?.parse::<u64>().ok()
    });
    (!reading.info.is_empty()).then(|| databases.sum())
}

fn who(reading: &TopReading) -> String {
    let count = |name: &str| number(reading, name).map_or("-".to_owned(), grouped);
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.1}/s"));
    let rates = reading.rates.as_ref();
    format!(
        "clients {} of {}  blocked {}  replicas {}   new {}  rejected {}",
        count("connected_clients"),
        count("maxclients"),
        count("blocked_clients"),
        count("connected_slaves"),
        rate(rates.map(|rates| rates.connections)),
        rate(rates.map(|rates| rates.rejected)),
    )
}

/// A table with its heading, in so many rows.
fn table(reading: &TopReading, view: &TopView, panel: Panel, rows: usize) -> Vec<ScreenLine> {
    let (heading, body) = match panel {
        Panel::Commands => commands(reading, view.order_of(panel)),
        Panel::Clients => clients(reading, view.order_of(panel)),
        Panel::HotKeys => hot_keys(reading, view.order_of(panel)),
    };
    let is_chosen = panel == view.panel;
    let look = if is_chosen { Look::Chosen } else { Look::Heading };
    let mut lines = vec![line(look, format!("{heading}   by {}", view.order_of(panel)))];
    let mut body: Vec<_> = body.into_iter().map(|text| line(Look::Plain, text)).collect();
    if is_chosen && view.is_reversed {
        body.reverse();
    }
    lines.extend(body);
    lines.resize(rows, line(Look::Plain, String::new()));
    lines
}

fn commands(reading: &TopReading, order: &str) -> (String, Vec<String>) {
    let heading = format!(
        "{:<22}{:>12}{:>8}{:>10}{:>9}{:>9}{:>10}",
        "COMMAND", "calls/s", "share", "usec", "p50", "p99", "failed/s"
    );
    let mut rows: Vec<&CommandReading> = reading.commands.iter().collect();
    rows.sort_by(|a, b| match order {
        "share" => b.share.total_cmp(&a.share),
        "usec" => b.usec_per_call.total_cmp(&a.usec_per_call),
        "p99" => b.p99.cmp(&a.p99),
        "command" => a.name.cmp(&b.name),
        _ => b.calls.total_cmp(&a.calls),
    });
    let percentile = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let row = |row: &&CommandReading| {
        format!(
            "{:<22}{:>12.1}{:>7.1}%{:>10.2}{:>9}{:>9}{:>10.1}",
            row.name,
            row.calls,
            row.share,
            row.usec_per_call,
            percentile(row.p50),
            percentile(row.p99),
            row.failed
        )
    };
    (heading, rows.iter().map(row).collect())
}

fn clients(reading: &TopReading, order: &str) -> (String, Vec<String>) {
    let heading = format!(
        "{:<9}{:<24}{:<14}{:<12}{:>3} {:<16}{:>8}{:>8}{:>9}{:>11}{:>11}",
        "CLIENT", "address", "name", "user", "db", "command", "age", "idle", "omem", "in/s", "out/s"
    );
    let Some(all) = &reading.clients else {
        return (heading, vec!["the server does not tell".to_owned()]);
    };
    let mut rows: Vec<&ClientReading> = all.iter().collect();
    let by_rate = |rate: Option<f64>| rate.unwrap_or(-1.0);
    rows.sort_by(|a, b| match order {
        "in/s" => by_rate(b.bytes_in).total_cmp(&by_rate(a.bytes_in)),
        "omem" => b.output.cmp(&a.output),
        "idle" => b.idle.cmp(&a.idle),
        "age" => b.age.cmp(&a.age),
        "id" => a.id.cmp(&b.id),
        _ => by_rate(b.bytes_out).total_cmp(&by_rate(a.bytes_out)),
    });
    let bytes = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| human_u64(rate as u64));
    let row = |row: &&ClientReading| {
        format!(
            "{:<9}{:<24}{:<14}{:<12}{:>3} {:<16}{:>7}s{:>7}s{:>9}{:>11}{:>11}",
            row.id,
            fitted(&row.address, 23),
            fitted(&row.name, 13),
            fitted(&row.user, 11),
            row.database,
            fitted(&row.command, 15),
            row.age,
            row.idle,
            human_u64(row.output),
            bytes(row.bytes_in),
            bytes(row.bytes_out)
        )
    };
    (heading, rows.iter().map(row).collect())
}

/// What fits into a column, in characters of one column each.
fn fitted(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    if clean.len() <= width { clean } else { format!("{}~", &clean[..width - 1]) }
}

fn hot_keys(reading: &TopReading, order: &str) -> (String, Vec<String>) {
    let heading = format!("{:<14}{:<14}{}", "HOT KEYS usec", "bytes", "key");
    let keys = match &reading.hot_keys {
        HotKeys::Absent => return (heading, vec!["the server does not tell".to_owned()]),
        HotKeys::Off => return (heading, vec!["not tracked: h has the server track them".to_owned()]),
        HotKeys::Tracked { keys, .. } => keys,
    };
    let mut rows: Vec<&HotKey> = keys.iter().collect();
    rows.sort_by(|a, b| match order {
        "bytes" => b.bytes.cmp(&a.bytes),
        "key" => a.key.cmp(&b.key),
        _ => b.usec.cmp(&a.usec),
    });
    let value = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let row = |row: &&HotKey| format!("{:<14}{:<14}{}", value(row.usec), value(row.bytes), quoted(&row.key));
    (heading, rows.iter().map(row).collect())
}
