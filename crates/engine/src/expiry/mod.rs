//! How keys and elements end that nobody removes: their time is over, or memory is short.

pub mod background;
pub mod eviction;
