//! Commands of hashes, and of the deadlines of their fields.

pub mod field_ttl;
pub mod hash;
pub mod hgetall;
