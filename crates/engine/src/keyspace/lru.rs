//! The mark that an access leaves at an entry: the access clock, by time (LRU) or by frequency (LFU).

use crate::data::value::KeyEntry;
use crate::time::UnixMs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// How accesses are counted in an entry's 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessClock {
    /// Seconds, modulo 2^24.
    Recency(u32),
    /// Minutes (16 bits) above a logarithmic counter (8 bits).
    Frequency {
        /// The time now.
        minutes: u32,
        /// `lfu-decay-time`: minutes after which the counter goes down by one.
        decay: u32,
        /// `lfu-log-factor`.
        log_factor: u32,
        /// Random number that decides whether this access counts.
        random: u32,
    },
}

/// The counter of a new key: high enough not to be the first to go.
const LFU_INIT: u32 = 5;

impl AccessClock {
    /// Returns the 24 bits of an entry that is written now.
    pub fn fresh(self) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds,
            AccessClock::Frequency { minutes, .. } => minutes << 8 | LFU_INIT,
        }
    }

    /// Returns the 24 bits after one more access. The counter is Redis's: it decays by one every `decay` minutes and
    /// grows by one with a probability of 1 / (its value * factor + 1).
    pub fn accessed(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds,
            AccessClock::Frequency { minutes, log_factor, random, .. } => {
                let counter = self.frequency(meta);
                let odds = u64::from(counter.saturating_sub(LFU_INIT)) * u64::from(log_factor) + 1;
                let grows = counter < 255 && u64::from(random).saturating_mul(odds) < 1 << 32;
                minutes << 8 | (counter + u32::from(grows))
            }
        }
    }

    /// Returns the 24 bits of an entry that was last used so many seconds ago, or is used so often.
    pub fn marked(self, idle: Option<u64>, frequency: Option<u8>) -> u32 {
        match (self, idle, frequency) {
            (AccessClock::Recency(seconds), Some(idle), _) => {
                seconds.wrapping_sub(idle.min(structures::entry::MAX_META.into()) as u32) & structures::entry::MAX_META
            }
            (AccessClock::Frequency { minutes, .. }, _, Some(frequency)) => minutes << 8 | u32::from(frequency),
            _ => self.fresh(),
        }
    }

    /// Returns the access counter as it has decayed by now (OBJECT FREQ).
    pub fn frequency(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(_) => 0,
            AccessClock::Frequency { minutes, decay, .. } => {
                let elapsed = minutes.wrapping_sub(meta >> 8) & 0xFFFF;
                (meta & 0xFF).saturating_sub(elapsed.checked_div(decay).unwrap_or(0))
            }
        }
    }

    /// Returns the seconds since the last access (OBJECT IDLETIME).
    pub fn idle_seconds(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds.wrapping_sub(meta) & structures::entry::MAX_META,
            AccessClock::Frequency { .. } => 0,
        }
    }
}

/// How accesses are counted; `maxmemory-policy` and the lfu directives decide.
#[derive(Default)]
pub struct AccessPolicy {
    by_frequency: AtomicBool,
    decay: AtomicU32,
    log_factor: AtomicU32,
}

impl AccessPolicy {
    /// Sets whether accesses are counted by frequency (LFU) or by time (LRU).
    pub fn set(&self, by_frequency: bool, decay_minutes: u32, log_factor: u32) {
        self.by_frequency.store(by_frequency, Relaxed);
        self.decay.store(decay_minutes, Relaxed);
        self.log_factor.store(log_factor, Relaxed);
    }

    /// Whether accesses are counted by frequency.
    #[inline]
    pub fn counts_frequency(&self) -> bool {
        self.by_frequency.load(Relaxed)
    }

    /// Returns the access clock at `now` (Unix time in milliseconds).
    #[inline]
    pub fn clock(&self, now: UnixMs) -> AccessClock {
        let seconds = now.seconds() as u64;
        if self.counts_frequency() {
            AccessClock::Frequency {
                minutes: (seconds / 60) as u32 & 0xFFFF,
                decay: self.decay.load(Relaxed),
                log_factor: self.log_factor.load(Relaxed),
                random: fastrand::u32(..),
            }
        } else {
            AccessClock::Recency(seconds as u32 & structures::entry::MAX_META)
        }
    }
}

/// A use of keys at one time.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    now: UnixMs,
    /// Seconds of [`AccessClock::Recency`].
    seconds: u32,
}

impl Used {
    /// Makes the use of keys at `now`, Unix time in milliseconds.
    #[inline]
    pub fn at(now: UnixMs) -> Self {
        Used { now, seconds: now.seconds() as u32 & structures::entry::MAX_META }
    }

    /// Marks the entry. Writes only where the mark changes, which by the second is rare.
    #[inline(always)]
    pub fn mark(self, access: &AccessPolicy, entry: &KeyEntry) {
        let meta = entry.meta();
        if meta != self.seconds || access.counts_frequency() {
            let accessed = access.clock(self.now).accessed(meta);
            if accessed != meta {
                entry.mark(accessed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(decay: u32, log_factor: u32, random: u32) -> AccessClock {
        AccessClock::Frequency { minutes: 0xFFFF, decay, log_factor, random }
    }

    #[test]
    fn counters_grow_by_chance() {
        let grown =
            |counter: u32, log_factor, random| clock(1, log_factor, random).accessed(0xFFFF << 8 | counter) & 0xFF;
        assert_eq!([0, 5].map(|counter| grown(counter, 10, u32::MAX)), [1, 6], "new keys always do");
        let one_in_eleven = u32::MAX / 11;
        assert_eq!([one_in_eleven, one_in_eleven + 1].map(|random| grown(6, 10, random)), [7, 6]);
        assert_eq!([0, 1].map(|random| grown(254, 0, random)), [255, 255]);
        assert_eq!(grown(255, 0, 0), 255);
    }

    #[test]
    fn directives_at_their_limits() {
        for log_factor in [i32::MAX as u32, u32::MAX] {
            for counter in 6..=255 {
                let mark = 0xFFFF << 8 | counter;
                for random in [2, u32::MAX] {
                    assert_eq!(clock(1, log_factor, random).accessed(mark), mark);
                }
                assert_eq!(clock(1, log_factor, 0).accessed(mark) & 0xFF, (counter + 1).min(255));
            }
        }
        assert_eq!([0, 1, u32::MAX].map(|decay| clock(decay, 1, 1).frequency(200)), [200, 0, 200]);
    }
}
