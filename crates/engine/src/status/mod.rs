//! The state of the server: loading, saving, pauses, replication, and the commands that may not run therefore.
//!
//! In: the beginning and the end of each of these. Out: one word of reasons, which admission reads, and numbers for
//! INFO. It knows nothing of keys, shards or files.

pub mod acknowledgement;
pub mod cluster_status;
pub mod deny_reasons;
pub mod lag_hold;
pub mod pause;
pub mod persistence_status;
pub mod replication_status;
pub mod saved_data_set;
pub mod shutdown_status;
