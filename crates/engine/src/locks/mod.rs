//! Who may hold which locks, and how long a thread waits for one.
//!
//! In: values, one behind each lock. Out: guards of them. [`protocol`] is the whole of the rules, [`deferred`] what is
//! done once a lock is free. The rules know nothing of what the locks guard.

pub mod deferred;
pub mod protocol;
pub mod sync;
