//! The pace at which the stream is sent while it grows all the time.
//!
//! A round that sends some of it costs as much as many writes. If several clients write between two rounds, their
//! changes gather for a moment, unless they are large. A client that writes alone waits for its replies anyway, and
//! bytes that a client waits for are sent at once.

use engine::time::Nanos;
use std::time::Duration;

/// Longest time for which the stream gathers.
pub(super) const MOMENT: Duration = Duration::from_millis(1);
/// Changes of the writing client between two rounds from which on several clients write.
const SEVERAL: u64 = 2;

/// Time of the last round that sent something.
#[derive(Default)]
pub(super) struct SendCoalescing {
    last: Option<Nanos>,
    /// Turns of clients until then.
    turns: u64,
    is_busy: bool,
}

impl SendCoalescing {
    /// Records that the stream has grown and is sent now, after so many turns of clients.
    pub fn note(&mut self, turns: u64, now: Nanos) {
        let is_soon = self.last.is_some_and(|last| now.since(last) < 2 * MOMENT.as_nanos() as u64);
        self.is_busy = is_soon && turns.wrapping_sub(self.turns) >= SEVERAL;
        (self.last, self.turns) = (Some(now), turns);
    }

    /// Returns whether the stream is to gather before the next round; once.
    pub fn takes_rest(&mut self) -> bool {
        std::mem::take(&mut self.is_busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_clients_that_write_one_after_the_other_gather() {
        let mut gathering = SendCoalescing::default();
        let mut rests = |rounds: &[(u64, u64)]| {
            let rest = |&(at, turns): &(u64, u64)| {
                gathering.note(turns, Nanos(at * 1000));
                let rests = gathering.takes_rest();
                assert!(!gathering.takes_rest(), "a rest is taken once");
                rests
            };
            rounds.iter().map(rest).collect::<Vec<bool>>()
        };
        assert_eq!(rests(&[(5000, 1), (5050, 1), (5100, 1), (5150, 2)]), [false; 4], "one client, and then another");
        assert_eq!(rests(&[(5200, 4), (6200, 90), (7200, 180), (7250, 181)]), [true, true, true, false]);
        assert_eq!(rests(&[(9250, 200), (9300, 300)]), [false, true], "there was a rest before");
    }
}
