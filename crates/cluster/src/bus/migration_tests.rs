//! Both ends of a migration, driven by hand.

use super::model::health::DownReason;
use super::test_bus::{add_primary, bus};
use super::{Bus, Effect, Facts, FailoverMode};
use crate::migration::{JobName, JobState, MigrationEffect, SlotRanges, SyncWord};
use crate::node::Flags;
use crate::node_id::NodeId;
use crate::packet::MessageFlags;
use crate::slot_set::SlotSet;

/// Returns a node that owns slots 0 to 9 and knows another primary, and that primary's name.
fn source() -> (Bus, NodeId) {
    let mut source = bus();
    source.health.is_up = true;
    source.add_slots(&[(0, 9)], 1).expect("free");
    let target = add_primary(&mut source);
    source.take_effects();
    (source, target)
}

/// Returns a node that knows another primary, which owns slots 0 to 9, and that primary's name.
pub(super) fn target() -> (Bus, NodeId) {
    let mut target = bus();
    let source = add_primary(&mut target);
    (0..=9).for_each(|slot| _ = target.nodes.set_owner(slot, Some(source)));
    target.take_effects();
    (target, source)
}

pub(super) fn migrations(bus: &mut Bus) -> Vec<MigrationEffect> {
    let effects = bus.take_effects().into_iter();
    effects.filter_map(|effect| if let Effect::Migration(effect) = effect { Some(effect) } else { None }).collect()
}

pub(super) fn state(bus: &Bus) -> JobState {
    bus.migrations().jobs().next().expect("a job").state
}

fn message(bus: &Bus) -> &str {
    bus.migrations().jobs().next().and_then(|job| job.message.as_deref()).unwrap_or_default()
}

pub(super) fn says(effects: &[MigrationEffect], word: SyncWord) -> bool {
    let is =
        |effect: &MigrationEffect| matches!(effect, MigrationEffect::Send { bytes, .. } if *bytes == word.command());
    effects.iter().any(is)
}

fn begin(source: &mut Bus, target: NodeId) -> JobName {
    // The arguments are those of valkey-cli.
    let words: [&[u8]; 5] = [b"SLOTSRANGE\0", b"2", b"5", b"NODE", &target.0];
    source.migrate_slots(&words, "test", 1).expect("may go");
    source.migrations().jobs().next().expect("a job").name
}

/// Drives the source up to the requested pause.
fn paused(source: &mut Bus, target: NodeId) -> JobName {
    let job = begin(source, target);
    source.migration_connected(&job, None, 2);
    assert_eq!(source.migration_answered(&job, b"+OK\r\n", 3), Some(5));
    source.snapshot_begun(&job, 4);
    source.snapshot_sent(&job, 5);
    source.migration_word(&job, Some(SyncWord::RequestPause), 6);
    job
}

pub(super) fn establish(target: &mut Bus, source: NodeId) -> JobName {
    let name = [b'j'; 40];
    let words: [&[u8]; 7] = [b"SOURCE", &source.0, b"NAME", &name, b"SLOTSRANGE", b"2", b"5"];
    target.establish_import(&words, false, 1).expect("may come")
}

#[test]
fn a_source_goes_through_all_states() {
    let (mut source, target) = source();
    let job = paused(&mut source, target);
    let effects = migrations(&mut source);
    assert!(matches!(effects[0], MigrationEffect::Connect { .. }));
    assert!(
        says(&effects, SyncWord::Ack) && says(&effects, SyncWord::SnapshotEof) && !says(&effects, SyncWord::Paused)
    );
    assert!(matches!(effects.last(), Some(MigrationEffect::Pause { .. })));
    source.migration_paused(&job, 7);
    assert!(says(&migrations(&mut source), SyncWord::Paused));
    source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
    assert!(says(&migrations(&mut source), SyncWord::FailoverGranted));
    // The connection no longer matters.
    source.migration_lost(&job, None, 9);
    assert_eq!(state(&source), JobState::FailoverGranted);
    source.take_claim(target, 0, &SlotSet::of([2..=5]));
    source.settle();
    assert_eq!(state(&source), JobState::Success);
    assert_eq!(migrations(&mut source).last(), Some(&MigrationEffect::Resume));
    assert_eq!(source.nodes().owner(3), Some(target));
}

#[test]
fn slots_go_to_no_node_that_they_were_not_granted_to() {
    let (mut source, target) = source();
    paused(&mut source, target);
    // The epoch is unchanged: only the node to which the slots were granted gets them.
    source.take_claim(target, 0, &SlotSet::of([2..=5]));
    assert_eq!(source.nodes().owner(3), Some(source.nodes().my_id()));
}

#[test]
fn a_pause_ends_whatever_the_target_does() {
    for granted in [false, true] {
        let (mut source, target) = source();
        let job = paused(&mut source, target);
        source.migration_paused(&job, 7);
        if granted {
            source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
        }
        source.migration_word(&job, Some(SyncWord::Ack), 9_000);
        source.tick(9_000);
        assert!(!state(&source).is_finished());
        source.tick(10_100);
        source.tick(10_600);
        assert_eq!(state(&source), JobState::Failed);
        assert!(message(&source).contains(if granted { "may have succeeded" } else { "Timed out before" }));
        assert_eq!(migrations(&mut source).last(), Some(&MigrationEffect::Resume));
        // The request is too late.
        source.migration_word(&job, Some(SyncWord::RequestFailover), 10_700);
        assert!(!says(&migrations(&mut source), SyncWord::FailoverGranted));
    }
}

#[test]
fn a_source_waits_with_its_pause_until_little_is_unsent() {
    let (mut source, target) = source();
    let job = begin(&mut source, target);
    source.migration_connected(&job, Some(b"AUTH x".to_vec()), 2);
    assert_eq!(state(&source), JobState::ReadingAuth);
    assert_eq!(source.migration_answered(&job, b"+O", 3), None);
    source.migration_answered(&job, b"+OK\r\n", 3);
    source.migration_answered(&job, b"+OK\r\n", 3);
    source.snapshot_begun(&job, 4);
    source.migration_unsent(&job, 7, 5);
    source.migration_word(&job, Some(SyncWord::RequestPause), 6);
    assert_eq!(state(&source), JobState::WaitingToPause);
    source.migration_unsent(&job, 0, 7);
    assert_eq!(state(&source), JobState::Paused);
}

/// An event that ends a job.
type End = fn(&mut Bus, &JobName);

#[test]
fn refusals_and_lost_connections_end_a_source() {
    let ends: [(End, &str); 5] = [
        (
            |bus, job| bus.migration_lost(job, Some("Connection refused"), 2),
            "Unable to connect to target node: Connection refused",
        ),
        (
            |bus, job| {
                bus.migration_connected(job, None, 2);
                bus.migration_answered(job, b"-ERR no\r\n", 3);
            },
            "Received error during handshake to target: -ERR no\r\n",
        ),
        (
            |bus, job| {
                bus.migration_connected(job, None, 2);
                bus.migration_lost(job, None, 3);
            },
            "Connection lost to target.",
        ),
        (|bus, _| bus.data_flushed(1, 2), "Data was flushed"),
        (
            |bus, job| {
                bus.migration_connected(job, None, 2);
                bus.tick(100_000);
            },
            "Timed out after too long with no interaction",
        ),
    ];
    for (end, text) in ends {
        let (mut source, target) = source();
        let job = begin(&mut source, target);
        end(&mut source, &job);
        assert_eq!(state(&source), JobState::Failed);
        assert!(message(&source).starts_with(text), "{}", message(&source));
    }
    let (mut source, target) = source();
    begin(&mut source, target);
    source.data_flushed(0, 2);
    assert_eq!(state(&source), JobState::Connecting, "it began after that");
    source.cancel_migrations("test", 3).expect("one is under way");
    assert_eq!((state(&source), message(&source)), (JobState::Cancelled, ""));
    assert!(source.cancel_migrations("test", 3).is_err());
}

#[test]
fn a_target_takes_the_slots_when_it_is_granted_them() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    let effects = migrations(&mut target);
    assert!(matches!(&effects[0], MigrationEffect::Hide { slots, .. } if *slots == SlotSet::of([2..=5])));
    assert!(matches!(&effects[1], MigrationEffect::Record(words) if words[2] == b"ESTABLISH"));
    target.migration_word(&job, Some(SyncWord::Ack), 2);
    target.migration_word(&job, Some(SyncWord::SnapshotEof), 3);
    assert!(says(&migrations(&mut target), SyncWord::RequestPause));
    target.migration_word(&job, Some(SyncWord::Paused), 4);
    assert!(says(&migrations(&mut target), SyncWord::RequestFailover));
    assert_eq!(target.nodes().owner(3), Some(source));
    let epoch = target.nodes().myself().config_epoch;
    target.migration_word(&job, Some(SyncWord::FailoverGranted), 5);
    assert_eq!((target.nodes().owner(3), state(&target)), (Some(target.nodes().my_id()), JobState::TakingOver));
    assert!(target.nodes().myself().config_epoch > epoch);
    let effects = target.take_effects();
    assert!(matches!(effects[0], Effect::Save { is_durable: true, .. }), "before anybody is told");
    assert_eq!(effects[1], Effect::SlotMapChanged, "before anybody else is told");
    target.migration_lost(&job, None, 6);
    target.map_in_force(&target.slot_map(), 7);
    assert_eq!((target.nodes().owner(3), state(&target)), (Some(target.nodes().my_id()), JobState::Success));
    let effects = target.take_effects();
    let shown = |effect: &Effect| matches!(effect, Effect::Migration(MigrationEffect::Show { .. }));
    assert!(effects.iter().any(shown));
}

/// The file with the takeover takes so long that the source serves again.
#[test]
fn a_target_that_stands_still_before_it_serves_gives_the_slots_back() {
    for serves in [false, true] {
        let (mut target, source) = target();
        let before = target.slot_map();
        let epoch = target.nodes().myself().config_epoch;
        let job = establish(&mut target, source);
        for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
            target.migration_word(&job, Some(word), 2);
        }
        let in_force = if serves { target.slot_map() } else { before };
        target.map_in_force(&in_force, 3);
        target.take_effects();
        target.stood_still(60_000);
        let (owner, expected) =
            if serves { (target.nodes().my_id(), JobState::Success) } else { (source, JobState::CleaningUp) };
        assert_eq!((target.nodes().owner(3), state(&target)), (Some(owner), expected));
        assert_eq!(target.nodes().myself().config_epoch > epoch, serves);
        let removes = target.take_effects().into_iter().any(|effect| {
            matches!(effect, Effect::Migration(MigrationEffect::RemoveKeys { slots, .. }) if slots.contains(3))
        });
        assert_eq!(removes, !serves);
        target.resume();
        assert_eq!(target.told_owner(3).map(|(owner, _)| owner), Some(owner));
    }
}

#[test]
fn a_source_that_has_not_heard_of_its_end_does_not_get_the_slots_back() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
        target.migration_word(&job, Some(word), 2);
    }
    // The source has got a new epoch for other slots that it took, and repeats its earlier claim.
    let epoch = target.nodes().myself().config_epoch + 5;
    let claimed = SlotSet::of([0..=9]);
    target.take_claim(source, epoch, &claimed);
    target.settle();
    assert_eq!(target.nodes().owner(3), Some(target.nodes().my_id()));
    // Other nodes may take the slots, and the source may once it cannot be waiting any more.
    let third = add_primary(&mut target);
    target.take_claim(third, epoch + 1, &SlotSet::of([5..=5]));
    target.settle();
    assert_eq!((target.nodes().owner(3), target.nodes().owner(5)), (Some(target.nodes().my_id()), Some(third)));
    target.tick(60_000);
    target.take_claim(source, epoch, &claimed);
    target.settle();
    assert_eq!(target.nodes().owner(3), Some(source));
}

/// Packets that the source sent before it learned of the end arrive after those that it sent then on its other link.
#[test]
fn a_source_does_not_get_the_slots_back_by_a_packet_that_another_one_has_overtaken() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
        target.migration_word(&job, Some(word), 2);
    }
    let epoch = target.nodes().myself().config_epoch + 5;
    target.migrations.claims(source, epoch, &SlotSet::of([0..=1, 6..=9]));
    target.take_claim(source, epoch, &SlotSet::of([0..=9]));
    assert_eq!(target.nodes().owner(3), Some(target.nodes().my_id()));
}

/// The target has died when its file was written, and its source has not learned of the takeover.
#[test]
fn a_source_does_not_get_the_slots_back_from_a_target_that_was_started_again() {
    for (is_source_known, pause_is_over) in [(false, false), (true, false), (true, true)] {
        let (mut target, source) = target();
        let job = establish(&mut target, source);
        let words = [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted];
        words.into_iter().for_each(|word| target.migration_word(&job, Some(word), 20_000));
        target.nodes.get_mut(&source).expect("known").pong_received = 20_000;
        let (file, settings) = (target.conf(), target.settings().clone());
        let now = if pause_is_over { 60_000 } else { 22_000 };
        let random = fastrand::Rng::with_seed(2);
        let mut target = Bus::load(&file, Default::default(), settings, random, now).expect("well formed");
        let (name, slots) = ([b'j'; 40], SlotRanges(vec![(2, 5)]));
        if is_source_known {
            let words: [&[u8]; 7] = [b"SOURCE", &source.0, b"NAME", &name, b"SLOTSRANGE", b"2", b"5"];
            target.establish_import(&words, true, now).expect("by its log");
        } else {
            target.track_import(JobName(name), slots, now);
        }
        target.data_loaded(now);
        let epoch = target.nodes().myself().config_epoch + 5;
        target.take_claim(source, epoch, &SlotSet::of([0..=9]));
        assert_eq!(target.nodes().owner(3) == Some(source), pause_is_over);
    }
}

/// A greater epoch would win back the slots that the node has granted.
#[test]
fn a_node_that_has_granted_slots_takes_no_epoch_before_their_new_owner_is_known() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    let words = [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused];
    words.into_iter().for_each(|word| target.migration_word(&job, Some(word), 2));
    let epoch = target.nodes().myself().config_epoch;
    target.granted = SlotSet::of([20..=20]);
    target.migration_word(&job, Some(SyncWord::FailoverGranted), 2);
    assert_ne!(target.nodes().owner(3), Some(target.nodes().my_id()));
    assert_eq!(target.nodes().myself().config_epoch, epoch);
    assert!(target.granted.is_empty(), "the other migration has ended");
    target.tick(3);
    assert_eq!(target.nodes().owner(3), Some(target.nodes().my_id()));
}

#[test]
fn a_source_that_knows_of_its_end_may_get_the_slots_anew() {
    for is_heard in [false, true] {
        let (mut target, source) = target();
        let job = establish(&mut target, source);
        for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
            target.migration_word(&job, Some(word), 2);
        }
        let epoch = target.nodes().myself().config_epoch + 5;
        if is_heard {
            target.migrations.claims(source, epoch - 1, &SlotSet::of([0..=1, 6..=9]));
        }
        target.take_claim(source, epoch, &SlotSet::of([0..=9]));
        target.settle();
        assert_eq!(target.nodes().owner(3) == Some(source), is_heard);
    }
}

/// A snapshot has the job's slots, and not their source.
#[test]
fn a_target_that_was_started_again_believes_each_node_that_was_heard_without_the_slots() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    for word in [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted] {
        target.migration_word(&job, Some(word), 20_000);
    }
    target.nodes.get_mut(&source).expect("known").pong_received = 20_000;
    let (file, settings) = (target.conf(), target.settings().clone());
    let mut target =
        Bus::load(&file, Default::default(), settings, fastrand::Rng::with_seed(2), 22_000).expect("well formed");
    target.track_import(JobName([b'j'; 40]), SlotRanges(vec![(2, 5)]), 22_000);
    target.data_loaded(22_000);
    let (third, epoch) = (add_primary(&mut target), target.nodes().myself().config_epoch + 5);
    target.migrations.claims(third, epoch - 1, &SlotSet::none());
    target.take_claim(source, epoch, &SlotSet::of([0..=9]));
    assert_eq!(target.nodes().owner(3), Some(target.nodes().my_id()), "the source may be waiting");
    target.take_claim(third, epoch, &SlotSet::of([5..=5]));
    assert_eq!(target.nodes().owner(5), Some(third), "another node has got a slot since");
    target.migrations.claims(source, epoch, &SlotSet::of([0..=1, 6..=9]));
    target.take_claim(source, epoch + 1, &SlotSet::of([0..=9]));
    assert_eq!(target.nodes().owner(3), Some(source), "it has answered");
}

#[test]
fn slots_are_not_granted_while_a_replica_takes_over_nor_the_place_given_while_slots_are_granted() {
    let (mut source, target) = source();
    let replica = add_primary(&mut source);
    let job = paused(&mut source, target);
    source.migration_paused(&job, 7);
    source.pause_for(replica);
    source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
    assert_eq!((state(&source), message(&source)), (JobState::Failed, "A failover occurs at the source"));
    assert!(!says(&migrations(&mut source), SyncWord::FailoverGranted));

    let (mut source, target) = self::source();
    let job = paused(&mut source, target);
    source.migration_paused(&job, 7);
    source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
    source.pause_for(replica);
    source.set_facts(Facts { are_writes_paused: true, ..Facts::default() }, 9);
    let is_told = |source: &Bus| source.header(0).message_flags.has(MessageFlags::PAUSED);
    assert!(!is_told(&source), "the target may take slots yet");
    source.take_claim(target, 0, &SlotSet::of([2..=5]));
    source.settle();
    assert!(is_told(&source));
}

/// The job stays in its state, although a replica may have the votes for the node's place.
#[test]
fn a_source_that_has_started_or_stood_still_or_is_with_the_few_grants_nothing() {
    for reason in [None, Some(DownReason::MinorityPartition), Some(DownReason::NotFullCoverage)] {
        let (mut source, target) = source();
        let job = paused(&mut source, target);
        source.migration_paused(&job, 7);
        (source.health.is_up, source.health.down_reason) = (false, reason);
        if reason == Some(DownReason::NotFullCoverage) {
            source.stood_still(8);
        }
        source.migration_word(&job, Some(SyncWord::RequestFailover), 9);
        assert_eq!((state(&source), message(&source)), (JobState::Failed, "The source may have been replaced"));
        assert!(!says(&migrations(&mut source), SyncWord::FailoverGranted));
    }
}

#[test]
fn a_replaced_primary_follows_its_successor_whichever_slot_it_loses_last() {
    for replicas_move in [false, true] {
        let (mut old, third) = source();
        old.settings.allow_replica_migration = replicas_move;
        let (successor, shard) = (add_primary(&mut old), old.nodes().myself().shard_id);
        old.nodes.get_mut(&successor).expect("known").shard_id = shard;
        old.take_claim(successor, 20, &SlotSet::of([0..=8]));
        old.take_claim(third, 21, &SlotSet::of([9..=9]));
        old.settle();
        assert_eq!(old.nodes().myself().primary, Some(successor), "{replicas_move}");
    }
}

/// Others have the writes that the source lacks, and a successor of the target would have none of its keys.
#[test]
fn a_node_that_leads_without_being_confirmed_gives_and_takes_no_slots() {
    let unconfirmed = Facts { is_unconfirmed: true, ..Facts::default() };
    let (mut source, target_of_it) = source();
    let job = paused(&mut source, target_of_it);
    source.migration_paused(&job, 7);
    source.set_facts(unconfirmed, 8);
    source.migration_word(&job, Some(SyncWord::RequestFailover), 9);
    assert_eq!((state(&source), message(&source)), (JobState::Failed, "The source may lack acknowledged writes"));
    assert!(!says(&migrations(&mut source), SyncWord::FailoverGranted));

    let words = [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted];
    for before in [2, 3] {
        let (mut target, source) = target();
        let job = establish(&mut target, source);
        words[..before].iter().for_each(|word| target.migration_word(&job, Some(*word), 2));
        target.set_facts(unconfirmed, 3);
        target.migration_word(&job, Some(words[before]), 3);
        assert_eq!((state(&target), target.nodes().owner(3)), (JobState::CleaningUp, Some(source)));
        assert_eq!(message(&target), "The target may lack acknowledged writes");
    }
}

/// The epoch for the slots would exceed the one by which the replica takes the place.
#[test]
fn a_target_takes_no_slots_while_a_replica_takes_its_place() {
    let words = [SyncWord::Ack, SyncWord::SnapshotEof, SyncWord::Paused, SyncWord::FailoverGranted];
    for before in [2, 3] {
        let (mut target, source) = target();
        let replica = add_primary(&mut target);
        let job = establish(&mut target, source);
        words[..before].iter().for_each(|word| target.migration_word(&job, Some(*word), 2));
        target.pause_for(replica);
        migrations(&mut target);
        target.migration_word(&job, Some(words[before]), 3);
        assert_eq!((state(&target), target.nodes().owner(3)), (JobState::CleaningUp, Some(source)));
        assert_eq!(message(&target), "A failover occurs at the target");
        assert!(!says(&migrations(&mut target), SyncWord::RequestFailover));
    }
}

/// The replica would take all slots that it knows its primary to have, and the target takes some of them.
#[test]
fn a_source_votes_for_no_replica_of_its_own_while_slots_are_granted_and_grants_none_after_it_has() {
    let asks = |source: &mut Bus, replica: NodeId| {
        let mut request = source.header(0);
        (request.sender, request.is_replica, request.current_epoch) = (Some(replica), true, source.current_epoch());
        request.message_flags = MessageFlags(MessageFlags::FORCE_VOTE);
        source.health.is_safe_to_join = true;
        source.vote_if_right(replica, &request);
        source.last_vote_epoch()
    };
    let with_replica = |source: &mut Bus| {
        let (replica, myself) = (add_primary(source), source.nodes().my_id());
        source.nodes.get_mut(&replica).expect("known").flags = Flags(Flags::REPLICA);
        source.nodes.set_primary(replica, Some(myself));
        source.current_epoch = 3;
        replica
    };
    let (mut source, target, _) = granted();
    let replica = with_replica(&mut source);
    assert_eq!(asks(&mut source, replica), 0);
    source.take_claim(target, 0, &SlotSet::of([2..=5]));
    source.settle();
    assert_eq!(asks(&mut source, replica), 3);

    let (mut source, target) = self::source();
    let job = paused(&mut source, target);
    source.migration_paused(&job, 7);
    let replica = with_replica(&mut source);
    assert_eq!(asks(&mut source, replica), 3);
    source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
    assert_eq!((state(&source), message(&source)), (JobState::Failed, "A failover occurs at the source"));
    assert!(source.is_failing_over());
    source.become_replica_of(replica, false, false);
    source.set_as_primary(source.nodes().my_id());
    assert!(!source.is_failing_over(), "the replica has had this node's place, and has given it back");
}

/// Returns a source that has granted its slots to a target that it has a link to.
pub(super) fn granted() -> (Bus, NodeId, JobName) {
    let (mut source, target) = source();
    source.connect(target);
    let job = paused(&mut source, target);
    source.nodes.get_mut(&target).expect("known").ping_sent = 0;
    source.migration_paused(&job, 7);
    source.migration_word(&job, Some(SyncWord::RequestFailover), 8);
    migrations(&mut source);
    (source, target, job)
}

/// Another node may have owned the slots before, and return with its old claim.
#[test]
fn granted_slots_are_given_to_their_target_only() {
    let (mut source, target, _) = granted();
    let other = add_primary(&mut source);
    source.take_claim(other, 0, &SlotSet::of([2..=5]));
    assert_eq!(source.nodes().owner(3), Some(source.nodes().my_id()));
    source.nodes.myself_mut().config_epoch = 10;
    source.nodes.get_mut(&target).expect("known").config_epoch = 7;
    let shard = source.nodes().get(&target).expect("known").shard_id;
    let (predecessor, successor) = (add_primary(&mut source), add_primary(&mut source));
    for (node, epoch, owner) in [(predecessor, 6, source.nodes().my_id()), (successor, 8, successor)] {
        source.nodes.get_mut(&node).expect("known").shard_id = shard;
        source.take_claim(node, epoch, &SlotSet::of([2..=5]));
        assert_eq!(source.nodes().owner(3), Some(owner), "{epoch}");
    }
}

#[test]
fn a_target_takes_no_slots_that_were_cancelled_or_granted_long_ago() {
    for (word, at) in [(SyncWord::Cancel, 5), (SyncWord::FailoverGranted, 1600)] {
        let (mut target, source) = target();
        let job = establish(&mut target, source);
        for (word, at) in [(SyncWord::Ack, 2), (SyncWord::SnapshotEof, 3), (SyncWord::Paused, 4)] {
            target.migration_word(&job, Some(word), at);
        }
        target.migration_word(&job, Some(word), at);
        target.migration_word(&job, Some(SyncWord::FailoverGranted), at);
        assert_eq!((target.nodes().owner(3), state(&target)), (Some(source), JobState::CleaningUp));
    }
}

#[test]
fn keys_of_a_failed_import_are_removed_before_clients_could_see_them() {
    let (mut target, source) = target();
    let job = establish(&mut target, source);
    target.migration_word(&job, Some(SyncWord::Ack), 2);
    migrations(&mut target);
    target.migration_lost(&job, None, 3);
    assert_eq!(state(&target), JobState::CleaningUp);
    let effects = migrations(&mut target);
    assert!(matches!(effects[..], [MigrationEffect::Close { .. }, MigrationEffect::RemoveKeys { .. }]), "{effects:?}");
    assert!(target.migrations().is_importing());
    target.imported_keys_removed(&job, 4);
    assert_eq!(state(&target), JobState::Failed);
    let effects = migrations(&mut target);
    assert!(matches!(effects[0], MigrationEffect::Close { .. } | MigrationEffect::Show { .. }), "{effects:?}");
    assert!(matches!(effects.last(), Some(MigrationEffect::Record(words)) if words[4] == b"FAILED"));
}

#[test]
fn a_word_at_a_wrong_time_ends_a_migration() {
    for word in [Some(SyncWord::Paused), Some(SyncWord::FailoverGranted), Some(SyncWord::RequestPause), None] {
        let (mut target, source) = target();
        let job = establish(&mut target, source);
        target.migration_word(&job, word, 2);
        assert_eq!(state(&target), JobState::CleaningUp, "{word:?}");
        assert_eq!(target.nodes().owner(3), Some(source));
    }
}

#[test]
fn slots_that_change_hands_otherwise_end_an_import() {
    let (mut target, source) = target();
    establish(&mut target, source);
    let third = add_primary(&mut target);
    target.take_claim(third, 9, &SlotSet::of([4..=4]));
    target.settle();
    assert_eq!(state(&target), JobState::CleaningUp);
    assert_eq!(message(&target), "Slots are no longer owned by source node");
}

#[test]
fn a_replica_tracks_what_its_primary_imports() {
    let (mut replica, _) = target();
    let primary = add_primary(&mut replica);
    replica.replicate(&primary.0, false, 1).expect("it is empty");
    let name = [b'j'; 40];
    let words: [&[u8]; 7] = [b"SOURCE", &name, b"NAME", &name, b"SLOTSRANGE", b"2", b"5"];
    replica.establish_import(&words, true, 1).expect("by its primary");
    assert_eq!(state(&replica), JobState::OccurringOnPrimary);
    replica.tick(1_000_000);
    assert_eq!(state(&replica), JobState::OccurringOnPrimary, "it waits for no word");
    let words: [&[u8]; 4] = [b"STATE", b"SUCCESS", b"NAME", &name];
    replica.finish_import(&words, false, 2).expect("known");
    assert_eq!(state(&replica), JobState::Success);
    assert!(!replica.migrations().is_importing());
    assert!(replica.finish_import(&words[..3], false, 2).is_err());
}

/// The server applies the stream until it leads, which is later than the node's decision.
#[test]
fn imports_that_the_stream_of_a_former_primary_has_begun_end() {
    let (mut node, source) = target();
    let words: [&[u8]; 7] = [b"SOURCE", &source.0, b"NAME", &[b'j'; 40], b"SLOTSRANGE", b"2", b"5"];
    node.establish_import(&words, true, 1).expect("by its former primary");
    node.tick(100);
    assert_eq!(state(&node), JobState::OccurringOnPrimary);
    node.led(101);
    assert_eq!(state(&node), JobState::CleaningUp);
    // An import that a source begins at the node itself continues.
    let (mut node, source) = target();
    establish(&mut node, source);
    node.led(102);
    assert_eq!((state(&node), node.nodes().owner(3)), (JobState::WaitingForAck, Some(source)));
}

/// The former primary has taken slots, which the node did not know when it took that primary's place: the former
/// primary's stream announces it.
#[test]
fn keys_of_slots_that_a_former_primary_has_taken_are_removed_before_they_could_be_seen() {
    let words = [b"STATE", b"SUCCESS".as_slice(), b"NAME", &[b'j'; 40]];
    for has_begun_before in [false, true] {
        let (mut node, source) = target();
        let primary = add_primary(&mut node);
        node.replicate(&primary.0, false, 1).expect("it is empty");
        node.take_claim(primary, 9, &SlotSet::of([100..=100]));
        let begins = |node: &mut Bus| {
            let words: [&[u8]; 7] = [b"SOURCE", &source.0, b"NAME", &[b'j'; 40], b"SLOTSRANGE", b"2", b"5"];
            node.establish_import(&words, true, 2).expect("by its former primary");
        };
        if has_begun_before {
            begins(&mut node);
        }
        node.failover(FailoverMode::Takeover, "test", false, 3).expect("a replica");
        if !has_begun_before {
            begins(&mut node);
        }
        node.finish_import(&words, false, 4).expect("known");
        let is_shown = |effect: &MigrationEffect| matches!(effect, MigrationEffect::Show { .. });
        assert_eq!((state(&node), migrations(&mut node).iter().any(is_shown)), (JobState::CleaningUp, false));
        let job = node.migrations().jobs().next().expect("a job").name;
        node.imported_keys_removed(&job, 5);
        assert_eq!((state(&node), migrations(&mut node).iter().any(is_shown)), (JobState::Failed, true));
    }
}

#[test]
fn a_replica_that_takes_over_from_a_target_with_the_slots_keeps_their_keys() {
    for has_taken in [false, true] {
        let (mut replica, source) = target();
        let primary = add_primary(&mut replica);
        replica.replicate(&primary.0, false, 1).expect("it is empty");
        let words: [&[u8]; 7] = [b"SOURCE", &source.0, b"NAME", &[b'j'; 40], b"SLOTSRANGE", b"2", b"5"];
        replica.establish_import(&words, true, 1).expect("by its primary");
        replica.followed();
        replica.set_facts(Facts { is_following: true, is_linked: true, ..Facts::default() }, 1);
        // The primary claims the slots before its log announces the end.
        let claimed = if has_taken { SlotSet::of([2..=5, 100..=100]) } else { SlotSet::of([100..=100]) };
        replica.take_claim(primary, 9, &claimed);
        replica.settle();
        replica.take_effects();
        replica.failover(FailoverMode::Takeover, "test", false, 2).expect("a replica");
        let effects = replica.take_effects();
        let removes = |effect: &Effect| matches!(effect, Effect::Migration(MigrationEffect::RemoveKeys { .. }));
        let shows = |effect: &Effect| matches!(effect, Effect::Migration(MigrationEffect::Show { .. }));
        assert_eq!((effects.iter().any(removes), effects.iter().any(shows)), (!has_taken, has_taken));
        assert_eq!(state(&replica), if has_taken { JobState::Failed } else { JobState::CleaningUp });
    }
}

#[test]
fn finished_jobs_are_forgotten_when_there_are_too_many() {
    let (mut source, target) = source();
    let mut settings = source.settings().clone();
    settings.migration.log_max_len = 1;
    source.set_settings(settings, 1);
    for _ in 0..3 {
        begin(&mut source, target);
        source.cancel_migrations("test", 2).expect("one is under way");
    }
    let last = source.migrations().jobs().next().expect("a job").name;
    source.tick(3);
    assert_eq!(source.migrations().jobs().map(|job| job.name).collect::<Vec<_>>(), [last]);
}
