//! The only place that reads the time of day.

use commands::Now;
use std::time::{SystemTime, UNIX_EPOCH};

/// This moment.
pub fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { unix_us: i64::try_from(since.as_micros()).unwrap_or(i64::MAX) }
}
