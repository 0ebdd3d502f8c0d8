//! Time: clocks, and waiting.

use crate::time::{Nanos, SteadyMs, UnixUs};
use std::time::Duration;

/// Clocks, and threads that wait.
pub trait Clock: Send + Sync {
    /// Returns the time by a clock that never goes back, for measuring how long commands take. Read after every
    /// command, so it must be cheap.
    fn nanos(&self) -> Nanos {
        Nanos(0)
    }

    /// Returns the time that a processor has worked for the calling thread, without its waits and without the time of
    /// other threads.
    fn thread_nanos(&self) -> Nanos {
        self.nanos()
    }

    /// Returns the Unix time in microseconds; `known` is the time that the caller has.
    fn unix_us(&self, known: UnixUs) -> UnixUs {
        known
    }

    /// Returns this moment by a clock that never goes back, for spans that are to pass; `known` is the time of day that
    /// the caller has, which is as good where a test makes the time.
    fn steady_ms(&self, known: UnixUs) -> SteadyMs {
        SteadyMs(known.ms().0)
    }

    /// Stops the calling thread, and the other workers, too (DEBUG SLEEP).
    fn sleep(&self, _time: Duration) {}

    /// Stops the calling thread alone.
    fn rest(&self, _time: Duration) {}
}
