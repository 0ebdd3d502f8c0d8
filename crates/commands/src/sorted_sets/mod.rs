//! Commands of sorted sets.

pub mod algebra;
pub mod bounds;
pub mod pop;
pub mod random;
pub mod range;
pub mod scan;
pub mod sorted_set;
