//! Slots move while clients write, connections are cut, nodes die and return, replicas take over, and jobs are
//! cancelled.
//!
//! In all of these cases acknowledged writes are there at the end; no two nodes serve a slot; keys that arrive are
//! hidden until their slots have arrived; every job ends, and leaves nothing behind.

use crate::cluster_world::{Flaw, World};
use crate::holders::Safety;
use cluster::bus::{FailoverMode, Settings};
use cluster::migration::MigrationSettings;

const SECOND: i64 = 1000;
/// Slots that clients write to. The first primary owns all of them in the beginning.
const SLOTS: u16 = 48;

/// Returns the seeds that are asked for: the first `count` without that.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CINNABAR_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("CINNABAR_FIRST_SEED").unwrap_or(0);
            first..first + number("CINNABAR_SEEDS").unwrap_or(count)
        }
    }
}

pub fn world(seed: u64, flaw: Flaw, safety: Safety) -> World {
    world_of(3, seed, flaw, safety)
}

pub fn world_of(primaries: usize, seed: u64, flaw: Flaw, safety: Safety) -> World {
    let migration = MigrationSettings { timeout: 5 * SECOND, failover_timeout: 2 * SECOND, ..Default::default() };
    let settings = Settings {
        node_timeout: 2000,
        require_full_coverage: false,
        allow_replica_migration: false,
        replica_validity_factor: if seed.is_multiple_of(2) { 0 } else { 10 },
        migration,
        ..Settings::default()
    };
    let replicas = if let Safety::AtReplicas(needed) = safety { needed } else { 1 };
    let mut world = World::new(seed, primaries * (replicas + 1), settings, flaw);
    world.create(primaries, replicas);
    world.begin_data();
    world.data.safety = safety;
    if safety == Safety::AtReplicas(replicas) {
        // The replicas have nothing yet.
        world.data.lost = (primaries..world.members.len()).collect();
    }
    world.begin_writers(4, 40, SLOTS);
    world
}

/// Makes something fail, repairs it, or begins a migration.
pub fn step(world: &mut World) {
    let nodes = world.members.len();
    let node = world.random.usize(..nodes);
    match world.random.u8(..27) {
        0..=8 => world.begin_migration(SLOTS),
        9..=11 => world.cut_job_link(),
        12 if world.is_up(node) => world.crash(node),
        20 | 21 => world.stop(node),
        22 | 23 => (0..nodes).for_each(|node| world.go_on(node)),
        24 => {
            let (disk, removal) = (world.random.i64(0..3000), world.random.i64(100..5000));
            world.note(format!("{node} has a slow disk ({disk} ms) and removes slowly ({removal} ms)"));
            let threads = &mut world.members[node].threads;
            (threads.disk_delay, threads.removal_delay) = (disk, removal);
        }
        // All replicas of a shard have what was acknowledged there: none comes from elsewhere.
        26 if matches!(world.data.safety, Safety::AtReplicas(_)) => {}
        26 if world.is_up(node) && world.me(node).is_replica() => {
            let primaries = world.primaries_with_slots();
            let to = world.random.usize(..primaries.len().max(1));
            if let Some(to) = primaries.get(to).map(|to| world.id(*to)) {
                world.note(format!("{node} is told to follow {to}"));
                world.tell(node, |bus, now| _ = bus.replicate(&to.0, false, now));
            }
        }
        25 => (0..nodes).for_each(|node| {
            world.members[node].threads.heal();
            world.sync_log(node);
        }),
        12 | 13 => (0..nodes).for_each(|node| world.restart(node)),
        14 => {
            world.note(format!("{node} cancels"));
            world.tell(node, |bus, now| _ = bus.cancel_migrations("test", now));
        }
        15 => {
            let mode = if world.random.bool() { FailoverMode::Agreed } else { FailoverMode::Force };
            world.note(format!("{node} is told to take over: {mode:?}"));
            world.tell(node, |bus, now| _ = bus.failover(mode, "test", false, now));
        }
        16 => {
            let mask = world.random.u64(..);
            world.split(|node| (mask >> node & 1) as u8);
        }
        _ => world.heal(),
    }
}

/// Makes something fail that holds replies up, or ends the data of a node.
fn step_of_holders(world: &mut World) {
    let nodes = world.members.len();
    let node = world.random.usize(..nodes);
    match (world.data.safety, world.random.u8(..12)) {
        (Safety::OnDisk, 0..=2) => {
            world.note(format!("{node} cannot write its log"));
            world.members[node].threads.does_log_fail = true;
        }
        (Safety::OnDisk, 3 | 4) => world.members[node].threads.disk_delay = world.random.i64(0..2000),
        (Safety::AtReplicas(_), 0..=3) => {
            world.note(format!("{node} reads nothing of its primary's log"));
            world.members[node].is_kept_waiting = true;
        }
        (_, 5 | 6) if world.is_up(node) => world.crash(node),
        (_, 7 | 8) => (0..nodes).for_each(|node| world.restart(node)),
        (_, 9) => (0..nodes).for_each(|node| {
            world.members[node].is_kept_waiting = false;
            world.members[node].threads.heal();
            world.sync_log(node);
        }),
        _ => {}
    }
}

/// Repairs all failures, and returns a violation; None if there is none.
pub fn judge(world: &mut World) -> Option<String> {
    world.settle_members();
    world.run(SECOND);
    world.data.writers_rest = true;
    let end = world.now + 120 * SECOND;
    while let Some(why) = world.unsettled().or_else(|| world.unsettled_data()) {
        if world.now > end {
            return Some(why);
        }
        world.run(SECOND);
    }
    world.violations.first().cloned().or_else(|| world.lost_writes().into_iter().next())
}

fn run(seed: u64, flaw: Flaw, safety: Safety) -> (World, Option<String>) {
    let mut world = world(seed, flaw, safety);
    world.run(2 * SECOND);
    world.dies_in_between = true;
    for _ in 0..40 {
        // A fast disk hides this one.
        if flaw == Flaw::SavesBeforeLosses {
            world.members.iter_mut().for_each(|member| member.threads.disk_delay = SECOND / 4);
        }
        step(&mut world);
        if safety != Safety::Applied {
            step_of_holders(&mut world);
        }
        let time = world.random.i64(5..SECOND);
        world.run(time);
    }
    let wrong = judge(&mut world);
    (world, wrong)
}

#[test]
fn slots_move_whatever_fails() {
    all_runs_are_right(Safety::Applied);
}

#[test]
fn slots_move_and_acknowledged_writes_are_on_a_disk() {
    all_runs_are_right(Safety::OnDisk);
}

#[test]
fn slots_move_and_acknowledged_writes_outlive_the_loss_of_any_node() {
    all_runs_are_right(Safety::AtReplicas(1));
}

#[test]
fn slots_move_and_acknowledged_writes_outlive_the_loss_of_any_two_nodes() {
    all_runs_are_right(Safety::AtReplicas(2));
}

fn all_runs_are_right(safety: Safety) {
    let (mut moved, mut acknowledged, mut given_up) = (0, 0, 0);
    for seed in seeds(8) {
        let (world, wrong) = run(seed, Flaw::None, safety);
        if let Some(wrong) = wrong {
            panic!("CINNABAR_SEED={seed}: {wrong}\n{}", world.history());
        }
        moved += world.succeeded();
        acknowledged += world.data.acknowledged;
        given_up += world.data.given_up.len();
    }
    println!("{moved} migrations, {acknowledged} writes, {given_up} keys of which writes may be lost");
    let count = seeds(8).count();
    assert!(count == 1 || moved > count / 4, "enough succeed: {moved}");
}

pub fn is_found(flaw: Flaw, safety: Safety) {
    let found = (0..100).find_map(|seed| Some((seed, run(seed, flaw, safety).1?)));
    let (seed, why) = found.expect("the mistake is found");
    println!("{flaw:?} with {safety:?} is found by seed {seed}: {why}");
}

#[test]
fn writes_after_the_pause_has_begun_are_found() {
    is_found(Flaw::WritesOnWhenPaused, Safety::Applied);
}

#[test]
fn keys_that_go_before_the_slot_map_are_found() {
    is_found(Flaw::RemovesBeforeMap, Safety::Applied);
}

#[test]
fn losses_that_wait_for_the_file_are_found() {
    is_found(Flaw::SavesBeforeLosses, Safety::Applied);
}

#[test]
fn a_node_that_serves_on_after_it_stood_still_is_found() {
    is_found(Flaw::ServesWhenStoodStill, Safety::Applied);
}

#[test]
fn a_replica_without_history_that_stands_is_found() {
    for flaw in [Flaw::None, Flaw::HasNoHistory] {
        let found = (0..8).any(|seed| {
            let mut world = world(seed, flaw, Safety::Applied);
            world.run(2 * SECOND);
            let primary = world.id(1);
            world.tell(3, |bus, now| bus.replicate(&primary.0, false, now).expect("a replica"));
            world.run(50);
            world.crash(4);
            world.crash(1);
            world.run(10 * SECOND);
            !world.violations.is_empty()
        });
        assert_eq!(found, flaw != Flaw::None, "{flaw:?}");
    }
}

#[test]
fn a_replica_that_starts_with_files_from_before_its_synchronization_and_stands_is_found() {
    for flaw in [Flaw::None, Flaw::TrustsFiles] {
        let found = (0..8).any(|seed| {
            let mut world = world(seed * 2, flaw, Safety::Applied);
            world.run(2 * SECOND);
            let primary = world.id(1);
            world.tell(3, |bus, now| bus.replicate(&primary.0, false, now).expect("a replica"));
            world.run_until("it is synchronized", 20 * SECOND, |world| world.members[3].is_linked);
            world.run(500);
            world.crash(3);
            world.crash(4);
            world.crash(1);
            world.restart(3);
            world.run(20 * SECOND);
            !world.violations.is_empty()
        });
        assert_eq!(found, flaw != Flaw::None, "{flaw:?}");
    }
}

#[test]
fn a_former_primary_does_not_stand_before_its_successor_has_synchronized_it() {
    for seed in 0..8 {
        let mut world = world(seed * 2, Flaw::None, Safety::Applied);
        world.run(2 * SECOND);
        world.crash(0);
        world.run_until("it is replaced", 20 * SECOND, |world| world.me(3).has_vote());
        world.run(2 * SECOND);
        world.restart(0);
        world.run_until("it follows", 20 * SECOND, |world| world.members[0].following == Some(3));
        world.crash(3);
        let is_synchronized = !world.members[0].is_foreign;
        world.run(20 * SECOND);
        assert_eq!(world.me(0).is_primary(), is_synchronized, "seed {seed}");
        assert_eq!(world.violations, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn roles_and_clients_that_wait_for_removals_are_found() {
    is_found(Flaw::HasOneLane, Safety::Applied);
}

#[test]
fn claims_of_a_former_source_that_are_not_heard_are_found() {
    is_found(Flaw::IgnoresFormerSource, Safety::Applied);
}

#[test]
fn changes_of_several_slots_that_are_not_sent_are_found() {
    is_found(Flaw::PassesOverSeveralSlots, Safety::Applied);
}

#[test]
fn changes_that_are_not_sent_are_found() {
    is_found(Flaw::ForgetsChanges, Safety::Applied);
}

#[test]
fn keys_that_came_in_vain_and_stay_are_found() {
    is_found(Flaw::KeepsWhatCameInVain, Safety::Applied);
}

#[test]
fn slots_that_are_taken_before_their_keys_are_on_the_disk_are_found() {
    is_found(Flaw::TakesBeforeItIsKept, Safety::OnDisk);
}

#[test]
fn slots_that_are_taken_before_replicas_have_their_keys_are_found() {
    is_found(Flaw::TakesBeforeItIsKept, Safety::AtReplicas(1));
}

#[test]
fn replies_that_do_not_wait_for_holders_are_found() {
    is_found(Flaw::RepliesBeforeItIsKept, Safety::OnDisk);
    is_found(Flaw::RepliesBeforeItIsKept, Safety::AtReplicas(1));
}
