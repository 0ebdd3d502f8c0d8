//! Rules of a list from the configuration: the size of its nodes, and the nodes that are compressed.

/// Bytes of a node by `list-max-listpack-size` -1 to -5.
const SIZES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Bytes of a node whose elements are counted.
const COUNTED_SIZE: usize = 8 << 10;
/// Bytes that an element takes beyond its own, at most, in a node that is nearly full.
const OVERHEAD: usize = 8;

/// `list-max-listpack-size`: a number of elements, or one of five sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill(i16);

impl Fill {
    /// Makes it of the directive; a value beyond the bounds becomes the bound.
    pub fn new(directive: i64) -> Self {
        Fill(directive.clamp(-(SIZES.len() as i64), i16::MAX.into()) as i16)
    }

    /// Returns the directive.
    pub fn get(self) -> i16 {
        self.0
    }

    /// Returns the bytes of a node, and the number of its elements if they are counted.
    #[inline]
    fn limits(self) -> (usize, Option<usize>) {
        match usize::try_from(self.0) {
            Ok(count) => (COUNTED_SIZE, Some(count.max(1))),
            Err(_) => (SIZES[usize::from(self.0.unsigned_abs()) - 1], None),
        }
    }

    /// Whether a listpack may not have so many bytes and elements.
    #[inline]
    pub(crate) fn is_exceeded(self, bytes: usize, elements: usize) -> bool {
        let (size, count) = self.limits();
        bytes > size || count.is_some_and(|count| elements > count)
    }

    /// Whether a listpack of so many bytes cannot take an element of `len` bytes as well.
    #[inline]
    pub(crate) fn is_exceeded_by(self, len: usize, bytes: usize, elements: usize) -> bool {
        self.is_exceeded(bytes + len + OVERHEAD, elements + 1)
    }

    /// Whether the last node of a list that shrinks may become the list. If elements are counted, only their number
    /// matters.
    pub(crate) fn is_half(self, bytes: usize, elements: usize) -> bool {
        match self.limits() {
            (_, Some(count)) => elements <= count / 2,
            (size, None) => bytes <= size / 2,
        }
    }
}

/// The rules for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Size of a node.
    pub fill: Fill,
    /// Nodes at either end that are not compressed; 0: none is.
    pub compress_depth: u16,
    /// Bytes from which elements get a node of their own, whatever the fill says. 0: only elements that no node may
    /// hold.
    pub large_from: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { fill: Fill(-2), compress_depth: 0, large_from: 0 }
    }
}

impl Rules {
    /// Whether an element of so many bytes gets a node of its own in a list whose nodes are filled by `fill`.
    #[inline]
    pub(crate) fn is_large(&self, fill: Fill, len: usize) -> bool {
        if self.large_from > 0 { len >= self.large_from } else { len > fill.limits().0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_limit_a_node() {
        for (directive, bytes) in [(-1, 4096), (-2, 8192), (-3, 16384), (-4, 32768), (-5, 65536), (-9, 65536)] {
            let fill = Fill::new(directive);
            assert!(!fill.is_exceeded(bytes, 1 << 20) && fill.is_exceeded(bytes + 1, 1), "{directive}");
            assert!(fill.is_half(bytes / 2, 1 << 20) && !fill.is_half(bytes / 2 + 1, 1), "{directive}");
            assert!(!fill.is_exceeded_by(100, bytes - 108, 1) && fill.is_exceeded_by(101, bytes - 108, 1));
        }
        let three = Fill::new(3);
        assert!(!three.is_exceeded(8192, 3) && three.is_exceeded(8, 4) && three.is_exceeded(8193, 1));
        assert!(three.is_half(8192, 1) && !three.is_half(8, 2));
        assert!(!Fill::new(0).is_exceeded(8, 1) && Fill::new(0).is_exceeded(8, 2) && !Fill::new(0).is_half(8, 1));
        assert_eq!(Fill::new(1 << 40).get(), i16::MAX);
    }

    #[test]
    fn large_elements_are_those_that_fit_no_node() {
        let (rules, low) = (Rules::default(), Rules { large_from: 5, ..Rules::default() });
        assert!(!rules.is_large(Fill::new(-1), 4096) && rules.is_large(Fill::new(-1), 4097));
        assert!(!rules.is_large(Fill::new(7), 8192) && rules.is_large(Fill::new(7), 8193));
        assert!(!low.is_large(Fill::new(-1), 4) && low.is_large(Fill::new(-1), 5));
    }
}
