//! When a replica says how far it is: each second, and soon where something is new, as a primary may wait for that and
//! not ask. Until its stream has begun it only shows that it is there.

/// Milliseconds between two words.
pub const PERIOD: u64 = 1000;
/// Milliseconds after a word in which something new is not told.
const SOON: u64 = 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct AckSchedule {
    next: u64,
    /// How far the replica was by its last word.
    acked: u64,
}

impl AckSchedule {
    /// The stream begins: the first word is due.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// It was said that the replica is at `offset`.
    pub fn note(&mut self, offset: u64, now: u64) {
        (self.next, self.acked) = (now + PERIOD, offset);
    }

    /// Milliseconds until it is to be said that it is at `offset`.
    pub fn due_in(&self, offset: u64, now: u64) -> u64 {
        let early = if offset == self.acked { 0 } else { PERIOD - SOON };
        self.next.saturating_sub(now + early)
    }

    /// Whether it is time to show that it is there, which is done then.
    pub fn renew(&mut self, now: u64) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + PERIOD;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_soon_and_the_rest_each_second() {
        let mut acks = AckSchedule::default();
        assert!(acks.renew(5) && !acks.renew(1004) && acks.renew(1005));
        acks.begin();
        assert_eq!(acks.due_in(100, 0), 0);
        acks.note(100, 0);
        assert_eq!([0, 999, 1000].map(|now| acks.due_in(100, now)), [1000, 1, 0]);
        assert_eq!([0, 19, 20].map(|now| acks.due_in(101, now)), [20, 1, 0]);
    }
}
