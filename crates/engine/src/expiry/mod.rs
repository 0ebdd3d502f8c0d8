//! Keys and elements that go by themselves: they have expired, or memory is short.
//!
//! In: a time, a share of the shards, and how much may go at once. Out: removals, which are logged and told of like any
//! other change. It chooses no clock, and looks at nothing that an index does not say is due.

pub mod background;
pub mod eviction;
mod visible_sweep;
