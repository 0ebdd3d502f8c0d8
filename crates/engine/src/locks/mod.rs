//! Who may hold which locks, and how long a thread waits for one.
//!
//! In: values, one behind each lock. Out: guards of them. [`protocol`] is the whole of the rules. They know nothing of
//! what the locks guard.

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod checked;
#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod order;
pub mod protocol;
pub mod sync;
