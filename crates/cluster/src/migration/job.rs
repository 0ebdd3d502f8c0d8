//! One migration as one end of it knows it.

use super::slot_ranges::SlotRanges;
use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::{NAME_LEN, NodeId};
use std::fmt;

/// An end of a job that is not known.
pub(super) const UNKNOWN: NodeId = NodeId([b'0'; NAME_LEN]);

/// The name of a job, which both ends and their replicas know it by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(pub [u8; NAME_LEN]);

impl JobName {
    /// The name that this text is; None where it is not as long as a name.
    pub fn parse(text: &[u8]) -> Option<JobName> {
        text.try_into().ok().map(JobName)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a job is. Both ends can be in one of the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Target: the source has not said yet that it knows of the job.
    WaitingForAck,
    /// Target: keys come.
    ReceivingSnapshot,
    /// Target: changes come; the source is to pause.
    WaitingForPaused,
    /// Target: it has everything, and may not take the slots yet.
    FailoverRequested,
    /// Target: it may take the slots.
    TakeoverGranted,
    /// Target: keys that came in vain are removed.
    CleaningUp,
    /// A replica of the target, or a target that became one: its primary tells the end.
    OccurringOnPrimary,
    /// Source: a connection to the target is asked for.
    Connecting,
    /// Source: the target has not answered AUTH.
    ReadingAuth,
    /// Source: the target has not answered ESTABLISH.
    ReadingEstablish,
    /// Source: a snapshot is to begin.
    WaitingToSnapshot,
    /// Source: keys go.
    Snapshotting,
    /// Source: changes go.
    Replicating,
    /// Source: too much is unsent for a pause.
    WaitingToPause,
    /// Source: nothing is written.
    Paused,
    /// Source: the target may take the slots.
    FailoverGranted,
    /// The target has the slots.
    Success,
    /// An operator ended it.
    Cancelled,
    /// It ended otherwise.
    Failed,
}

impl JobState {
    /// As clients are shown it.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::WaitingForAck => "waiting-for-ack",
            JobState::ReceivingSnapshot => "receiving-snapshot",
            JobState::WaitingForPaused => "waiting-for-paused",
            JobState::FailoverRequested => "failover-requested",
            JobState::TakeoverGranted | JobState::FailoverGranted => "failover-granted",
            JobState::CleaningUp => "cleaning-up",
            JobState::OccurringOnPrimary => "occurring-on-primary",
            JobState::Connecting => "connecting",
            JobState::ReadingAuth => "reading-auth-response",
            JobState::ReadingEstablish => "reading-establish-response",
            JobState::WaitingToSnapshot => "waiting-to-snapshot",
            JobState::Snapshotting => "snapshotting",
            JobState::Replicating => "replicating",
            JobState::WaitingToPause => "waiting-to-pause",
            JobState::Paused => "failover-paused",
            JobState::Success => "success",
            JobState::Cancelled => "cancelled",
            JobState::Failed => "failed",
        }
    }

    /// Nothing is to be done any more.
    pub fn is_finished(self) -> bool {
        matches!(self, JobState::Success | JobState::Cancelled | JobState::Failed)
    }

    /// Slots are still to move.
    pub fn is_in_progress(self) -> bool {
        !self.is_finished() && self != JobState::CleaningUp
    }

    /// Source: the target has answered all orders, and says words from now on.
    pub fn has_answer(self) -> bool {
        !matches!(self, JobState::Connecting | JobState::ReadingAuth | JobState::ReadingEstablish)
    }

    /// The other end is told now and then that this one is there.
    pub(super) fn sends_acks(self) -> bool {
        !self.is_finished()
            && !matches!(
                self,
                JobState::WaitingForAck
                    | JobState::CleaningUp
                    | JobState::OccurringOnPrimary
                    | JobState::Connecting
                    | JobState::ReadingAuth
                    | JobState::ReadingEstablish
                    | JobState::Snapshotting
                    | JobState::FailoverGranted
            )
    }
}

/// A job. It stays in the list for a while when it is finished.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub name: JobName,
    /// Its number among all of this node, from 1.
    pub(super) number: u64,
    /// This end is the target, or follows it.
    pub is_import: bool,
    /// What moves.
    pub slots: SlotRanges,
    /// Where to.
    pub target: NodeId,
    /// Where from. Not known where the job is only tracked.
    pub source: NodeId,
    /// The job is another server's, or was one's before a restart: this one only knows of it.
    pub is_tracked: bool,
    /// When it began.
    pub created: Millis,
    /// When its state changed last.
    pub updated: Millis,
    /// When the other end acknowledged it last.
    pub acked: Millis,
    /// How far it is.
    pub state: JobState,
    /// Why it ended as it did.
    pub message: Option<String>,
    /// Source: bytes that wait to be sent.
    pub unsent: u64,
    /// When anything came from the other end.
    pub(super) heard: Millis,
    /// When the other end was acknowledged last.
    pub(super) ack_sent: Millis,
    /// What it becomes when its keys are removed.
    pub(super) after_cleanup: JobState,
    /// Source: writes are held back until then.
    pub(super) paused_until: Option<Millis>,
    /// Source: the target was told so.
    pub(super) told_paused: bool,
    /// Source: the target was told that it may not take the slots any more.
    pub(super) is_cancelled: bool,
    /// Source: where the target was asked whether it has taken the slots.
    pub(super) asked_on: Option<LinkId>,
    /// Target: when this node took the slots, as long as their source may claim them still.
    pub(super) taken: Option<Millis>,
    /// Target: the epoch with which the source was heard first without the slots that this node took.
    pub(super) known_since: Option<u64>,
    /// There is a connection to the other end.
    pub(super) is_linked: bool,
    /// How the log calls it.
    pub(super) description: String,
}

impl Job {
    pub(super) fn new(name: JobName, is_import: bool, slots: SlotRanges, state: JobState, now: Millis) -> Job {
        Job {
            name,
            number: 0,
            is_import,
            slots,
            target: UNKNOWN,
            source: UNKNOWN,
            is_tracked: false,
            created: now,
            updated: now,
            acked: now,
            state,
            message: None,
            unsent: 0,
            heard: now,
            ack_sent: now,
            after_cleanup: JobState::Failed,
            paused_until: None,
            told_paused: false,
            is_cancelled: false,
            asked_on: None,
            taken: None,
            known_since: None,
            is_linked: false,
            description: String::new(),
        }
    }

    /// As the log calls it. `other`: the other end's name, and what people call it.
    pub(super) fn describe(&mut self, other: Option<(NodeId, &str)>) {
        let (operation, role) = if self.is_import { ("import", "source_node") } else { ("export", "target_node") };
        let id = other.map_or_else(|| "unknown".to_owned(), |(id, _)| id.to_string());
        let human = match other {
            Some((_, human)) if !human.is_empty() => format!(", {role}_human_name: {human}"),
            _ => String::new(),
        };
        self.description =
            format!("{{name: {}, operation: {operation}, {role}_id: {id}{human}, slots: {}}}", self.name, self.slots);
    }
}
