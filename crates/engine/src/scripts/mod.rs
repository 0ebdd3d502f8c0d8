//! The texts of scripts and functions, which all workers share, and which script runs for long.
//!
//! In: texts, and libraries with what they register. Out: the same for every worker, and flags that commands look at.
//! No interpreter is here.

pub mod function_libraries;
pub mod run_slot;
pub mod script_cache;
