//! The time that connections wait whose peers do not read.
//!
//! A connection with much unsent runs nothing more, for a while: a client that writes a long pipeline before it reads
//! must not be locked out for good. The while is longer where more is unsent and where many do not read, so that many
//! take no more memory than a few.

/// Unsent bytes with which a connection waits before it runs more commands. Little: a crowd that does not read is to
/// touch little memory for the first time, which may take milliseconds where it comes in huge pages.
pub const OUTPUT_FULL: usize = 256 << 10;
/// Milliseconds for as much as an output buffer that is full.
const PATIENCE: i64 = 25;
/// Number of waiting connections from which on each of them waits longer, in proportion.
const THROTTLED_MANY: usize = 8;
/// Share of its patience that a worker may lose in a tick: of a crowd that hangs up some connections are left for a
/// moment, which would be given more and more the fewer they become.
const LOSS: i64 = 16;

/// The patience of a worker's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReaderTimeout {
    millis: i64,
}

impl Default for SlowReaderTimeout {
    fn default() -> SlowReaderTimeout {
        SlowReaderTimeout { millis: millis(0, 0) }
    }
}

impl SlowReaderTimeout {
    /// Returns the milliseconds without progress after which a connection with `unsent` bytes resumes.
    pub fn with(self, unsent: usize) -> i64 {
        millis(unsent, 1).max(self.millis)
    }

    /// Adapts to `throttled_count` connections with too much unsent, and `unsent` bytes of all of them together. The
    /// patience rises at once and falls slowly.
    pub fn update(&mut self, unsent: usize, throttled_count: usize) {
        self.millis = millis(unsent, throttled_count).max(self.millis - self.millis / LOSS);
    }
}

fn millis(unsent: usize, throttled_count: usize) -> i64 {
    let crowd = (throttled_count / THROTTLED_MANY).max(1) as i64;
    PATIENCE * crowd * (unsent / OUTPUT_FULL).max(1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_unsent_and_more_connections_make_it_longer() {
        let mut patience = SlowReaderTimeout::default();
        assert_eq!((patience.with(0), patience.with(4 * OUTPUT_FULL)), (25, 100));
        patience.update(2 * OUTPUT_FULL, 2);
        assert_eq!(patience.with(0), 50);
        patience.update(16 * OUTPUT_FULL, 16);
        assert_eq!((patience.with(0), patience.with(64 * OUTPUT_FULL)), (800, 1600));
    }

    #[test]
    fn patience_falls_slowly() {
        let mut patience = SlowReaderTimeout { millis: 800 };
        patience.update(0, 0);
        assert_eq!(patience.millis, 750);
        (0..100).for_each(|_| patience.update(0, 0));
        assert_eq!(patience, SlowReaderTimeout::default());
    }
}
