//! Times of a replica's acknowledgements: one each second, and one soon after new data, as a primary may wait for it
//! without a GETACK.

/// Milliseconds between two acknowledgements.
pub const PERIOD: u64 = 1000;
/// Milliseconds after an acknowledgement in which new data is not acknowledged.
const SOON: u64 = 20;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct AckSchedule {
    next: u64,
    /// Offset of the last acknowledgement.
    acked: u64,
}

impl AckSchedule {
    /// Begins with the stream: the first acknowledgement is due.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// Records an acknowledgement of `offset`.
    pub fn note(&mut self, offset: u64, now: u64) {
        (self.next, self.acked) = (now + PERIOD, offset);
    }

    /// Returns the milliseconds until an acknowledgement of `offset` is due.
    pub fn due_in(&self, offset: u64, now: u64) -> u64 {
        let early = if offset == self.acked { 0 } else { PERIOD - SOON };
        self.next.saturating_sub(now + early)
    }
}

/// Returns the acknowledgement of an offset; `durable`: the part that is on the replica's disk, if it has a log.
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
    fn new_offsets_are_acknowledged_soon_and_old_ones_each_second() {
        let mut acks = AckSchedule::default();
        acks.begin();
        assert_eq!(acks.due_in(100, 0), 0);
        acks.note(100, 0);
        assert_eq!([0, 999, 1000].map(|now| acks.due_in(100, now)), [1000, 1, 0]);
        assert_eq!([0, 19, 20].map(|now| acks.due_in(101, now)), [20, 1, 0]);
    }
}
