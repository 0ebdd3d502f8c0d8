//! The name of an entry: a time in milliseconds and a number among the entries of that time.

use std::fmt;

/// Entries lie in the order of their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Unix time in milliseconds, unless the client has chosen another number.
    pub ms: u64,
    /// The number among the entries of one `ms`.
    pub seq: u64,
}

impl Id {
    /// The smallest id.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// Returns the id `ms-seq`.
    pub const fn new(ms: u64, seq: u64) -> Id {
        Id { ms, seq }
    }

    /// Returns the smallest id above this one.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the greatest id below this one.
    pub fn prev(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// `ms-seq` in the last bytes of `text`.
    pub fn digits(self, text: &mut [u8; 41]) -> &[u8] {
        let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (ms, seq) = (ms.format(self.ms), seq.format(self.seq));
        let dash = text.len() - seq.len() - 1;
        text[dash + 1..].copy_from_slice(seq.as_bytes());
        text[dash] = b'-';
        let start = dash - ms.len();
        text[start..dash].copy_from_slice(ms.as_bytes());
        &text[start..]
    }

    /// `ms-seq` as text.
    pub fn to_vec(self) -> Vec<u8> {
        self.digits(&mut [0; 41]).to_vec()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn ids_have_neighbours() {
        assert_eq!(Id::new(1, u64::MAX).next(), Some(Id::new(2, 0)));
        assert_eq!(Id::new(2, 0).prev(), Some(Id::new(1, u64::MAX)));
        assert_eq!((Id::MAX.next(), Id::MIN.prev()), (None, None));
        assert_eq!(Id::new(1, 1).next().and_then(Id::prev), Some(Id::new(1, 1)));
    }

    #[test]
    fn ids_are_written_as_two_numbers() {
        for id in [Id::MIN, Id::MAX, Id::new(1_700_000_000_000, 7)] {
            assert_eq!(id.to_vec(), id.to_string().into_bytes());
        }
    }
}
