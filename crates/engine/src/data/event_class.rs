//! Classes of keyspace events.

/// Classes of keyspace events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    pub const GENERIC: EventClass = EventClass(1 << 2);
    pub const STRING: EventClass = EventClass(1 << 3);
    pub const SET: EventClass = EventClass(1 << 5);
    pub const LIST: EventClass = EventClass(1 << 4);
    pub const HASH: EventClass = EventClass(1 << 6);
    pub const SORTED_SET: EventClass = EventClass(1 << 7);
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    pub const EVICTED: EventClass = EventClass(1 << 9);
    pub const STREAM: EventClass = EventClass(1 << 10);
    pub const KEY_MISS: EventClass = EventClass(1 << 11);
    pub const NEW: EventClass = EventClass(1 << 14);
}
