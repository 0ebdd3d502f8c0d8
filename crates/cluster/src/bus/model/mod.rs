//! Types of the bus: effects, settings, and the state of connections, elections and counters. Nothing here acts.

pub(crate) mod bus_effect;
pub(crate) mod bus_settings;
pub(crate) mod health;
pub(crate) mod message_counters;
pub(crate) mod order_error;
pub(crate) mod takeover_state;
pub(crate) mod todo;
pub(crate) mod transports;
