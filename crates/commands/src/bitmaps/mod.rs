//! Commands of bits in strings.

pub mod bitfield;
pub mod bitmap;
pub mod popcount;
