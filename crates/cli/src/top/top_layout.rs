//! The screen as lines: a pure function of the reading, the user's choices, and the size of the terminal.
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
//! A value that a server does not report is a dash. Every character is one column wide: names and keys are quoted.

use super::server_sample::{HotKey, HotKeys};
use super::top_reading::{ClientReading, CommandReading, HISTORY, TopModel, TopReading};
use super::top_view::{Panel, TopView};
use crate::human_bytes::human_u64;
use resp::words::quoted;

/// Look of a line.
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
const UNKNOWN: &str = "the server does not tell";
/// Rows above the tables, with a blank one.
const HEADER: usize = 5;
/// Rows for tables below which only one table is shown.
const ROOM_FOR_ALL: usize = 14;

/// Returns the whole screen; `problem` replaces the help. It fits into the terminal, in width and in height.
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

/// Returns the number of rows of each table.
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

/// Returns the last rates, the highest of them as a whole block.
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

/// Returns the number of keys of all databases; None before anything is known.
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

/// Returns a table with its heading, in so many rows.
fn table(reading: &TopReading, view: &TopView, panel: Panel, rows: usize) -> Vec<ScreenLine> {
    let is_chosen = panel == view.panel;
    let order = Order { column: view.order_of(panel), is_reversed: is_chosen && view.is_reversed };
    let (heading, mut body) = match panel {
        Panel::Commands => commands(reading, order),
        Panel::Clients => clients(reading, order),
        Panel::HotKeys => hot_keys(reading, order),
    };
    if order.is_reversed {
        body.reverse();
    }
    let mut lines = vec![line(if is_chosen { Look::Chosen } else { Look::Heading }, heading)];
    lines.extend(body.into_iter().map(|text| line(Look::Plain, text)));
    lines.resize(rows, line(Look::Plain, String::new()));
    lines
}

/// The column by which a table is ordered; the largest first, or names in alphabetical order.
#[derive(Clone, Copy)]
struct Order {
    column: &'static str,
    is_reversed: bool,
}

impl Order {
    /// Returns a column's name, with a mark if it is this one.
    fn mark(self, name: &str) -> String {
        let mark = if self.is_reversed { "▲" } else { "▼" };
        if name == self.column { format!("{name}{mark}") } else { name.to_owned() }
    }
}

fn commands(reading: &TopReading, order: Order) -> (String, Vec<String>) {
    let heading = format!(
        "{:<22}{:>12}{:>9}{:>10}{:>9}{:>9}{:>10}",
        order.mark("command"),
        order.mark("calls/s"),
        order.mark("share"),
        order.mark("usec"),
        "p50",
        order.mark("p99"),
        "failed/s"
    );
    let mut rows: Vec<&CommandReading> = reading.commands.iter().collect();
    rows.sort_by(|a, b| match order.column {
        "share" => b.share.total_cmp(&a.share),
        "usec" => b.usec_per_call.total_cmp(&a.usec_per_call),
        "p99" => b.p99.cmp(&a.p99),
        "command" => a.name.cmp(&b.name),
        _ => b.calls.total_cmp(&a.calls),
    });
    let row = |row: &&CommandReading| {
        format!(
            "{:<22}{:>12.1}{:>8.1}%{:>10.2}{:>9}{:>9}{:>10.1}",
            fitted(&row.name, 21),
            row.calls,
            row.share,
            row.usec_per_call,
            optional(row.p50),
            optional(row.p99),
            row.failed
        )
    };
    (heading, rows.iter().map(row).collect())
}

fn clients(reading: &TopReading, order: Order) -> (String, Vec<String>) {
    let heading = format!(
        "{:<10}{:>10}{:>10}{:>10}{:>8}{:>8}  {:<16}{:<23}{:<13}{:<11}{}",
        format!("client {}", order.mark("id")),
        order.mark("out/s"),
        order.mark("in/s"),
        order.mark("omem"),
        order.mark("idle"),
        order.mark("age"),
        "command",
        "address",
        "name",
        "user",
        "db"
    );
    let Some(all) = &reading.clients else {
        return (heading, vec![UNKNOWN.to_owned()]);
    };
    let mut rows: Vec<&ClientReading> = all.iter().collect();
    let by_rate = |rate: Option<f64>| rate.unwrap_or(-1.0);
    rows.sort_by(|a, b| match order.column {
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
            "{:<10}{:>10}{:>10}{:>10}{:>7}s{:>7}s  {:<16}{:<23}{:<13}{:<11}{}",
            row.id,
            bytes(row.bytes_out),
            bytes(row.bytes_in),
            human_u64(row.output),
            row.idle,
            row.age,
            fitted(&row.command, 15),
            fitted(&row.address, 22),
            fitted(&row.name, 12),
            fitted(&row.user, 10),
            row.database,
        )
    };
    (heading, rows.iter().map(row).collect())
}

fn optional(value: Option<u64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// Cuts a text to a column, in characters of one column each.
fn fitted(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    if clean.len() <= width { clean } else { format!("{}~", &clean[..width - 1]) }
}

fn hot_keys(reading: &TopReading, order: Order) -> (String, Vec<String>) {
    let heading = format!("hot keys {:>9}{:>14}   {}", order.mark("usec"), order.mark("bytes"), order.mark("key"));
    let keys = match &reading.hot_keys {
        HotKeys::Absent => return (heading, vec![UNKNOWN.to_owned()]),
        HotKeys::Off => return (heading, vec!["not tracked: h has the server track them".to_owned()]),
        HotKeys::Tracked { keys, .. } => keys,
    };
    let mut rows: Vec<&HotKey> = keys.iter().collect();
    rows.sort_by(|a, b| match order.column {
        "bytes" => b.bytes.cmp(&a.bytes),
        "key" => a.key.cmp(&b.key),
        _ => b.usec.cmp(&a.usec),
    });
    let row = |row: &&HotKey| format!("{:>18}{:>14}   {}", optional(row.usec), optional(row.bytes), quoted(&row.key));
    (heading, rows.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::server_sample::ServerSample;
    use super::super::top_reading::tests::sample;
    use super::*;
    use std::time::Duration;

    const BEFORE: &str = "valkey_version:9.1.2 role:master uptime_in_seconds:93784 total_commands_processed:1000 \
        used_memory:1048576 maxmemory:0 connected_clients:2 maxclients:10000 cmdstat_get:calls=10,usec=10 \
        cmdstat_set:calls=1,usec=1 db0:keys=1234567,expires=0 db1:keys=1,expires=0";
    const NOW: &str = "valkey_version:9.1.2 role:master uptime_in_seconds:93785 total_commands_processed:3000 \
        used_memory:1048576 maxmemory:0 connected_clients:2 maxclients:10000 cmdstat_get:calls=1510,usec=760 \
        cmdstat_set:calls=101,usec=251 db0:keys=1234567,expires=0 db1:keys=1,expires=0";

    fn model() -> TopModel {
        let mut model = TopModel::default();
        model.take(sample(
            1,
            BEFORE,
            "id=7 addr=h:1 omem=0 tot-net-out=0 tot-net-in=0 age=1 idle=0 cmd=get user=al db=0",
        ));
        let clients = "id=7 addr=h:1 omem=0 tot-net-out=2048 tot-net-in=10 age=2 idle=0 cmd=get user=al db=0\n\
            id=8 addr=h:2 omem=5 age=0 idle=0 cmd=config|get user=default db=3 name=a\u{1b}b";
        let keys = [("a\n", Some(9), None), ("b", Some(10), Some(3))];
        let keys = keys.map(|(key, usec, bytes)| HotKey { key: key.into(), usec, bytes }).into();
        model.take(ServerSample { hot_keys: HotKeys::Tracked { is_active: true, keys }, ..sample(2, NOW, clients) });
        model
    }

    fn drawn(model: &TopModel, view: &TopView, problem: Option<&str>, size: (usize, usize)) -> String {
        let lines = screen(model, view, "h:6379", problem, size);
        assert_eq!(lines.len(), size.1, "as many lines as there are rows");
        assert!(lines.iter().all(|line| line.text.chars().count() <= size.0), "none wider than the terminal");
        let lines: Vec<_> = lines.iter().map(|line| line.text.trim_end()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_screen_has_all_tables() {
        let mut view = TopView::new(Duration::from_secs(1));
        view.press(b'\t');
        let expected = "\
valkey 9.1.2 at h:6379   primary   up 1d 02:03:05   every 1s
ops/s       2,000 █                               hits -  in 0B/s  out 0B/s  cpu -
memory 1.00M of no limit  rss -  peak -   keys 1,234,568  expired 0.0/s  evicted 0.0/s
clients 2 of 10,000  blocked -  replicas -   new 0.0/s  rejected 0.0/s

command                   calls/s▼    share      usec      p50      p99  failed/s
get                         1500.0    75.0%      0.50        -        -       0.0
set                          100.0    25.0%      2.50        -        -       0.0

client id     out/s▼      in/s      omem    idle     age  command         address                name         user       db
7              2.00K       10B        0B      0s      2s  get             h:1                                 al         0
8                  -         -        5B      0s      0s  config get      h:2                    a?b          default    3







hot keys     usec▼         bytes   key
                10             3   \"b\"
                 9             -   \"a\\n\"

q quit  p pause  Tab table  s sort  r reverse  + - interval  h hot keys";
        assert_eq!(drawn(&model(), &view, None, (130, 24)), expected);
    }

    #[test]
    fn a_small_terminal_has_one_table() {
        let mut view = TopView::new(Duration::from_secs(2));
        view.press(b'r');
        view.press(b'p');
        let expected = "\
valkey 9.1.2 at h:6379   primary   up 1d
ops/s       2,000 █
memory 1.00M of no limit  rss -  peak -
clients 2 of 10,000  blocked -  replicas

command                   calls/s▲    sh
set                          100.0    25
get                         1500.0    75

Server closed the connection";
        assert_eq!(drawn(&model(), &view, Some("Server closed the connection"), (40, 10)), expected);
    }

    #[test]
    fn nothing_is_known_at_first_and_no_size_is_too_small() {
        let view = TopView::new(Duration::ZERO);
        let first = drawn(&TopModel::default(), &view, None, (80, 24));
        assert!(first.starts_with("- at h:6379   -   up -   every 1s\nops/s           -"), "{first}");
        assert!(first.contains("\nmemory - of -  rss -  peak -   keys -  expired -  evicted -\n"), "{first}");
        assert_eq!(first.matches(UNKNOWN).count(), 2);
        for size in [(1, 1), (3, 2), (5, 5), (9, 7), (500, 200)] {
            drawn(&model(), &view, None, size);
        }
    }

    #[test]
    fn numbers_have_groups_and_times_have_days() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([59, 3600, 86_400].map(duration), ["00:00:59", "01:00:00", "1d 00:00:00"]);
    }
}
