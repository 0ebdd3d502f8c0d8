//! Counters and durations. Each worker writes its own; they are summed when somebody asks.

pub mod command_log;
pub mod histogram;
pub mod latency_monitor;
pub mod metrics;
