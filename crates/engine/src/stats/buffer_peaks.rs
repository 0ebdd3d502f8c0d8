//! The largest buffers that clients have had within the last few seconds.

use crate::time::Nanos;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Seconds that are remembered.
const SECONDS: usize = 8;

/// The largest buffers of each of the last seconds. One thread writes it.
#[derive(Debug, Default)]
pub struct BufferPeaks {
    slots: [Slot; SECONDS],
}

#[derive(Debug, Default)]
struct Slot {
    second: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
}

impl BufferPeaks {
    /// A client has so many bytes of input and of output at this moment.
    pub fn note(&self, now: Nanos, input: usize, output: usize) {
        let second = now.0 / SECOND;
        let slot = &self.slots[second as usize % SECONDS];
        let is_of_now = slot.second.load(Relaxed) == second;
        for (peak, bytes) in [(&slot.input, input), (&slot.output, output)] {
            let known = if is_of_now { peak.load(Relaxed) } else { 0 };
            peak.store(known.max(bytes as u64), Relaxed);
        }
        slot.second.store(second, Relaxed);
    }

    /// The largest input and output of the seconds up to this moment.
    pub fn recent(&self, now: Nanos) -> (u64, u64) {
        let second = now.0 / SECOND;
        let is_recent = |slot: &&Slot| slot.second.load(Relaxed) + SECONDS as u64 > second;
        let most = |(input, output): (u64, u64), slot: &Slot| {
            (input.max(slot.input.load(Relaxed)), output.max(slot.output.load(Relaxed)))
        };
        self.slots.iter().filter(is_recent).fold((0, 0), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_forgotten_after_some_seconds() {
        let at = |second: u64| Nanos(second * SECOND + 7);
        let peaks = BufferPeaks::default();
        peaks.note(at(100), 500, 10);
        peaks.note(at(100), 300, 20);
        peaks.note(at(103), 40, 50);
        assert_eq!(peaks.recent(at(103)), (500, 50));
        assert_eq!(peaks.recent(at(107)), (500, 50));
        assert_eq!(peaks.recent(at(108)), (40, 50));
        peaks.note(at(108), 1, 1);
        assert_eq!(peaks.recent(at(108)), (40, 50));
        assert_eq!(peaks.recent(at(111)), (1, 1));
        assert_eq!(peaks.recent(at(116)), (0, 0));
    }
}
