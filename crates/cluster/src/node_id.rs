//! Names of nodes and of shards: 40 hexadecimal digits, drawn at random.

use std::fmt;

/// Length of a name.
pub const NAME_LEN: usize = 40;

/// Name of a node, or of a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; NAME_LEN]);

impl NodeId {
    /// Draws a name that no other node has.
    pub fn random(random: &mut fastrand::Rng) -> NodeId {
        NodeId(std::array::from_fn(|_| b"0123456789abcdef"[random.usize(0..16)]))
    }

    /// Reads a name; None if the text is none.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let name = text.try_into().ok()?;
        text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(NodeId(name))
    }

    /// Returns the name's text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forty_hexadecimal_digits() {
        let id = NodeId::random(&mut fastrand::Rng::with_seed(1));
        assert_eq!(NodeId::parse(id.as_str().as_bytes()), Some(id));
        assert_eq!(NodeId::parse(&[b'a'; 39]), None);
        assert_eq!(NodeId::parse(&[b'A'; 40]), None);
        assert_eq!(NodeId::parse(&[b'g'; 40]), None);
    }
}
