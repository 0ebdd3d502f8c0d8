//! Whole slots that move: input of this node's [migrations](crate::migration), and slots that the node takes by them.
//!
//! ```text
//!   granted -- target claims them -------------------------------------------------------------> target's
//!      |-- cancelled, and the connection has ended -- target answers a ping without a claim --> source's
//!      +-- granted too long ago for the target ------ target answers so, or most primaries ---> source's
//! ```
//!
//! A source that does not know whether the target has taken granted slots asks. A primary that knows of the takeover
//! tells of it beside its answer to a ping that still claims the slots. A node that is cut off from most primaries
//! serves nothing until it has been among them for a while: it need not wait.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::migration::{JobName, MigrationView, Migrations, RequestError, SlotRanges, SyncWord};
use crate::node_id::NodeId;
use crate::packet::MessageType;
use crate::slot_map::SlotMap;
use crate::slot_set::SlotSet;

/// Time that packets beside an answer may need.
const TELLING_TIME: Millis = 500;

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

    /// Asks targets that may have taken slots, and others that would know of it.
    fn inquire_about_granted_slots(&mut self) {
        for (job, target, is_overdue) in self.migrations.doubtful() {
            self.ask_about(&job, target);
            let others = self.nodes.iter().filter(|node| is_overdue && node.has_vote() && !node.is_myself());
            let voters: Vec<NodeId> = others.map(|node| node.id).collect();
            voters.iter().filter(|id| **id != target).for_each(|id| self.ask_about(&job, *id));
            let (votes, quorum, now) = (usize::from(self.nodes.myself().has_vote()), self.quorum(), self.now);
            let Some(inquiry) = self.migrations.inquiry(&job) else { continue };
            if inquiry.answered.contains(&target) {
                let view = view!(self);
                self.migrations.not_taken(&job, true, view);
                continue;
            }
            let answered = voters.iter().filter(|id| inquiry.answered.contains(*id)).count();
            let has_most = answered + votes >= quorum;
            inquiry.most_since = has_most.then(|| inquiry.most_since.unwrap_or(now));
            let is_told = inquiry.most_since.is_some_and(|since| now - since >= TELLING_TIME);
            if is_overdue && (is_told || self.may_be_replaced()) {
                let view = view!(self);
                self.migrations.not_taken(&job, false, view);
            }
        }
    }

    fn ask_about(&mut self, job: &JobName, id: NodeId) {
        let Some(link) = self.nodes.get(&id).filter(|node| node.ping_sent == 0).and_then(|node| node.link) else {
            return;
        };
        let Some(inquiry) = self.migrations.inquiry(job) else { return };
        if inquiry.asked.insert(id, link) == Some(link) {
            inquiry.answered.insert(id);
        } else {
            inquiry.answered.remove(&id);
            self.send_ping(link, MessageType::Ping);
        }
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

    /// Takes slots that their owner gives up, by an epoch greater than all others.
    pub(in crate::bus) fn claim_slots(&mut self, slots: &SlotSet) {
        let (myself, before) = (self.nodes.my_id(), self.nodes.myself().config_epoch);
        let others: Vec<(u16, Option<NodeId>)> = slots.iter().map(|slot| (slot, self.nodes.owner(slot))).collect();
        let sources: Vec<_> = others.into_iter().filter(|(_, owner)| *owner != Some(myself)).collect();
        sources.iter().for_each(|(slot, _)| self.assign_slot(*slot, Some(myself)));
        self.bump_for(slots);
        self.takeovers.claim(slots, sources, (before, self.nodes.myself().config_epoch));
        self.todo.save(true);
        self.todo.update_state();
        self.todo.broadcast();
    }

    /// Records that clients are served by this map from now on.
    pub fn map_in_force(&mut self, map: &SlotMap, now: Millis) {
        if self.takeovers.in_force(map) {
            self.migrate(now, |all, view| all.taken_over(map, view));
        }
    }

    /// Gives slots back whose map was never in force: this node stood still.
    pub(in crate::bus) fn give_pending_back(&mut self) {
        let myself = self.nodes.my_id();
        for takeover in self.takeovers.take_pending() {
            let owned = takeover.sources.into_iter().filter(|(slot, _)| self.nodes.owner(*slot) == Some(myself));
            for (slot, source) in owned.collect::<Vec<_>>() {
                let source = source.filter(|id| self.nodes.get(id).is_some_and(|node| node.is_primary()));
                self.assign_slot(slot, source);
            }
            if self.nodes.myself().config_epoch == takeover.epochs.1 {
                self.nodes.myself_mut().config_epoch = takeover.epochs.0;
            }
            let text = "Slots that were granted too long ago stay with their former owner: this node stood still \
                        before it served them.";
            self.log(Level::Warning, text.to_string());
            self.todo.save(true);
            self.todo.slot_map_changed();
        }
        self.grants_lapse();
    }

    /// Fails jobs whose granted slots this node does not take, as it stood still.
    fn grants_lapse(&mut self) {
        let view = view!(self);
        self.migrations.grants_lapse(view);
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::cluster_bus::Bus;
    use crate::bus::migration_tests::{establish, granted, migrations, says, state, target};
    use crate::bus::model::bus_effect::Effect;
    use crate::bus::test_bus::add_primary;
    use crate::migration::{JobState, MigrationEffect, SyncWord};
    use crate::node_id::NodeId;
    use crate::slot_set::SlotSet;

    #[test]
    fn a_cancelled_source_waits_until_the_target_has_not_taken_the_slots() {
        let (mut source, target, job) = granted();
        source.cancel_migrations("test", 9).expect("one is under way");
        assert!(says(&migrations(&mut source), SyncWord::Cancel));
        source.tick(110);
        assert_eq!(state(&source), JobState::FailoverGranted, "the target may have them");
        source.migration_lost(&job, None, 120);
        source.tick(210);
        assert!(source.nodes().get(&target).expect("known").ping_sent > 0 && !state(&source).is_finished());
        source.tick(310);
        assert!(!state(&source).is_finished(), "it has not answered");
        source.nodes.get_mut(&target).expect("known").ping_sent = 0;
        source.tick(410);
        assert_eq!(state(&source), JobState::Cancelled);
        assert_eq!(migrations(&mut source).last(), Some(&MigrationEffect::Resume));

        let (mut source, target, job) = granted();
        source.cancel_migrations("test", 9).expect("one is under way");
        source.migration_failed(&job, "garbage", 10);
        source.tick(110);
        source.nodes.get_mut(&target).expect("known").ping_sent = 0;
        source.tick(210);
        assert!(!state(&source).is_finished(), "the target may have the grant before it");
        source.take_claim(target, 0, &SlotSet::of([2..=5]));
        source.settle();
        assert_eq!((state(&source), source.nodes().owner(3)), (JobState::Success, Some(target)));
    }

    /// The target has taken the slots, and only others have heard of it; or it has not.
    #[test]
    fn a_source_that_granted_slots_long_ago_asks_whether_they_were_taken() {
        for (who_answers, is_taken) in [("target", false), ("most", false), ("most", true), ("nobody", false)] {
            let (mut source, target, _) = granted();
            let others = [add_primary(&mut source), add_primary(&mut source)];
            for (slot, other) in (100..).zip(others) {
                source.nodes.set_owner(slot, Some(other));
            }
            others.iter().for_each(|id| source.connect(*id));
            let answer = |source: &mut Bus, id: &NodeId| {
                let (now, node) = (source.now, source.nodes.get_mut(id).expect("known"));
                (node.ping_sent, node.pong_received) = (0, now);
            };
            source.now = 10_000;
            others.iter().chain([&target]).for_each(|id| answer(&mut source, id));
            source.tick(10_100);
            source.tick(10_200);
            assert_eq!(state(&source), JobState::FailoverGranted, "nobody has answered since");
            let answering = match who_answers {
                "target" => &[target][..],
                "most" => &others[..],
                _ => &[],
            };
            answering.iter().for_each(|id| answer(&mut source, id));
            source.tick(10_300);
            assert_eq!(state(&source).is_finished(), who_answers == "target", "packets may be on their way");
            if is_taken {
                source.take_claim(target, 9, &SlotSet::of([2..=5]));
                source.settle();
            }
            source.tick(10_800);
            let expected = match who_answers {
                "nobody" => JobState::FailoverGranted,
                _ if is_taken => JobState::Success,
                _ => JobState::Failed,
            };
            assert_eq!(state(&source), expected, "{who_answers}");
            let resumes = migrations(&mut source).contains(&MigrationEffect::Resume);
            assert_eq!(resumes, who_answers != "nobody");
        }
    }

    /// The source has given all its slots away, follows the target, and is elected in its place.
    #[test]
    fn a_former_source_that_takes_the_targets_place_takes_all_slots_with_their_keys() {
        let (mut bus, source) = target();
        bus.add_slots(&[(100, 109)], 1).expect("free");
        let job = establish(&mut bus, source);
        for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
            bus.migration_word(&job, Some(word), 2);
        }
        bus.map_in_force(&bus.slot_map(), 3);
        bus.nodes.get_mut(&source).expect("known").shard_id = bus.nodes.myself().shard_id;
        bus.take_effects();
        let epoch = bus.nodes().myself().config_epoch + 1;
        bus.take_claim(source, epoch, &SlotSet::of([2..=5, 100..=109]));
        bus.settle();
        assert_eq!((bus.nodes().myself().primary, bus.nodes().owner(3)), (Some(source), Some(source)));
        assert!(!bus.take_effects().iter().any(|effect| matches!(effect, Effect::LoseSlots(_))));
    }
}
