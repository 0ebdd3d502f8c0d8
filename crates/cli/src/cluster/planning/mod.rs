//! Decisions about a cluster on plain data: each node's slots, the moves, whether nodes agree, how a slot is closed.
//!
//! Nothing here uses connections or prints. Equal shapes of a cluster lead to the plans of valkey-cli, single precision
//! included.

pub mod agreement;
pub mod allocation;
pub mod balance;
pub mod node_lines;
pub mod open_slot;
pub mod reshard_table;
pub mod slots;
