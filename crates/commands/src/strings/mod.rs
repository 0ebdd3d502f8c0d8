//! Commands of strings.

pub mod counter;
pub mod lcs;
pub mod mset;
pub mod string;
