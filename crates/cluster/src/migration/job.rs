//! One migration from the view of one end.

use super::slot_ranges::SlotRanges;
use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::{NAME_LEN, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Unknown end of a job.
pub(super) const UNKNOWN: NodeId = NodeId([b'0'; NAME_LEN]);

/// Name of a job at both ends and their replicas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(pub [u8; NAME_LEN]);

impl JobName {
    /// Reads a name; None if the text's length differs from a name's.
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

/// Nodes that a source asks whether the target has taken the slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inquiry {
    /// Links on which they were pinged.
    pub asked: BTreeMap<NodeId, LinkId>,
    /// Nodes that have answered since.
    pub answered: BTreeSet<NodeId>,
    /// Time since which they include most primaries.
    pub most_since: Option<Millis>,
}

/// Progress of a job. Both ends can have one of the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Target: the source has not confirmed yet that it knows the job.
    WaitingForAck,
    /// Target: keys arrive.
    ReceivingSnapshot,
    /// Target: changes arrive; the source is to pause.
    WaitingForPaused,
    /// Target: all data has arrived, but the slots are not granted yet.
    FailoverRequested,
    /// Target: it may take the slots.
    TakeoverGranted,
    /// Target: it has taken the slots, and serves them once that is on its disk.
    TakingOver,
    /// Target: keys of the failed import are removed.
    CleaningUp,
    /// A replica of the target, or a target that became one: its primary announces the end.
    OccurringOnPrimary,
    /// Source: a connection to the target is requested.
    Connecting,
    /// Source: the target has not answered AUTH.
    ReadingAuth,
    /// Source: the target has not answered ESTABLISH.
    ReadingEstablish,
    /// Source: a snapshot is to begin.
    WaitingToSnapshot,
    /// Source: keys are sent.
    Snapshotting,
    /// Source: changes are sent.
    Replicating,
    /// Source: too many bytes are unsent for a pause.
    WaitingToPause,
    /// Source: no client writes.
    Paused,
    /// Source: the target may take the slots.
    FailoverGranted,
    /// The target owns the slots.
    Success,
    /// An operator cancelled the job.
    Cancelled,
    /// The job failed.
    Failed,
}

impl JobState {
    /// Returns the state's name for clients.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::WaitingForAck => "waiting-for-ack",
            JobState::ReceivingSnapshot => "receiving-snapshot",
            JobState::WaitingForPaused => "waiting-for-paused",
            JobState::FailoverRequested => "failover-requested",
            JobState::TakeoverGranted | JobState::TakingOver | JobState::FailoverGranted => "failover-granted",
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

    /// Returns whether the job has ended.
    pub fn is_finished(self) -> bool {
        matches!(self, JobState::Success | JobState::Cancelled | JobState::Failed)
    }

    /// Returns whether slots are still to move.
    pub fn is_in_progress(self) -> bool {
        !self.is_finished() && self != JobState::CleaningUp
    }

    /// Returns whether the target has answered all orders of this source, and sends words from now on.
    pub fn has_answer(self) -> bool {
        !matches!(self, JobState::Connecting | JobState::ReadingAuth | JobState::ReadingEstablish)
    }

    /// Returns whether the other end is to get an ACK now and then.
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

/// A job, which stays in the list for a while after its end.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the job.
    pub name: JobName,
    /// Number of the job among all of this node, from 1.
    pub(super) number: u64,
    /// Whether this end is the target, or follows it.
    pub is_import: bool,
    /// Slots that move.
    pub slots: SlotRanges,
    /// Node to which they move.
    pub target: NodeId,
    /// Node from which they come. Unknown if the job is only tracked.
    pub source: NodeId,
    /// Whether the job is another server's, or was one's before a restart: this server only tracks it.
    pub is_tracked: bool,
    /// Time of the job's beginning.
    pub created: Millis,
    /// Time of the last change of state.
    pub updated: Millis,
    /// Time of the other end's last ACK.
    pub acked: Millis,
    /// State of the job.
    pub state: JobState,
    /// Reason for the job's end.
    pub message: Option<String>,
    /// Source: bytes not yet sent.
    pub unsent: u64,
    /// Time at which bytes arrived from the other end.
    pub(super) heard: Millis,
    /// Time of the last ACK to the other end.
    pub(super) ack_sent: Millis,
    /// State after the job's keys are removed.
    pub(super) after_cleanup: JobState,
    /// Source: time until which writes are held back.
    pub(super) paused_until: Option<Millis>,
    /// Source: whether the target was informed of the pause.
    pub(super) told_paused: bool,
    /// Source: whether the grant to the target was withdrawn.
    pub(super) is_cancelled: bool,
    /// Source: whether the slots were granted so long ago that the target does not take them any more.
    pub(super) is_overdue: bool,
    /// Source: nodes that are asked whether the target has taken the slots.
    pub(super) inquiry: Inquiry,
    /// Target: time at which this node took the slots, as long as their source may still claim them.
    pub(super) taken: Option<Millis>,
    /// Target: epoch with which the source, or each node that may be it, first announced its slots without those that
    /// this node took.
    pub(super) known_since: BTreeMap<NodeId, u64>,
    /// Whether there is a connection to the other end.
    pub(super) is_linked: bool,
    /// Description of the job in the log.
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
            is_overdue: false,
            inquiry: Inquiry::default(),
            taken: None,
            known_since: BTreeMap::new(),
            is_linked: false,
            description: String::new(),
        }
    }

    /// Sets the job's description in the log. `other`: the other end's name, and its human name.
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
