//! The texts of scripts and functions, which all workers share, and the scripts that run for long.
//!
//! In: texts, and libraries with the functions that they register. Out: the same for every worker, and flags that
//! commands look at. No interpreter is here.

pub mod function_libraries;
pub mod run_slot;
pub mod script_cache;
