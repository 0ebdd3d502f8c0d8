//! A replica of a primary that acknowledges writes: its acknowledgements, and whether it is there.

use crate::ack_gate::AckSettings;
use crate::replica_handshake::Acks;

/// A replica that introduced itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Follower {
    /// Last acknowledgement.
    pub acks: Acks,
    /// Whether it gets the stream.
    pub is_online: bool,
    /// Time of the last acknowledgement since the replica came online; None: there was none.
    pub heard: Option<u64>,
    /// Time at which the acknowledged bytes had not been sent yet.
    pub leased_at: u64,
    /// End of the last link; None: there was no link.
    pub left: Option<u64>,
}

impl Follower {
    /// Returns whether the replica is online, and has not been silent for too long.
    pub fn is_there(&self, settings: &AckSettings, now: u64) -> bool {
        self.is_online && self.heard.is_none_or(|at| now.saturating_sub(at) <= settings.silence)
    }

    /// Returns since when the replica is absent; None: it has had no link.
    pub fn silent_since(&self) -> Option<u64> {
        if self.is_online { self.heard } else { self.left }
    }
}
