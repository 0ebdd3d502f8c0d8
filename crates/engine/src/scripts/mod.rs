//! The texts of scripts and functions, which all workers share, and what runs of them.

pub mod libraries;
pub mod script_cache;
