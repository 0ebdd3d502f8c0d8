//! Rules for locks: which ones a thread may hold, and how long it waits for one.
//!
//! In: values, one behind each lock. Out: guards of them. [`protocol`] has all of the rules, which know nothing of the
//! values.

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod checked;
#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod order;
pub mod protocol;
pub mod sync;
