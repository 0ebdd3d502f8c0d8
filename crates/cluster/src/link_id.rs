//! Connections of the bus, by number.

/// A connection of the bus, from here or to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);
