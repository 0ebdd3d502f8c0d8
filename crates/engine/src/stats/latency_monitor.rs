//! The latency monitor: the longest moments of the server, by their causes.
//!
//! An event takes at least `latency-monitor-threshold` milliseconds: `command`, `fast-command`, `expire-cycle` and so
//! on. The last 160 seconds in which it happened are stored, with the longest time of that second.

use crate::locks::sync::Mutex;
use crate::time::UnixMs;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Seconds that are stored for an event.
const SAMPLES: usize = 160;

/// The longest time of an event in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub at: i64,
    /// Milliseconds.
    pub ms: u64,
}

/// The times of one event, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The longest time of each second in which it happened, the oldest first.
    pub samples: VecDeque<Sample>,
    /// The longest time since the last reset, in milliseconds.
    pub max: u64,
    /// The sum of all times since then, in milliseconds.
    pub sum: u64,
    /// Number of times since then.
    pub count: u64,
}

/// Events that took long.
pub struct LatencyMonitor {
    /// In nanoseconds; `u64::MAX` when the monitor is off.
    threshold: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl Default for LatencyMonitor {
    fn default() -> Self {
        LatencyMonitor { threshold: AtomicU64::new(u64::MAX), events: Mutex::default() }
    }
}

impl LatencyMonitor {
    /// Sets `latency-monitor-threshold`, in milliseconds; 0 is off.
    pub fn set_threshold(&self, ms: i64) {
        let nanos = u64::try_from(ms).ok().filter(|ms| *ms > 0).map_or(u64::MAX, |ms| ms.saturating_mul(1_000_000));
        self.threshold.store(nanos, Relaxed);
    }

    /// Returns the nanoseconds from which an event counts.
    #[inline]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// Records an event that took so long, if that is long enough. `now`: Unix time in milliseconds.
    #[inline]
    pub fn note(&self, event: &'static str, nanos: u64, now: UnixMs) {
        if nanos >= self.threshold() {
            self.add(event, nanos / 1_000_000, now.seconds());
        }
    }

    #[cold]
    fn add(&self, event: &'static str, ms: u64, at: i64) {
        let mut events = self.events.lock();
        let series = events.entry(event).or_default();
        series.max = series.max.max(ms);
        series.sum += ms;
        series.count += 1;
        match series.samples.back_mut() {
            Some(last) if last.at == at => last.ms = last.ms.max(ms),
            _ => {
                if series.samples.len() == SAMPLES {
                    series.samples.pop_front();
                }
                series.samples.push_back(Sample { at, ms });
            }
        }
    }

    /// Returns all events by name.
    pub fn all(&self) -> Vec<(&'static str, Series)> {
        self.events.lock().iter().map(|(name, series)| (*name, series.clone())).collect()
    }

    /// Returns one event, by its exact name.
    pub fn get(&self, event: &[u8]) -> Option<Series> {
        self.events.lock().iter().find(|(name, _)| name.as_bytes() == event).map(|(_, series)| series.clone())
    }

    /// Removes events of these names, or all of them; returns how many there were.
    pub fn reset(&self, names: Option<&[&[u8]]>) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|event, _| names.is_some_and(|names| !names.contains(&event.as_bytes())));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_longest_time() {
        let monitor = LatencyMonitor::default();
        monitor.note("command", u64::MAX - 1, UnixMs(0));
        assert!(monitor.all().is_empty(), "off");
        monitor.set_threshold(10);
        for (ms, now) in [(9, 1000), (10, 1000), (30, 1999), (20, 1500), (11, 2000)] {
            monitor.note("command", ms * 1_000_000, UnixMs(now));
        }
        let series = monitor.get(b"command").unwrap();
        assert_eq!(series.samples, [Sample { at: 1, ms: 30 }, Sample { at: 2, ms: 11 }]);
        assert_eq!((series.max, series.sum, series.count), (30, 71, 4));
    }

    #[test]
    fn old_seconds_are_forgotten_and_so_is_everything_on_request() {
        let monitor = LatencyMonitor::default();
        monitor.set_threshold(1);
        for second in 0..200 {
            monitor.note("command", 2_000_000, UnixMs(second * 1000));
        }
        monitor.note("expire-cycle", 2_000_000, UnixMs(0));
        let series = monitor.get(b"command").unwrap();
        assert_eq!((series.samples.len(), series.samples[0].at), (SAMPLES, 40));
        assert_eq!(monitor.reset(Some(&[b"nope", b"command"])), 1);
        assert_eq!((monitor.reset(None), monitor.reset(None)), (1, 0));
    }
}
