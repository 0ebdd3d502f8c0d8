//! A node of a quicklist: a listpack, one element that is too large for a listpack, or either of them compressed.
//!
//! ```text
//!  Packed       a listpack of several elements
//!  Plain        the bytes of one element
//!  Compressed   LZF of either; the length and the number of elements beside it
//! ```
//!
//! A node is compressed only if that saves enough, so a node that should be compressed may be left as it is. Asserted:
//! a node that is compressed here can be decompressed again.

use super::sequence::Weigh;
use crate::listpack::Listpack;
use crate::lzf;
use std::sync::Arc;

/// Shorter nodes are left alone, in bytes.
const COMPRESS_MIN: usize = 48;
/// Compression must save this many bytes.
const SAVED_MIN: usize = 8;

/// A node as dumps have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView<'a> {
    /// Whether it is one element, not a listpack.
    pub is_plain: bool,
    /// The bytes, or their LZF.
    pub bytes: &'a [u8],
    /// How many bytes there are without compression, if `bytes` is compressed.
    pub compressed_from: Option<usize>,
}

#[derive(Clone)]
pub(super) enum Node {
    Packed(Listpack),
    /// Changed as a whole only, so that copies may share it.
    Plain(Arc<Vec<u8>>),
    Compressed(Box<Compressed>),
}

#[derive(Clone)]
pub(super) struct Compressed {
    bytes: Box<[u8]>,
    /// Bytes and elements before compression.
    len: usize,
    count: usize,
    is_plain: bool,
}

impl Weigh for Node {
    /// Returns the number of elements.
    fn weight(&self) -> usize {
        self.count()
    }
}

impl Node {
    /// Returns the number of elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        match self {
            Node::Packed(listpack) => listpack.len(),
            Node::Plain(_) => 1,
            Node::Compressed(compressed) => compressed.count,
        }
    }

    /// Returns the bytes when it is not compressed.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Node::Packed(listpack) => listpack.byte_len(),
            Node::Plain(bytes) => bytes.len(),
            Node::Compressed(compressed) => compressed.len,
        }
    }

    /// Whether it is one large element.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Node::Packed(_) => false,
            Node::Plain(_) => true,
            Node::Compressed(compressed) => compressed.is_plain,
        }
    }

    pub(super) fn is_compressed(&self) -> bool {
        matches!(self, Node::Compressed(_))
    }

    pub(super) fn view(&self) -> NodeView<'_> {
        let (bytes, compressed_from) = match self {
            Node::Packed(listpack) => (listpack.as_bytes(), None),
            Node::Plain(bytes) => (&bytes[..], None),
            Node::Compressed(compressed) => (&compressed.bytes[..], Some(compressed.len)),
        };
        NodeView { is_plain: self.is_plain(), bytes, compressed_from }
    }

    /// Returns the node as it is before compression, if it is compressed.
    pub(super) fn decompressed(&self) -> Option<Node> {
        let Node::Compressed(compressed) = self else { return None };
        let bytes = lzf::decompress(&compressed.bytes, compressed.len).expect("a node was compressed here");
        Some(if compressed.is_plain {
            Node::Plain(Arc::new(bytes))
        } else {
            Node::Packed(Listpack::from_bytes(&bytes).expect("a listpack was compressed here"))
        })
    }

    pub(super) fn decompress(&mut self) {
        if let Some(node) = self.decompressed() {
            *self = node;
        }
    }

    pub(super) fn compress(&mut self) {
        let bytes = match self {
            Node::Packed(listpack) => listpack.as_bytes(),
            Node::Plain(bytes) => bytes,
            Node::Compressed(_) => return,
        };
        if bytes.len() < COMPRESS_MIN {
            return;
        }
        if let Some(shorter) = lzf::compress(bytes, bytes.len() - SAVED_MIN) {
            let (len, count, is_plain) = (bytes.len(), self.count(), self.is_plain());
            *self = Node::Compressed(Box::new(Compressed { bytes: shorter.into(), len, count, is_plain }));
        }
    }

    /// Returns the listpack, which is decompressed before.
    ///
    /// # Panics
    /// When the node is one large element.
    pub(super) fn packed_mut(&mut self) -> &mut Listpack {
        self.decompress();
        match self {
            Node::Packed(listpack) => listpack,
            _ => unreachable!("the caller knows that the node is packed"),
        }
    }

    /// Returns the bytes on the heap.
    pub(super) fn memory_usage(&self) -> usize {
        match self {
            Node::Packed(listpack) => listpack.memory_usage(),
            Node::Plain(bytes) => bytes.len(),
            Node::Compressed(compressed) => size_of::<Compressed>() + compressed.bytes.len(),
        }
    }
}
