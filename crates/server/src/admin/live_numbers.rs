//! The numbers of the page, from the same sources as the metrics.

use crate::admin::authorization;
use crate::admin::worker_metrics::{COUNTERS, NANOS, WorkerMetric, stalled};
use crate::workers::shared::Shared;
use cinnabar_admin::live::{CommandNumbers, Live, WorkerNumbers};
use commands::server::info::{ShownField, command_stats};
use engine::Engine;
use engine::stats::histogram::HistogramSnapshot;
use engine::stats::metrics::{self, CommandTotals};
use engine::time::UnixMs;
use std::sync::atomic::Ordering::Relaxed;

/// The commands that the page gives by itself, by their full names: it offers the ones that its user may run.
const OFFERED: &[&str] = &[
    "client|kill",
    "client|list",
    "cluster|nodes",
    "command|docs",
    "commandlog|get",
    "commandlog|reset",
    "del",
    "expire",
    "get",
    "hotkeys|get",
    "hotkeys|reset",
    "hotkeys|start",
    "hotkeys|stop",
    "memory|usage",
    "persist",
    "scan",
    "set",
    "type",
    "unlink",
];

/// Prefix of the names of workers' metrics; the page has the rest of them.
const PREFIX: &str = "cinnabar_worker_";

/// Returns the present numbers of the server. `info`: INFO's fields; `user`: the page's user.
pub fn live(shared: &Shared, info: &[ShownField], user: Option<&[u8]>, now: UnixMs) -> Live {
    let engine = &*shared.engine;
    let own = |field: &ShownField| (field.name.clone(), field.value.to_string());
    let word = |(code, count): (Vec<u8>, u64)| (String::from_utf8_lossy(&code).into_owned(), count);
    Live {
        now: now.0,
        user: user.map(|name| String::from_utf8_lossy(name).into_owned()),
        may: authorization::rights(engine, user, OFFERED),
        info: info.iter().map(own).collect(),
        errors: metrics::errors(engine.metrics()).into_iter().map(word).collect(),
        commands: commands(engine),
        workers: (0..shared.workers()).map(|worker| of_worker(shared, worker)).collect(),
        ..Live::default()
    }
}

fn commands(engine: &Engine) -> Vec<(String, CommandNumbers)> {
    let mut found = Vec::new();
    command_stats::each(engine, |name, totals| {
        let CommandTotals { calls, nanos, rejected, failed, durations } = totals;
        if calls + rejected + failed > 0 {
            let percentiles = [50.0, 99.0, 99.9].map(|part| durations.percentile(part));
            let steps = steps(&durations);
            found.push((name.to_owned(), CommandNumbers { calls, nanos, rejected, failed, percentiles, steps }));
        }
    });
    found
}

/// Returns the steps that are not empty, each with the count within it alone.
fn steps(durations: &HistogramSnapshot) -> Vec<(u64, u64)> {
    let mut below = 0;
    let within = |(limit, seen): (u64, u64)| (limit, seen - std::mem::replace(&mut below, seen));
    durations.steps().into_iter().map(within).filter(|(_, count)| *count > 0).collect()
}

fn of_worker(shared: &Shared, worker: usize) -> WorkerNumbers {
    let metrics = &shared.engine.metrics()[worker];
    let mut turns = HistogramSnapshot::default();
    turns.add(&metrics.turn_durations);
    let name = |metric: &WorkerMetric| metric.name.strip_prefix(PREFIX).unwrap_or(metric.name);
    let value = |metric: &WorkerMetric| (metric.counter)(metrics).get() as f64 * metric.scale;
    let mut numbers: Vec<(&'static str, f64)> = COUNTERS.iter().map(|it| (name(it), value(it))).collect();
    numbers.extend([
        ("connections", shared.slot(worker).load.load(Relaxed) as f64),
        ("current_tick_seconds", metrics.present_turn_nanos(shared.engine.host().nanos()) as f64 * NANOS),
        ("stalls_total", stalled(&turns) as f64),
    ]);
    WorkerNumbers { numbers, steps: steps(&turns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::core::command_table::CommandTable;
    use engine::stats::histogram::Histogram;

    #[test]
    fn steps_have_what_is_within_them() {
        let histogram = Histogram::default();
        [500, 600, 1500, 9000].iter().for_each(|nanos| histogram.record(*nanos));
        let mut seen = HistogramSnapshot::default();
        seen.add(&histogram);
        assert_eq!(steps(&seen), [(1031, 2), (2063, 1), (16_511, 1)]);
    }

    #[test]
    fn offered_commands_exist() {
        commands::install(&[]);
        for name in OFFERED {
            let (name, sub) = name.split_once('|').unwrap_or((name, ""));
            let entry = CommandTable::get().find(name.as_bytes()).unwrap();
            assert!(sub.is_empty() || entry.subcommand(sub.as_bytes()).is_some(), "{name} {sub}");
        }
    }
}
