//! The keys and their values, as one command sees them.
//!
//! A key's hash says which shard it lies in; a shard is plain data behind one lock. In: the locks that a command holds,
//! who asks, and what time it is. Out: values through the view ([`keys`]), and changes through an [`edit`], whose
//! commit does what every write owes to the rest. It knows no command, and reads no clock.

pub mod edit;
pub mod encoding_limits;
pub mod held_locks;
pub mod keys;
pub mod keyspace_stats;
pub mod lru;
pub mod origin;
pub mod shard;
