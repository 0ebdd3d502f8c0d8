//! The keys and their values, as the holder of a lock sees them.
//!
//! A key's hash says which shard it lies in; a shard is plain data behind one lock. A command reaches keys through its
//! view ([`keys`]) and changes them through an [`edit`], which says what follows from the change. Nothing here waits, takes
//! a lock, or reads a clock.

pub mod edit;
pub mod encoding_limits;
pub mod held_locks;
pub mod keys;
pub mod keyspace_stats;
pub mod lru;
pub mod origin;
pub mod shard;
