//! What the two ends of a migration say to each other: CLUSTER SYNCSLOTS and a word.

/// Such a word, without arguments that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWord {
    /// The sender is there.
    Ack,
    /// To the target: all keys of the snapshot have been sent.
    SnapshotEof,
    /// To the source: nothing is to be written any more.
    RequestPause,
    /// To the target: nothing is written any more, and all that was has been sent.
    Paused,
    /// To the source: may the target take the slots?
    RequestFailover,
    /// To the target: it may.
    FailoverGranted,
    /// To the target: it may not, unless it has taken them.
    Cancel,
    /// What the sender can do, of which nothing is known.
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

    /// As it is said.
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

    /// The word that this text is, in any case.
    pub fn parse(text: &[u8]) -> Option<SyncWord> {
        SyncWord::ALL.into_iter().find(|word| word.as_str().as_bytes().eq_ignore_ascii_case(text))
    }

    /// The whole command.
    pub fn command(self) -> Vec<u8> {
        let word = self.as_str();
        format!("*3\r\n$7\r\nCLUSTER\r\n$9\r\nSYNCSLOTS\r\n${}\r\n{word}\r\n", word.len()).into_bytes()
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
