//! All migrations of a node: their common state, and their ends.

use super::job::{Inquiry, Job, JobName, JobState};
use super::migration_effect::{MigrationEffect, finish_words};
use super::migration_requests::{self as requests, RequestError, refused, syntax};
use super::slot_export::GRANT_TIME;
use super::sync_word::SyncWord;
use crate::Millis;
use crate::bus::{DebugSettings, Level};
use crate::node_id::NodeId;
use crate::node_table::NodeTable;
use crate::slot_set::SlotSet;
use std::collections::VecDeque;

/// Directives of migrations. All may change at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationSettings {
    /// `repl-timeout`: silence of the other end after which a job fails.
    pub timeout: Millis,
    /// `cluster-manual-failover-timeout`: half of the source's longest pause.
    pub failover_timeout: Millis,
    /// `slot-migration-max-failover-repl-bytes`: unsent bytes with which the source may pause; None for any number.
    pub max_unsent: Option<u64>,
    /// `cluster-slot-migration-log-max-len`: number of ended jobs that are listed.
    pub log_max_len: usize,
    /// `tls-replication`: the target is reached by its port with TLS.
    pub encrypts: bool,
}

impl Default for MigrationSettings {
    fn default() -> MigrationSettings {
        MigrationSettings {
            timeout: 60_000,
            failover_timeout: 5000,
            max_unsent: Some(0),
            log_max_len: 1000,
            encrypts: false,
        }
    }
}

/// State that migrations read.
#[derive(Clone, Copy, Debug)]
pub struct MigrationView<'v> {
    /// Owners of slots.
    pub nodes: &'v NodeTable,
    /// Directives of migrations.
    pub settings: &'v MigrationSettings,
    /// Steps that DEBUG prevents, for tests.
    pub debug: &'v DebugSettings,
    /// Whether a replica takes this node's place: writes are held back for it, or it has this node's vote.
    pub is_failing_over: bool,
    /// Whether others may have this node's place: it has just started, stood still, or does not reach most primaries.
    pub may_be_replaced: bool,
    /// Whether this node leads without being confirmed: it may lack acknowledged writes, and is to be replaced.
    pub is_unconfirmed: bool,
    /// Unix time.
    pub now: Millis,
}

impl MigrationView<'_> {
    pub(super) fn is_primary(&self) -> bool {
        self.nodes.myself().is_primary()
    }

    /// Returns the one node that owns all slots of a job, if there is one.
    pub(super) fn owner_of(&self, job: &Job) -> Option<NodeId> {
        let mut owners = job.slots.iter().map(|slot| self.nodes.owner(slot));
        let first = owners.next()??;
        owners.all(|owner| owner == Some(first)).then_some(first)
    }

    /// Returns a node's name in the log.
    pub(super) fn named(&self, id: NodeId) -> Option<(NodeId, &str)> {
        let node = self.nodes.get(&id)?;
        Some((id, node.address.human_name.as_str()))
    }
}

/// Time between two ACKs to the other end.
const ACK_EVERY: Millis = 1000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Migrations {
    /// Jobs, the newest first.
    pub(super) jobs: VecDeque<Job>,
    /// Number of jobs that have begun.
    begun: u64,
    pub(super) effects: Vec<Result<MigrationEffect, (Level, String)>>,
    pub(super) is_paused: bool,
}

impl Migrations {
    /// Returns all jobs, the newest first.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter()
    }

    /// Returns the job of that name.
    pub fn job(&self, name: &JobName) -> Option<&Job> {
        self.jobs.iter().find(|job| job.name == *name)
    }

    /// Returns how many jobs have begun since the node started.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn add(&mut self, mut job: Job) {
        self.begun += 1;
        job.number = self.begun;
        self.jobs.push_front(job);
    }

    pub(super) fn job_mut(&mut self, name: &JobName) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.name == *name)
    }

    /// Takes the effects to carry out, in order, and lines for the log.
    pub(crate) fn take_effects(&mut self) -> Vec<Result<MigrationEffect, (Level, String)>> {
        std::mem::take(&mut self.effects)
    }

    pub(super) fn act(&mut self, effect: MigrationEffect) {
        self.effects.push(Ok(effect));
    }

    pub(super) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Err((level, text)));
    }

    /// Returns the slots that move to this node, or to its primary.
    pub fn importing(&self) -> SlotSet {
        let imports = self.jobs.iter().filter(|job| job.is_import && !job.state.is_finished());
        imports.fold(SlotSet::none(), |all, job| all.union(&job.slots.to_set()))
    }

    /// Returns whether slots move to this node.
    pub fn is_importing(&self) -> bool {
        self.jobs.iter().any(|job| job.is_import && !job.state.is_finished())
    }

    /// Returns whether slots move to another node.
    pub fn is_exporting(&self) -> bool {
        self.jobs.iter().any(|job| !job.is_import && !job.state.is_finished())
    }

    /// Returns the nodes to which a slot was granted.
    pub(crate) fn granted_to(&self, slot: u16) -> impl Iterator<Item = NodeId> {
        let is_granted = move |job: &&Job| job.state == JobState::FailoverGranted && job.slots.contains(slot);
        self.jobs.iter().filter(is_granted).map(|job| job.target)
    }

    /// Returns whether granted slots exist that may or may not have been taken.
    pub(crate) fn has_granted(&self) -> bool {
        self.jobs.iter().any(|job| job.state == JobState::FailoverGranted)
    }

    /// Returns the slots that the target of a job may take whatever its epoch is.
    pub(crate) fn granted(&self) -> SlotSet {
        let granted = self.jobs.iter().filter(|job| job.state == JobState::FailoverGranted);
        granted.fold(SlotSet::none(), |all, job| all.union(&job.slots.to_set()))
    }

    pub(super) fn names(&self, which: impl Fn(&Job) -> bool) -> Vec<JobName> {
        self.jobs.iter().filter(|job| which(job)).map(|job| job.name).collect()
    }

    /// Checks whether a migration may begin here.
    pub(super) fn check_start(view: MigrationView<'_>) -> Result<(), RequestError> {
        if !view.is_primary() {
            return refused("Slot migration can only be used on primary nodes.");
        }
        if !view.nodes.importing.is_empty() {
            return refused("Slots are being manually imported");
        }
        if !view.nodes.migrating.is_empty() {
            return refused("Slots are being manually migrated");
        }
        Ok(())
    }

    /// Cancels all exports.
    ///
    /// # Errors
    /// Returns a [`RequestError`] if there is none.
    pub(crate) fn cancel(&mut self, by: &str, view: MigrationView<'_>) -> Result<(), RequestError> {
        if !self.is_exporting() {
            return refused("No migrations ongoing");
        }
        for name in self.names(|job| !job.is_import && job.state.is_in_progress()) {
            let granted = self.job_mut(&name).filter(|job| job.state == JobState::FailoverGranted);
            let Some(job) = granted else {
                self.finish(&name, JobState::Cancelled, None, view);
                continue;
            };
            // The target may own the slots: writers wait until that is known.
            if job.is_linked && !std::mem::replace(&mut job.is_cancelled, true) {
                self.send(&name, SyncWord::Cancel);
            }
        }
        self.log(Level::Notice, format!("Canceled all in progress slot migrations (user request from '{by}')"));
        Ok(())
    }

    /// Ends an import as a primary, or another client, orders. Returns the slots whose keys it has brought.
    ///
    /// # Errors
    /// Returns a [`RequestError`] if the arguments are invalid, or the job is unknown.
    pub(crate) fn finished(
        &mut self,
        args: &[&[u8]],
        is_replayed: bool,
        view: MigrationView<'_>,
    ) -> Result<SlotSet, RequestError> {
        let said = requests::finish(args)?;
        let Some(slots) = self.job(&said.name).map(|job| job.slots.to_set()) else {
            return refused("No such slot migration job");
        };
        let state = match () {
            () if said.state.eq_ignore_ascii_case(b"success") => JobState::Success,
            () if said.state.eq_ignore_ascii_case(b"failed") => JobState::Failed,
            () => return syntax(),
        };
        match self.job_mut(&said.name) {
            // The log's order follows the removal of the keys.
            Some(job) if is_replayed => job.state = JobState::CleaningUp,
            // The stream of a former primary is applied until this node begins to lead, which has ended the job
            // already.
            Some(job) if job.state == JobState::CleaningUp => return Ok(SlotSet::none()),
            _ => {}
        }
        self.finish(&said.name, state, said.message, view);
        Ok(if state == JobState::Success { slots } else { SlotSet::none() })
    }

    /// Takes a word of the other end.
    pub(crate) fn word(&mut self, name: &JobName, word: Option<SyncWord>, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name).filter(|job| job.state.is_in_progress()) else { return };
        job.heard = view.now;
        let state = job.state;
        match word {
            Some(SyncWord::Capa) => {}
            Some(SyncWord::Ack) => {
                job.acked = view.now;
                if state == JobState::WaitingForAck {
                    self.set_state(name, JobState::ReceivingSnapshot, view.now);
                }
            }
            Some(SyncWord::SnapshotEof) if state == JobState::ReceivingSnapshot => self.snapshot_ended(name, view),
            // A replica takes this node's place with an epoch that the epoch for the slots would exceed.
            Some(SyncWord::Paused | SyncWord::FailoverGranted) if job.is_import && view.is_failing_over => {
                self.fail(name, "A failover occurs at the target", view);
            }
            // Its successor would have none of the keys.
            Some(SyncWord::Paused | SyncWord::FailoverGranted) if job.is_import && view.is_unconfirmed => {
                self.fail(name, "The target may lack acknowledged writes", view);
            }
            Some(SyncWord::Paused) if state == JobState::WaitingForPaused => {
                self.send(name, SyncWord::RequestFailover);
                self.set_state(name, JobState::FailoverRequested, view.now);
            }
            Some(SyncWord::FailoverGranted) if state == JobState::FailoverRequested => {
                // The source waits for a limited time, and has written since the grant.
                if view.now - job.updated > GRANT_TIME / 4 * 3 {
                    return self.fail(name, "The slots were granted too long ago", view);
                }
                self.set_state(name, JobState::TakeoverGranted, view.now);
            }
            Some(SyncWord::Cancel) if job.is_import => self.fail(name, "Cancelled by the source", view),
            Some(SyncWord::RequestPause) if matches!(state, JobState::Snapshotting | JobState::Replicating) => {
                self.pause_requested(name, view);
            }
            Some(SyncWord::RequestFailover) if state == JobState::Paused => self.failover_requested(name, view),
            Some(word) => {
                let text = format!(
                    "Received unexpected CLUSTER SYNCSLOTS {} from slot migration {}. Failing migration.",
                    word.as_str(),
                    self.description(name)
                );
                self.log(Level::Warning, text);
                self.broken(name, "Unexpected state machine transition", view);
            }
            None => {
                let text = format!(
                    "Received unknown SYNCSLOTS subcommand from slot migration {}. Failing the migration.",
                    self.description(name)
                );
                self.log(Level::Warning, text);
                self.broken(name, "Unknown SYNCSLOTS subcommand used", view);
            }
        }
    }

    /// Records that bytes have arrived from the other end.
    pub(crate) fn heard(&mut self, name: &JobName, now: Millis) {
        if let Some(job) = self.job_mut(name) {
            job.heard = now;
        }
    }

    /// Fails a job that cannot continue. A source that has granted the slots still waits until it is known whether the
    /// target owns them.
    pub(crate) fn broken(&mut self, name: &JobName, reason: &str, view: MigrationView<'_>) {
        match self.job_mut(name) {
            Some(job) if job.state == JobState::FailoverGranted => {
                // A word behind the grant may not have arrived.
                job.is_cancelled = false;
                if std::mem::take(&mut job.is_linked) {
                    self.act(MigrationEffect::Close { job: *name });
                }
            }
            _ => self.fail(name, reason, view),
        }
    }

    /// Returns jobs of this source whose targets may have taken the slots: with the targets, and whether they would
    /// have to have done so by now. A cancelled one counts once the target has closed the connection behind the word
    /// that cancels: it may have the grant to read.
    pub(crate) fn doubtful(&self) -> Vec<(JobName, NodeId, bool)> {
        let granted = self.jobs.iter().filter(|job| job.state == JobState::FailoverGranted);
        let doubtful = granted.filter(|job| job.is_overdue || job.is_cancelled && !job.is_linked);
        doubtful.map(|job| (job.name, job.target, job.is_overdue)).collect()
    }

    /// Returns the inquiry about a doubtful job.
    pub(crate) fn inquiry(&mut self, name: &JobName) -> Option<&mut Inquiry> {
        self.job_mut(name).map(|job| &mut job.inquiry)
    }

    /// Ends a doubtful job: its target has answered without claiming the slots, and never will claim them; or nobody
    /// who could be asked knows of a claim.
    pub(crate) fn not_taken(&mut self, name: &JobName, said_by_target: bool, view: MigrationView<'_>) {
        let Some(job) = self.job(name) else { return };
        if said_by_target && job.is_cancelled {
            return self.finish(name, JobState::Cancelled, None, view);
        }
        if !said_by_target {
            let text = format!(
                "Write loss risk! During slot migration {}, new owner did not broadcast ownership before we unpaused \
                 ourselves. Any writes we have recorded since unpausing may be lost!",
                job.description
            );
            self.log(Level::Warning, text);
        }
        let reason = "Unpaused before migration completed (migration may have succeeded with lost writes)";
        self.fail(name, reason, view);
    }

    /// Records that the connection has ended, or could not be made.
    pub(crate) fn lost(&mut self, name: &JobName, reason: Option<&str>, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name).filter(|job| job.state.is_in_progress() && !job.is_tracked) else { return };
        job.is_linked = false;
        let (state, is_import) = (job.state, job.is_import);
        if state == JobState::Connecting {
            let text = format!("Unable to connect to target node: {}", reason.unwrap_or("target node not found"));
            return self.fail(name, &text, view);
        }
        self.log(Level::Notice, format!("Slot migration {} connection lost", self.description(name)));
        match () {
            // The bus learns whether the target has taken the slots.
            () if state == JobState::FailoverGranted => {}
            () if is_import => self.fail(
                name,
                "Connection lost to source. Check CLUSTER GETSLOTMIGRATIONS on the source node for more information.",
                view,
            ),
            () => self.fail(
                name,
                "Connection lost to target. Check CLUSTER GETSLOTMIGRATIONS on the target node for more information.",
                view,
            ),
        }
    }

    /// Fails the jobs that had begun when all keys were removed at once: a client that wants the migration begins it
    /// anew.
    pub(crate) fn flushed(&mut self, begun: u64, view: MigrationView<'_>) {
        for name in self.names(|job| job.number <= begun && job.state.is_in_progress()) {
            self.fail(&name, "Data was flushed", view);
        }
    }

    /// Checks all jobs after slots have got other owners, or this node another role.
    pub(crate) fn owners_changed(&mut self, view: MigrationView<'_>) {
        for name in self.names(|job| job.state.is_in_progress()) {
            let Some(job) = self.job(&name) else { continue };
            if job.is_import { self.check_import(&name, view) } else { self.check_export(&name, view) }
        }
        self.resume(view);
    }

    /// Takes the steps that are due by time.
    pub(crate) fn tick(&mut self, view: MigrationView<'_>) {
        for name in self.names(|_| true) {
            self.tick_job(&name, view);
        }
        while self.jobs.len() > view.settings.log_max_len
            && let Some(oldest) = self.jobs.iter().rposition(|job| job.state.is_finished())
        {
            self.jobs.remove(oldest);
        }
        self.resume(view);
    }

    fn tick_job(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job(name).filter(|job| job.state.is_in_progress()) else { return };
        if matches!(job.state, JobState::OccurringOnPrimary) {
            return;
        }
        // After the grant the end of the pause counts.
        let since = if job.is_import { job.heard } else { job.acked };
        let is_bound_to_end = matches!(job.state, JobState::FailoverGranted | JobState::TakingOver);
        if !is_bound_to_end && view.now - since > view.settings.timeout {
            let text =
                format!("Timing out slot migration {} after not receiving ack for too long", self.description(name));
            self.log(Level::Warning, text);
            return self.fail(name, "Timed out after too long with no interaction", view);
        }
        self.go_on_exporting(name, view);
        let Some(job) = self.job_mut(name).filter(|job| job.state.sends_acks() && job.is_linked) else { return };
        if view.now - job.ack_sent >= ACK_EVERY {
            job.ack_sent = view.now;
            self.send(name, SyncWord::Ack);
        }
    }

    pub(super) fn send(&mut self, name: &JobName, word: SyncWord) {
        self.act(MigrationEffect::Send { job: *name, bytes: word.command() });
    }

    pub(super) fn description(&self, name: &JobName) -> String {
        self.job(name).map(|job| job.description.clone()).unwrap_or_default()
    }

    pub(super) fn set_state(&mut self, name: &JobName, state: JobState, now: Millis) {
        let Some(job) = self.job_mut(name) else { return };
        let before = std::mem::replace(&mut job.state, state);
        job.updated = now;
        let text =
            format!("Slot migration {} state transition: {} -> {}", job.description, before.as_str(), state.as_str());
        self.log(Level::Notice, text);
    }

    /// Fails a job. A target that has taken the slots does not fail any more.
    pub(crate) fn fail(&mut self, name: &JobName, message: &str, view: MigrationView<'_>) {
        if self.job(name).is_some_and(|job| job.state == JobState::TakingOver) {
            return;
        }
        self.finish(name, JobState::Failed, Some(message.to_owned()), view);
    }

    /// Ends a job; a failed import ends once its keys are removed.
    pub(super) fn finish(&mut self, name: &JobName, state: JobState, message: Option<String>, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name).filter(|job| !job.state.is_finished()) else { return };
        job.paused_until = None;
        let is_primary = view.is_primary();
        // A node that has replaced a target with the slots, or was one itself, retains the keys of its own slots.
        let own = &view.nodes.myself().slots;
        let has_others = job.slots.iter().any(|slot| !own.contains(slot));
        // A former primary has taken slots that this node, in its place, has not: they are that primary's, or a third
        // node's.
        let (state, message) = match state {
            JobState::Success if job.is_import && is_primary && has_others && job.state != JobState::CleaningUp => {
                (JobState::Failed, Some("A failover occurred during slot import".to_owned()))
            }
            state => (state, message),
        };
        job.message = message;
        let is_in_vain = job.is_import && state != JobState::Success && has_others;
        let cleans_up = is_in_vain && is_primary && job.state != JobState::CleaningUp;
        let is_linked = std::mem::take(&mut job.is_linked);
        let (is_import, unlinked) = (job.is_import, job.is_import && job.is_tracked);
        let slots = job.slots.to_set();
        if cleans_up {
            job.after_cleanup = state;
            self.set_state(name, JobState::CleaningUp, view.now);
        } else {
            self.set_state(name, state, view.now);
        }
        if is_linked || !unlinked {
            self.act(MigrationEffect::Close { job: *name });
        }
        if cleans_up {
            return self.act(MigrationEffect::RemoveKeys { job: *name, slots });
        }
        self.tell_end(name, state);
        if is_import {
            self.act(MigrationEffect::Show { job: *name });
            if is_primary {
                let message = self.job(name).and_then(|job| job.message.clone());
                let words = finish_words(name, state == JobState::Success, message.as_deref());
                self.act(MigrationEffect::Record(words));
            }
        }
        self.resume(view);
    }

    fn tell_end(&mut self, name: &JobName, state: JobState) {
        let Some(job) = self.job(name) else { return };
        let text = format!(
            "Slot migration {} finished. State: {}, Message: {}",
            job.description,
            state.as_str(),
            job.message.as_deref().unwrap_or("none")
        );
        self.log(if state == JobState::Failed { Level::Warning } else { Level::Notice }, text);
    }
}
