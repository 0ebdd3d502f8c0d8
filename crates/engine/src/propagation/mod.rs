//! What a command does besides replying: the effects that are settled after its locks are given up, and the change log.

pub mod change_log;
pub mod effects;
