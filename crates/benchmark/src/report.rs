//! What a run is reported as: valkey-benchmark's texts, so that whatever reads them goes on working.

use crate::load_generator::LoadCounts;
use crate::options::{Extent, Options};
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How a finished run went.
#[derive(Debug)]
pub struct RunOutcome<'o> {
    pub title: &'o str,
    pub took: Duration,
    /// Bytes of a value; of a command of the user's, all of it.
    pub payload: usize,
    /// In microseconds.
    pub latencies: &'o Histogram<u64>,
    /// The server's `save` and `appendonly`, when it told.
    pub server: Option<&'o (String, String)>,
}

impl RunOutcome<'_> {
    fn rate(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { self.latencies.len() as f64 / seconds } else { 0.0 }
    }

    /// The value below which `percent` of all latencies lie, in milliseconds.
    fn percentile(&self, percent: f64) -> f64 {
        milliseconds(self.latencies.value_at_percentile(percent))
    }

    fn mean(&self) -> f64 {
        self.latencies.mean() / 1000.0
    }
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                              \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

/// The text for a finished run, in the form that the options ask for.
pub fn render(outcome: &RunOutcome<'_>, options: &Options) -> String {
    if options.csv {
        return csv(outcome);
    }
    if options.quiet {
        return format!(
            "{}: {:.2} requests per second, p50={:.3} msec\n",
            outcome.title,
            outcome.rate(),
            outcome.percentile(50.0)
        );
    }
    let mut text = String::new();
    let _ = head(&mut text, outcome, options);
    let _ = by_percentile(&mut text, outcome, options.precision);
    let _ = cumulative(&mut text, outcome, options.precision);
    let _ = summary(&mut text, outcome);
    text
}

fn csv(outcome: &RunOutcome<'_>) -> String {
    let latencies = outcome.latencies;
    let figures = [
        outcome.mean(),
        milliseconds(latencies.min()),
        outcome.percentile(50.0),
        outcome.percentile(95.0),
        outcome.percentile(99.0),
        milliseconds(latencies.max()),
    ];
    let figures: Vec<_> = figures.iter().map(|figure| format!("\"{figure:.3}\"")).collect();
    format!("\"{}\",\"{:.2}\",{}\n", outcome.title, outcome.rate(), figures.join(","))
}

fn head(text: &mut String, outcome: &RunOutcome<'_>, options: &Options) -> std::fmt::Result {
    writeln!(text, "====== {} ======", outcome.title)?;
    writeln!(text, "  {} requests completed in {:.2} seconds", outcome.latencies.len(), outcome.took.as_secs_f64())?;
    writeln!(text, "  {} parallel clients", options.clients)?;
    writeln!(text, "  {} bytes payload", outcome.payload)?;
    writeln!(text, "  keep alive: {}", u8::from(options.keep_alive))?;
    if let Some((save, append_only)) = outcome.server {
        writeln!(text, "  host configuration \"save\": {save}")?;
        writeln!(text, "  host configuration \"appendonly\": {append_only}")?;
    }
    writeln!(text, "  multi-thread: {}", if options.threads.is_some() { "yes" } else { "no" })?;
    if let Some(threads) = options.threads {
        writeln!(text, "  threads: {threads}")?;
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

/// Latencies in even steps: of 0.1 ms up to 2 ms, of 1 ms above.
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

/// Valkey's option is called precision, and nothing said means microseconds.
fn rounded(microseconds: u64, precision: usize) -> String {
    let places = if precision == 0 { 3 } else { precision };
    format!("{:.places$}", milliseconds(microseconds))
}

fn summary(text: &mut String, outcome: &RunOutcome<'_>) -> std::fmt::Result {
    let latencies = outcome.latencies;
    writeln!(text, "Summary:")?;
    writeln!(text, "  throughput summary: {:.2} requests per second", outcome.rate())?;
    writeln!(text, "  latency summary (msec):")?;
    writeln!(text, "    {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "avg", "min", "p50", "p95", "p99", "max")?;
    writeln!(
        text,
        "    {:9.3} {:9.3} {:9.3} {:9.3} {:9.3} {:9.3}\n",
        outcome.mean(),
        milliseconds(latencies.min()),
        outcome.percentile(50.0),
        outcome.percentile(95.0),
        outcome.percentile(99.0),
        milliseconds(latencies.max())
    )
}

/// The line that shows a run under way; it is written over until the run ends.
#[derive(Debug)]
pub struct ReportProgress<'p> {
    title: &'p str,
    options: &'p Options,
    /// What was there when recording began, and when the line was written last.
    base: Mark,
    last: Mark,
    warming_up: bool,
    width: usize,
}

/// Replies so far and the sum of their latencies, at one moment.
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

    /// Milliseconds.
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
        let now = Mark { at: Instant::now(), replies, latency_sum };
        let line = self.line(now);
        if self.warming_up && shared.started.elapsed() >= self.options.warmup {
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

    /// Makes room for what is printed next.
    pub fn clear(&self) {
        print!("{:<width$}\r", "", width = self.width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_generator::new_histogram;

    fn outcome_of(values: &[u64], options: &Options) -> String {
        let mut latencies = new_histogram();
        for value in values {
            latencies.record(*value).unwrap();
        }
        let took = Duration::from_secs(2);
        render(&RunOutcome { title: "SET", took, payload: 3, latencies: &latencies, server: None }, options)
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
    fn nothing_done_is_no_disaster() {
        assert!(outcome_of(&[], &Options::default()).contains("0 requests completed"));
    }
}
