//! Report of a run: valkey-benchmark's texts, so that programs that read them still work.

use crate::cases::Case;
use crate::load_counts::LoadCounts;
use crate::measured_run::Measured;
use crate::options::{Extent, Options};
use crate::setup::Durability;
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Outcome of a finished run.
#[derive(Debug)]
pub struct RunOutcome<'o> {
    pub title: &'o str,
    pub took: Duration,
    /// Number of bytes of a value; of a user's command, all of it.
    pub payload: usize,
    /// Latencies in microseconds.
    pub latencies: &'o Histogram<u64>,
    /// The parts of a mix.
    pub operations: Vec<(&'o str, &'o Histogram<u64>)>,
    /// Longest delay of a request of an open loop.
    pub lateness: Duration,
    /// `save` and `appendonly` of each server that is loaded, if it reports them.
    pub servers: &'o [Option<Durability>],
}

impl<'o> RunOutcome<'o> {
    pub fn new(case: &'o Case, measured: &'o Measured, options: &Options, servers: &'o [Option<Durability>]) -> Self {
        let parts = case.operations.iter().zip(&measured.operations).filter(|_| case.operations.len() > 1);
        RunOutcome {
            title: &case.title,
            took: measured.took,
            payload: if options.command.is_empty() { options.data_size } else { case.size() },
            latencies: &measured.latencies,
            operations: parts.map(|(operation, latencies)| (operation.name.as_str(), latencies)).collect(),
            lateness: measured.lateness,
            servers,
        }
    }

    fn rate(&self) -> f64 {
        self.rate_of(self.latencies)
    }

    fn rate_of(&self, latencies: &Histogram<u64>) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { latencies.len() as f64 / seconds } else { 0.0 }
    }
}

/// Returns the value below which `percent` of all latencies lie, in milliseconds.
fn percentile(latencies: &Histogram<u64>, percent: f64) -> f64 {
    milliseconds(latencies.value_at_percentile(percent))
}

/// Returns a line's figures of latencies, in milliseconds: avg, min, p50, p95, p99, max.
fn figures(latencies: &Histogram<u64>) -> [f64; 6] {
    [
        latencies.mean() / 1000.0,
        milliseconds(latencies.min()),
        percentile(latencies, 50.0),
        percentile(latencies, 95.0),
        percentile(latencies, 99.0),
        milliseconds(latencies.max()),
    ]
}

/// Returns microseconds as milliseconds.
pub fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                              \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

/// Returns the text for a finished run, in the form that the options ask for; the parts of a mix follow the whole.
pub fn render(outcome: &RunOutcome<'_>, options: &Options) -> String {
    let parts = outcome.operations.iter().copied();
    if options.csv {
        let all = std::iter::once((outcome.title, outcome.latencies)).chain(parts);
        return all.map(|(title, latencies)| csv(title, outcome.rate_of(latencies), latencies)).collect();
    }
    if options.quiet {
        let all = std::iter::once((outcome.title, outcome.latencies)).chain(parts);
        return all.map(|(title, latencies)| brief(title, outcome.rate_of(latencies), latencies)).collect();
    }
    let mut text = String::new();
    let _ = head(&mut text, outcome, options);
    let _ = by_percentile(&mut text, outcome, options.precision);
    let _ = cumulative(&mut text, outcome, options.precision);
    let _ = summary(&mut text, outcome);
    let _ = by_operation(&mut text, outcome);
    text
}

fn brief(title: &str, rate: f64, latencies: &Histogram<u64>) -> String {
    format!("{title}: {rate:.2} requests per second, p50={:.3} msec\n", percentile(latencies, 50.0))
}

fn csv(title: &str, rate: f64, latencies: &Histogram<u64>) -> String {
    let figures: Vec<_> = figures(latencies).iter().map(|figure| format!("\"{figure:.3}\"")).collect();
    format!("\"{title}\",\"{rate:.2}\",{}\n", figures.join(","))
}

fn head(text: &mut String, outcome: &RunOutcome<'_>, options: &Options) -> std::fmt::Result {
    writeln!(text, "====== {} ======", outcome.title)?;
    writeln!(text, "  {} requests completed in {:.2} seconds", outcome.latencies.len(), outcome.took.as_secs_f64())?;
    writeln!(text, "  {} parallel clients", options.clients)?;
    writeln!(text, "  {} bytes payload", outcome.payload)?;
    writeln!(text, "  keep alive: {}", u8::from(options.keep_alive))?;
    if options.cluster {
        writeln!(text, "  cluster mode: yes ({} {})", options.nodes.len(), options.read_from.name())?;
        for (number, server) in outcome.servers.iter().enumerate() {
            writeln!(text, "  node [{number}] configuration:")?;
            let Some((save, append_only)) = server else { continue };
            writeln!(text, "    save: {}", if save.is_empty() { "NONE" } else { save })?;
            writeln!(text, "    appendonly: {append_only}")?;
        }
    } else if let [Some((save, append_only))] = outcome.servers {
        writeln!(text, "  host configuration \"save\": {save}")?;
        writeln!(text, "  host configuration \"appendonly\": {append_only}")?;
    }
    writeln!(text, "  multi-thread: {}", if options.threads.is_some() { "yes" } else { "no" })?;
    if let Some(threads) = options.threads {
        writeln!(text, "  threads: {threads}")?;
    }
    if let Some(rate) = options.open_rate {
        let late = outcome.lateness.as_secs_f64() * 1000.0;
        writeln!(text, "  open loop: {rate} requests per second, sent {late:.3} milliseconds late at worst")?;
    }
    writeln!(text)
}

fn by_percentile(text: &mut String, outcome: &RunOutcome<'_>, precision: usize) -> std::fmt::Result {
    writeln!(text, "Latency by percentile distribution:")?;
    let mut last = None;
    for step in outcome.latencies.iter_quantiles(1) {
        let (value, count) = (step.value_iterated_to(), outcome.latencies.count_between(0, step.value_iterated_to()));
        if last == Some((value, count)) && step.quantile_iterated_to() < 1.0 {
            continue;
        }
        last = Some((value, count));
        writeln!(
            text,
            "{:.3}% <= {} milliseconds (cumulative count {count})",
            step.quantile_iterated_to() * 100.0,
            rounded(value, precision)
        )?;
    }
    writeln!(text)
}

/// Writes latencies in even steps: of 0.1 ms up to 2 ms, of 1 ms above.
fn cumulative(text: &mut String, outcome: &RunOutcome<'_>, precision: usize) -> std::fmt::Result {
    writeln!(text, "Cumulative distribution of latencies:")?;
    let (latencies, total) = (outcome.latencies, outcome.latencies.len());
    let (mut edge, mut before) = (100, None);
    while total > 0 && before.is_none_or(|before| before < total) {
        let upper = latencies.highest_equivalent(edge);
        let count = latencies.count_between(0, upper);
        if before != Some(count) {
            let percent = count as f64 * 100.0 / total as f64;
            writeln!(text, "{percent:.3}% <= {} milliseconds (cumulative count {count})", rounded(upper, precision))?;
        }
        before = Some(count);
        edge += if edge < 2000 { 100 } else { 1000 };
    }
    writeln!(text)
}

/// Rounds to the number of places of Valkey's option, which is called precision; without it, to microseconds.
fn rounded(microseconds: u64, precision: usize) -> String {
    let places = if precision == 0 { 3 } else { precision };
    format!("{:.places$}", milliseconds(microseconds))
}

fn summary(text: &mut String, outcome: &RunOutcome<'_>) -> std::fmt::Result {
    writeln!(text, "Summary:")?;
    writeln!(text, "  throughput summary: {:.2} requests per second", outcome.rate())?;
    writeln!(text, "  latency summary (msec):")?;
    writeln!(text, "    {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "avg", "min", "p50", "p95", "p99", "max")?;
    writeln!(text, "    {}\n", columns(outcome.latencies))
}

fn columns(latencies: &Histogram<u64>) -> String {
    let columns: Vec<_> = figures(latencies).iter().map(|figure| format!("{figure:9.3}")).collect();
    columns.join(" ")
}

/// Writes a line for each part of a mix.
fn by_operation(text: &mut String, outcome: &RunOutcome<'_>) -> std::fmt::Result {
    if outcome.operations.is_empty() {
        return Ok(());
    }
    let width = outcome.operations.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(9);
    writeln!(text, "By operation (msec):")?;
    let head = ["avg", "min", "p50", "p95", "p99", "max"].map(|name| format!("{name:>9}")).join(" ");
    writeln!(text, "    {:<width$} {:>11} {:>11} {head}", "operation", "requests", "per second")?;
    for (name, latencies) in &outcome.operations {
        let (count, rate) = (latencies.len(), outcome.rate_of(latencies));
        writeln!(text, "    {name:<width$} {count:>11} {rate:>11.2} {}", columns(latencies))?;
    }
    writeln!(text)
}

/// The line that shows a running load; it is overwritten until the run ends.
#[derive(Debug)]
pub struct ReportProgress<'p> {
    title: &'p str,
    options: &'p Options,
    /// Marks of the moment when recording began, and of the last update of the line.
    base: Mark,
    last: Mark,
    warming_up: bool,
    width: usize,
}

/// Number of replies so far and the sum of their latencies, at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    replies: u64,
    latency_sum: u64,
}

impl Mark {
    fn rate_since(self, before: Mark) -> f64 {
        (self.replies - before.replies) as f64 / (self.at - before.at).as_secs_f64().max(1e-9)
    }

    /// Returns the mean latency since a mark, in milliseconds.
    fn mean_since(self, before: Mark) -> f64 {
        (self.latency_sum - before.latency_sum) as f64 / (self.replies - before.replies).max(1) as f64 / 1000.0
    }
}

impl<'p> ReportProgress<'p> {
    pub fn new(title: &'p str, options: &'p Options) -> Self {
        let mark = Mark { at: Instant::now(), replies: 0, latency_sum: 0 };
        ReportProgress { title, options, base: mark, last: mark, warming_up: !options.warmup.is_zero(), width: 0 }
    }

    pub fn show(&mut self, shared: &LoadCounts) {
        let (replies, latency_sum) = (shared.finished.load(Relaxed), shared.latency_sum.load(Relaxed));
        // A run whose first reply is an error has no line but that of the error.
        if replies == 0 {
            return;
        }
        let now = Mark { at: Instant::now(), replies, latency_sum };
        let line = self.line(now);
        if self.warming_up && shared.started().elapsed() >= self.options.warmup {
            self.warming_up = false;
            self.base = now;
        }
        self.last = now;
        print!("{line:<width$}\r", width = self.width);
        self.width = line.len();
        let _ = std::io::stdout().flush();
    }

    fn line(&self, now: Mark) -> String {
        let prefix = if self.warming_up { "Warming up " } else { "" };
        let extent = match self.options.extent {
            Extent::Requests(_) if !self.warming_up => format!("{} requests", now.replies - self.base.replies),
            _ => format!("{:.1} seconds", (now.at - self.base.at).as_secs_f64()),
        };
        format!(
            "{prefix}{}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3}) {extent}",
            self.title,
            now.rate_since(self.last),
            now.rate_since(self.base),
            now.mean_since(self.last),
            now.mean_since(self.base),
        )
    }

    /// Clears the line before other output.
    pub fn clear(&self) {
        if self.width > 0 {
            print!("{:<width$}\r", "", width = self.width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{CommandSequence, Operation};
    use crate::load_counts::new_histogram;

    fn outcome_of(values: &[u64], options: &Options) -> String {
        let mut latencies = new_histogram();
        for value in values {
            latencies.record(*value).unwrap();
        }
        let took = Duration::from_secs(2);
        let outcome = RunOutcome {
            title: "SET",
            took,
            payload: 3,
            latencies: &latencies,
            operations: Vec::new(),
            lateness: Duration::ZERO,
            servers: &[],
        };
        render(&outcome, options)
    }

    #[test]
    fn forms() {
        let values: Vec<u64> = (1..=1000).collect();
        let options = Options { quiet: true, ..Options::default() };
        assert_eq!(outcome_of(&values, &options), "SET: 500.00 requests per second, p50=0.500 msec\n");
        let options = Options { csv: true, ..Options::default() };
        let line = "\"SET\",\"500.00\",\"0.500\",\"0.001\",\"0.500\",\"0.950\",\"0.990\",\"1.000\"\n";
        assert_eq!(outcome_of(&values, &options), line);
        let text = outcome_of(&values, &Options::default());
        assert!(text.contains("50.000% <= 0.500 milliseconds (cumulative count 500)\n"), "{text}");
        assert!(text.contains("20.000% <= 0.200 milliseconds (cumulative count 200)\n"), "{text}");
        assert!(text.contains("  throughput summary: 500.00 requests per second\n"), "{text}");
    }

    #[test]
    fn progress_says_what_the_run_is_counted_in() {
        let options = Options { warmup: Duration::from_secs(1), ..Options::default() };
        let mut progress = ReportProgress::new("SET", &options);
        let now = Mark { at: progress.base.at + Duration::from_secs(2), replies: 10, latency_sum: 20_000 };
        let expected = "Warming up SET: rps=5.0 (overall: 5.0) avg_msec=2.000 (overall: 2.000) 2.0 seconds";
        assert_eq!(progress.line(now), expected);
        progress.warming_up = false;
        progress.base = Mark { replies: 4, latency_sum: 8_000, ..progress.base };
        let expected = "SET: rps=5.0 (overall: 3.0) avg_msec=2.000 (overall: 2.000) 6 requests";
        assert_eq!(progress.line(now), expected);
    }

    #[test]
    fn a_mix_is_told_as_a_whole_and_by_its_parts() {
        let operation = |name: &str| Operation { name: name.into(), weight: 1, sequence: CommandSequence::default() };
        let case = Case { title: "GET=1,SET=1".into(), operations: vec![operation("GET"), operation("SET")] };
        let mut measured = Measured::nothing(2);
        measured.took = Duration::from_secs(2);
        for (part, value) in [(0, 1000), (0, 2000), (1, 4000)] {
            measured.latencies.record(value).unwrap();
            measured.operations[part].record(value).unwrap();
        }
        let text = |options: &Options| render(&RunOutcome::new(&case, &measured, options, &[]), options);
        let expected = "\
GET=1,SET=1: 1.50 requests per second, p50=2.000 msec
GET: 1.00 requests per second, p50=1.000 msec
SET: 0.50 requests per second, p50=4.001 msec
";
        assert_eq!(text(&Options { quiet: true, ..Options::default() }), expected);
        assert_eq!(text(&Options { csv: true, ..Options::default() }).lines().count(), 3);
        let whole = text(&Options { open_rate: Some(9), ..Options::default() });
        assert!(
            whole.contains("  open loop: 9 requests per second, sent 0.000 milliseconds late at worst\n"),
            "{whole}"
        );
        let part =
            "    SET                 1        0.50     4.001     4.000     4.001     4.001     4.001     4.001\n";
        assert!(whole.contains(part), "{whole}");
    }

    #[test]
    fn nothing_done_is_no_disaster() {
        assert!(outcome_of(&[], &Options::default()).contains("0 requests completed"));
    }
}
