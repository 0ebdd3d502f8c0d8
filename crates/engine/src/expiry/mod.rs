//! Removal of keys and elements without a command: they have expired, or memory is short.
//!
//! In: a time, a share of the shards, and how much may go at once. Out: removals, which are logged and announced like
//! any other change. It chooses no clock, and looks only at entries that an index says are due.

pub mod background;
pub mod eviction;
mod visible_sweep;
