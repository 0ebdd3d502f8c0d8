//! Effects of migrations of slots.

use super::job::JobName;
use super::slot_ranges::SlotRanges;
use crate::Millis;
use crate::slot_set::SlotSet;

/// Effects to carry out, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationEffect {
    /// Source: connects to the target. `migration_connected` or `migration_lost` reports the result.
    Connect {
        /// Job of the connection.
        job: JobName,
        /// Numeric address.
        ip: String,
        /// Port for clients, with TLS if replication has it.
        port: u16,
    },
    /// Sends bytes to the other end, behind all that were sent before.
    Send {
        /// Job of the connection.
        job: JobName,
        /// One command.
        bytes: Vec<u8>,
    },
    /// Closes the connection, and ends all work for the job; the driver reports nothing more about it.
    Close {
        /// Job of the connection.
        job: JobName,
    },
    /// Source: sends the keys of these slots as they are at one moment, and all changes of them after it.
    /// `snapshot_begun`, `snapshot_sent` and `migration_failed` report the progress.
    BeginSnapshot {
        /// Job of the snapshot.
        job: JobName,
        /// Slots of the snapshot.
        slots: SlotSet,
    },
    /// Source: pauses writes. `writes_paused` reports that no client writes any more and all writes are sent.
    Pause {
        /// Job of the pause.
        job: JobName,
        /// Time at which writes resume in any case.
        until: Millis,
    },
    /// Source: resumes writes.
    Resume,
    /// Hides keys of these slots from clients: they are arriving.
    Hide {
        /// Job of the import.
        job: JobName,
        /// Slots of the keys.
        slots: SlotSet,
    },
    /// Shows the keys of the job's slots like all others.
    Show {
        /// Job of the import.
        job: JobName,
    },
    /// Target: removes keys of a failed import, except in slots that this node owns when the import ends: a node that
    /// replaces a target with the slots owns them, too. `keys_removed` reports the end.
    RemoveKeys {
        /// Job of the import.
        job: JobName,
        /// Slots of the keys.
        slots: SlotSet,
    },
    /// Passes this command to replicas and to the append-only file.
    Record(Vec<Vec<u8>>),
}

/// Returns the command that asks the target to take slots; the target's replicas get it, too.
pub(super) fn establish_words(job: &JobName, source: &[u8], slots: &SlotRanges) -> Vec<Vec<u8>> {
    let head: [&[u8]; 8] = [b"CLUSTER", b"SYNCSLOTS", b"ESTABLISH", b"SOURCE", source, b"NAME", &job.0, b"SLOTSRANGE"];
    let ranges = slots.0.iter().flat_map(|(start, end)| [start, end]).map(|slot| slot.to_string().into_bytes());
    head.iter().map(|word| word.to_vec()).chain(ranges).collect()
}

/// Returns the command by which replicas learn how an import has ended.
pub(super) fn finish_words(job: &JobName, is_success: bool, message: Option<&str>) -> Vec<Vec<u8>> {
    let state: &[u8] = if is_success { b"SUCCESS" } else { b"FAILED" };
    let mut words: Vec<&[u8]> = vec![b"CLUSTER", b"SYNCSLOTS", b"FINISH", b"STATE", state, b"NAME", &job.0];
    if let Some(message) = message {
        words.extend([&b"MESSAGE"[..], message.as_bytes()]);
    }
    words.into_iter().map(<[u8]>::to_vec).collect()
}
