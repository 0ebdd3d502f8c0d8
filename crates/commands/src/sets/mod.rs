//! Commands of sets.

pub mod algebra;
pub mod chunked_algebra;
pub mod random;
pub mod set;
