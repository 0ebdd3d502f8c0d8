//! The source of slots: it sends their keys and changes, pauses, and lets the target take them.

use super::job::{Job, JobName, JobState};
use super::migration_effect::{MigrationEffect, establish_words};
use super::migration_requests::{self as requests, RequestError, refused, syntax};
use super::migrations::{MigrationView, Migrations};
use super::slot_ranges::SlotRanges;
use super::sync_word::SyncWord;
use crate::Millis;
use crate::bus::Level;
use crate::node_id::{NAME_LEN, NodeId};
use resp::encode_command;

/// Longest pause, in multiples of `cluster-manual-failover-timeout`.
pub(super) const PAUSE_TIMES: Millis = 2;
/// Shortest pause after the grant, so that the target's claim can arrive.
pub(super) const GRANT_TIME: Millis = 2000;
/// Greatest length of an answer to ESTABLISH or AUTH.
pub(super) const ANSWER_MAX: usize = 16 << 10;

/// Returns whether a client's word is this one, up to its first byte 0: `valkey-cli` sends one behind SLOTSRANGE.
fn is_word(arg: &[u8], word: &[u8]) -> bool {
    arg.split(|byte| *byte == 0).next().is_some_and(|arg| arg.eq_ignore_ascii_case(word))
}

impl Migrations {
    /// Begins to move slots to other nodes, by the arguments of MIGRATESLOTS. `by`: the client, for the log.
    ///
    /// # Errors
    /// Returns the refusal; then no migration has begun.
    pub(crate) fn migrate_slots(
        &mut self,
        args: &[&[u8]],
        by: &str,
        random: &mut fastrand::Rng,
        view: MigrationView<'_>,
    ) -> Result<(), RequestError> {
        Self::check_start(view)?;
        let mut groups: Vec<(SlotRanges, NodeId)> = Vec::new();
        let mut at = 0;
        while at < args.len() {
            if !is_word(args[at], b"slotsrange") {
                return syntax();
            }
            let (slots, taken, owner) = requests::slot_ranges(&args[at + 1..], Some(view.nodes))?;
            at += 1 + taken;
            if owner != Some(view.nodes.my_id()) {
                return refused("Slots are not served by this node.");
            }
            let exports = || self.jobs.iter().filter(|job| !job.is_import && !job.state.is_finished());
            if let Some(slot) = slots.iter().find(|slot| exports().any(|job| job.slots.contains(*slot))) {
                return refused(format!("I am already migrating slot {slot}."));
            }
            let overlaps = |other: &SlotRanges| other.0.iter().any(|range| slots.overlapping(*range).is_some());
            if groups.iter().any(|(other, _)| overlaps(other)) {
                return refused("Slot ranges in migrations overlap");
            }
            let Some(name) = args.get(at + 1).filter(|_| is_word(args[at], b"node")) else {
                return syntax();
            };
            let shown = String::from_utf8_lossy(name);
            if name.len() != NAME_LEN {
                return refused(format!("Invalid node name: {shown}"));
            }
            let Some(target) = view.nodes.named(name) else { return refused(format!("Unknown node name: {shown}")) };
            if target.is_myself() {
                return refused("Target node can not be this node.");
            }
            groups.push((slots, target.id));
            at += 2;
        }
        // The list has its usual order: the last job of one order comes last.
        for (slots, target) in groups.into_iter().rev() {
            self.begin_export(slots, target, by, random, view);
        }
        Ok(())
    }

    fn begin_export(
        &mut self,
        slots: SlotRanges,
        target: NodeId,
        by: &str,
        random: &mut fastrand::Rng,
        view: MigrationView<'_>,
    ) {
        let name = JobName(NodeId::random(random).0);
        let mut job = Job::new(name, false, slots, JobState::Connecting, view.now);
        (job.source, job.target) = (view.nodes.my_id(), target);
        job.describe(view.named(target));
        let text = format!(
            "Slot migration initiated through CLUSTER MIGRATESLOTS command: {} (user request from '{by}')",
            job.description
        );
        self.log(Level::Notice, text);
        self.add(job);
        let Some(address) = view.nodes.get(&target).map(|node| &node.address) else { return };
        let port = if view.settings.encrypts { address.tls_port } else { address.tcp_port };
        let ip = address.ip.clone();
        let text = format!("Connecting slot migration {} (ip: {ip}, port {port})", self.description(&name));
        self.log(Level::Notice, text);
        self.act(MigrationEffect::Connect { job: name, ip, port });
    }

    /// Records that the connection to the target is established. `auth`: the command by which this server
    /// authenticates, if it does.
    pub(crate) fn connected(&mut self, name: &JobName, auth: Option<Vec<u8>>, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name).filter(|job| job.state == JobState::Connecting) else { return };
        job.is_linked = true;
        self.log(Level::Notice, format!("Slot migration {} connection established.", self.description(name)));
        match auth {
            Some(bytes) => {
                self.act(MigrationEffect::Send { job: *name, bytes });
                self.set_state(name, JobState::ReadingAuth, view.now);
            }
            None => self.ask(name, view),
        }
    }

    fn ask(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job(name) else { return };
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &establish_words(name, &job.source.0, &job.slots));
        self.act(MigrationEffect::Send { job: *name, bytes });
        self.set_state(name, JobState::ReadingEstablish, view.now);
    }

    /// Takes the target's bytes after AUTH or ESTABLISH; returns how many of them were a whole answer.
    pub(crate) fn answered(&mut self, name: &JobName, input: &[u8], view: MigrationView<'_>) -> Option<usize> {
        let state = self.job(name)?.state;
        if !matches!(state, JobState::ReadingAuth | JobState::ReadingEstablish) {
            return None;
        }
        let Some(end) = input.windows(2).position(|two| two == b"\r\n") else {
            if input.len() >= ANSWER_MAX {
                self.fail(name, "Response to establish job is larger than buffer limit", view);
            }
            return None;
        };
        let line = String::from_utf8_lossy(&input[..end]).into_owned();
        match state {
            JobState::ReadingAuth if line.starts_with('-') => {
                self.fail(name, &format!("Failed to AUTH to target node: {line}"), view);
            }
            JobState::ReadingAuth => {
                let text = format!("Successfully authenticated slot migration {}", self.description(name));
                self.log(Level::Notice, text);
                self.ask(name, view);
            }
            _ if line.starts_with('-') => {
                self.fail(name, &format!("Received error during handshake to target: {line}\r\n"), view);
            }
            _ => {
                self.set_state(name, JobState::WaitingToSnapshot, view.now);
                // The target waits for this word, and has sent only the answer before.
                self.send(name, SyncWord::Ack);
                self.begin_snapshot(name);
            }
        }
        Some(end + 2)
    }

    fn begin_snapshot(&mut self, name: &JobName) {
        let Some(job) = self.job_mut(name) else { return };
        job.acked = job.acked.max(job.updated);
        let slots = job.slots.to_set();
        self.log(Level::Notice, format!("Beginning snapshot of slot migration {}.", self.description(name)));
        self.act(MigrationEffect::BeginSnapshot { job: *name, slots });
    }

    /// Records that the moment of the snapshot has passed: its keys are sent from now on.
    pub(crate) fn snapshot_begun(&mut self, name: &JobName, view: MigrationView<'_>) {
        if self.job(name).is_some_and(|job| job.state == JobState::WaitingToSnapshot) {
            self.set_state(name, JobState::Snapshotting, view.now);
        }
    }

    /// Records that the last key of the snapshot is sent. Changes follow.
    pub(crate) fn snapshot_sent(&mut self, name: &JobName, view: MigrationView<'_>) {
        if self.job(name).is_some_and(|job| job.state == JobState::Snapshotting) {
            self.send(name, SyncWord::SnapshotEof);
            self.begin_streaming(name, view);
        }
    }

    fn begin_streaming(&mut self, name: &JobName, view: MigrationView<'_>) {
        self.set_state(name, JobState::Replicating, view.now);
        let text = format!("Slot migration {} snapshot finished, starting streaming.", self.description(name));
        self.log(Level::Notice, text);
    }

    /// Records how many bytes are not sent yet.
    pub(crate) fn set_unsent(&mut self, name: &JobName, unsent: u64, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name) else { return };
        job.unsent = unsent;
        if job.state == JobState::WaitingToPause {
            self.try_to_pause(name, view);
        }
    }

    pub(super) fn pause_requested(&mut self, name: &JobName, view: MigrationView<'_>) {
        if self.job(name).is_some_and(|job| job.state == JobState::Snapshotting) {
            self.begin_streaming(name, view);
        }
        if !self.try_to_pause(name, view) {
            self.set_state(name, JobState::WaitingToPause, view.now);
        }
    }

    fn try_to_pause(&mut self, name: &JobName, view: MigrationView<'_>) -> bool {
        let Some(job) = self.job_mut(name) else { return false };
        let is_too_much = view.settings.max_unsent.is_some_and(|max| job.unsent > max);
        if is_too_much || view.debug.prevents_migration_pause {
            return false;
        }
        let until = view.now + view.settings.failover_timeout * PAUSE_TIMES;
        (job.paused_until, job.told_paused) = (Some(until), false);
        let text = format!(
            "Pausing writes (remaining_repl_size is {}) to allow slot migration {} to finalize failover.",
            job.unsent, job.description
        );
        self.is_paused = true;
        self.log(Level::Notice, text);
        self.act(MigrationEffect::Pause { job: *name, until });
        self.set_state(name, JobState::Paused, view.now);
        true
    }

    /// Records that no client writes any more, and that all writes are sent.
    pub(crate) fn writes_paused(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name).filter(|job| job.state == JobState::Paused && !job.told_paused) else {
            return;
        };
        job.told_paused = true;
        // The target may send its request from here on; a pause that has ended refuses it.
        job.updated = view.now;
        self.send(name, SyncWord::Paused);
    }

    pub(super) fn failover_requested(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job_mut(name) else { return };
        if !job.told_paused {
            return self.fail(name, "Unexpected state machine transition", view);
        }
        if view.is_failing_over {
            // The replica takes all slots that it knows this node to own, with a newer epoch than the target's.
            return self.fail(name, "A failover occurs at the source", view);
        }
        if view.may_be_replaced {
            // A replica may have the votes for all slots already.
            return self.fail(name, "The source may have been replaced", view);
        }
        if view.is_unconfirmed {
            // Its replicas have keys that it has not sent, and would remove them.
            return self.fail(name, "The source may lack acknowledged writes", view);
        }
        let Some(until) = job.paused_until.filter(|until| *until >= view.now) else {
            let text = format!(
                "Received CLUSTER SYNCSLOTS REQUEST-FAILOVER on slot migration {}, but we are not paused. Denying \
                 failover.",
                self.description(name)
            );
            self.log(Level::Warning, text);
            return self.fail(name, "Unpaused before failover completed", view);
        };
        job.paused_until = Some(until.max(view.now + GRANT_TIME));
        self.send(name, SyncWord::FailoverGranted);
        self.set_state(name, JobState::FailoverGranted, view.now);
    }

    /// Takes the steps that are due by time alone.
    pub(super) fn go_on_exporting(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job(name) else { return };
        let is_late = job.paused_until.is_some_and(|until| until < view.now);
        match job.state {
            JobState::WaitingToPause => _ = self.try_to_pause(name, view),
            JobState::Paused if is_late => {
                let text = format!("Slot migration {} timed out during slot failover.", self.description(name));
                self.log(Level::Warning, text);
                self.fail(name, "Timed out before streaming completed", view);
            }
            JobState::FailoverGranted if is_late => {
                self.job_mut(name).into_iter().for_each(|job| job.is_overdue = true);
            }
            _ => {}
        }
    }

    /// Checks the owners of an export's slots.
    pub(super) fn check_export(&mut self, name: &JobName, view: MigrationView<'_>) {
        let Some(job) = self.job(name) else { return };
        let (target, owner) = (job.target, view.owner_of(job));
        match owner {
            Some(owner) if owner == view.nodes.my_id() && view.is_primary() => {}
            Some(owner) if owner == target => {
                let text = format!("Slot migration {} slots are now owned by target node.", self.description(name));
                self.log(Level::Notice, text);
                self.finish(name, JobState::Success, None, view);
            }
            _ => {
                let text = format!(
                    "Slot migration {} contains slots that are no longer all owned by myself",
                    self.description(name)
                );
                self.log(Level::Warning, text);
                self.fail(name, "Slots are no longer owned by myself", view);
            }
        }
    }

    /// Resumes writes where no job holds them back.
    pub(super) fn resume(&mut self, _: MigrationView<'_>) {
        if self.is_paused && self.jobs.iter().all(|job| job.paused_until.is_none()) {
            self.is_paused = false;
            self.act(MigrationEffect::Resume);
        }
    }
}
