//! What the server is at: whether it loads, saves or pauses, and what commands may not run therefore.
//!
//! Whoever begins or ends something writes it down here; admission, INFO and the background read it. Numbers and flags
//! only: nothing here knows of keys, shards or files.

pub mod deny_reasons;
pub mod pause;
pub mod persistence_status;
