//! Commands of lists.

pub mod list;
pub mod lmove;
pub mod lpos;
pub mod lrange;
pub mod pop;
