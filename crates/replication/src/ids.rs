//! Names of a data set's history, and offsets in it.
//!
//! A history is a stream of bytes with a name. Who takes over from another primary goes on with that one's stream under
//! a name of its own, and remembers the old name with the offset up to which both are the same:
//!
//! ```text
//!   id2 a2f1...  [0 ........ until]
//!   id  77c0...              [until ........ now
//! ```

use std::fmt;

/// Hexadecimal digits of a name.
pub const ID_LEN: usize = 40;

/// The name of a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicationId([u8; ID_LEN]);

impl ReplicationId {
    /// The name that nothing has.
    pub const NONE: ReplicationId = ReplicationId([b'0'; ID_LEN]);

    /// A name of these random numbers.
    pub fn of(random: u128, more: u32) -> ReplicationId {
        let text = format!("{random:032x}{more:08x}");
        ReplicationId::parse(text.as_bytes()).unwrap_or(ReplicationId::NONE)
    }

    /// A name that another server has said.
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        text.iter().all(u8::is_ascii_alphanumeric).then(|| text.try_into().ok()).flatten().map(ReplicationId)
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        // Nothing but ASCII gets in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A history with the names that it had before. INFO shows one of them, as other servers have it. A role that is handed
/// over and taken back at once gives two new names, and a replica that hears of neither in time has the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Its name.
    pub id: ReplicationId,
    /// The name before.
    pub second: ReplicationId,
    /// The first offset that is of the new name only, as INFO shows it; -1 without a second name.
    pub second_offset: i64,
    /// The same of the name before the second one.
    third: ReplicationId,
    third_offset: i64,
}

impl History {
    /// One that begins.
    pub fn new(id: ReplicationId) -> History {
        let none = ReplicationId::NONE;
        History { id, second: none, second_offset: -1, third: none, third_offset: -1 }
    }

    /// From `offset` on (bytes so far) it goes on by this name.
    pub fn shift(&mut self, id: ReplicationId, offset: u64) {
        let (second_offset, third_offset) = (offset as i64 + 1, self.second_offset);
        *self = History { id, second: self.id, second_offset, third: self.second, third_offset };
    }

    /// Whether the byte `next` (the first one has the number 1) of a history called `id` is one of this one.
    pub fn has(&self, id: ReplicationId, next: i64) -> bool {
        id == self.id
            || id == self.second && next <= self.second_offset
            || id == self.third && next <= self.third_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_what_came_before_its_new_name() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|n| ReplicationId::of(n, 0));
        let mut history = History::new(a);
        assert!(history.has(a, 500) && !history.has(b, 1) && !history.has(ReplicationId::NONE, 1));
        history.shift(b, 100);
        assert_eq!(history.second_offset, 101);
        assert!(history.has(a, 101) && !history.has(a, 102) && history.has(b, 102));
        history.shift(c, 200);
        assert!(history.has(a, 101) && !history.has(a, 102) && history.has(b, 201) && history.has(c, 202));
        assert!(!history.has(b, 202) && !history.has(ReplicationId::NONE, 1));
        history.shift(d, 300);
        assert!(!history.has(a, 1) && history.has(b, 201) && !history.has(b, 202) && history.has(c, 301));
    }

    #[test]
    fn a_name_has_forty_digits() {
        let id = ReplicationId::of(u128::MAX, 7);
        assert_eq!(ReplicationId::parse(id.as_str().as_bytes()), Some(id));
        assert_eq!(id.as_str(), format!("{}00000007", "f".repeat(32)));
        assert_eq!(ReplicationId::parse(b"?"), None);
        assert_eq!(ReplicationId::parse(&[b'\r'; ID_LEN]), None);
    }
}
