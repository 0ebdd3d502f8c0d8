//! The table of a database in a shard, and the order in which its keys and elements expire.

use crate::data::value::{KeyEntry, Value};
use structures::hashtable::HashTable;
use structures::ttl_index::TtlIndex;

/// Keys and values of one database in one shard.
pub type Table = HashTable<KeyEntry>;
/// Place where a key's entry may be.
pub type EntryHint = structures::hashtable::EntryHint<KeyEntry>;

/// Expiries in one database of a shard.
#[derive(Default)]
pub struct ExpiryIndex {
    /// Keys with an expiry.
    pub keys: TtlIndex,
    /// Collections with elements that have an expiry, by the earliest.
    pub elements: TtlIndex,
}

impl ExpiryIndex {
    /// Returns the bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.keys.memory_usage() + self.elements.memory_usage()
    }
}

/// Returns the earliest expiry of an element, if the entry's value is a collection that has such.
pub(crate) fn element_expiry(entry: &KeyEntry) -> Option<u64> {
    if let Value::Payload(object) = entry.value() { object.next_expiry() } else { None }
}
