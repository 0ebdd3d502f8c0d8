//! Walks over the keyspace with SCAN, and their results: all keys, the biggest, the most used, the spread of sizes.
//!
//! ```text
//!   scan_keys         steps of SCAN, and --scan, which prints what they find
//!   keyspace_walk     a walk to its end or to Ctrl-C, with a bar of progress   (progress_bar)
//!   key_sizing        types and sizes of a step's keys, asked for in one go
//!   big_keys  hot_keys  key_stats  (key_stats_report)
//!   lru_test          no walk: keys of a cache, few of which are used often
//! ```
//!
//! The input is a session that is connected, the output text, or JSON where the options ask for it. Texts are those of
//! valkey-cli, and of redis-cli for modes that only redis-cli has.

pub mod big_keys;
pub mod hot_keys;
mod key_sizing;
pub mod key_stats;
mod key_stats_report;
pub mod keyspace_walk;
pub mod lru_test;
mod progress_bar;
pub mod scan_keys;
