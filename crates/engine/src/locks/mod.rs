//! Who may hold which locks, and how long a thread waits for one.
//!
//! In: values, one behind each lock. Out: guards of them. [`protocol`] is the whole of the rules. They know nothing of
//! what the locks guard.

pub mod protocol;
pub mod sync;
