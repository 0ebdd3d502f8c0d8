//! Commands of HyperLogLog sketches.

pub mod hyperloglog;
