//! The data structures of Cinnabar: a key's entry, the table that finds it, and the structures of its value.
//!
//! They know no keys, clients or clocks, and belong to one thread at a time: locks are the engine's affair. Each is a
//! module that opens with the layout of its bytes, and is tested against a plain model. Nearly all `unsafe` of the
//! project is here, in the files that ARCHITECTURE.md names.

#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod block_text;
pub mod crc16;
pub mod decimal;
pub mod entry;
pub mod geohash;
pub mod hash;
pub mod hashtable;
pub mod hyperloglog;
pub mod intset;
pub mod list;
pub mod listpack;
pub mod log_block;
pub mod log_end;
pub mod log_memory;
pub mod long_string;
pub mod lzf;
pub mod member;
mod member_hash;
pub mod quicklist;
pub mod ranked_tree;
pub mod set;
pub mod snapshot_iterator;
pub mod snapshot_sweep;
pub mod sorted_set;
pub mod stream;
pub mod tagged_pointer;
pub mod thin_bytes;
pub mod ttl_index;
