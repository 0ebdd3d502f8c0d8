//! Words between the two ends of a migration: CLUSTER SYNCSLOTS and a word.

/// A word, without arguments that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWord {
    /// The sender is alive.
    Ack,
    /// To the target: all keys of the snapshot have been sent.
    SnapshotEof,
    /// To the source: pause writes.
    RequestPause,
    /// To the target: writes are paused, and all of them have been sent.
    Paused,
    /// To the source: may the target take the slots?
    RequestFailover,
    /// To the target: the slots are granted.
    FailoverGranted,
    /// To the target: the grant is withdrawn, unless the slots are taken already.
    Cancel,
    /// Capabilities of the sender, which are ignored.
    Capa,
}

impl SyncWord {
    const ALL: [SyncWord; 8] = [
        SyncWord::Ack,
        SyncWord::SnapshotEof,
        SyncWord::RequestPause,
        SyncWord::Paused,
        SyncWord::RequestFailover,
        SyncWord::FailoverGranted,
        SyncWord::Cancel,
        SyncWord::Capa,
    ];

    /// Returns the word's text.
    pub fn as_str(self) -> &'static str {
        match self {
            SyncWord::Ack => "ACK",
            SyncWord::SnapshotEof => "SNAPSHOT-EOF",
            SyncWord::RequestPause => "REQUEST-PAUSE",
            SyncWord::Paused => "PAUSED",
            SyncWord::RequestFailover => "REQUEST-FAILOVER",
            SyncWord::FailoverGranted => "FAILOVER-GRANTED",
            SyncWord::Cancel => "CANCEL",
            SyncWord::Capa => "CAPA",
        }
    }

    /// Reads a word, in upper or lower case.
    pub fn parse(text: &[u8]) -> Option<SyncWord> {
        SyncWord::ALL.into_iter().find(|word| word.as_str().as_bytes().eq_ignore_ascii_case(text))
    }

    /// Returns the whole command.
    pub fn command(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &["CLUSTER", "SYNCSLOTS", self.as_str()]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_in_any_case() {
        for word in SyncWord::ALL {
            assert_eq!(SyncWord::parse(word.as_str().to_lowercase().as_bytes()), Some(word));
        }
        assert_eq!(SyncWord::parse(b"ESTABLISH"), None);
        assert_eq!(SyncWord::Ack.command(), b"*3\r\n$7\r\nCLUSTER\r\n$9\r\nSYNCSLOTS\r\n$3\r\nACK\r\n");
    }
}
