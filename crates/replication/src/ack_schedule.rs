//! When a replica says how far it is, and how: each second, and soon where something is new, as a primary may wait for
//! that and not ask.

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
}

/// How far a replica is; `durable`: how much of that is on its disk, where it has a log.
pub fn ack_command(offset: u64, durable: Option<u64>) -> Vec<u8> {
    let (offset, durable) = (offset.to_string(), durable.map(|offset| offset.to_string()));
    let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
    if let Some(durable) = &durable {
        words.extend([&b"FACK"[..], durable.as_bytes()]);
    }
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, &words);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_soon_and_the_rest_each_second() {
        let mut acks = AckSchedule::default();
        acks.begin();
        assert_eq!(acks.due_in(100, 0), 0);
        acks.note(100, 0);
        assert_eq!([0, 999, 1000].map(|now| acks.due_in(100, now)), [1000, 1, 0]);
        assert_eq!([0, 19, 20].map(|now| acks.due_in(101, now)), [20, 1, 0]);
    }
}
