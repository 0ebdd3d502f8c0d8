//! Orders of CLUSTER's subcommands. A refused order has changed nothing.

mod failover_order;
mod migration_orders;
mod node_orders;
mod reset_order;
mod set_slot;
mod slot_orders;

pub use failover_order::FailoverMode;
pub use set_slot::SlotAction;
