//! Limits of one connection before others are looked at, and the connections that are served after others.
//!
//! ```text
//!   tick   | ready: all of them, and their replies | chunked commands | deprioritized: one, the next ...
//!   tick   | ready                                 |                  | deprioritized: the next ...
//! ```
//!
//! A client is deprioritized if it sent much in one of its last visits, or ran for long, or does not read its replies,
//! or has never been served. Deprioritized connections are in a queue of their own, and one tick serves as many as its
//! slice of time is enough for: to send their unsent output, to read, to run, to reply. A slice is short while there
//! are others, which would notice a long one.

use engine::time::Nanos;

/// Nanoseconds for any one connection without a look at others.
const VISIT_MAX: u64 = 200_000;
/// Nanoseconds of a tick for all deprioritized connections together, and for all chunked commands.
const SLICE: u64 = 200_000;
/// Nanoseconds for the deprioritized connections while others are served too, and of that for any one of them: the
/// slice ends when one has used its visit up.
const SHORT_SLICE: u64 = 20_000;
const SHORT_VISIT: u64 = 15_000;
/// Bytes that are read from one connection in a visit, and that are sent of its unsent output. To copy them takes about
/// as long as a visit may, with the kernel's work.
pub const VISIT_BYTES: usize = 64 << 10;
/// Bytes while others are served too, and for a connection that is not deprioritized. A connection that has sent as
/// many, or has as many of an incomplete request, is deprioritized from then on.
pub const LIGHT_BYTES: usize = 8 << 10;
/// Nanoseconds for the visit of a connection whose replies have a hard limit: most of it may be the clearing of fresh
/// memory.
pub const LIMITED_VISIT_MAX: u64 = 20_000_000;
/// Nanoseconds for which others are expected to come back.
const LATELY: u64 = 1_000_000_000;

/// Limits of one connection's visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visit {
    /// Nanoseconds without a look at others.
    nanos: u64,
    /// Bytes that are read from it at a time, and that are sent of its unsent output.
    bytes: usize,
    /// Bytes of replies after which its visit ends, and that are sent at once.
    replies: usize,
}

/// The visit of a connection that is not deprioritized.
const LIGHT: Visit = Visit { nanos: VISIT_MAX, bytes: LIGHT_BYTES, replies: usize::MAX };

/// Limits of deprioritized connections in a tick, together and each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Nanoseconds for all of them.
    pub nanos: u64,
    visit: Visit,
}

/// Present limits of connections.
#[derive(Debug)]
pub struct Fairness {
    visit: Visit,
    /// Time by the host's clock at which a connection was last served that is not deprioritized.
    light_at: Nanos,
}

impl Default for Fairness {
    fn default() -> Fairness {
        Fairness { visit: LIGHT, light_at: Nanos(0) }
    }
}

impl Fairness {
    /// Returns the bytes that are read from one connection at a time, and that are sent of its unsent output.
    #[inline]
    pub fn visit_bytes(&self) -> usize {
        self.visit.bytes
    }

    /// Returns the nanoseconds for which one connection's commands run without a look at others.
    #[inline]
    pub fn visit_nanos(&self) -> u64 {
        self.visit.nanos
    }

    /// Returns the bytes of replies that are sent to one connection at once.
    #[inline]
    pub fn visit_replies(&self) -> usize {
        self.visit.replies
    }

    /// Returns whether a visit of so many nanoseconds, with `replied` bytes of replies, has kept others waiting for
    /// long enough. `is_hard`: whether the connection's replies have a hard limit, and it is to get them together.
    #[inline]
    pub fn is_over_budget(&self, nanos: u64, replied: usize, is_hard: impl FnOnce() -> bool) -> bool {
        (nanos > self.visit.nanos || replied > self.visit.replies) && (nanos > LIMITED_VISIT_MAX || !is_hard())
    }

    /// Records that connections have been served that are not deprioritized.
    pub fn light_served(&mut self, clock: Nanos) {
        self.light_at = clock;
    }

    /// Returns the limits of deprioritized connections in this tick.
    pub fn slice(&self, clock: Nanos) -> Slice {
        match clock.since(self.light_at) < LATELY {
            true => Slice {
                nanos: SHORT_SLICE,
                visit: Visit { nanos: SHORT_VISIT, bytes: LIGHT_BYTES, replies: LIGHT_BYTES },
            },
            false => Slice { nanos: SLICE, visit: Visit { nanos: VISIT_MAX, bytes: VISIT_BYTES, replies: usize::MAX } },
        }
    }

    /// Sets the limits for deprioritized connections.
    pub fn begin_slice(&mut self, slice: Slice) {
        self.visit = slice.visit;
    }

    /// Sets the limits for other connections.
    pub fn end_slice(&mut self) {
        self.visit = LIGHT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_short_while_others_are_served() {
        let mut fairness = Fairness::default();
        fairness.light_served(Nanos(5_000_000_000));
        assert_eq!(fairness.slice(Nanos(5_999_999_999)).nanos, SHORT_SLICE);
        assert_eq!(fairness.slice(Nanos(6_000_000_000)).nanos, SLICE);
        assert_eq!(fairness.slice(Nanos(4_000_000_000)).nanos, SHORT_SLICE, "two clocks may differ a little");
        let visit = |fairness: &Fairness| (fairness.visit_bytes(), fairness.visit_replies());
        assert_eq!(visit(&fairness), (LIGHT_BYTES, usize::MAX));
        fairness.begin_slice(fairness.slice(Nanos(5_000_000_001)));
        assert_eq!(visit(&fairness), (LIGHT_BYTES, LIGHT_BYTES));
        fairness.begin_slice(fairness.slice(Nanos(9_000_000_000)));
        assert_eq!(visit(&fairness), (VISIT_BYTES, usize::MAX));
        fairness.end_slice();
        assert_eq!(visit(&fairness), (LIGHT_BYTES, usize::MAX));
    }

    #[test]
    fn a_visit_ends_with_its_time_or_its_replies() {
        let mut fairness = Fairness::default();
        let is_over = |fairness: &Fairness, nanos, replied| fairness.is_over_budget(nanos, replied, || false);
        assert!(!is_over(&fairness, VISIT_MAX, 10 << 20) && is_over(&fairness, VISIT_MAX + 1, 0));
        fairness.begin_slice(fairness.slice(Nanos(1)));
        assert!(!is_over(&fairness, SHORT_VISIT, LIGHT_BYTES));
        assert!(is_over(&fairness, SHORT_VISIT + 1, 0) && is_over(&fairness, 0, LIGHT_BYTES + 1));
    }

    #[test]
    fn replies_with_a_hard_limit_are_not_torn_apart_for_as_long_as_that_can_be_borne() {
        let fairness = Fairness::default();
        assert!(!fairness.is_over_budget(LIMITED_VISIT_MAX, 0, || true));
        assert!(fairness.is_over_budget(LIMITED_VISIT_MAX + 1, 0, || true));
    }
}
