//! How the data set gets to files and back: snapshots, the append-only file, the end of the process.

pub mod aof;
pub mod load;
pub mod save;
pub mod shutdown;
