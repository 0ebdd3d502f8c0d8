//! The operating system as the rest of the server sees it: time, the log, memory, files and processors.
//!
//! In: the configuration, and calls of every other room. Out: system calls. It knows nothing of connections, workers or
//! commands.

pub mod affinity;
pub mod allocator;
pub mod clock;
pub mod files;
pub mod log;
pub mod log_limit;
pub mod oom;
pub mod prefault;
pub mod proc;
pub mod rlimit;
