//! Contents of a shard: keys' hashes, values, and the tables that hold them.
//!
//! Plain data without locks. Nothing here knows of commands, clients or configuration.

pub mod event_class;
pub mod key_hash;
pub mod slot;
pub mod table;
pub mod typed_value;
pub mod value;
pub mod value_type;
