//! Classes of keyspace events.

/// Classes of keyspace events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// Commands that work on any type.
    pub const GENERIC: EventClass = EventClass(1 << 2);
    /// Changes of strings.
    pub const STRING: EventClass = EventClass(1 << 3);
    /// Changes of sets.
    pub const SET: EventClass = EventClass(1 << 5);
    /// Changes of lists.
    pub const LIST: EventClass = EventClass(1 << 4);
    /// Changes of hashes.
    pub const HASH: EventClass = EventClass(1 << 6);
    /// Changes of sorted sets.
    pub const SORTED_SET: EventClass = EventClass(1 << 7);
    /// Keys that have expired.
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    /// Keys that were evicted.
    pub const EVICTED: EventClass = EventClass(1 << 9);
    /// Changes of streams.
    pub const STREAM: EventClass = EventClass(1 << 10);
    /// Reads that found no key.
    pub const KEY_MISS: EventClass = EventClass(1 << 11);
    /// Changes of values whose type other servers have from a module.
    pub const MODULE: EventClass = EventClass(1 << 13);
    /// Keys that are new.
    pub const NEW: EventClass = EventClass(1 << 14);
}
