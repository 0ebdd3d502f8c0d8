//! How often the stream goes out while it grows all the time.
//!
//! A round that sends some of it costs as much as many writes. Where several clients write between two rounds, what
//! they write is let gather for a moment, unless it is much. A client that writes alone waits for its replies anyway,
//! and what a client waits for is sent at once.

use engine::time::Nanos;
use std::time::Duration;

/// How long the stream gathers at most.
pub(super) const MOMENT: Duration = Duration::from_millis(1);
/// Times that it was another client's turn to write, between two rounds, from which on they are several.
const SEVERAL: u64 = 2;

/// When the last round was that sent something.
#[derive(Default)]
pub(super) struct Gathering {
    last: Option<Nanos>,
    /// Turns of clients until then.
    turns: u64,
    is_busy: bool,
}

impl Gathering {
    /// The stream has grown, and goes out now; it has been so many clients' turn to write.
    pub fn note(&mut self, turns: u64, now: Nanos) {
        let is_soon = self.last.is_some_and(|last| now.since(last) < 2 * MOMENT.as_nanos() as u64);
        self.is_busy = is_soon && turns.wrapping_sub(self.turns) >= SEVERAL;
        (self.last, self.turns) = (Some(now), turns);
    }

    /// Whether it is to gather before the next round; once.
    pub fn takes_rest(&mut self) -> bool {
        std::mem::take(&mut self.is_busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_clients_that_write_one_after_the_other_gather() {
        let mut gathering = Gathering::default();
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
