//! A Sentinel's knowledge as plain data, and the types between it and its surroundings.
//!
//! In: bytes of replies. Out: values, and requested effects. The rooms above make all decisions.

pub(crate) mod effect;
pub(crate) mod effect_queue;
pub(crate) mod info_report;
pub(crate) mod instance;
pub(crate) mod instance_address;
pub(crate) mod instance_transport;
pub(crate) mod instances;

pub(crate) mod periods;
pub(crate) mod script_queue;
pub(crate) mod transport_table;
