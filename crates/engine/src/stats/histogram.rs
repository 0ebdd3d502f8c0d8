//! Durations with two significant digits, in the memory that the durations that occur need.
//!
//! The buckets are the ones of an HDR histogram (Gil Tene's layout) of 1 ns to 1 s with two digits, since the
//! percentiles and bucket limits that servers print follow from them. Octave 0 counts 0 to 127 ns exactly; octave `n`
//! has 128 buckets, each `2^(n-1)` ns wide, from `128 << (n-1)` up to twice that:
//!
//! ```text
//! octave   0          1            2              3             ...   23
//! from     0          128          256            512                 2^29 ns
//! width    1          1            2              4                   2^22 ns
//! ```
//!
//! A command's durations fall into three to six neighbouring octaves, so each octave (1 KiB) is allocated when
//! something first falls into it: 4 to 6 KiB for a command instead of 24.
//!
//! One thread records, any thread reads: a [`HistogramSnapshot`] adds up the histograms of all workers.

use crate::stats::metrics::Counter;
use std::sync::{LazyLock, OnceLock};

/// Buckets of an octave.
const WIDTH: usize = 128;
const OCTAVES: usize = 24;
/// Longer durations count as this long: one second.
const MAX: u64 = 1_000_000_000;
/// The least level at which durations are distinguished in output.
const FIRST_STEP: u64 = 1024;

type Octave = [Counter; WIDTH];

/// Counts durations in nanoseconds.
#[derive(Debug, Default)]
pub struct Histogram {
    octaves: [OnceLock<Box<Octave>>; OCTAVES],
}

/// Returns the bucket of a duration: octave and place in it.
#[inline]
fn bucket(nanos: u64) -> (usize, usize) {
    let nanos = nanos.clamp(1, MAX);
    // The highest set bit, counted from the seventh on.
    let octave = 57 - (nanos | (WIDTH as u64 - 1)).leading_zeros() as usize;
    let place = nanos >> octave.saturating_sub(1);
    (octave, place as usize % WIDTH)
}

/// Returns the shortest and the longest duration in the bucket number `index`, counted over all octaves.
fn range(index: usize) -> (u64, u64) {
    let (octave, place) = (index / WIDTH, (index % WIDTH) as u64);
    match octave {
        0 => (place, place),
        _ => {
            let shift = octave - 1;
            let lowest = (place + WIDTH as u64) << shift;
            (lowest, lowest + (1 << shift) - 1)
        }
    }
}

impl Histogram {
    /// Counts one duration. Only one thread may do this.
    #[inline]
    pub fn record(&self, nanos: u64) {
        let (octave, place) = bucket(nanos);
        self.octaves[octave].get_or_init(new_octave)[place].add(1);
    }

    /// Forgets all times (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.octaves.iter().filter_map(OnceLock::get).flat_map(|octave| &octave[..]).for_each(Counter::reset);
    }
}

#[cold]
fn new_octave() -> Box<Octave> {
    Box::new(std::array::from_fn(|_| Counter::default()))
}

/// The sum of histograms at one moment.
#[derive(Debug, Default)]
pub struct HistogramSnapshot {
    /// By bucket, up to the last octave that was used.
    counts: Vec<u64>,
    total: u64,
}

impl HistogramSnapshot {
    /// Adds the counts of another worker.
    pub fn add(&mut self, histogram: &Histogram) {
        let used = histogram.octaves.iter().enumerate();
        for (octave, counters) in used.filter_map(|(octave, counters)| Some((octave, counters.get()?))) {
            let from = octave * WIDTH;
            if self.counts.len() < from + WIDTH {
                self.counts.resize(from + WIDTH, 0);
            }
            for (sum, counter) in self.counts[from..].iter_mut().zip(counters.iter()) {
                let count = counter.get();
                *sum += count;
                self.total += count;
            }
        }
    }

    /// Returns how many durations were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the duration in nanoseconds that `percentile` (0 to 100) of all do not exceed, as precise as the buckets
    /// are.
    pub fn percentile(&self, percentile: f64) -> u64 {
        let wanted = ((percentile.min(100.0) / 100.0 * self.total as f64 + 0.5) as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let (lowest, highest) = range(found.unwrap_or(0));
        if percentile == 0.0 { lowest } else { highest }
    }

    /// Returns the cumulative distribution at steps that double from 1024 ns on: upper limits in microseconds, with the
    /// number of durations up to there. Steps that add none are left out.
    pub fn distribution(&self) -> Vec<(u64, u64)> {
        let mut last = 0;
        let adds = |(_, seen): &(u64, u64)| std::mem::replace(&mut last, *seen) < *seen;
        self.steps().into_iter().filter(adds).map(|(end, seen)| (end / 1000, seen)).collect()
    }

    /// Returns the cumulative distribution with all steps, whose upper limits in nanoseconds are always the same ones.
    /// The last step has all durations, longer ones included.
    pub fn steps(&self) -> Vec<(u64, u64)> {
        let (mut seen, mut from) = (0, 0);
        let step = |(end, highest): &(usize, u64)| {
            let counted = self.counts.get(from..(end + 1).min(self.counts.len())).unwrap_or_default();
            seen += counted.iter().sum::<u64>();
            from = end + 1;
            (*highest, seen)
        };
        STEPS.iter().map(step).collect()
    }
}

/// Last bucket of each step, and its longest duration. A step ends with the bucket that begins at its level, or with
/// the last bucket.
static STEPS: LazyLock<Vec<(usize, u64)>> = LazyLock::new(|| {
    let mut level = FIRST_STEP;
    let ends = |index: &usize| {
        let is_end = range(*index).0 >= level || index + 1 == OCTAVES * WIDTH;
        level <<= u32::from(is_end);
        is_end
    };
    (0..OCTAVES * WIDTH).filter(ends).map(|index| (index, range(index).1)).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: &[u64]) -> HistogramSnapshot {
        let histogram = Histogram::default();
        durations.iter().for_each(|nanos| histogram.record(*nanos));
        let mut snapshot = HistogramSnapshot::default();
        snapshot.add(&histogram);
        snapshot
    }

    #[test]
    fn every_bucket_holds_what_it_says() {
        let mut next = 0;
        for index in 0..OCTAVES * WIDTH {
            let (lowest, highest) = range(index);
            assert_eq!(lowest, next, "bucket {index}");
            next = highest + 1;
            for nanos in [lowest.max(1), highest.max(1)] {
                if nanos <= MAX {
                    let (octave, place) = bucket(nanos);
                    assert_eq!(octave * WIDTH + place, index.max(1), "{nanos} ns");
                }
            }
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (bucket(1), bucket(MAX)));
    }

    #[test]
    fn percentiles_have_two_digits() {
        let all: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let snapshot = of(&all);
        for (percentile, exact) in [(0.0, 1_000), (50.0, 500_000), (99.0, 990_000), (100.0, 1_000_000)] {
            let found = snapshot.percentile(percentile);
            assert!(found.abs_diff(exact) * 100 <= exact, "p{percentile} is {found}");
        }
        assert_eq!((of(&[]).percentile(50.0), of(&[7]).percentile(50.0)), (0, 7));
    }

    #[test]
    fn the_distribution_doubles_its_steps() {
        assert_eq!(of(&[]).distribution(), []);
        // 1031 is in the bucket that begins at 1024, 1032 behind it.
        assert_eq!(of(&[500, 1031, 1032, 30_000]).distribution(), [(1, 2), (2, 3), (33, 4)]);
        assert_eq!(of(&[5_000_000_000]).distribution(), [(1_073_741, 1)]);
        let steps = of(&[500, 1031, 1032, 30_000]).steps();
        assert_eq!((steps[0], steps[1], steps[4], steps[5]), ((1031, 2), (2063, 3), (16_511, 3), (33_023, 4)));
        assert_eq!((steps.len(), steps[20]), (21, (1_073_741_823, 4)));
        assert!(of(&[]).steps().iter().all(|(_, seen)| *seen == 0));
    }

    #[test]
    fn histograms_add_up_and_begin_anew() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.record(100);
        two.record(100);
        two.record(2000);
        let mut sum = HistogramSnapshot::default();
        sum.add(&one);
        sum.add(&two);
        assert_eq!((sum.total(), sum.percentile(60.0)), (3, 100));
        two.reset();
        let mut sum = HistogramSnapshot::default();
        sum.add(&two);
        assert_eq!(sum.total(), 0);
    }
}
