//! The time for which a write of the log is put off while a sync is under way, since the write might wait for the disk.

use engine::time::UnixMs;

/// Milliseconds for which a write is put off at most.
const DELAY_MAX: i64 = 1000;

/// A worker's write of the log that waits.
#[derive(Debug, Default)]
pub struct WriteDelay {
    since: Option<UnixMs>,
}

impl WriteDelay {
    /// Returns whether the write is still put off for the sync that is under way.
    pub fn waits(&mut self, now: UnixMs) -> bool {
        now.since(*self.since.get_or_insert(now)) < DELAY_MAX
    }

    /// Records that the log is written.
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
