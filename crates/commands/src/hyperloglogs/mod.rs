//! Commands of HyperLogLog sketches, which are strings.
//!
//! In: elements and keys. Out: estimates, and sketches in the bytes that other servers have. The arithmetic is in
//! `structures`.

pub mod hyperloglog;
