//! Decisions about a cluster on plain data: each node's slots, the moves, whether nodes agree, how a slot is closed.
//!
//! Nothing here uses connections or prints. The same shapes lead to the same
//! plans as with valkey-cli, single precision included.

pub mod agreement;
pub mod allocation;
pub mod balance;
pub mod node_lines;
pub mod open_slot;
pub mod reshard_table;
pub mod slots;
