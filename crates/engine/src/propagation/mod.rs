//! Effects of a command besides its reply, and the change log.
//!
//! In: the changes of an edit, recorded under the shards' locks. Out: records in the log, in the order of execution,
//! and effects that are carried out after the locks are released. It knows nothing of files or replicas: sinks read the
//! log.

pub mod change_log;
pub mod change_observer;
pub mod effects;
pub mod log_batch;
pub mod log_reader;
pub mod logged_words;
