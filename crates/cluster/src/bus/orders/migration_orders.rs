//! Whole slots that move: input of this node's [migrations](crate::migration), and slots that the node takes by them.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Effect;
use crate::migration::{JobName, MigrationView, Migrations, RequestError, SlotRanges, SyncWord};
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

/// Returns the migrations' view of a bus whose migrations are borrowed.
macro_rules! view {
    ($bus:ident) => {
        MigrationView {
            nodes: &$bus.nodes,
            settings: &$bus.settings.migration,
            debug: &$bus.debug,
            is_failing_over: $bus.is_failing_over(),
            may_be_replaced: $bus.may_be_replaced(),
            is_unconfirmed: $bus.facts.is_unconfirmed,
            now: $bus.now,
        }
    };
}

impl Bus {
    /// Returns the migrations of slots, and the results of former ones.
    pub fn migrations(&self) -> &Migrations {
        &self.migrations
    }

    /// Passes an input to the migrations, and carries out its consequences.
    fn migrate<R>(&mut self, now: Millis, input: impl FnOnce(&mut Migrations, MigrationView<'_>) -> R) -> R {
        self.now = now;
        let view = view!(self);
        let result = input(&mut self.migrations, view);
        self.take_granted_slots();
        self.settle();
        result
    }

    /// Carries out CLUSTER MIGRATESLOTS with these arguments. `by`: the client, for the log.
    ///
    /// # Errors
    /// Returns the refusal.
    pub fn migrate_slots(&mut self, args: &[&[u8]], by: &str, now: Millis) -> Result<(), RequestError> {
        let mut random = self.random.fork();
        self.migrate(now, |all, view| all.migrate_slots(args, by, &mut random, view))
    }

    /// Carries out CLUSTER CANCELSLOTMIGRATIONS.
    ///
    /// # Errors
    /// Returns a [`RequestError`] if there is no migration.
    pub fn cancel_migrations(&mut self, by: &str, now: Millis) -> Result<(), RequestError> {
        self.migrate(now, |all, view| all.cancel(by, view))
    }

    /// Carries out SYNCSLOTS ESTABLISH with these arguments. `is_tracked`: by this node's primary or its own log.
    ///
    /// # Errors
    /// Returns the refusal.
    pub fn establish_import(&mut self, args: &[&[u8]], is_tracked: bool, now: Millis) -> Result<JobName, RequestError> {
        let name = self.migrate(now, |all, view| all.establish(args, is_tracked, view))?;
        // The keys of an earlier import of the slots have been removed since.
        let slots = self.migrations.job(&name).map(|job| job.slots.to_set()).unwrap_or_default();
        self.coming.forget_imported(&slots);
        Ok(name)
    }

    /// Carries out SYNCSLOTS FINISH with these arguments. `is_replayed`: by this node's own log.
    ///
    /// # Errors
    /// Returns a [`RequestError`] if the arguments are invalid, or the job is unknown.
    pub fn finish_import(&mut self, args: &[&[u8]], is_replayed: bool, now: Millis) -> Result<(), RequestError> {
        let imported = self.migrate(now, |all, view| all.finished(args, is_replayed, view))?;
        if !is_replayed {
            self.note_imported(&imported);
        }
        Ok(())
    }

    /// Tracks an import that a file or a primary's snapshot has as in progress.
    pub fn track_import(&mut self, job: JobName, slots: SlotRanges, now: Millis) {
        self.migrate(now, |all, view| all.track(job, slots, view));
    }

    /// Ends all imports, and forgets their jobs: the data is about to be replaced, from a file or a primary.
    pub fn forget_imports(&mut self, reason: &str, now: Millis) {
        self.migrate(now, |all, view| {
            all.imports_are_gone(reason, view);
            all.forget_finished();
        });
        self.coming.forget_imported(&SlotSet::all());
    }

    /// Records that the data has been read from a file: a primary does not continue jobs that were in progress. The
    /// driver [looks](Bus::keys_found) for keys.
    pub fn data_loaded(&mut self, now: Millis) {
        self.removals += 1;
        if self.nodes.myself().is_primary() {
            let since = self.heard_before_start;
            self.migrate(now, |all, view| {
                all.resume_taken(since, view);
                all.fail_imports("Process restarted", view);
            });
        }
    }

    /// Takes a FLUSHDB or FLUSHALL; `begun`: the migrations that had begun by then.
    pub fn data_flushed(&mut self, begun: u64, now: Millis) {
        if self.migrations.is_importing() || self.migrations.is_exporting() {
            self.migrate(now, |all, view| all.flushed(begun, view));
        }
    }

    /// Takes a word of a job's other end; None for an unknown one.
    pub fn migration_word(&mut self, job: &JobName, word: Option<SyncWord>, now: Millis) {
        self.migrate(now, |all, view| all.word(job, word, view));
    }

    /// Records that bytes have arrived from the other end of a job.
    pub fn migration_heard(&mut self, job: &JobName, now: Millis) {
        self.migrations.heard(job, now);
    }

    /// Records that the connection to the target is established. `auth`: the command by which this server
    /// authenticates.
    pub fn migration_connected(&mut self, job: &JobName, auth: Option<Vec<u8>>, now: Millis) {
        self.migrate(now, |all, view| all.connected(job, auth, view));
    }

    /// Records that the connection of a job has ended, or could not be made for this reason.
    pub fn migration_lost(&mut self, job: &JobName, reason: Option<&str>, now: Millis) {
        self.migrate(now, |all, view| all.lost(job, reason, view));
    }

    /// Takes the target's bytes. Returns how many of them were an answer to an order.
    pub fn migration_answered(&mut self, job: &JobName, input: &[u8], now: Millis) -> Option<usize> {
        self.migrate(now, |all, view| all.answered(job, input, view))
    }

    /// Fails a job that cannot continue.
    pub fn migration_failed(&mut self, job: &JobName, reason: &str, now: Millis) {
        self.migrate(now, |all, view| {
            if all.job(job).is_some_and(|job| job.state.is_in_progress()) {
                all.broken(job, reason, view);
            }
        });
    }

    /// Records that the moment of a job's snapshot has passed.
    pub fn snapshot_begun(&mut self, job: &JobName, now: Millis) {
        self.migrate(now, |all, view| all.snapshot_begun(job, view));
    }

    /// Records that the last key of a job's snapshot is sent.
    pub fn snapshot_sent(&mut self, job: &JobName, now: Millis) {
        self.migrate(now, |all, view| all.snapshot_sent(job, view));
    }

    /// Records how many bytes for the target are not sent yet.
    pub fn migration_unsent(&mut self, job: &JobName, unsent: u64, now: Millis) {
        self.migrate(now, |all, view| all.set_unsent(job, unsent, view));
    }

    /// Records that no client writes any more, and that all writes are sent to the target.
    pub fn migration_paused(&mut self, job: &JobName, now: Millis) {
        self.migrate(now, |all, view| all.writes_paused(job, view));
    }

    /// Records that the former primary's stream is not applied any more, and this node leads. The stream may have begun
    /// imports since that was decided.
    pub fn led(&mut self, now: Millis) {
        self.migrate(now, |all, view| all.fail_tracked_imports("A failover occurred during slot import", view));
    }

    /// Records that keys of a failed import are removed.
    pub fn imported_keys_removed(&mut self, job: &JobName, now: Millis) {
        self.migrate(now, |all, view| all.keys_removed(job, view));
    }

    /// Lets time pass for the migrations.
    pub(in crate::bus) fn tick_migrations(&mut self) {
        let view = view!(self);
        self.migrations.tick(view);
        self.take_granted_slots();
        self.inquire_about_granted_slots();
    }

    /// Ends a job whose slots this source has granted, and that the target has not taken.
    pub(in crate::bus) fn granted_not_taken(&mut self, job: &JobName, said_by_target: bool) {
        let view = view!(self);
        self.migrations.not_taken(job, said_by_target, view);
    }

    /// Fails the former primary's imports: this node leads.
    pub(in crate::bus) fn fail_imports_of_former_primary(&mut self) {
        let view = view!(self);
        self.migrations.fail_imports("A failover occurred during slot import", view);
    }

    /// Informs the migrations that slots have other owners.
    pub(in crate::bus) fn tell_migrations_of_owners(&mut self) {
        let view = view!(self);
        self.migrations.owners_changed(view);
    }

    /// Returns whether this node took the slot from that one, which claims it with this epoch and may not know of the
    /// takeover.
    pub(in crate::bus) fn has_just_come_from(&self, slot: u16, source: NodeId, epoch: u64) -> bool {
        let is_in_my_shard = self.are_in_same_shard(source, self.nodes.my_id());
        self.migrations.has_just_come_from(slot, (source, epoch), is_in_my_shard, view!(self))
    }

    /// Returns whether a slot of this node was granted to that one, or to the node whose place it has: its epoch is the
    /// later one. The target's predecessor may still claim slots of an earlier time.
    pub(in crate::bus) fn is_granted_to(&self, slot: u16, claimant: NodeId, epoch: u64) -> bool {
        let has_place = |target: NodeId| {
            let is_later = self.nodes.get(&target).is_some_and(|target| epoch > target.config_epoch);
            is_later && self.are_in_same_shard(target, claimant)
        };
        self.migrations.granted_to(slot).any(|target| target == claimant || has_place(target))
    }

    /// Emits the migrations' effects behind all others: a client that waits for the end of a pause then finds the
    /// slots' new owners.
    pub(in crate::bus) fn put_out_migrations(&mut self) {
        self.granted = self.migrations.granted();
        for effect in self.migrations.take_effects() {
            self.effects.push(match effect {
                Ok(effect) => Effect::Migration(effect),
                Err((level, text)) => Effect::Log { level, text },
            });
        }
    }

    /// Takes slots that their owner gave up for this node, at the end of a migration that both agreed on. A node that
    /// has granted slots itself waits until their new owner is known: a greater epoch would win these back from it.
    pub(in crate::bus) fn take_granted_slots(&mut self) {
        if self.is_resuming() {
            return self.grants_lapse();
        }
        if !self.granted.is_empty() {
            return;
        }
        let view = view!(self);
        for name in self.migrations.takeovers(view) {
            let slots = self.migrations.job(&name).map(|job| job.slots.to_set()).unwrap_or_default();
            self.claim_slots(&slots);
            let view = view!(self);
            self.migrations.claimed(&name, view);
        }
    }

    /// Ends migrations whose slots this node serves from now on.
    pub(in crate::bus) fn takeovers_in_force(&mut self, is_in_force: impl Fn(&SlotSet) -> bool, now: Millis) {
        self.migrate(now, |all, view| all.taken_over(is_in_force, view));
    }

    /// Fails jobs whose granted slots this node does not take, as it stood still.
    pub(in crate::bus) fn grants_lapse(&mut self) {
        let view = view!(self);
        self.migrations.grants_lapse(view);
    }
}
