//! Workers as metrics: the work of each, how long its turns were, and for how long others waited for one.

use crate::admin::command_metrics::in_seconds;
use crate::system::proc;
use crate::workers::shared::Shared;
use cinnabar_admin::family::{Family, Kind, Labels};
use engine::stats::histogram::HistogramSnapshot;
use engine::stats::metrics::{Counter, WorkerMetrics};
use std::sync::atomic::Ordering::Relaxed;

/// Nanoseconds of a turn after which others have waited for the worker: a step of the distribution of turns.
const STALL: u64 = 10_000_000;

pub(super) const NANOS: f64 = 1e-9;

/// A counter that each worker has.
pub(super) struct WorkerMetric {
    pub(super) name: &'static str,
    kind: Kind,
    /// Size of the counter's unit in the metric's.
    pub(super) scale: f64,
    pub(super) counter: fn(&WorkerMetrics) -> &Counter,
    help: &'static str,
}

pub(super) const COUNTERS: &[WorkerMetric] = &[
    WorkerMetric {
        name: "cinnabar_worker_ticks_total",
        kind: Kind::Counter,
        scale: 1.0,
        counter: |worker| &worker.turns,
        help: "Turns of a worker's event loop.",
    },
    WorkerMetric {
        name: "cinnabar_worker_busy_seconds_total",
        kind: Kind::Counter,
        scale: NANOS,
        counter: |worker| &worker.turn_nanos,
        help: "For how long a worker had something to do.",
    },
    WorkerMetric {
        name: "cinnabar_worker_background_seconds_total",
        kind: Kind::Counter,
        scale: NANOS,
        counter: |worker| &worker.background_nanos,
        help: "For how long of that a worker did what runs in the background.",
    },
    WorkerMetric {
        name: "cinnabar_worker_log_seconds_total",
        kind: Kind::Counter,
        scale: NANOS,
        counter: |worker| &worker.log_nanos,
        help: "For how long of that a worker wrote the append-only file.",
    },
    WorkerMetric {
        name: "cinnabar_worker_commands_total",
        kind: Kind::Counter,
        scale: 1.0,
        counter: |worker| &worker.commands,
        help: "Commands that a worker has run.",
    },
    WorkerMetric {
        name: "cinnabar_worker_input_bytes_total",
        kind: Kind::Counter,
        scale: 1.0,
        counter: |worker| &worker.input_bytes,
        help: "Bytes that a worker has read.",
    },
    WorkerMetric {
        name: "cinnabar_worker_output_bytes_total",
        kind: Kind::Counter,
        scale: 1.0,
        counter: |worker| &worker.output_bytes,
        help: "Bytes that a worker has written.",
    },
    WorkerMetric {
        name: "cinnabar_worker_longest_tick_seconds",
        kind: Kind::Gauge,
        scale: NANOS,
        counter: |worker| &worker.longest_turn_nanos,
        help: "The longest turn since the statistics were reset.",
    },
];

/// Metrics of workers.
pub fn add(families: &mut Vec<Family>, shared: &Shared) {
    let (workers, all) = (shared.workers(), shared.engine.metrics());
    let each = || (0..workers).map(|worker| (worker, &all[worker]));
    let help = "Workers, each of which executes commands.";
    families.push(Family::number("cinnabar_workers", Kind::Gauge, help, workers as f64));
    for WorkerMetric { name, kind, scale, counter, help } in COUNTERS {
        let mut family = Family::new(*name, *kind, *help);
        each().for_each(|(worker, metrics)| family.add(label(worker), counter(metrics).get() as f64 * scale));
        families.push(family);
    }
    let mut connections = Family::new("cinnabar_worker_connections", Kind::Gauge, "Connections of a worker.");
    (0..workers).for_each(|worker| connections.add(label(worker), shared.slot(worker).load.load(Relaxed) as f64));
    families.push(connections);
    let help = "Processor time of a worker's thread.";
    let mut times = Family::new("cinnabar_worker_cpu_seconds_total", Kind::Counter, help);
    for (worker, time) in proc::threads_cpu_times("worker-") {
        times.add(vec![("worker", worker)], time.as_secs_f64());
    }
    families.push(times);
    turns(families, shared);
}

/// Adds how long turns were and the present ones are.
fn turns(families: &mut Vec<Family>, shared: &Shared) {
    let now = shared.engine.host().nanos();
    let help = "How long the turns of a worker's event loop were.";
    let mut durations = Family::new("cinnabar_worker_tick_duration_seconds", Kind::Histogram, help);
    let help = "Turns of a worker that were so long that others waited for it: about 10 ms and more.";
    let mut stalls = Family::new("cinnabar_worker_stalls_total", Kind::Counter, help);
    let help = "For how long the present turn of a worker has lasted; 0 while it has nothing to do.";
    let mut present = Family::new("cinnabar_worker_current_tick_seconds", Kind::Gauge, help);
    for worker in 0..shared.workers() {
        let metrics = &shared.engine.metrics()[worker];
        let mut seen = HistogramSnapshot::default();
        seen.add(&metrics.turn_durations);
        stalls.add(label(worker), stalled(&seen) as f64);
        durations.add_histogram(label(worker), in_seconds(&seen, metrics.turn_nanos.get()));
        present.add(label(worker), metrics.present_turn_nanos(now) as f64 * NANOS);
    }
    families.extend([durations, stalls, present]);
}

/// Returns the number of turns for which others have waited.
pub(super) fn stalled(turns: &HistogramSnapshot) -> u64 {
    let below = turns.steps().into_iter().take_while(|(limit, _)| *limit < STALL).last().map_or(0, |(_, seen)| seen);
    turns.total().saturating_sub(below)
}

fn label(worker: usize) -> Labels {
    vec![("worker", worker.to_string())]
}
