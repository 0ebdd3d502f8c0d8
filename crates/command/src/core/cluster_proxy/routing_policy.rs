//! The policy of an entry by which a proxy sends its command to the nodes of a cluster.

use cluster::proxy::Join;

/// The nodes that a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The node of its keys' slot.
    Slot,
    /// Each key's own node, if the keys have several slots.
    EachKey {
        /// Arguments from one key to the next.
        words: usize,
        /// The reply from the nodes' replies.
        merge: Merge,
    },
    /// All primaries: the command is about keys that its arguments do not name.
    Primaries(Merge),
    /// One primary after the other, by the cursor that is the first argument.
    Pages,
    /// All primaries and the proxy: the command is about data that every node has of its own.
    Everywhere(Merge),
}

/// The reply of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The elements of all replies.
    Elements,
    /// The sum of numbers.
    Sum,
    /// OK if all replies are.
    AllOk,
    /// The reply that all nodes give.
    Alike,
    /// For each element, whether it is 1 in all replies.
    InAll,
    /// A reply of any node that is not null.
    Any,
}

impl Merge {
    pub(super) fn as_join(self) -> Join {
        match self {
            Merge::Elements => Join::Elements,
            Merge::Sum => Join::Sum,
            Merge::AllOk => Join::AllOk,
            Merge::Alike => Join::Alike,
            Merge::InAll => Join::InAll,
            Merge::Any => Join::Any(fastrand::u64(..)),
        }
    }
}
