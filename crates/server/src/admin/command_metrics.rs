//! Commands as metrics: how often, for how long, with which errors; slow commands.

use cinnabar_admin::family::{Family, Histogram, Kind, Labels, Summary};
use commands::server::info::command_stats;
use engine::Engine;
use engine::config::{Config, Directive};
use engine::stats::command_log::LogReason;
use engine::stats::histogram::HistogramSnapshot;
use engine::stats::metrics::{self, CommandTotals};

const NANOS: f64 = 1e-9;

/// Metrics of commands.
pub fn add(families: &mut Vec<Family>, engine: &Engine, config: &Config) {
    by_command(families, engine, config);
    errors(families, engine);
    logged(families, engine, config);
    spikes(families, engine);
}

fn by_command(families: &mut Vec<Family>, engine: &Engine, config: &Config) {
    let counter = |name: &'static str, help: &'static str| Family::new(name, Kind::Counter, help);
    let mut calls = counter("redis_commands_total", "Calls of a command.");
    let mut seconds = counter("redis_commands_duration_seconds_total", "Time that the calls of a command took.");
    let mut rejected = counter("redis_commands_rejected_calls_total", "Calls that were refused before they ran.");
    let mut failed = counter("redis_commands_failed_calls_total", "Calls that ran and replied an error.");
    let help = "How long the calls of a command took, in microseconds.";
    let mut by_micros = Family::new("redis_commands_latencies_usec", Kind::Histogram, help);
    let help = "Microseconds that so many percent of the calls of a command did not exceed.";
    let mut percentiles = Family::new("redis_latency_percentiles_usec", Kind::Summary, help);
    let help = "How long the calls of a command took.";
    let mut by_seconds = Family::new("cinnabar_command_duration_seconds", Kind::Histogram, help);
    command_stats::each(engine, |name, totals| {
        let CommandTotals { calls: called, nanos, rejected: refused, failed: erred, durations } = totals;
        if called == 0 && refused == 0 && erred == 0 {
            return;
        }
        let labels = || -> Labels { vec![("cmd", name.to_owned())] };
        calls.add(labels(), called as f64);
        seconds.add(labels(), nanos as f64 * NANOS);
        rejected.add(labels(), refused as f64);
        failed.add(labels(), erred as f64);
        if durations.total() > 0 {
            by_seconds.add_histogram(labels(), in_seconds(&durations, nanos));
            let steps = durations.steps();
            let buckets = finite(&steps).map(|(limit, count)| ((limit / 1000) as f64, *count)).collect();
            let sum = nanos as f64 / 1000.0;
            by_micros.add_histogram(labels(), Histogram { buckets, count: durations.total(), sum });
            let quantile = |part: &f64| (*part, durations.percentile(*part) as f64 / 1000.0);
            let quantiles = config.percentiles().iter().map(quantile).collect();
            percentiles.add_summary(labels(), Summary { quantiles, count: durations.total(), sum });
        }
    });
    families.extend([calls, seconds, rejected, failed, by_micros, percentiles, by_seconds]);
}

/// Returns durations with limits in seconds. `nanos`: the sum of all.
pub fn in_seconds(durations: &HistogramSnapshot, nanos: u64) -> Histogram {
    let steps = durations.steps();
    let buckets = finite(&steps).map(|(limit, count)| (*limit as f64 * NANOS, *count)).collect();
    Histogram { buckets, count: durations.total(), sum: nanos as f64 * NANOS }
}

/// Returns all steps but the last, which includes durations above its limit.
fn finite(steps: &[(u64, u64)]) -> impl Iterator<Item = &(u64, u64)> {
    steps.split_last().map_or(&[][..], |(_, before)| before).iter()
}

fn errors(families: &mut Vec<Family>, engine: &Engine) {
    let mut family = Family::new("redis_errors_total", Kind::Counter, "Error replies by their first word.");
    for (code, count) in metrics::errors(engine.metrics()) {
        family.add(vec![("err", String::from_utf8_lossy(&code).into_owned())], count as f64);
    }
    families.push(family);
}

/// Adds the lists of slow and large commands.
fn logged(families: &mut Vec<Family>, engine: &Engine, config: &Config) {
    let log = engine.command_log();
    let last = log.newest(LogReason::Slow, 1).pop();
    let (id, micros) = last.map_or((0, 0), |last| (last.id, last.value));
    let mut gauge = |name, help, number: f64| families.push(Family::number(name, Kind::Gauge, help, number));
    gauge("redis_slowlog_length", "Slow commands in the log.", log.len(LogReason::Slow) as f64);
    gauge("redis_slowlog_last_id", "The number of the last slow command.", id as f64);
    gauge("redis_last_slow_execution_duration_seconds", "How long the last slow command took.", micros as f64 * 1e-6);
    for (name, reason, help) in [
        ("redis_commandlog_slow_length", LogReason::Slow, "Slow commands in the log."),
        ("redis_commandlog_large_request_length", LogReason::LargeRequest, "Commands with large requests in the log."),
        ("redis_commandlog_large_reply_length", LogReason::LargeReply, "Commands with large replies in the log."),
    ] {
        gauge(name, help, log.len(reason) as f64);
    }
    for (name, directive, help) in [
        (
            "redis_commandlog_execution_slower_than",
            Directive::COMMANDLOG_EXECUTION_SLOWER_THAN,
            "From how many microseconds on a command is slow.",
        ),
        (
            "redis_commandlog_slow_execution_max_len",
            Directive::COMMANDLOG_SLOW_EXECUTION_MAX_LEN,
            "Slow commands that are kept.",
        ),
        (
            "redis_commandlog_request_larger_than",
            Directive::COMMANDLOG_REQUEST_LARGER_THAN,
            "From how many bytes on a request is large.",
        ),
        (
            "redis_commandlog_large_request_max_len",
            Directive::COMMANDLOG_LARGE_REQUEST_MAX_LEN,
            "Commands with large requests that are kept.",
        ),
        (
            "redis_commandlog_reply_larger_than",
            Directive::COMMANDLOG_REPLY_LARGER_THAN,
            "From how many bytes on a reply is large.",
        ),
        (
            "redis_commandlog_large_reply_max_len",
            Directive::COMMANDLOG_LARGE_REPLY_MAX_LEN,
            "Commands with large replies that are kept.",
        ),
    ] {
        gauge(name, help, config.int(directive) as f64);
    }
}

/// Adds the latest events of the latency monitor.
fn spikes(families: &mut Vec<Family>, engine: &Engine) {
    let help = "Unix time of the last long moment of an event.";
    let mut times = Family::new("redis_latency_spike_last", Kind::Gauge, help);
    let help = "How long the last long moment of an event was.";
    let mut durations = Family::new("redis_latency_spike_duration_seconds", Kind::Gauge, help);
    for (event, series) in engine.latency().all() {
        if let Some(last) = series.samples.back() {
            let labels = || vec![("event_name", event.to_owned())];
            times.add(labels(), last.at as f64);
            durations.add(labels(), last.ms as f64 / 1000.0);
        }
    }
    families.extend([times, durations]);
}
