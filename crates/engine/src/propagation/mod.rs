//! What a command does besides replying: its effects, and the change log.
//!
//! In: what an edit has noted, under the shards' locks. Out: records in the log, in the order of execution, and effects
//! that are settled after the locks are given up. It knows nothing of files or replicas: sinks read the log.

pub mod change_log;
pub mod effects;
pub mod log_batch;
pub mod log_reader;
pub mod logged_words;
