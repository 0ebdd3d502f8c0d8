//! How long a write of the log may wait for a sync that is under way, which might make it wait for the disk.

use engine::time::UnixMs;

/// Milliseconds.
const DELAY_MAX: i64 = 1000;

/// A worker's write of the log that waits.
#[derive(Debug, Default)]
pub struct WriteDelay {
    since: Option<UnixMs>,
}

impl WriteDelay {
    /// A sync is under way. Whether the write waits for it still.
    pub fn waits(&mut self, now: UnixMs) -> bool {
        now.since(*self.since.get_or_insert(now)) < DELAY_MAX
    }

    /// The log is written.
    pub fn end(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_a_second_and_then_the_next_does() {
        let mut delay = WriteDelay::default();
        assert!(delay.waits(UnixMs(5000)) && delay.waits(UnixMs(5999)) && !delay.waits(UnixMs(6000)));
        delay.end();
        assert!(delay.waits(UnixMs(6000)) && delay.waits(UnixMs(6999)));
    }
}
