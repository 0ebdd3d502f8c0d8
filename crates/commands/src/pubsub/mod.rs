//! What clients are told without asking each time: messages, changes of keys that they have read, all commands.

pub mod channels;
pub mod monitor;
pub mod tracking;
