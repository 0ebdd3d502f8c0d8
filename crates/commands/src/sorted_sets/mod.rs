//! Commands of sorted sets.
//!
//! In: arguments and the keys' view. Out: replies, and sorted sets that are changed through an edit. Which form a set
//! has is the affair of `structures`.

pub mod algebra;
pub mod bounds;
pub mod pop;
pub mod random;
pub mod range;
pub mod scan;
pub mod sorted_set;
