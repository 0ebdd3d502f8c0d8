//! Keys that take most of the time and of the traffic, while HOTKEYS tracks them.
//!
//! ```text
//!   command -> how long, how many bytes, which keys -> its worker's own lists       an uncontended lock
//!   HOTKEYS GET -> the lists of all workers together, the heaviest first
//! ```
//!
//! While it is off no command looks at anything here: it is one of the reasons for which a command's end is looked at
//! more closely at all. A worker recognizes lists of an earlier session by their number.
//!
//! If only one command of so many is sampled, a worker counts down to it, and passes the others over at the cost of a
//! few additions to counters of its own.

use crate::data::slot::slot_of;
use crate::locks::sync::Mutex;
use crate::per_worker::PerWorker;
use crate::stats::heavy_hitters::HeavyHitters;
use crate::stats::metrics::Counter;
use crate::time::{SteadyMs, UnixMs};
use cluster::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

/// Factor, and least number, of stored names per reported one, so that the reported ones are right.
const SPARE: usize = 10;
const KEPT_MIN: usize = 256;

/// Settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKeySettings {
    /// Whether keys are ranked by the time of their commands.
    pub by_time: bool,
    /// Whether keys are ranked by the bytes of requests and replies.
    pub by_bytes: bool,
    /// Number of keys in each ranking.
    pub count: usize,
    /// One command of so many is sampled.
    pub sample: u64,
    /// Duration in milliseconds; none: until it is stopped.
    pub duration: Option<i64>,
    /// Only keys of these slots; none: all.
    pub slots: Option<SlotSet>,
}

/// Processor time of the process: of its own, and of the system for it.
pub type CpuTimes = (Duration, Duration);

/// One session, from its start on.
#[derive(Clone, Debug)]
struct Session {
    settings: HotKeySettings,
    began: UnixMs,
    since: SteadyMs,
    cpu_before: CpuTimes,
    /// Time at which it was stopped, and the processor time then.
    ended: Option<(SteadyMs, CpuTimes)>,
}

/// Counts of one worker.
#[derive(Debug, Default)]
struct Found {
    session: u64,
    sample: u64,
    slots: Option<SlotSet>,
    by_time: Option<HeavyHitters>,
    by_bytes: Option<HeavyHitters>,
    all: HotKeyTotals,
    selected: HotKeyTotals,
    sampled: HotKeyTotals,
}

/// Counts of one worker that are written without a lock.
#[derive(Debug, Default)]
struct PassedOver {
    /// Session in which commands are passed over; 0: none.
    session: Counter,
    /// Commands before the next one that is sampled.
    left: Counter,
    /// Time of the commands that were passed over.
    nanos: Counter,
    bytes: Counter,
}

/// State of one worker.
#[derive(Debug, Default)]
struct WorkerPart {
    passed_over: PassedOver,
    found: Mutex<Found>,
}

/// Time and bytes of some commands together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeyTotals {
    /// Nanoseconds.
    pub nanos: u64,
    /// Bytes of requests and replies.
    pub bytes: u64,
}

impl HotKeyTotals {
    fn add(&mut self, other: HotKeyTotals) {
        self.nanos += other.nanos;
        self.bytes += other.bytes;
    }
}

/// The keys that take the most.
#[derive(Debug)]
pub struct HotKeys {
    on: AtomicBool,
    /// Counts up with each session.
    number: AtomicU64,
    session: Mutex<Option<Session>>,
    workers: PerWorker<WorkerPart>,
}

/// A key with its time or bytes.
pub type HotKey = (Vec<u8>, u64);

/// Result of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct HotKeyReport {
    /// Whether it is still on.
    pub is_on: bool,
    /// Its settings.
    pub settings: HotKeySettings,
    /// Its beginning.
    pub began: UnixMs,
    /// Its duration in milliseconds.
    pub lasted: i64,
    /// Processor time of the process meanwhile.
    pub cpu: CpuTimes,
    /// Totals of all commands with keys, sampled or not.
    pub all: HotKeyTotals,
    /// Totals of commands with keys in the chosen slots.
    pub selected: HotKeyTotals,
    /// Totals of the sampled ones of these commands.
    pub sampled: HotKeyTotals,
    /// Nanoseconds by key, the most first.
    pub by_time: Vec<HotKey>,
    /// Bytes by key, the most first.
    pub by_bytes: Vec<HotKey>,
}

impl HotKeys {
    /// Makes the state of so many workers at the start.
    pub fn new(workers: usize) -> HotKeys {
        HotKeys {
            on: AtomicBool::new(false),
            number: AtomicU64::new(0),
            session: Mutex::new(None),
            workers: PerWorker::new(workers),
        }
    }

    /// Whether a session is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Begins a session at this time of day and this moment; the result of the last one is dropped. False if one is on.
    pub fn begin(&self, settings: HotKeySettings, began: UnixMs, now: SteadyMs, cpu_before: CpuTimes) -> bool {
        let mut session = self.session.lock();
        if self.is_on() {
            return false;
        }
        *session = Some(Session { settings, began, since: now, cpu_before, ended: None });
        self.number.fetch_add(1, Release);
        self.on.store(true, Relaxed);
        true
    }

    /// Ends the session; its result stays. False if none is on.
    pub fn stop(&self, now: SteadyMs, cpu: CpuTimes) -> bool {
        let mut session = self.session.lock();
        let was_on = self.on.swap(false, Relaxed);
        if let Some(session) = session.as_mut().filter(|_| was_on) {
            let end = session.settings.duration.map_or(now, |most| now.min(session.since.after(most)));
            session.ended = Some((end, cpu));
        }
        was_on
    }

    /// Whether the session has lasted as long as it should.
    pub fn is_over(&self, now: SteadyMs) -> bool {
        self.is_on()
            && self
                .session
                .lock()
                .as_ref()
                .is_some_and(|it| it.settings.duration.is_some_and(|most| now.since(it.since) >= most))
    }

    /// Drops the result. False if a session is on.
    pub fn reset(&self) -> bool {
        let mut session = self.session.lock();
        if self.is_on() {
            return false;
        }
        *session = None;
        let number = self.number.fetch_add(1, Release) + 1;
        // A worker that begins to count has its own lock when it takes that of the session.
        drop(session);
        for part in self.workers.iter() {
            let mut found = part.found.lock();
            if found.session < number {
                *found = Found::default();
            }
        }
        true
    }

    /// Whether a command with keys is passed over, since only some are sampled; then it is counted, and needs no
    /// further call. Only its worker calls this.
    #[inline]
    pub fn passes_over(&self, worker: usize, nanos: u64, bytes: u64) -> bool {
        let PassedOver { session, left, nanos: all_nanos, bytes: all_bytes } = &self.workers[worker].passed_over;
        let before = left.get();
        if before == 0 || session.get() != self.number.load(Acquire) {
            return false;
        }
        left.set(before - 1);
        all_nanos.add(nanos);
        all_bytes.add(bytes);
        true
    }

    /// Counts a command of this worker's that has taken so many nanoseconds, and its request and reply so many bytes:
    /// each of its keys gets the same part of it.
    pub fn note<'k>(
        &self,
        worker: usize,
        nanos: u64,
        bytes: u64,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
    ) {
        let (number, count) = (self.number.load(Acquire), keys.len() as u64);
        let WorkerPart { passed_over, found } = &self.workers[worker];
        let mut found = found.lock();
        if found.session != number {
            let Some(settings) = self.session.lock().as_ref().map(|session| session.settings.clone()) else { return };
            *found = Found::of(number, &settings);
            passed_over.begin(number, &settings);
        }
        let Some(first) = keys.clone().next() else { return };
        let took = HotKeyTotals { nanos, bytes };
        found.all.add(took);
        // In a cluster a command's keys have one slot.
        if found.slots.as_ref().is_some_and(|slots| !slots.contains(slot_of(first))) {
            return;
        }
        found.selected.add(took);
        match passed_over.left.get() {
            0 => passed_over.left.set(until_next(found.sample)),
            left => return passed_over.left.set(left - 1),
        }
        found.sampled.add(took);
        let Found { by_time, by_bytes, .. } = &mut *found;
        for key in keys {
            by_time.iter_mut().for_each(|list| list.add(key, nanos / count));
            by_bytes.iter_mut().for_each(|list| list.add(key, bytes / count));
        }
    }

    /// Returns the result of the present session so far, or of the last one. `cpu`: the processor time now.
    pub fn report(&self, now: SteadyMs, cpu: CpuTimes) -> Option<HotKeyReport> {
        let session = self.session.lock().clone()?;
        let number = self.number.load(Acquire);
        let (mut times, mut traffic) = (BTreeMap::new(), BTreeMap::new());
        let [mut all, mut selected, mut sampled] = [HotKeyTotals::default(); 3];
        for WorkerPart { passed_over, found } in self.workers.iter() {
            let found = found.lock();
            if found.session != number {
                continue;
            }
            let passed_over = passed_over.totals(number);
            [found.all, passed_over].into_iter().for_each(|part| all.add(part));
            [found.selected, passed_over].into_iter().for_each(|part| selected.add(part));
            sampled.add(found.sampled);
            for (list, sums) in [(&found.by_time, &mut times), (&found.by_bytes, &mut traffic)] {
                for (key, weight) in list.iter().flat_map(HeavyHitters::iter) {
                    *sums.entry(key.to_vec()).or_default() += weight;
                }
            }
        }
        let (until, cpu) = session.ended.unwrap_or((now, cpu));
        let since = |now: Duration, before: Duration| now.saturating_sub(before);
        Some(HotKeyReport {
            is_on: session.ended.is_none(),
            by_time: heaviest(times, session.settings.count),
            by_bytes: heaviest(traffic, session.settings.count),
            settings: session.settings,
            began: session.began,
            lasted: until.since(session.since),
            cpu: (since(cpu.0, session.cpu_before.0), since(cpu.1, session.cpu_before.1)),
            all,
            selected,
            sampled,
        })
    }
}

impl PassedOver {
    /// Begins a session. If slots are chosen, the slot of every command has to be looked at.
    fn begin(&self, session: u64, settings: &HotKeySettings) {
        self.session.set(if settings.slots.is_none() && settings.sample > 1 { session } else { 0 });
        self.left.set(until_next(settings.sample));
        self.nanos.set(0);
        self.bytes.set(0);
    }

    fn totals(&self, session: u64) -> HotKeyTotals {
        match self.session.get() == session {
            true => HotKeyTotals { nanos: self.nanos.get(), bytes: self.bytes.get() },
            false => HotKeyTotals::default(),
        }
    }
}

/// Returns the number of commands before the next sample: any number, so that a pattern is not always met or missed,
/// and one less than `sample` in the mean.
fn until_next(sample: u64) -> u64 {
    fastrand::u64(0..=2 * sample.saturating_sub(1))
}

impl Found {
    fn of(session: u64, settings: &HotKeySettings) -> Found {
        let list = |wanted: bool| wanted.then(|| HeavyHitters::new((settings.count * SPARE).max(KEPT_MIN)));
        let (by_time, by_bytes) = (list(settings.by_time), list(settings.by_bytes));
        let (sample, slots) = (settings.sample, settings.slots.clone());
        Found { session, sample, slots, by_time, by_bytes, ..Found::default() }
    }
}

fn heaviest(sums: BTreeMap<Vec<u8>, u64>, count: usize) -> Vec<HotKey> {
    let mut all: Vec<HotKey> = sums.into_iter().collect();
    all.sort_by(|(one, weight), (other, other_weight)| other_weight.cmp(weight).then_with(|| one.cmp(other)));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: HotKeySettings =
        HotKeySettings { by_time: true, by_bytes: true, count: 2, sample: 1, duration: None, slots: None };

    fn cpu(ms: u64) -> CpuTimes {
        (Duration::from_millis(ms), Duration::from_millis(2 * ms))
    }

    fn note(hot: &HotKeys, worker: usize, nanos: u64, bytes: u64, keys: &[&str]) {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        hot.note(worker, nanos, bytes, keys.into_iter());
    }

    fn key(name: &str, weight: u64) -> HotKey {
        (name.into(), weight)
    }

    #[test]
    fn keys_that_workers_have_found_are_reported_together() {
        let hot = HotKeys::new(2);
        assert!(hot.report(SteadyMs(1), cpu(0)).is_none() && !hot.stop(SteadyMs(1), cpu(0)));
        assert!(hot.begin(SETTINGS, UnixMs(1000), SteadyMs(1000), cpu(10)) && hot.is_on());
        assert!(!hot.begin(SETTINGS, UnixMs(1000), SteadyMs(1000), cpu(10)) && !hot.reset());
        note(&hot, 0, 100, 10, &["a"]);
        note(&hot, 1, 100, 30, &["a"]);
        note(&hot, 40, 300, 60, &["b", "c", "a"]);
        note(&hot, 0, 1000, 1000, &[]);
        let report = hot.report(SteadyMs(1500), cpu(15)).unwrap();
        assert!(report.is_on && report.lasted == 500 && report.cpu == cpu(5));
        assert_eq!([report.all, report.sampled], [HotKeyTotals { nanos: 500, bytes: 100 }; 2]);
        assert_eq!(report.by_time, [key("a", 300), key("b", 100)]);
        assert_eq!(report.by_bytes, [key("a", 60), key("b", 20)]);
        assert!(hot.stop(SteadyMs(2000), cpu(20)) && !hot.is_on());
        let report = hot.report(SteadyMs(9000), cpu(90)).unwrap();
        assert!(!report.is_on && report.lasted == 1000 && report.cpu == cpu(10));
        assert!(hot.reset() && hot.report(SteadyMs(9000), cpu(90)).is_none());
        assert!(hot.begin(HotKeySettings { by_bytes: false, ..SETTINGS }, UnixMs(10_000), SteadyMs(10_000), cpu(0)));
        note(&hot, 1, 7, 7, &["d"]);
        let report = hot.report(SteadyMs(10_000), cpu(0)).unwrap();
        assert_eq!((report.by_time, report.by_bytes.len(), report.all.nanos), (vec![key("d", 7)], 0, 7));
    }

    #[test]
    fn a_session_ends_when_its_time_is_over_and_only_some_commands_are_looked_at() {
        let hot = HotKeys::new(1);
        let settings = HotKeySettings { sample: 10, duration: Some(1000), ..SETTINGS };
        assert!(hot.begin(settings, UnixMs(0), SteadyMs(0), cpu(0)));
        (0..10_000).for_each(|_| note(&hot, 0, 1, 1, &["a"]));
        assert!(!hot.is_over(SteadyMs(999)) && hot.is_over(SteadyMs(1000)));
        assert!(hot.stop(SteadyMs(1049), cpu(1)));
        let report = hot.report(SteadyMs(5000), cpu(9)).unwrap();
        assert_eq!((report.lasted, report.all.bytes), (1000, 10_000));
        assert!((1..5000).contains(&report.sampled.bytes), "{report:?}");
        assert_eq!(report.by_time[0].1, report.sampled.bytes);
    }

    #[test]
    fn commands_passed_over_are_counted_and_not_looked_at() {
        let hot = HotKeys::new(1);
        assert!(!hot.passes_over(0, 1, 1), "there is no session");
        for sample in [1, 10, 100] {
            let settings = HotKeySettings { sample, ..SETTINGS };
            assert!(hot.begin(settings, UnixMs(0), SteadyMs(0), cpu(0)));
            let looked_at =
                (0..10_000).filter(|_| !hot.passes_over(0, 3, 2)).map(|_| note(&hot, 0, 3, 2, &["a"])).count();
            let report = hot.report(SteadyMs(0), cpu(0)).unwrap();
            assert_eq!([report.all, report.selected], [HotKeyTotals { nanos: 30_000, bytes: 20_000 }; 2]);
            // The first shows that the session is new.
            let sampled = (report.sampled.bytes / 2) as usize;
            assert!(looked_at - sampled <= 1, "{looked_at} {sampled}");
            let expected = 10_000 / sample as usize;
            assert!((expected / 2..=expected * 2).contains(&sampled), "{sampled} of {expected}");
            assert!(hot.stop(SteadyMs(0), cpu(0)) && !report.by_time.is_empty());
        }
        let settings = HotKeySettings { sample: 10, slots: Some(SlotSet::all()), ..SETTINGS };
        assert!(hot.begin(settings, UnixMs(0), SteadyMs(0), cpu(0)));
        note(&hot, 0, 1, 1, &["a"]);
        assert!((0..100).all(|_| !hot.passes_over(0, 1, 1)), "the slot of each is looked at");
    }

    #[test]
    fn keys_of_other_slots_are_left_out() {
        let hot = HotKeys::new(1);
        let slots = SlotSet::of([slot_of(b"a")..=slot_of(b"a")]);
        assert!(hot.begin(HotKeySettings { slots: Some(slots), ..SETTINGS }, UnixMs(0), SteadyMs(0), cpu(0)));
        note(&hot, 0, 10, 1, &["a"]);
        note(&hot, 0, 30, 3, &["b"]);
        let report = hot.report(SteadyMs(0), cpu(0)).unwrap();
        assert_eq!(report.by_time, [key("a", 10)]);
        assert_eq!([report.all.nanos, report.selected.nanos, report.sampled.nanos], [40, 10, 10]);
    }
}
