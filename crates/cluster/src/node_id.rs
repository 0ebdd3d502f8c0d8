//! Names of nodes and of shards: 40 hexadecimal digits, drawn at random.

use std::fmt;

/// How long a name is.
pub const NAME_LEN: usize = 40;

/// The name of a node, or of a shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub [u8; NAME_LEN]);

impl NodeId {
    /// A name that nobody has.
    pub fn random(random: &mut fastrand::Rng) -> NodeId {
        NodeId(std::array::from_fn(|_| b"0123456789abcdef"[random.usize(0..16)]))
    }

    /// The name that this text is; None if it is none.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let name = text.try_into().ok()?;
        text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(NodeId(name))
    }

    /// As it is shown.
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
