//! The target of slots, and its replicas: keys that arrive are hidden until the slots are taken, or removed.

use super::job::{Job, JobName, JobState, UNKNOWN};
use super::migration_effect::{MigrationEffect, establish_words};
use super::migration_requests::{self as requests, RequestError};
use super::migrations::{MigrationView, Migrations};
use super::slot_export::{GRANT_TIME, PAUSE_TIMES};
use super::slot_ranges::SlotRanges;
use super::sync_word::SyncWord;
use crate::Millis;
use crate::bus::Level;
use crate::node_id::NodeId;
use crate::slot_map::SlotMap;
use crate::slot_set::SlotSet;

impl Migrations {
    /// Begins an import that a source asks for, by the arguments of ESTABLISH. `is_tracked`: the order is that of this
    /// node's primary or of its own log.
    ///
    /// # Errors
    /// Returns the refusal.
    pub(crate) fn establish(
        &mut self,
        args: &[&[u8]],
        is_tracked: bool,
        view: MigrationView<'_>,
    ) -> Result<JobName, RequestError> {
        if !is_tracked {
            Self::check_start(view)?;
        }
        let importing = self.importing();
        let said = requests::establish(args, view.nodes, is_tracked, |slot| importing.contains(slot))?;
        let state = if is_tracked { JobState::OccurringOnPrimary } else { JobState::WaitingForAck };
        let mut job = Job::new(said.name, true, said.slots, state, view.now);
        if let Some(source) = said.source {
            (job.source, job.target) = (source, view.nodes.my_id());
        }
        (job.is_tracked, job.is_linked) = (is_tracked, !is_tracked);
        job.describe(said.source.and_then(|source| view.named(source)));
        let (source, slots) = (job.source, job.slots.clone());
        self.add_import(job);
        if !is_tracked {
            self.act(MigrationEffect::Record(establish_words(&said.name, &source.0, &slots)));
        }
        Ok(said.name)
    }

    /// Tracks an import that a file has as in progress.
    pub(crate) fn track(&mut self, name: JobName, slots: SlotRanges, view: MigrationView<'_>) {
        if self.job(&name).is_none() {
            let mut job = Job::new(name, true, slots, JobState::OccurringOnPrimary, view.now);
            job.is_tracked = true;
            job.describe(None);
            self.add_import(job);
        }
    }

    fn add_import(&mut self, job: Job) {
        self.log(Level::Notice, format!("New slot import job created: {}.", job.description));
        self.act(MigrationEffect::Hide { job: job.name, slots: job.slots.to_set() });
        self.add(job);
    }

    pub(super) fn snapshot_ended(&mut self, name: &JobName, view: MigrationView<'_>) {
        let text = format!(
            "Slot migration {} successfully received slot snapshot. Beginning incremental stream...",
            self.description(name)
        );
        self.log(Level::Notice, text);
        self.send(name, SyncWord::RequestPause);
        self.set_state(name, JobState::WaitingForPaused, view.now);
    }

    /// Returns the jobs whose slots this node may take now.
    pub(crate) fn takeovers(&self, view: MigrationView<'_>) -> Vec<JobName> {
        let may_take = |job: &Job| job.state == JobState::TakeoverGranted && !view.debug.prevents_migration_takeover;
        self.names(may_take)
    }

    /// Fails jobs whose granted slots are not taken: this node stood still, and their source waits for a limited time.
    /// Slots that were taken without having been served are the source's again.
    pub(crate) fn grants_lapse(&mut self, view: MigrationView<'_>) {
        for name in self.names(|job| matches!(job.state, JobState::TakeoverGranted | JobState::TakingOver)) {
            self.job_mut(&name).into_iter().for_each(|job| job.taken = None);
            self.finish(&name, JobState::Failed, Some("The slots were granted too long ago".to_owned()), view);
        }
    }

    /// Records that this node has taken the slots, which it does not serve yet. From now on nothing but a standstill
    /// makes the job fail.
    pub(crate) fn claimed(&mut self, name: &JobName, view: MigrationView<'_>) {
        if let Some(job) = self.job_mut(name) {
            (job.taken, job.state) = (Some(view.now), JobState::TakingOver);
        }
    }

    /// Records that this node serves slots that it has taken.
    pub(crate) fn taken_over(&mut self, map: &SlotMap, view: MigrationView<'_>) {
        for name in self.names(|job| job.state == JobState::TakingOver && map.serves_all(&job.slots.to_set())) {
            let text = format!(
                "Slot migration {} completed successfully. This node is now the owner of the slots",
                self.description(&name)
            );
            self.log(Level::Notice, text);
            self.finish(&name, JobState::Success, None, view);
        }
    }

    /// Takes a primary's slots and epoch. A source whose slots do not include those that this node took knows of the
    /// takeover: a claim of them with a later epoch is a new one. A claim with that epoch or an older one was sent
    /// before: packets on one link may overtake those on the other. Where the source is unknown, each primary is
    /// believed for itself.
    pub(crate) fn claims(&mut self, primary: NodeId, epoch: u64, claimed: &SlotSet) {
        let taken = self.jobs.iter_mut().filter(|job| job.taken.is_some());
        for job in taken.filter(|job| job.source == primary || job.source == UNKNOWN) {
            if !job.slots.iter().any(|slot| claimed.contains(slot)) {
                job.known_since.entry(primary).or_insert(epoch);
            }
        }
    }

    /// Forgets the sources that may not know of a takeover: this node does not lead any more, so none waits for it.
    pub(crate) fn sources_know(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.taken = None);
    }

    /// Restores takeovers after a start as a primary. This node owns the slots of an import that its log has as in
    /// progress, so it took them at its end: not before `since`, when another node answered it last. The source may not
    /// know of that.
    pub(crate) fn resume_taken(&mut self, since: Millis, view: MigrationView<'_>) {
        let own = &view.nodes.myself().slots;
        let imports = self.jobs.iter_mut().filter(|job| job.is_import && job.state.is_in_progress());
        for job in imports.filter(|job| job.slots.iter().all(|slot| own.contains(slot))) {
            job.taken = Some(since);
        }
    }

    /// Returns whether this node took the slot from that one so recently that the source, which claims it with this
    /// epoch, may not know of the takeover. The source is paused for as long, and claims the slot as before until then.
    /// Any node may be the source of a job whose source is unknown. A node of this node's shard knows of the takeover,
    /// and claims the slot as the successor.
    pub(crate) fn has_just_come_from(
        &self,
        slot: u16,
        (source, epoch): (NodeId, u64),
        is_in_my_shard: bool,
        view: MigrationView<'_>,
    ) -> bool {
        let longest = view.settings.failover_timeout * PAUSE_TIMES + GRANT_TIME;
        self.jobs.iter().filter(|job| job.slots.contains(slot)).any(|job| {
            let is_recent = job.taken.is_some_and(|taken| view.now - taken <= longest);
            let is_old = job.known_since.get(&source).is_none_or(|known| epoch <= *known);
            let may_be_source = job.source == UNKNOWN || job.source == source;
            is_recent && is_old && may_be_source && !is_in_my_shard
        })
    }

    /// Records that keys of a failed import are removed.
    pub(crate) fn keys_removed(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job(name).filter(|job| job.state == JobState::CleaningUp) else { return };
        let (state, message) = (job.after_cleanup, job.message.clone());
        self.finish(name, state, message, view);
    }

    /// Fails all imports for that reason: this node leads now, or its data is replaced.
    pub(crate) fn fail_imports(&mut self, reason: &str, view: MigrationView<'_>) {
        for name in self.names(|job| job.is_import && job.state.is_in_progress()) {
            self.fail(&name, reason, view);
        }
    }

    /// Fails imports that only a stream or a log has announced, if this node leads.
    pub(crate) fn fail_tracked_imports(&mut self, reason: &str, view: MigrationView<'_>) {
        if !view.is_primary() {
            return;
        }
        for name in self.names(|job| job.is_import && job.is_tracked && job.state.is_in_progress()) {
            self.fail(&name, reason, view);
        }
    }

    /// Fails all imports for that reason, and ends the removal of their keys: all keys are removed at once.
    pub(crate) fn imports_are_gone(&mut self, reason: &str, view: MigrationView<'_>) {
        for name in self.names(|job| job.is_import && !job.state.is_finished()) {
            let Some(job) = self.job_mut(&name) else { continue };
            let (state, message) = match job.state {
                JobState::CleaningUp => (job.after_cleanup, job.message.clone()),
                _ => (JobState::Failed, Some(reason.to_owned())),
            };
            job.state = JobState::CleaningUp;
            self.finish(&name, state, message, view);
        }
    }

    /// Forgets jobs that have ended.
    pub(crate) fn forget_finished(&mut self) {
        self.jobs.retain(|job| !job.state.is_finished());
    }

    /// Checks the owners of an import's slots.
    pub(super) fn check_import(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name) else { return };
        if !view.is_primary() {
            // Keys of the import are removed, or stay, with the primary's: the new primary announces that.
            if job.state != JobState::OccurringOnPrimary {
                (job.is_tracked, job.is_linked) = (true, false);
                self.set_state(name, JobState::OccurringOnPrimary, view.now);
                self.act(MigrationEffect::Close { job: *name });
            }
            return;
        }
        if job.is_tracked {
            return;
        }
        let source = job.source;
        let job = &*job;
        match view.owner_of(job) {
            Some(owner) if owner == source => {}
            Some(owner) if owner == view.nodes.my_id() && job.state == JobState::TakingOver => {}
            Some(owner) if owner == view.nodes.my_id() => {
                self.fail(name, "Slots were unexpectedly assigned to myself during import", view);
            }
            _ => {
                let reason = "Slots are no longer owned by source node".to_owned();
                self.finish(name, JobState::Failed, Some(reason), view);
            }
        }
    }
}
