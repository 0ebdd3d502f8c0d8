//! One run: a server loaded with one case, by all threads, with a line of progress meanwhile.

use crate::batch::Operation;
use crate::cases::Case;
use crate::key_numbers::Numbers;
use crate::load_counts::{self, LoadCounts};
use crate::load_generator::{self, Encryption, LoadThread, Pacing, Plan, PlanNode};
use crate::options::Options;
use crate::report::ReportProgress;
use crate::setup;
use hdrhistogram::Histogram;
use resp::address::Target;
use std::time::{Duration, Instant};

/// Time between two updates of the progress line.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Result of a run; latencies are in microseconds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Time that it took, without the warm-up.
    pub took: Duration,
    pub latencies: Histogram<u64>,
    /// Latencies of each operation, if there are several.
    pub operations: Vec<Histogram<u64>>,
    /// Longest delay of a request of an open loop.
    pub lateness: Duration,
}

impl Measured {
    /// Returns an empty result, of so many operations.
    pub fn nothing(operations: usize) -> Measured {
        Measured {
            took: Duration::ZERO,
            latencies: load_counts::new_histogram(),
            operations: vec![load_counts::new_histogram(); operations],
            lateness: Duration::ZERO,
        }
    }

    /// Returns requests per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { self.latencies.len() as f64 / seconds } else { 0.0 }
    }

    /// Adds another run of the same case.
    pub fn add(&mut self, other: &Measured) -> Result<(), String> {
        self.took += other.took;
        self.lateness = self.lateness.max(other.lateness);
        self.latencies.add(&other.latencies).map_err(|error| error.to_string())?;
        for (own, others) in self.operations.iter_mut().zip(&other.operations) {
            own.add(others).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Loads the server that the options name. `label` stands before the line of progress, which is left out if the output
/// is for programs.
pub fn run(options: &Options, case: &Case, seed: u64, label: &str) -> Result<Measured, String> {
    let encryption = setup::encryption(options)?;
    let plan = plan(options, case, encryption.as_ref());
    let threads = options.threads.unwrap_or(1).min(options.clients);
    let shared = LoadCounts::new(threads);
    let mut progress = (!options.csv && !options.json).then(|| ReportProgress::new(label, options));
    let results = std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..threads)
            .map(|number| {
                let (plan, shared) = (&plan, &shared);
                let connections = options.clients / threads + usize::from(number < options.clients % threads);
                let numbers = numbers(options, seed, number, threads);
                let seed = seed.rotate_left(32).wrapping_add(number as u64);
                let thread = LoadThread { number, of: threads, connections, numbers, seed };
                scope.spawn(move || load_generator::run(plan, shared, thread))
            })
            .collect();
        while let Some(progress) = &mut progress
            && !loaders.iter().all(|loader| loader.is_finished())
        {
            progress.show(&shared);
            wait(PROGRESS_EVERY, || loaders.iter().all(|loader| loader.is_finished()));
        }
        loaders.into_iter().map(|loader| loader.join()).collect::<Vec<_>>()
    });
    if let Some(progress) = &progress {
        progress.clear();
    }
    let mut measured = Measured::nothing(case.operations.len());
    measured.took = shared.took().saturating_sub(options.warmup);
    measured.lateness = shared.lateness();
    for result in results {
        let recorded = result.map_err(|_| "A loading thread ended unexpectedly".to_string())?;
        let recorded = recorded.map_err(|failure| setup::explain(failure, options))?;
        for (all, of_thread) in measured.operations.iter_mut().zip(&recorded) {
            all.add(of_thread).map_err(|error| error.to_string())?;
            measured.latencies.add(of_thread).map_err(|error| error.to_string())?;
        }
    }
    Ok(measured)
}

/// Sleeps, but no longer than until `over`.
fn wait(time: Duration, over: impl Fn() -> bool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !over() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn numbers(options: &Options, seed: u64, thread: usize, threads: usize) -> Numbers {
    let range = options.range.unwrap_or(1);
    let own_seed = seed.wrapping_add(thread as u64);
    match options.zipf {
        // Each thread counts through its part of the range, so that together they use every number.
        _ if options.sequential => Numbers::sequential(range, range / threads as u64 * thread as u64),
        Some(theta) => Numbers::zipf(range, theta, own_seed),
        None => Numbers::random(range, own_seed),
    }
}

pub fn plan<'p>(options: &'p Options, case: &'p Case, tls: Option<&'p Encryption>) -> Plan<'p> {
    let node = |target: &'p Target, is_replica: bool| {
        let commands = setup::greeting(options, is_replica);
        let mut greeting = Vec::new();
        for command in &commands {
            resp::encode_command(&mut greeting, command);
        }
        PlanNode { target, greeting, greeting_replies: commands.len() as u64 }
    };
    let nodes = match &options.nodes[..] {
        [] => vec![node(&options.target, false)],
        nodes => nodes.iter().map(|each| node(&each.target, !each.is_primary)).collect(),
    };
    let is_routed = |operation: &Operation| operation.sequence.has_tags();
    Plan {
        nodes,
        cluster: &options.nodes,
        has_tags: !options.nodes.is_empty() && case.operations.iter().any(is_routed),
        multipath: options.multipath,
        tls,
        operations: &case.operations,
        commands: case.operations.first().map_or(0, |operation| operation.sequence.commands()),
        pipeline: options.pipeline,
        keep_alive: options.keep_alive,
        extent: options.extent,
        warmup: options.warmup,
        pacing: match (options.open_rate, options.rate) {
            (Some(rate), _) => Pacing::OpenLoop(rate),
            (None, Some(rate)) => Pacing::AtMost(rate),
            (None, None) => Pacing::AsAnswered,
        },
    }
}
