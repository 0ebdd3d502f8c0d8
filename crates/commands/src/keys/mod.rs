//! Commands that work on keys of any type.

pub mod dump;
pub mod expire;
pub mod expire_option;
pub mod flush;
pub mod keyspace;
pub mod migrate;
pub mod object;
pub mod scan;
pub mod scan_words;
pub mod sort;
