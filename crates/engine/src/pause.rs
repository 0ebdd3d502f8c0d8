//! CLIENT PAUSE: for a time clients do not write, or do nothing at all, and neither do expiry and eviction. MIGRATE
//! holds writes back likewise while it sends keys that do not rest otherwise.
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
    causes: Mutex<Causes>,
}

/// Why there is a pause.
struct Causes {
    /// What clients have asked for.
    called: Paused,
    /// Who holds writes back.
    holds: usize,
}

impl Default for Pause {
    fn default() -> Self {
        let causes = Causes { called: Paused::Nothing, holds: 0 };
        Pause { paused: AtomicU8::new(0), until: AtomicI64::new(0), causes: Mutex::new(causes) }
    }
}

impl Pause {
    /// True from [`begin`](Self::begin) until [`end`](Self::end), or the [`end_if_over`](Self::end_if_over) that comes
    /// after its time; and while somebody [holds](Self::hold) writes back.
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

    /// Whether a client has asked for it.
    pub fn is_called(&self) -> bool {
        self.causes.lock().called != Paused::Nothing
    }

    /// When it ends that clients have asked for, as Unix time in milliseconds; `i64::MAX` while it is only held.
    pub fn until(&self) -> i64 {
        self.until.load(Ordering::Acquire)
    }

    /// Pauses from `now` on until `until` (Unix times in milliseconds). A pause that is on is never made shorter or
    /// milder.
    pub fn begin(&self, paused: Paused, until: i64, now: i64) {
        let mut causes = self.causes.lock();
        let (old, old_until) = (causes.called, self.until());
        let on = old != Paused::Nothing && old_until > now;
        causes.called = if on { paused.max(old) } else { paused };
        self.publish(&causes, if on { until.max(old_until) } else { until });
    }

    pub fn end(&self) {
        let mut causes = self.causes.lock();
        causes.called = Paused::Nothing;
        self.publish(&causes, i64::MAX);
    }

    /// Ends the pause that clients have asked for when its time has come; true when it was this call that ended it.
    pub fn end_if_over(&self, now: i64) -> bool {
        let mut causes = self.causes.lock();
        let over = causes.called != Paused::Nothing && now >= self.until();
        if over {
            causes.called = Paused::Nothing;
            self.publish(&causes, i64::MAX);
        }
        over
    }

    /// Nobody writes until as many have called [`release`](Self::release); commands that run already end first.
    pub fn hold(&self) {
        let mut causes = self.causes.lock();
        causes.holds += 1;
        self.publish(&causes, self.until_called(&causes));
    }

    pub fn release(&self) {
        let mut causes = self.causes.lock();
        causes.holds -= 1;
        self.publish(&causes, self.until_called(&causes));
    }

    fn until_called(&self, causes: &Causes) -> i64 {
        if causes.called == Paused::Nothing { i64::MAX } else { self.until() }
    }

    fn publish(&self, causes: &Causes, until: i64) {
        let held = if causes.holds > 0 { Paused::Writes } else { Paused::Nothing };
        self.until.store(until, Ordering::Release);
        self.paused.store(causes.called.max(held) as u8, Ordering::Release);
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
        assert!(!pause.is_on());
    }

    #[test]
    fn writes_that_are_held_back_wait_for_all_who_do_that() {
        let pause = Pause::default();
        pause.hold();
        pause.hold();
        pause.begin(Paused::All, 200, 0);
        assert_eq!((pause.paused(), pause.until(), pause.is_called()), (Paused::All, 200, true));
        pause.release();
        assert!(pause.end_if_over(200) && !pause.end_if_over(200) && !pause.is_called());
        assert_eq!((pause.paused(), pause.until()), (Paused::Writes, i64::MAX));
        pause.begin(Paused::Writes, 20, 0);
        pause.end();
        assert!(pause.is_on());
        pause.release();
        assert!(!pause.is_on());
    }
}
