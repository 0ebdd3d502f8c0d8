//! Commands of streams and of their consumer groups.

pub mod add;
pub mod claim;
pub mod consume;
pub mod extended;
pub mod group;
pub mod info;
pub mod pending;
pub mod range;
pub mod read;
pub mod stream;
pub mod trim;
