//! The bus: a node's reaction to packets, orders and time.
//!
//! ```text
//! tick(now), link_accepted, link_connected, link_lost, received(bytes)    orders: add_slots, meet, failover ...
//!                                      \                                   /
//!                                       +------------>  Bus  <------------+
//!                                                        |
//!          effects: save, connect, send, close, follow, lead, lose slots, deliver a message, log ...
//! ```
//!
//! The driver passes the time with each input, carries out the effects in their order after each input, and calls
//! [`Bus::tick`] each [`TICK`]. Each input ends with the work that its changes require: the cluster's state is decided
//! again, the file is saved before anything is sent, other nodes are informed.

mod before_sleep;
#[cfg(feature = "fuzzing")]
mod bus_fuzz;
mod bus_links;
mod bus_messages;
mod bus_tick;
mod bus_view;
mod client_messages;
mod cluster_bus;
mod cluster_state;
mod coming_slots;
mod epochs;
mod failovers;
mod failure_detection;
mod incoming;
mod membership;
#[cfg(test)]
mod migration_tests;
mod model;
mod node_view;
mod open_slots;
mod orders;
mod pings;
mod roles;
mod slot_assignment;
mod standstill;
mod takeovers;
#[cfg(test)]
pub(crate) mod test_bus;

#[cfg(feature = "fuzzing")]
pub use bus_fuzz::fuzz;
pub use cluster_bus::{Bus, TICK};
pub use model::bus_effect::{Effect, Level};
pub use model::bus_settings::{DebugSettings, Facts, Settings};
pub use model::health::DownReason;
pub use model::message_counters::{Counters, Traffic};
pub use model::order_error::OrderError;
pub use model::transports::LinkInfo;
pub use node_view::NodeView;
pub use open_slots::BadOpenSlots;
pub use orders::{FailoverMode, SlotAction};
