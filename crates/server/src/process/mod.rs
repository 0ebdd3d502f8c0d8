//! The process in its surroundings: background and signals, log and crash report, title, limits, processors.

pub mod affinity;
pub mod banner;
pub mod crash;
pub mod daemon;
pub mod log;
pub mod oom;
pub mod prefault;
pub mod rlimit;
pub mod self_test;
pub mod signals;
pub mod title;
pub mod unsupported;
