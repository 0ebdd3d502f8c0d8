//! LATENCY GRAPH and LATENCY DOCTOR: the latency monitor's events for people.
//!
//! ```text
//! command - high 200 ms, low 30 ms (all time high 200 ms)
//! --------------------------------------------------------------------------------
//!   #
//!   |
//!  o|
//! _||o
//!
//! 4320
//! ssss
//! ```
//!
//! A column is a second with an event, the oldest first; below it stands how long ago that was, from top to bottom.

use engine::stats::latency_monitor::{Sample, Series};
use std::fmt::Write;

/// Columns and rows of a graph.
const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// Tops of a column, from the lowest to the highest.
const TOPS: &[u8; 3] = b"_o#";

/// Draws the samples of an event. `now`: Unix time in seconds.
pub fn graph(event: &str, series: &Series, now: i64) -> String {
    let samples: Vec<&Sample> = series.samples.iter().filter(|sample| sample.ms > 0).collect();
    let high = samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
    let low = samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {} ms)\n", series.max);
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    for (index, part) in samples.chunks(COLUMNS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        draw(&mut text, part, low, high, now);
    }
    text
}

fn draw(text: &mut String, samples: &[&Sample], low: u64, high: u64, now: i64) {
    let steps = (TOPS.len() * ROWS) as u64;
    let height = |sample: &Sample| ((sample.ms - low) * steps / (high - low).max(1)).min(steps - 1) as usize;
    for row in (0..ROWS).rev() {
        let base = row * TOPS.len();
        let cell = |sample: &&Sample| match height(sample).checked_sub(base) {
            None => ' ',
            Some(above) => TOPS.get(above).map_or('|', |top| char::from(*top)),
        };
        text.extend(samples.iter().map(cell));
        text.push('\n');
    }
    let labels: Vec<String> = samples.iter().map(|sample| ago(now - sample.at)).collect();
    let longest = labels.iter().map(String::len).max().unwrap_or(0);
    text.push_str(&" ".repeat(samples.len()));
    text.push('\n');
    for place in 0..longest {
        text.extend(labels.iter().map(|label| label.as_bytes().get(place).map_or(' ', |byte| char::from(*byte))));
        text.push('\n');
    }
}

/// `4s`, `12m`, `3h`, `1d`: a time in its largest unit.
fn ago(seconds: i64) -> String {
    match seconds.max(0) {
        s @ ..60 => format!("{s}s"),
        s @ ..3600 => format!("{}m", s / 60),
        s @ ..86_400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// Statistics of an event's samples.
struct Summary {
    mean: u64,
    deviation: u64,
    /// Seconds between two samples.
    period: f64,
}

fn summary(series: &Series) -> Summary {
    let count = series.samples.len().max(1) as u64;
    let mean = series.samples.iter().map(|sample| sample.ms).sum::<u64>() / count;
    let deviation = series.samples.iter().map(|sample| sample.ms.abs_diff(mean)).sum::<u64>() / count;
    let span = match (series.samples.front(), series.samples.back()) {
        (Some(first), Some(last)) => last.at - first.at,
        _ => 0,
    };
    Summary { mean, deviation, period: span as f64 / count.saturating_sub(1).max(1) as f64 }
}

/// Advice about events whose names begin so.
const ADVICE: &[(&str, &str)] = &[
    ("command", "Commands of linear or worse complexity took long: COMMANDLOG GET -1 slow shows which, and of whom."),
    (
        "fast-command",
        "Commands that do little took long: something else used the processor. Look for other programs on the machine, for swapping (vmstat 1) and, in a virtual machine, for stolen time.",
    ),
    ("expire", "Many keys expire in the same moment, or large ones do: spread deadlines over time, split large keys."),
    ("aof", "Writing the append-only file waits for the disk: see appendfsync and what else writes to it."),
    ("eviction", "Keys are evicted faster than memory becomes free: raise maxmemory or write less."),
];

/// Returns a report on all events.
pub fn doctor(on: bool, events: &[(&'static str, Series)]) -> String {
    if events.is_empty() {
        return match on {
            true => "Nothing took as long as latency-monitor-threshold so far.\n".to_owned(),
            false => "The latency monitor is off. CONFIG SET latency-monitor-threshold <milliseconds> switches it on: \
                      what takes at least that long is written down.\n"
                .to_owned(),
        };
    }
    let mut text = "Events that took long:\n\n".to_owned();
    for (number, (event, series)) in events.iter().enumerate() {
        let Summary { mean, deviation, period } = summary(series);
        let _ = writeln!(
            text,
            "{}. {event}: {} latency spikes (average {mean}ms, mean deviation {deviation}ms, period {period:.2} sec). \
             Worst all time event {}ms.",
            number + 1,
            series.count,
            series.max
        );
    }
    let fits = |(start, _): &&(&str, &str)| events.iter().any(|(event, _)| event.starts_with(start));
    let mut advice = ADVICE.iter().filter(fits).peekable();
    if advice.peek().is_some() {
        text.push_str("\nWhat may help:\n\n");
        advice.for_each(|(_, advice)| _ = writeln!(text, "- {advice}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(i64, u64)]) -> Series {
        Series {
            samples: samples.iter().map(|(at, ms)| Sample { at: *at, ms: *ms }).collect(),
            max: samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0),
            sum: samples.iter().map(|(_, ms)| *ms).sum(),
            count: samples.len() as u64,
        }
    }

    #[test]
    fn columns_are_as_high_as_their_times() {
        let drawn = graph("command", &series(&[(96, 30), (97, 100), (98, 200), (100, 50)]), 100);
        let (head, columns) = drawn.split_once(&"-".repeat(80)).unwrap();
        assert_eq!(head, "command - high 200 ms, low 30 ms (all time high 200 ms)\n");
        assert_eq!(columns, "\n  # \n  | \n o| \n_||o\n    \n4320\nssss\n");
    }

    #[test]
    fn long_series_are_drawn_in_parts_and_times_in_their_units() {
        let samples: Vec<(i64, u64)> = (0..100).map(|n| (n, 10)).collect();
        let drawn = graph("command", &series(&samples), 100);
        assert!(drawn.lines().all(|line| line.len() <= 80));
        assert_eq!([ago(59), ago(60), ago(7200), ago(200_000)], ["59s", "1m", "2h", "2d"]);
    }

    #[test]
    fn the_doctor_speaks_of_what_there_is() {
        assert!(doctor(false, &[]).contains("off") && !doctor(true, &[]).contains("off"));
        let report = doctor(true, &[("command", series(&[(1, 30), (2, 100), (3, 200), (4, 50)]))]);
        let line = "1. command: 4 latency spikes (average 95ms, mean deviation 55ms, period 1.00 sec). Worst all time event 200ms.\n";
        assert!(report.contains(line) && report.contains("COMMANDLOG"), "{report}");
        assert!(!report.contains("append-only"));
    }
}
