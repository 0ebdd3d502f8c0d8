//! The only place that reads the time of day.

use commands::Now;
use engine::time::{Nanos, UnixUs};
use quanta::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the present moment.
pub fn now() -> Now {
    #[expect(clippy::disallowed_methods, reason = "the server's one place for it")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { unix_us: UnixUs(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)) }
}

/// Returns the time that a processor has worked for the calling thread.
pub fn thread_nanos() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns a moment that is never before an earlier one. It is read after every command: with a processor that counts
/// at a constant rate this takes much less than a call into the kernel's page.
pub fn nanos() -> Nanos {
    static CLOCK: LazyLock<(Clock, u64)> = LazyLock::new(|| {
        let clock = Clock::new();
        let scale = clock.delta_as_nanos(0, 1 << 32);
        (clock, scale)
    });
    // The scale is the time of the counter's tick, in nanoseconds with 32 bits behind the point.
    let (clock, scale) = &*CLOCK;
    Nanos(((u128::from(clock.raw()) * u128::from(*scale)) >> 32) as u64)
}
