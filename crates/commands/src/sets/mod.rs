//! Commands of sets.
//!
//! In: arguments and the keys' view. Out: replies, and sets that are changed through an edit. Large results are worked
//! out and sent in chunks.

pub mod algebra;
pub mod chunked_algebra;
pub mod random;
pub mod set;
