//! What a Sentinel knows, as plain data, and the words between it and its surroundings.
//!
//! In: bytes of replies. Out: values, and the effects that are wanted. Nothing here decides anything: that is done by
//! the files beside this room, each a part of [`Sentinel`](crate::Sentinel).

pub(crate) mod effect;
pub(crate) mod info_report;
pub(crate) mod instance;
pub(crate) mod instance_address;
pub(crate) mod instance_transport;
pub(crate) mod instances;
pub(crate) mod periods;
pub(crate) mod script_queue;
pub(crate) mod transport_table;
