//! Moves of slots, and resets, at chosen moments.

use crate::cluster_world::{Flaw, World};
use crate::holders::Safety;
use crate::member::{BUS_PORT, ip};
use crate::migrations::{judge, world, world_of};
use cluster::bus::FailoverMode;
use cluster::migration::JobState;

const SECOND: i64 = 1000;

fn slots_taken_by_a_replica_that_is_reset(seed: u64, flaw: Flaw) -> bool {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run(2 * SECOND);
    world.data.writers_rest = true;
    world.run(4 * SECOND);
    let keys = world.data.stores[0].keys.clone();
    assert!(!keys.is_empty());
    world.tell(3, |bus, now| bus.reset(false, true, "test", now).expect("a replica"));
    let address = ip(0);
    world.tell(3, |bus, now| bus.meet(address.as_bytes(), 6379, BUS_PORT, "test", now).expect("an address"));
    let is_taken = (0..100).any(|_| {
        world.run(100);
        !world.me(3).slots.is_empty()
    });
    is_taken || world.data.stores[0].keys != keys
}

#[test]
fn a_replica_that_is_reset_takes_no_slots_for_the_keys_that_it_had() {
    for seed in 0..3 {
        assert!(!slots_taken_by_a_replica_that_is_reset(seed, Flaw::None), "seed {seed}");
    }
}

#[test]
fn a_reset_that_looks_for_keys_before_it_is_empty_is_found() {
    assert!((0..3).any(|seed| slots_taken_by_a_replica_that_is_reset(seed, Flaw::LooksBeforeItIsEmpty)));
}

/// Begins to move these slots from the first primary to the second one.
fn begin(world: &mut World, first: u16, last: u16) {
    let (first, last, to) = (first.to_string(), last.to_string(), world.id(1));
    let words: [&[u8]; 5] = [b"SLOTSRANGE", first.as_bytes(), last.as_bytes(), b"NODE", &to.0];
    world.tell(0, |bus, now| bus.migrate_slots(&words, "test", now).expect("its own slots"));
}

/// Returns whether a job of eight at once does not succeed, although nothing fails.
fn a_job_of_many_fails(seed: u64, flaw: Flaw) -> bool {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run(2 * SECOND);
    (0..8).for_each(|slot| begin(&mut world, slot * 3, slot * 3 + 2));
    world.run(4 * SECOND);
    let jobs = world.members[0].bus().migrations().jobs();
    jobs.filter(|job| job.state != JobState::Success).count() > 0 || judge(&mut world).is_some()
}

#[test]
fn jobs_beyond_the_places_for_snapshots_wait_in_line() {
    for seed in 0..4 {
        assert!(!a_job_of_many_fails(seed, Flaw::None), "seed {seed}");
    }
    assert!((0..4).any(|seed| a_job_of_many_fails(seed, Flaw::FailsWithoutPlace)));
}

/// Hands a source over to its replica while it gives slots away, and returns a violation.
fn handed_over(seed: u64) -> Option<String> {
    let mut world = world(seed, Flaw::None, Safety::Applied);
    world.run(2 * SECOND);
    begin(&mut world, 3, 5);
    let time = world.random.i64(50..400);
    world.run(time);
    world.tell(3, |bus, now| _ = bus.failover(FailoverMode::Agreed, "test", false, now));
    world.run(3 * SECOND);
    judge(&mut world)
}

#[test]
fn a_source_that_is_handed_over_to_its_replica_loses_no_acknowledged_write() {
    for seed in 0..8 {
        assert_eq!(handed_over(seed), None, "seed {seed}");
    }
}

/// Orders a source to be replaced once it has granted slots, while the target's file takes a moment, and returns a
/// violation. The other primaries have the majority without both.
fn handed_over_with_a_grant(seed: u64, flaw: Flaw) -> Option<String> {
    let mut world = world_of(5, seed, flaw, Safety::Applied);
    world.run_until("it is synchronized", 20 * SECOND, |world| world.members[5].is_linked);
    begin(&mut world, 0, 40);
    let is_granted =
        |world: &World| world.members[0].bus().migrations().jobs().any(|job| job.state == JobState::FailoverGranted);
    while !is_granted(&world) {
        assert!(world.members[0].bus().migrations().is_exporting(), "seed {seed}");
        world.run(1);
    }
    world.members[1].threads.disk_delay = SECOND;
    world.tell(5, |bus, now| bus.failover(FailoverMode::Agreed, "test", false, now).expect("a replica"));
    world.run(3 * SECOND);
    judge(&mut world)
}

#[test]
fn a_source_is_not_handed_over_while_slots_are_granted() {
    for seed in 0..8 {
        assert_eq!(handed_over_with_a_grant(seed, Flaw::None), None, "seed {seed}");
    }
}

#[test]
fn a_source_that_is_handed_over_while_slots_are_granted_is_found() {
    let found = (0..20).find_map(|seed| handed_over_with_a_grant(seed, Flaw::AnnouncesPauseWhileGranted));
    println!("{}", found.expect("the mistake is found"));
}
