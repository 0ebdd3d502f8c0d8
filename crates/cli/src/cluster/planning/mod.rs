//! Decisions about a cluster on plain data: who gets which slots, what moves where, whether nodes agree, what closes a
//! slot.
//!
//! Nothing here knows of connections or of what is printed while things are done. The same shapes lead to the same
//! plans as with valkey-cli, single precision included.

pub mod agreement;
pub mod allocation;
pub mod balance;
pub mod node_lines;
pub mod open_slot;
pub mod reshard_table;
pub mod slots;
