//! Who may hold which locks, and for how long somebody waits for one.
//!
//! Shards go in as plain data; guards come out. [`protocol`] is the whole of the rules, [`held_locks`] what one command
//! holds of them, [`deferred`] what is done once a lock is free.

pub mod deferred;
pub mod protocol;
pub mod sync;
