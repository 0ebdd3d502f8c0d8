//! Classes of keyspace events.

use crate::config::keyspace_events;

/// Classes of keyspace events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// Commands that work on any type.
    pub const GENERIC: EventClass = EventClass(keyspace_events::GENERIC);
    /// Changes of strings.
    pub const STRING: EventClass = EventClass(keyspace_events::STRING);
    /// Changes of sets.
    pub const SET: EventClass = EventClass(keyspace_events::SET);
    /// Changes of lists.
    pub const LIST: EventClass = EventClass(keyspace_events::LIST);
    /// Changes of hashes.
    pub const HASH: EventClass = EventClass(keyspace_events::HASH);
    /// Changes of sorted sets.
    pub const SORTED_SET: EventClass = EventClass(keyspace_events::ZSET);
    /// Keys that have expired.
    pub const EXPIRED: EventClass = EventClass(keyspace_events::EXPIRED);
    /// Keys that were evicted.
    pub const EVICTED: EventClass = EventClass(keyspace_events::EVICTED);
    /// Changes of streams.
    pub const STREAM: EventClass = EventClass(keyspace_events::STREAM);
    /// Reads that found no key.
    pub const KEY_MISS: EventClass = EventClass(keyspace_events::KEY_MISS);
    /// Changes of values whose type other servers have from a module.
    pub const MODULE: EventClass = EventClass(keyspace_events::MODULE);
    /// Keys that are new.
    pub const NEW: EventClass = EventClass(keyspace_events::NEW);
}
