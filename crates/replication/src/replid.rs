//! Names of a data set's history, and offsets in it.
//!
//! A history is a stream of bytes with a name. A server that takes over from another primary continues that primary's
//! stream under a name of its own, and remembers the old name with the offset up to which both are the same:
//!
//! ```text
//!   id2 a2f1...  [0 ........ until]
//!   id  77c0...              [until ........ now
//! ```

use std::fmt;

/// Number of hexadecimal digits of a name.
pub const ID_LEN: usize = 40;

/// Name of a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicationId([u8; ID_LEN]);

impl ReplicationId {
    /// The name that no history has.
    pub const NONE: ReplicationId = ReplicationId([b'0'; ID_LEN]);

    /// Creates a name of these random numbers.
    pub fn of(random: u128, more: u32) -> ReplicationId {
        let text = format!("{random:032x}{more:08x}");
        ReplicationId::parse(text.as_bytes()).unwrap_or(ReplicationId::NONE)
    }

    /// Reads a name that another server has sent.
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        text.iter().all(u8::is_ascii_alphanumeric).then(|| text.try_into().ok()).flatten().map(ReplicationId)
    }

    /// Returns the name's digits.
    pub fn as_str(&self) -> &str {
        // Names consist of ASCII only.
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

/// A history with its former names. INFO shows one of them, as other servers have it. A role that is handed over and
/// taken back at once gives two new names, and a replica that learns of neither in time has the name before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Present name.
    pub id: ReplicationId,
    /// Name before the present one.
    pub second: ReplicationId,
    /// First offset of the present name only, as INFO shows it; -1 without a second name.
    pub second_offset: i64,
    /// Name before the second one; its offset is next to it.
    third: ReplicationId,
    third_offset: i64,
}

impl History {
    /// Begins a history.
    pub fn new(id: ReplicationId) -> History {
        let none = ReplicationId::NONE;
        History { id, second: none, second_offset: -1, third: none, third_offset: -1 }
    }

    /// Continues the history by this name behind the first `offset` bytes.
    pub fn shift(&mut self, id: ReplicationId, offset: u64) {
        let (second_offset, third_offset) = (offset as i64 + 1, self.second_offset);
        *self = History { id, second: self.id, second_offset, third: self.second, third_offset };
    }

    /// Returns whether the byte `next` (the first one has the number 1) of the history `id` belongs to this one.
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
