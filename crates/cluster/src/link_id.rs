//! Connections of the bus, by number.

/// A connection of the bus, made by this node or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);
