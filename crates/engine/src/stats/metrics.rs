//! Counters of the workers. Each worker writes only its own lines; a reader sums them up.

use crate::locks::sync::Mutex;
use crate::per_worker::PerWorker;
use crate::stats::buffer_peaks::BufferPeaks;
use crate::stats::histogram::{Histogram, HistogramSnapshot};
use crate::stats::running_command::RunningCommand;
use crate::time::{Nanos, SteadyMs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};

/// A counter with one writer: no locked instruction is needed to add to it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Only for the writer.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Returns the count; for any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it. Only for the writer, too.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Sets it to `n` if that is more. Only for the writer, too.
    #[inline]
    pub fn raise(&self, n: u64) {
        if n > self.get() {
            self.set(n);
        }
    }

    /// Resets it (CONFIG RESETSTAT); an addition of the writer's at the same moment may survive it.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Counts of one command by one worker: a cache line, and the histogram behind it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CommandStats {
    /// Calls that have ended.
    pub calls: Counter,
    /// Time that the calls took together, in nanoseconds.
    pub nanos: Counter,
    /// Calls that were refused before they ran.
    pub rejected: Counter,
    /// Calls that ran and replied an error.
    pub failed: Counter,
    histogram: OnceLock<Box<Histogram>>,
}

impl CommandStats {
    /// Counts a call that took so many nanoseconds; `tracked`: in the histogram too.
    #[inline]
    pub fn count(&self, nanos: u64, tracked: bool) {
        self.calls.add(1);
        self.nanos.add(nanos);
        if tracked {
            self.histogram.get_or_init(Default::default).record(nanos);
        }
    }

    fn reset(&self) {
        let CommandStats { calls, nanos, rejected, failed, histogram } = self;
        [calls, nanos, rejected, failed].into_iter().for_each(Counter::reset);
        if let Some(histogram) = histogram.get() {
            histogram.reset();
        }
    }
}

/// Counts of one command by all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// See [`CommandStats::calls`].
    pub calls: u64,
    /// See [`CommandStats::nanos`].
    pub nanos: u64,
    /// See [`CommandStats::rejected`].
    pub rejected: u64,
    /// See [`CommandStats::failed`].
    pub failed: u64,
}

/// [`CommandCounts`] with durations.
#[derive(Debug, Default)]
pub struct CommandTotals {
    /// See [`CommandStats::calls`].
    pub calls: u64,
    /// See [`CommandStats::nanos`].
    pub nanos: u64,
    /// See [`CommandStats::rejected`].
    pub rejected: u64,
    /// See [`CommandStats::failed`].
    pub failed: u64,
    /// Durations of calls while `latency-tracking` was on.
    pub durations: HistogramSnapshot,
}

/// Counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Commands that have run.
    pub commands: Counter,
    clock: Counter,
    /// The command that runs, for the report of a crash.
    pub running: RunningCommand,
    by_command: OnceLock<Box<[CommandStats]>>,
    /// Bytes that were read from clients.
    pub input_bytes: Counter,
    /// Bytes that were written to clients.
    pub output_bytes: Counter,
    /// Reads of sockets.
    pub reads: Counter,
    /// Writes to sockets.
    pub writes: Counter,
    /// Changes of the client that is replied to a write, while there are replicas.
    pub writers: Counter,
    /// Turns of the event loop.
    pub turns: Counter,
    /// Nanoseconds that turns of the event loop took, without the wait for something to do.
    pub turn_nanos: Counter,
    /// The clock when the present turn began; 0 between turns.
    turn_began: Counter,
    /// Nanoseconds of turns that timers and background work took.
    pub background_nanos: Counter,
    /// Nanoseconds that writes of the append-only file took.
    pub log_nanos: Counter,
    /// Nanoseconds that the longest turn took.
    pub longest_turn_nanos: Counter,
    /// Durations of turns, including turns that only the timers woke.
    pub turn_durations: Histogram,
    /// The most commands that one turn ran.
    pub most_commands_a_turn: Counter,
    /// Errors that were replied.
    pub error_replies: Counter,
    /// Bytes of memory that the worker's clients take up, except clients that are not to be evicted. Wraps around at
    /// zero.
    pub client_bytes: Counter,
    /// The largest buffers of the worker's clients lately.
    pub buffer_peaks: BufferPeaks,
    /// Bytes that the worker has allocated more than it has freed. Wraps around at zero.
    pub allocated: Counter,
    /// The value of `allocated` at which it looks for room again.
    pub has_room_until: Counter,
    /// Clients that were disconnected because all clients together took too much memory.
    pub evicted_clients: Counter,
    /// Clients that were disconnected because their requests took too much.
    pub query_limit_disconnections: Counter,
    /// How often reply buffers were made smaller.
    pub reply_buffer_shrinks: Counter,
    /// How often reply buffers were made larger.
    pub reply_buffer_expands: Counter,
    /// The number of changes of users after whose rights the worker asks other nodes for its clients; 0: it asks none.
    asks_by: AtomicU64,
    /// How often each error code was replied. Only its worker writes it, so no thread waits for the lock.
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

/// Bytes of an error's code.
const CODE_MAX: usize = 30;
/// Codes above which new ones of scripts are not distinguished: scripts may invent as many as they like.
const ERROR_CODES_MAX: usize = 128;

/// Code of a script's errors when there are too many codes.
const OVERFLOW: &[u8] = b"ERRORSTATS_OVERFLOW";

impl WorkerMetrics {
    /// Returns the counters of the command number `id`; `ids` returns how many commands there are.
    #[inline]
    pub fn command(&self, id: usize, ids: fn() -> usize) -> &CommandStats {
        &self.by_command.get_or_init(|| (0..ids()).map(|_| CommandStats::default()).collect())[id]
    }

    /// Counts an error reply by its code, the first word of its text.
    #[cold]
    pub fn count_error(&self, text: &[u8]) {
        self.count_error_code(text, usize::MAX);
    }

    /// Counts an error whose text came from a script.
    #[cold]
    pub fn count_custom_error(&self, text: &[u8]) {
        self.count_error_code(text, ERROR_CODES_MAX);
    }

    fn count_error_code(&self, text: &[u8], max: usize) {
        self.error_replies.add(1);
        // A text of one word, or of a long one, has no code.
        let end = text.iter().take(CODE_MAX + 1).position(|byte| *byte == b' ');
        let code = end.map_or(&b"ERR"[..], |end| &text[..end]);
        let mut errors = self.errors.lock();
        let code = if errors.contains_key(code) || errors.len() < max { code } else { OVERFLOW };
        match errors.get_mut(code) {
            Some(count) => *count += 1,
            None => _ = errors.insert(code.to_vec(), 1),
        }
    }

    /// Sets the rights by which the worker asks other nodes: after so many changes of users, or none. A look-up of the
    /// worker after this sees every change that another thread has made before it sees this.
    pub fn set_asks_by(&self, changes: Option<u64>) {
        self.asks_by.store(changes.unwrap_or(0), SeqCst);
        fence(SeqCst);
    }

    /// Whether the worker asks other nodes by rights that held before so many changes of users.
    pub fn asks_by_rights_before(&self, changes: u64) -> bool {
        fence(SeqCst);
        (1..changes).contains(&self.asks_by.load(SeqCst))
    }

    /// Returns the worker's clock when it was last read: the end of one command is the beginning of the next.
    #[inline(always)]
    pub fn clock(&self) -> Nanos {
        Nanos(self.clock.get())
    }

    /// Records that the worker has read its clock.
    #[inline(always)]
    pub fn set_clock(&self, now: Nanos) {
        self.clock.set(now.0);
    }

    /// Counts a turn of the event loop that began at `began`, came to its timers at `background` and ended at `ended`;
    /// `commands`: the worker's count before it. `counts`: it is a cycle; turns that only the timers woke count for one
    /// worker.
    pub fn count_turn(&self, began: Nanos, background: Nanos, ended: Nanos, commands: u64, counts: bool) {
        let took = ended.since(began);
        self.turns.add(u64::from(counts));
        self.turn_nanos.add(took);
        self.turn_began.set(0);
        self.background_nanos.add(ended.since(background));
        self.longest_turn_nanos.raise(took);
        self.turn_durations.record(took);
        self.most_commands_a_turn.raise(self.commands.get().saturating_sub(commands));
    }

    /// Begins a turn of the event loop.
    pub fn begin_turn(&self, clock: Nanos) {
        self.turn_began.set(clock.0);
    }

    /// Returns the nanoseconds for which the present turn of the event loop has lasted; 0 between turns.
    pub fn present_turn_nanos(&self, clock: Nanos) -> u64 {
        match self.turn_began.get() {
            0 => 0,
            began => clock.since(Nanos(began)),
        }
    }

    /// Resets the counts (CONFIG RESETSTAT), except the ones that describe the present.
    pub fn reset(&self) {
        let WorkerMetrics {
            commands,
            clock: _,
            running: _,
            asks_by: _,
            by_command,
            input_bytes,
            output_bytes,
            reads,
            writes,
            writers: _,
            turns,
            turn_nanos,
            turn_began: _,
            background_nanos,
            log_nanos,
            longest_turn_nanos,
            turn_durations,
            most_commands_a_turn,
            error_replies,
            client_bytes: _,
            buffer_peaks: _,
            allocated: _,
            has_room_until: _,
            evicted_clients,
            query_limit_disconnections,
            reply_buffer_shrinks,
            reply_buffer_expands,
            errors,
        } = self;
        errors.lock().clear();
        turn_durations.reset();
        for counter in [commands, input_bytes, output_bytes, reads, writes, turns, error_replies] {
            counter.reset();
        }
        for counter in [turn_nanos, background_nanos, longest_turn_nanos, most_commands_a_turn] {
            counter.reset();
        }
        for counter in [evicted_clients, query_limit_disconnections] {
            counter.reset();
        }
        for counter in [reply_buffer_shrinks, reply_buffer_expands, log_nanos] {
            counter.reset();
        }
        by_command.get().into_iter().flatten().for_each(CommandStats::reset);
    }
}

/// Returns the counts of all workers of the command number `id`, with the durations of its calls.
pub fn command(workers: &PerWorker<WorkerMetrics>, id: usize) -> CommandTotals {
    let CommandCounts { calls, nanos, rejected, failed } = counts(workers, id);
    CommandTotals { calls, nanos, rejected, failed, durations: durations(workers, id) }
}

/// Returns the counts of all workers of the command number `id`.
pub fn counts(workers: &PerWorker<WorkerMetrics>, id: usize) -> CommandCounts {
    let mut sum = CommandCounts::default();
    for stats in workers.iter().filter_map(|worker| worker.by_command.get()?.get(id)) {
        sum.calls += stats.calls.get();
        sum.nanos += stats.nanos.get();
        sum.rejected += stats.rejected.get();
        sum.failed += stats.failed.get();
    }
    sum
}

/// Returns the durations of the calls of the command number `id` by all workers.
pub fn durations(workers: &PerWorker<WorkerMetrics>, id: usize) -> HistogramSnapshot {
    let mut sum = HistogramSnapshot::default();
    let stats = workers.iter().filter_map(|worker| worker.by_command.get()?.get(id));
    stats.filter_map(|stats| stats.histogram.get()).for_each(|histogram| sum.add(histogram));
    sum
}

/// Returns the time that the calls of all commands took together, in nanoseconds.
pub fn command_nanos(workers: &PerWorker<WorkerMetrics>) -> u64 {
    let commands = workers.iter().filter_map(|worker| worker.by_command.get()).flatten();
    commands.map(|stats| stats.nanos.get()).sum()
}

/// Returns the largest value of one counter among all workers.
pub fn max(workers: &PerWorker<WorkerMetrics>, counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
    workers.iter().map(|worker| counter(worker).get()).max().unwrap_or(0)
}

/// Returns the sum of one counter over all workers.
pub fn sum(workers: &PerWorker<WorkerMetrics>, counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
    workers.iter().fold(0, |sum, worker| sum.wrapping_add(counter(worker).get()))
}

/// Returns the error replies of all workers by code.
pub fn errors(workers: &PerWorker<WorkerMetrics>) -> BTreeMap<Vec<u8>, u64> {
    let mut sum = BTreeMap::new();
    for worker in workers.iter() {
        for (code, count) in &*worker.errors.lock() {
            *sum.entry(code.clone()).or_default() += count;
        }
    }
    sum
}

/// Counts for [`Rates`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// See [`WorkerMetrics::commands`].
    pub commands: u64,
    /// See [`WorkerMetrics::input_bytes`].
    pub input_bytes: u64,
    /// See [`WorkerMetrics::output_bytes`].
    pub output_bytes: u64,
    /// Bytes that came from the primary, and that were sent to replicas; not among those above.
    pub replication_input: u64,
    /// See above.
    pub replication_output: u64,
    /// Bytes that came with slots of other nodes, and that were sent with slots; not among those above.
    pub slot_import: u64,
    /// See above.
    pub slot_export: u64,
    /// See [`WorkerMetrics::turns`].
    pub turns: u64,
    /// See [`WorkerMetrics::turn_nanos`].
    pub turn_nanos: u64,
}

impl Totals {
    /// Returns the sums over these workers. The bytes of replication and of migrations belong to no worker.
    pub fn of(workers: &PerWorker<WorkerMetrics>) -> Totals {
        Totals {
            commands: sum(workers, |worker| &worker.commands),
            input_bytes: sum(workers, |worker| &worker.input_bytes),
            output_bytes: sum(workers, |worker| &worker.output_bytes),
            replication_input: 0,
            replication_output: 0,
            slot_import: 0,
            slot_export: 0,
            turns: sum(workers, |worker| &worker.turns),
            turn_nanos: sum(workers, |worker| &worker.turn_nanos),
        }
    }
}

/// How fast totals grow: the difference between the newest sample and the oldest of the last one and a half seconds.
#[derive(Debug, Default)]
pub struct Rates(Mutex<VecDeque<(SteadyMs, Totals)>>);

/// Samples that are kept, and milliseconds between two.
const SAMPLES: usize = 16;
const SAMPLE_EVERY: i64 = 100;

impl Rates {
    /// Takes a sample of the totals at `now`, unless the last one is recent.
    pub fn sample(&self, now: SteadyMs, totals: impl FnOnce() -> Totals) {
        let mut samples = self.0.lock();
        if samples.back().is_some_and(|(last, _)| now.since(*last) < SAMPLE_EVERY) {
            return;
        }
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now, totals()));
    }

    /// Returns the growth a second.
    pub fn per_second(&self) -> Totals {
        let samples = self.0.lock();
        let (Some((from, old)), Some((to, new))) = (samples.front(), samples.back()) else { return Totals::default() };
        let time = to.since(*from).max(1) as u64;
        // A reset in between makes totals fall.
        let rate = |old: u64, new: u64| new.saturating_sub(old) * 1000 / time;
        Totals {
            commands: rate(old.commands, new.commands),
            input_bytes: rate(old.input_bytes, new.input_bytes),
            output_bytes: rate(old.output_bytes, new.output_bytes),
            replication_input: rate(old.replication_input, new.replication_input),
            replication_output: rate(old.replication_output, new.replication_output),
            slot_import: rate(old.slot_import, new.slot_import),
            slot_export: rate(old.slot_export, new.slot_export),
            turns: rate(old.turns, new.turns),
            turn_nanos: rate(old.turn_nanos, new.turn_nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_growth_over_the_last_samples() {
        let rates = Rates::default();
        assert_eq!(rates.per_second(), Totals::default());
        for n in 0..40u64 {
            let commands = if n < 20 { 0 } else { (n - 20) * 10 };
            rates.sample(SteadyMs(n as i64 * 100), || Totals { commands, ..Totals::default() });
            rates.sample(SteadyMs(n as i64 * 100 + 50), || unreachable!("too early"));
        }
        assert_eq!(rates.per_second().commands, 100);
    }

    #[test]
    fn errors_are_counted_by_code_and_those_of_scripts_up_to_a_limit() {
        let workers = PerWorker::<WorkerMetrics>::new(1);
        let worker = &workers[0];
        for n in 0..200 {
            worker.count_custom_error(format!("{n} x").as_bytes());
        }
        worker.count_error(b"ERR one");
        worker.count_error(b"ERR two");
        worker.count_custom_error(b"1 x");
        let counted = errors(&workers);
        assert_eq!((counted[&b"ERR"[..]], counted[&b"1"[..]], counted[OVERFLOW]), (2, 2, 72));
        assert_eq!((counted.len(), worker.error_replies.get()), (ERROR_CODES_MAX + 2, 203));
        worker.reset();
        assert!(errors(&workers).is_empty());
    }

    #[test]
    fn commands_are_counted_by_worker_and_summed() {
        let workers = PerWorker::<WorkerMetrics>::new(3);
        workers[0].command(1, || 2).count(100, true);
        workers[2].command(1, || 2).count(300, false);
        workers[2].command(1, || 2).failed.add(1);
        let sum = command(&workers, 1);
        assert_eq!((sum.calls, sum.nanos, sum.failed, sum.rejected), (2, 400, 1, 0));
        assert_eq!((sum.durations.total(), sum.durations.percentile(50.0)), (1, 100));
        assert_eq!(command(&workers, 0).calls, 0);
        workers.iter().for_each(WorkerMetrics::reset);
        assert_eq!((command(&workers, 1).calls, command(&workers, 1).durations.total()), (0, 0));
    }
}
