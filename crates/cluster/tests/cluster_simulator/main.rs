//! Clusters of virtual nodes with a virtual network, clocks and disks. One seed decides which failures happen and when;
//! a failed run is one number.
//!
//! `CINNABAR_SEED=7 cargo test -p cinnabar-cluster --test cluster_simulator` repeats one run, `CINNABAR_SEEDS=99` runs
//! more. Ten thousand runs take ten minutes of a processor; `CINNABAR_FIRST_SEED=5000` begins with that seed:
//!
//!     CARGO_PROFILE_TEST_OPT_LEVEL=2 CINNABAR_SEEDS=10000 cargo test -p cinnabar-cluster slots_move_whatever

mod cluster_world;
mod data;
mod executor;
mod floods;
mod holders;
mod member;
mod messages;
mod migrations;
mod moves_by_hand;
mod network;
mod scenario;
mod slot_moves;
mod writers;

use cluster::bus::{FailoverMode, Settings};
use cluster_world::{Flaw, World};

const SECOND: i64 = 1000;

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CINNABAR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CINNABAR_SEEDS").unwrap_or(4),
    }
}

fn settings() -> Settings {
    Settings { node_timeout: 2000, ..Settings::default() }
}

fn cluster(seed: u64, primaries: usize, replicas: usize, flaw: Flaw) -> World {
    let mut world = World::new(seed, primaries * (replicas + 1), settings(), flaw);
    world.create(primaries, replicas);
    world
}

#[test]
fn nodes_that_meet_make_a_cluster() {
    for seed in seeds() {
        let world = cluster(seed, 3, 1, Flaw::None);
        assert_eq!(world.primaries_with_slots(), [0, 1, 2], "seed {seed}");
        assert_eq!(world.members[4].bus().nodes().len(), 6);
    }
}

#[test]
fn a_dead_primary_is_replaced_by_its_best_replica() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 2, Flaw::None);
        world.run(5 * SECOND);
        let owned = world.me(0).slots.clone();
        // A replica of it has lost its link some time ago, and has less data.
        world.members[3].following = Some(usize::MAX);
        world.run(2 * SECOND);
        world.crash(0);
        let took = world.run_until("a replica has taken over", 20 * SECOND, |world| world.me(6).has_vote());
        assert_eq!(world.me(6).slots, owned, "seed {seed}");
        assert!(took < 5 * SECOND, "seed {seed}: {took}");
        world.settle(60 * SECOND);
        assert!(world.me(0).is_replica(), "seed {seed}: the old one is a replica\n{}", world.history());
    }
}

#[test]
fn a_primary_that_answers_but_serves_nobody_is_replaced() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        world.run(5 * SECOND);
        world.members[0].is_unconfirmed = true;
        world.run_until("a replica has taken over", 20 * SECOND, |world| world.me(3).has_vote());
        world.settle(60 * SECOND);
        assert!(world.me(0).is_replica(), "seed {seed}: the old one is a replica\n{}", world.history());
    }
}

#[test]
fn primaries_that_serve_nobody_are_all_replaced() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        world.run(5 * SECOND);
        world.members[..3].iter_mut().for_each(|member| member.is_unconfirmed = true);
        let all_lead = |world: &World| (3..6).all(|replica| world.me(replica).has_vote());
        world.run_until("all replicas have taken over", 60 * SECOND, all_lead);
        world.settle(60 * SECOND);
        assert!((0..3).all(|old| world.me(old).is_replica()), "seed {seed}\n{}", world.history());
    }
}

/// Members may need longer than a node timeout until they follow: each primary has more time than the one before.
#[test]
fn nodes_that_replace_each_other_in_vain_lead_for_longer_each_time() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        world.run(5 * SECOND);
        (world.members[0].is_unconfirmed, world.members[3].is_unconfirmed) = (true, true);
        let (mut leader, mut seconds, mut longest, mut changes) = (0, 0, 0, 0);
        for _ in 0..200 {
            world.run(SECOND);
            let now = if world.me(3).has_vote() { 3 } else { 0 };
            (changes, seconds) = if now == leader { (changes, seconds + 1) } else { (changes + 1, 0) };
            (leader, longest) = (now, longest.max(seconds));
        }
        assert!(longest >= 15 && changes > 4, "seed {seed}: {longest} s, {changes} changes\n{}", world.history());
        world.members[leader].is_unconfirmed = false;
        world.settle(60 * SECOND);
    }
}

/// The replica has written words of its own into its stream meanwhile, and the rest of its history is shorter.
#[test]
fn a_replica_that_led_without_being_confirmed_comes_after_the_one_that_has_all() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 2, Flaw::None);
        world.run(5 * SECOND);
        let offset = world.members[0].offset;
        (world.members[6].following, world.members[6].offset) = (Some(usize::MAX), offset + 1000);
        world.members[6].claim = Some(offset - 1);
        world.run(2 * SECOND);
        world.crash(0);
        world.run_until("a replica has taken over", 20 * SECOND, |world| {
            world.me(3).has_vote() || world.me(6).has_vote()
        });
        assert!(world.me(3).is_primary(), "seed {seed}\n{}", world.history());
        world.settle(60 * SECOND);
    }
}

#[test]
fn a_replica_that_may_lack_acknowledged_writes_leads_by_order_only() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 2, Flaw::None);
        world.run(5 * SECOND);
        // The replica that is out of sync has most data.
        world.members[3].may_lack_acknowledged = true;
        world.members[0].is_unconfirmed = true;
        world.run_until("the other one has taken over", 20 * SECOND, |world| world.me(6).has_vote());
        world.settle(60 * SECOND);
        assert!(world.me(3).is_replica(), "seed {seed}\n{}", world.history());
        world.tell(3, |bus, now| bus.failover(FailoverMode::Agreed, "test", false, now).expect("a replica"));
        world.run_until("it has taken over, too", 20 * SECOND, |world| world.me(3).has_vote());
        world.settle(60 * SECOND);
    }
}

#[test]
fn a_minority_fails_nothing_over() {
    for seed in seeds() {
        let mut world = cluster(seed, 5, 1, Flaw::None);
        // Primaries 0 and 1 and the replica of 2 reach only each other.
        world.split(|node| u8::from(matches!(node, 0 | 1 | 7)));
        world.run(15 * SECOND);
        assert!(!world.me(7).is_primary() && !world.members[0].bus().is_up(), "seed {seed}");
        world.settle(60 * SECOND);
    }
}

#[test]
fn a_primary_that_was_cut_off_follows_its_replacement() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        world.split(|node| u8::from(node == 0));
        world.run(15 * SECOND);
        assert!(world.me(3).has_vote() && world.me(0).is_primary(), "seed {seed}\n{}", world.history());
        assert!(!world.members[0].bus().is_up(), "seed {seed}: it serves nothing");
        world.settle(60 * SECOND);
        assert!(world.me(0).is_replica(), "seed {seed}");
    }
}

#[test]
fn two_primaries_that_die_together_are_both_replaced() {
    for seed in seeds() {
        let mut world = cluster(seed, 5, 1, Flaw::None);
        world.run(5 * SECOND);
        world.crash(0);
        world.crash(1);
        world.run_until("both are replaced", 40 * SECOND, |world| world.me(5).has_vote() && world.me(6).has_vote());
        world.settle(60 * SECOND);
    }
}

#[test]
fn a_manual_failover_is_done_in_each_way() {
    for seed in seeds() {
        for mode in [FailoverMode::Agreed, FailoverMode::Force, FailoverMode::Takeover] {
            let mut world = cluster(seed, 3, 1, Flaw::None);
            world.run(5 * SECOND);
            world.tell(3, |bus, now| bus.failover(mode, "test", false, now).expect("a replica"));
            world.run_until("it has taken over", 5 * SECOND, |world| world.me(3).has_vote());
            world.settle(30 * SECOND);
            assert!(world.me(0).is_replica(), "seed {seed} {mode:?}");
        }
    }
}

#[test]
fn a_replica_that_has_nothing_of_its_primary_does_not_stand() {
    for seed in seeds() {
        let mut world = World::new(seed, 7, settings(), Flaw::None);
        world.create(3, 1);
        // The replica's own offset, which does not matter, is that of the primary.
        world.members[6].offset = world.members[0].offset;
        world.members[6].is_kept_waiting = true;
        let primary = world.id(0);
        world.tell(6, |bus, now| bus.replicate(&primary.0, false, now).expect("it is empty"));
        world.run(SECOND);
        for mode in [FailoverMode::Agreed, FailoverMode::Force] {
            world.tell(6, |bus, now| bus.failover(mode, "test", false, now).expect("a replica"));
            for _ in 0..60 {
                world.run(100);
                world.members[6].offset = world.members[0].offset;
                assert!(world.me(6).is_replica(), "seed {seed} {mode:?}");
            }
        }
        world.crash(3);
        world.crash(0);
        world.run(40 * SECOND);
        assert!(world.me(6).is_replica(), "seed {seed}: nobody has its primary's data");
        world.restart(0);
        world.run_until("it is back", 20 * SECOND, |world| world.members[6].bus().is_up());
        world.tell(6, |bus, now| bus.failover(FailoverMode::Agreed, "test", false, now).expect("a replica"));
        world.run(SECOND);
        world.members[6].is_kept_waiting = false;
        world.run_until("it has taken over when it has all", 5 * SECOND, |world| world.me(6).has_vote());
    }
}

#[test]
fn a_primary_without_replicas_is_given_one() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 2, Flaw::None);
        world.run(5 * SECOND);
        for replica in world.replicas_of(0) {
            world.crash(replica);
        }
        world.run_until("a replica has come", 60 * SECOND, |world| !world.replicas_of(0).is_empty());
        world.settle(60 * SECOND);
    }
}

#[test]
fn a_forgotten_node_is_forgotten_by_all() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        let id = world.id(5);
        world.crash(5);
        world.run(5 * SECOND);
        world.tell(0, |bus, now| bus.forget(&id.0, "test", now).expect("known"));
        world.run_until("all have forgotten it", 10 * SECOND, |world| {
            (0..5).all(|node| world.members[node].bus().nodes().get(&id).is_none())
        });
    }
}

#[test]
fn a_slot_moves_and_all_hear_of_it() {
    for seed in seeds() {
        let mut world = cluster(seed, 3, 1, Flaw::None);
        let (from, to) = (world.id(0), world.id(1));
        use cluster::bus::SlotAction::{Importing, Migrating, Node};
        world.tell(1, |bus, now| bus.set_slot(7, Importing(&from.0), false, false, now).expect("may come"));
        world.tell(0, |bus, now| bus.set_slot(7, Migrating(&to.0), false, false, now).expect("may go"));
        world.tell(1, |bus, now| bus.set_slot(7, Node(&to.0), true, false, now).expect("is there"));
        world.tell(0, |bus, now| bus.set_slot(7, Node(&to.0), false, false, now).expect("is gone"));
        world.run_until("all know", 5 * SECOND, |world| {
            (0..6).all(|node| world.members[node].bus().nodes().owner(7) == Some(to))
        });
        world.settle(10 * SECOND);
    }
}

#[test]
fn a_cluster_heals_after_all_failures() {
    for seed in seeds() {
        let mut world = cluster(seed, 3 + seed as usize % 3, 1 + seed as usize % 2, Flaw::None);
        world.dies_in_between = true;
        for _ in 0..15 {
            world.trouble();
            let time = world.random.i64(200..8 * SECOND);
            world.run(time);
        }
        world.settle(300 * SECOND);
    }
}

#[test]
fn a_large_cluster_is_one() {
    // A few hundred nodes take minutes without optimization.
    let primaries = if cfg!(debug_assertions) { 35 } else { 150 };
    let mut world = World::new(1, 2 * primaries, settings(), Flaw::None);
    world.create(primaries, 1);
    world.crash(7);
    world.run_until("it is replaced", 20 * SECOND, |world| world.me(primaries + 7).has_vote());
    world.settle(60 * SECOND);
}

// Planted mistakes are found.

#[test]
fn votes_that_are_forgotten_are_found() {
    let mut found = 0;
    for seed in 0..6 {
        for flaw in [Flaw::None, Flaw::ForgetsVotes] {
            let mut world = cluster(seed, 3, 2, flaw);
            world.run(5 * SECOND);
            world.crash(0);
            world.run_until("votes are given", 20 * SECOND, |world| !world.votes().is_empty());
            world.restart_voters();
            match flaw {
                Flaw::None => assert!(world.violations.is_empty(), "seed {seed}: {:?}", world.violations),
                _ => found += usize::from(!world.violations.is_empty()),
            }
        }
    }
    assert!(found > 0);
}

#[test]
fn votes_that_count_twice_are_found() {
    let mut world = cluster(1, 5, 1, Flaw::DoublesVotes);
    // Two primaries of five, and a replica of a third: their votes count as four.
    world.split(|node| u8::from(matches!(node, 0 | 1 | 7)));
    world.run(3 * SECOND);
    world.tell(7, |bus, now| bus.failover(FailoverMode::Force, "test", false, now).expect("a replica"));
    world.run(15 * SECOND);
    assert!(world.me(7).is_primary());
}

#[test]
fn epochs_that_are_hidden_are_found() {
    let mut world = cluster_of_old(Flaw::HidesEpochs);
    world.heal();
    world.restart(0);
    world.run(60 * SECOND);
    assert!(world.unsettled().is_some());
}

#[test]
fn claims_that_are_not_heard_are_found() {
    let mut world = cluster_of_old(Flaw::IgnoresClaims);
    world.restart(0);
    world.run(60 * SECOND);
    assert!(world.unsettled().is_some());
}

/// Returns a cluster whose first primary is cut off and replaced; the mistake begins then.
fn cluster_of_old(flaw: Flaw) -> World {
    let mut world = cluster(1, 3, 1, Flaw::None);
    world.crash(0);
    world.make(flaw);
    world.run(15 * SECOND);
    world
}

/// Prints figures of a large cluster, with Valkey's defaults: `cargo test --release -p cinnabar-cluster --test
/// cluster_simulator -- --ignored --nocapture`. `CINNABAR_NODES` sets the number of nodes.
#[test]
#[ignore = "takes minutes; prints figures"]
fn figures_of_a_thousand_nodes() {
    let nodes: usize = std::env::var("CINNABAR_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let primaries = nodes / 2;
    let mut world = World::new(1, nodes, Settings::default(), Flaw::None);
    let start = world.now;
    world.create(primaries, 1);
    println!("{nodes} nodes: from the first meeting to a cluster that is up: {} ms", world.now - start);
    world.run(10 * SECOND);
    let before: u64 = world.members.iter().map(|member| member.bytes_sent).sum();
    world.run(30 * SECOND);
    let after: u64 = world.members.iter().map(|member| member.bytes_sent).sum();
    println!("{nodes} nodes: {} bytes sent by a node in a second", (after - before) / 30 / nodes as u64);
    world.crash(0);
    let took = world.run_until("it is replaced", 120 * SECOND, |world| world.me(primaries).has_vote());
    println!("{nodes} nodes: a dead primary was replaced after {took} ms, the timeout is 15000");
    let took = world.run_until("all know of it", 120 * SECOND, |world| {
        let new = world.id(primaries);
        (1..nodes).all(|node| world.members[node].bus().nodes().owner(0) == Some(new))
    });
    println!("{nodes} nodes: all knew of it {took} ms later");
}
