//! Counters and durations.
//!
//! In: counts of each worker, in lines of its own. Out: sums, when they are requested. Nothing here takes a lock on the
//! path of an ordinary command, or knows the meaning of a command.

pub mod buffer_peaks;
pub mod command_log;
pub mod heavy_hitters;
pub mod histogram;
pub mod hot_key_tracking;
pub mod latency_monitor;
pub mod mass_deletions;
pub mod metrics;
pub mod running_command;
pub mod slot_traffic;
