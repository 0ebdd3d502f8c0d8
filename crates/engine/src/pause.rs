//! CLIENT PAUSE: for a time clients do not write, or do nothing at all, and neither do expiry and eviction.
//!
//! Two words that every worker reads before each command and hardly anybody writes.

use crate::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

/// What has to wait. The greater includes the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    Nothing,
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

/// The pause of a server.
pub struct Pause {
    paused: AtomicU8,
    /// Unix time in milliseconds.
    until: AtomicI64,
    changing: Mutex<()>,
}

impl Default for Pause {
    fn default() -> Self {
        Pause { paused: AtomicU8::new(0), until: AtomicI64::new(0), changing: Mutex::new(()) }
    }
}

impl Pause {
    /// True from [`begin`](Self::begin) until [`end`](Self::end), or the [`end_if_over`](Self::end_if_over) that comes
    /// after its time.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.paused.load(Ordering::Acquire) != 0
    }

    pub fn paused(&self) -> Paused {
        match self.paused.load(Ordering::Acquire) {
            0 => Paused::Nothing,
            1 => Paused::Writes,
            _ => Paused::All,
        }
    }

    /// When it ends, as Unix time in milliseconds.
    pub fn until(&self) -> i64 {
        self.until.load(Ordering::Acquire)
    }

    /// Pauses from `now` on until `until` (Unix times in milliseconds). A pause that is on is never made shorter or
    /// milder.
    pub fn begin(&self, paused: Paused, until: i64, now: i64) {
        let _changing = self.changing.lock();
        let (old, old_until) = (self.paused(), self.until());
        let on = old != Paused::Nothing && old_until > now;
        self.until.store(if on { until.max(old_until) } else { until }, Ordering::Release);
        let paused = if on { paused.max(old) } else { paused };
        self.paused.store(paused as u8, Ordering::Release);
    }

    pub fn end(&self) {
        let _changing = self.changing.lock();
        self.paused.store(0, Ordering::Release);
        self.until.store(0, Ordering::Release);
    }

    /// Ends the pause when its time has come; true when it was this call that ended it.
    pub fn end_if_over(&self, now: i64) -> bool {
        let _changing = self.changing.lock();
        let over = self.is_on() && now >= self.until();
        if over {
            self.paused.store(0, Ordering::Release);
            self.until.store(0, Ordering::Release);
        }
        over
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_not_made_milder_or_shorter_while_it_is_on() {
        let pause = Pause::default();
        pause.begin(Paused::All, 200, 0);
        pause.begin(Paused::Writes, 20, 10);
        assert_eq!((pause.paused(), pause.until()), (Paused::All, 200));
        assert!(!pause.end_if_over(199) && pause.end_if_over(200) && !pause.end_if_over(201) && !pause.is_on());
        pause.begin(Paused::Writes, 300, 210);
        pause.begin(Paused::Writes, 400, 220);
        assert_eq!((pause.paused(), pause.until()), (Paused::Writes, 400));
        pause.end();
        assert_eq!((pause.paused(), pause.until()), (Paused::Nothing, 0));
    }
}
