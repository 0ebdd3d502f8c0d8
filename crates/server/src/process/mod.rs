//! The life of the process: its start in the background, its title, signals, its end, and the report of a crash.
//!
//! In: the configuration, signals, and the engine for the contents of a report. Out: lines of the log, messages that
//! stop the workers. It knows nothing of the event loop.

pub mod banner;
pub mod crash;
pub mod daemon;
pub mod fatal_signals;
mod fault;
pub mod memory_check;
pub mod running_args;
pub mod self_test;
pub mod signals;
pub mod thread_stacks;
pub mod title;
pub mod unsupported;
