//! Commands that wait, that are grouped, and that are given up when a watched key has changed.

pub mod blocking;
pub mod multi;
