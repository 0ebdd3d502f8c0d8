//! What is to be done for migrations of slots.

use super::job::JobName;
use super::slot_ranges::SlotRanges;
use crate::Millis;
use crate::slot_set::SlotSet;

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEffect {
    /// Source: a connection to the target. `migration_connected` or `migration_lost` tells what became of it.
    Connect {
        /// Of which job.
        job: JobName,
        /// Numeric address.
        ip: String,
        /// The port for clients, with TLS if replication has it.
        port: u16,
    },
    /// Bytes for the other end, behind all that was sent before.
    Send {
        /// Of which job.
        job: JobName,
        /// One command.
        bytes: Vec<u8>,
    },
    /// The connection ends, and all work for the job; nothing is reported of it any more.
    Close {
        /// Of which job.
        job: JobName,
    },
    /// Source: keys of these slots are sent as they are at one moment, and all changes of them after it.
    /// `snapshot_begun`, `snapshot_sent` and `migration_failed` tell what comes of it.
    BeginSnapshot {
        /// Of which job.
        job: JobName,
        /// What is sent.
        slots: SlotSet,
    },
    /// Source: no writes. `writes_paused` is to be told when nothing is written any more and all that was is on its
    /// way.
    Pause {
        /// Of which job.
        job: JobName,
        /// When they go on whatever happened.
        until: Millis,
    },
    /// Source: writes go on.
    Resume,
    /// Keys of these slots are on their way: clients do not see them.
    Hide {
        /// Of which job.
        job: JobName,
        /// Which.
        slots: SlotSet,
    },
    /// Keys of the job's slots are as all others.
    Show {
        /// Of which job.
        job: JobName,
    },
    /// Target: keys that came in vain are to be removed, but for those of slots that are this node's own when it is
    /// done: who takes over from a target that has taken them has them, too. `keys_removed` tells that they are gone.
    RemoveKeys {
        /// Of which job.
        job: JobName,
        /// Where they are.
        slots: SlotSet,
    },
    /// Replicas and the append-only file are to have this command.
    Record(Vec<Vec<u8>>),
}

/// The command that asks the target to take slots, which its replicas get, too.
pub(super) fn establish_words(job: &JobName, source: &[u8], slots: &SlotRanges) -> Vec<Vec<u8>> {
    let head: [&[u8]; 8] = [b"CLUSTER", b"SYNCSLOTS", b"ESTABLISH", b"SOURCE", source, b"NAME", &job.0, b"SLOTSRANGE"];
    let ranges = slots.0.iter().flat_map(|(start, end)| [start, end]).map(|slot| slot.to_string().into_bytes());
    head.iter().map(|word| word.to_vec()).chain(ranges).collect()
}

/// The command that tells replicas how an import has ended.
pub(super) fn finish_words(job: &JobName, is_success: bool, message: Option<&str>) -> Vec<Vec<u8>> {
    let state: &[u8] = if is_success { b"SUCCESS" } else { b"FAILED" };
    let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"SYNCSLOTS", b"FINISH", b"STATE", state, b"NAME", &job.0];
    if let Some(message) = message {
        words.extend([&b"MESSAGE"[..], message.as_bytes()]);
    }
    words.into_iter().map(<[u8]>::to_vec).collect()
}
