//! Several Sentinels with virtual servers, network and clocks. One seed decides each failure and its time; a failure is
//! one number.
//!
//! `CINNABAR_SEED=7 cargo test -p cinnabar-sentinel --test simulator` runs one again, `CINNABAR_SEEDS=1000` more.

mod host;
mod server;
mod world;

use world::{DOWN_AFTER, Flaw, World};

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CINNABAR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CINNABAR_SEEDS").unwrap_or(6),
    }
}

const SECOND: i64 = 1000;

#[test]
fn a_dead_primary_is_replaced_once() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 3);
        world.run(15 * SECOND);
        world.check_discovered();
        let old = world.primary();
        world.crash_server(old);
        world.run(30 * SECOND);
        let new = world.agreed_primary();
        assert_ne!(new, old, "seed {seed}: no failover");
        // The best replica: the one that has most among those with the smallest priority.
        assert_eq!(new, world.best_replica_of(old), "seed {seed}");
        world.restart_server(old);
        world.run(40 * SECOND);
        world.check_settled();
        assert_eq!(world.agreed_primary(), new, "seed {seed}: the old one took over again");
        assert_eq!(world.failovers(), 1, "seed {seed}");
    }
}

#[test]
fn a_primary_that_answers_but_serves_nobody_is_replaced_and_follows_at_once() {
    // A single Sentinel needs no agreement: a mistake of a moment starts a failover.
    for (seed, sentinels, servers) in seeds().flat_map(|seed| [(seed, 3, 3), (seed, 1, 2)]) {
        let mut world = World::new(seed, sentinels, servers);
        world.acknowledge();
        world.run(15 * SECOND);
        let old = world.primary();
        world.crash_server(old);
        world.run(SECOND / 5);
        world.restart_server(old);
        world.run(DOWN_AFTER + 5 * SECOND);
        let new = world.agreed_primary();
        assert_ne!(new, old, "seed {seed}: no failover");
        assert!(world.is_replica(old), "seed {seed}: the old one leads on");
        assert_eq!(world.failovers(), 1, "seed {seed}");
    }
}

#[test]
fn failovers_by_order_and_by_failure_that_come_close_together_end_in_one_configuration() {
    let mut begun = 0;
    for seed in seeds().flat_map(|seed| seed * 20..seed * 20 + 20) {
        let mut world = World::new(seed, 3, 3);
        world.acknowledge();
        world.run(15 * SECOND);
        for _ in 0..2 {
            begun += usize::from(world.order_failover(0));
            let time = world.some_time();
            world.run(time % (2 * SECOND));
        }
        let primary = world.primary();
        world.crash_server(primary);
        world.run(SECOND / 2);
        world.restart_server(primary);
        world.run(90 * SECOND);
        world.check_settled();
        assert_eq!(world.violations(), <&[String]>::default(), "seed {seed}");
    }
    assert!(begun > 0);
}

#[test]
fn a_replica_that_was_restarted_is_fit_as_soon_as_it_is_a_member_again() {
    for seed in seeds() {
        let mut world = World::new(seed, 1, 2);
        world.acknowledge();
        world.run(15 * SECOND);
        // A question that is asked when a failover begins is answered after it has chosen.
        world.slow_down(SECOND / 2);
        let old = world.primary();
        let replica = world.best_replica_of(old);
        for server in [replica, old] {
            world.crash_server(server);
            world.run(SECOND / 5);
            world.restart_server(server);
            world.run(3 * SECOND / 2);
            world.take_in(replica);
        }
        world.run(DOWN_AFTER + 4 * SECOND);
        assert_eq!(world.agreed_primary(), replica, "seed {seed}: no failover");
    }
}

#[test]
fn a_server_that_has_forgotten_what_was_acknowledged_is_not_promoted() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 3);
        world.acknowledge();
        world.run(15 * SECOND);
        let old = world.primary();
        world.crash_server(old);
        world.run(30 * SECOND);
        assert_eq!(world.failovers(), 1, "seed {seed}");
        (0..3).filter(|&server| server != old).for_each(|server| world.crash_server(server));
        // The primary is down by then, and no order of a Sentinel comes before the next failover.
        world.run(DOWN_AFTER + 3 * SECOND);
        world.restart_server(old);
        world.run(30 * SECOND);
        assert_eq!(world.failovers(), 1, "seed {seed}: it leads, and serves nobody");
    }
}

#[test]
fn a_server_that_a_lead_was_handed_to_is_not_replaced_when_its_predecessor_dies() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 3);
        world.acknowledge();
        world.run(15 * SECOND);
        let old = world.primary();
        let new = world.best_replica_of(old);
        world.hand_over(old, new);
        world.run(world.some_time() % 200);
        world.crash_server(old);
        world.run(DOWN_AFTER + 5 * SECOND);
        assert_eq!(world.agreed_primary(), new, "seed {seed}: a server that lacks its data leads");
        world.run(10 * SECOND);
        assert_eq!((world.agreed_primary(), world.failovers()), (new, 1), "seed {seed}");
    }
}

#[test]
fn a_coordinated_failover_ends_with_its_primary() {
    for (seed, is_back) in seeds().flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = World::new(seed, 3, 3);
        world.acknowledge();
        world.know_failover();
        world.run(15 * SECOND);
        let old = world.primary();
        assert!(world.order_coordinated_failover(0), "seed {seed}");
        world.run(world.some_time() % SECOND);
        world.crash_server(old);
        if is_back {
            world.run(SECOND / 2);
            world.restart_server(old);
        }
        world.run(DOWN_AFTER + 5 * SECOND);
        assert_ne!(world.agreed_primary(), old, "seed {seed}: no failover");
    }
}

#[test]
fn a_coordinated_failover_that_its_primary_refuses_ends_at_once_and_the_cause_is_told_once() {
    for (seed, forbidden) in seeds().zip([
        Some("FAILOVER"),
        Some("CLIENT PAUSE"),
        Some("CLIENT UNPAUSE"),
        Some("EXEC"),
        None,
        Some("FAILOVER"),
    ]) {
        let mut world = World::new(seed, 3, 3);
        world.know_failover();
        world.run(15 * SECOND);
        let old = world.primary();
        let server = world.server(old);
        match forbidden {
            Some(order) => server.forbidden.push(order),
            None => server.refuses_failover = true,
        }
        for order in 1..=2 {
            assert!(world.order_coordinated_failover(0), "seed {seed}: another one is in progress");
            world.run(4 * SECOND);
            assert_eq!(world.said("-failover-abort-master-refused"), order, "seed {seed} {forbidden:?}");
            assert_eq!(world.said("-command-refused"), 1, "seed {seed} {forbidden:?}");
            assert!(!world.server(old).is_paused, "seed {seed}: its clients may not write");
        }
        let server = world.server(old);
        server.forbidden.clear();
        server.refuses_failover = false;
        world.crash_server(old);
        world.run(DOWN_AFTER + 5 * SECOND);
        assert_ne!(world.agreed_primary(), old, "seed {seed}: the refused failover delays the next one");
    }
}

#[test]
fn a_coordinated_failover_whose_primary_leads_on_leaves_no_pause_behind() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 3);
        world.know_failover();
        world.run(15 * SECOND);
        let old = world.primary();
        assert!(world.order_coordinated_failover(0), "seed {seed}");
        world.run(15 * SECOND);
        assert!(!world.server(old).is_paused, "seed {seed}: its clients may not write");
        assert_eq!(world.said("-failover-abort-master-refused"), 1, "seed {seed}");
        assert_eq!(world.agreed_primary(), old, "seed {seed}");
    }
}

#[test]
fn a_command_that_is_refused_is_told_once_for_each_cause() {
    for seed in seeds() {
        let mut world = World::new(seed, 1, 2);
        let primary = world.primary();
        world.server(primary).forbidden.push("PUBLISH");
        world.run(30 * SECOND);
        assert_eq!(world.said("-command-refused"), 1, "seed {seed}");
        world.server(primary).forbidden.clear();
        world.run(5 * SECOND);
        world.server(primary).forbidden.push("PUBLISH");
        world.run(30 * SECOND);
        assert_eq!(world.said("-command-refused"), 2, "seed {seed}: it was allowed meanwhile");
    }
}

#[test]
fn a_replica_whose_order_was_lost_is_turned_to_the_unconfirmed_primary() {
    for (seed, outage) in seeds().flat_map(|seed| [(seed, 2), (seed, 6), (seed, 20)]) {
        let mut world = World::new(seed, 3, 3);
        world.acknowledge();
        (0..3).for_each(|server| world.server(server).needs_followers = true);
        world.run(15 * SECOND);
        let old = world.primary();
        let new = world.best_replica_of(old);
        let last = (0..3).find(|server| ![old, new].contains(server)).unwrap();
        world.server(last).stands_still = true;
        world.crash_server(old);
        world.run(DOWN_AFTER + outage * SECOND);
        world.proceed(last);
        world.run(DOWN_AFTER + 5 * SECOND);
        let primary = world.agreed_primary();
        let history = world.history().join("\n");
        assert!(world.has_follower(primary), "seed {seed}, {outage} s: the primary serves no client\n{history}");
    }
}

#[test]
fn a_promoted_server_that_was_started_again_before_its_failover_ends_is_replaced() {
    // The other Sentinels would follow the new configuration, and replace its primary: a single one shows the fault.
    for seed in seeds() {
        let mut world = World::new(seed, 1, 3);
        world.acknowledge();
        world.run(15 * SECOND);
        let old = world.primary();
        world.crash_server(old);
        let limit = (DOWN_AFTER + 5 * SECOND) / 20;
        let promoted = (0..limit).find_map(|_| {
            world.run(20);
            (0..3).find(|&server| server != old && !world.is_replica(server))
        });
        let promoted = promoted.expect("a failover");
        world.crash_server(promoted);
        world.restart_server(promoted);
        // The failover itself would end later, by its timeout.
        world.run(2 * DOWN_AFTER + 3 * SECOND);
        let last = (0..3).find(|&server| server != old && server != promoted).unwrap();
        assert_eq!(world.agreed_primary(), last, "seed {seed}");
    }
}

#[test]
fn each_replica_is_tried_until_one_acknowledges() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 4);
        world.acknowledge();
        world.run(15 * SECOND);
        let old = world.primary();
        let others: Vec<usize> = (0..4).filter(|server| *server != old).collect();
        world.crash_server(old);
        others[..2].iter().for_each(|&server| world.take_from(server));
        world.run(3 * (DOWN_AFTER + 5 * SECOND));
        assert_eq!(world.agreed_primary(), others[2], "seed {seed}");
        assert!(world.failovers() >= 3, "seed {seed}");
    }
}

#[test]
fn a_minority_fails_nothing_over() {
    for seed in seeds() {
        let mut world = World::new(seed, 5, 3);
        world.run(15 * SECOND);
        let old = world.primary();
        // Two Sentinels of five see no server any more.
        world.isolate_sentinels(2);
        world.run(60 * SECOND);
        assert_eq!(world.failovers(), 0, "seed {seed}");
        world.heal();
        world.run(40 * SECOND);
        world.check_settled();
        assert_eq!(world.agreed_primary(), old, "seed {seed}");
    }
}

#[test]
fn a_primary_that_is_cut_off_becomes_a_replica() {
    for seed in seeds() {
        let mut world = World::new(seed, 3, 3);
        world.run(15 * SECOND);
        let old = world.primary();
        // One Sentinel goes with the old primary, and announces it to its clients until it learns of the new one.
        world.split_with_primary(1);
        world.run(40 * SECOND);
        assert!(world.primaries() > 1, "seed {seed}: both sides have one");
        world.heal();
        world.run(60 * SECOND);
        world.check_settled();
        assert_ne!(world.agreed_primary(), old, "seed {seed}");
    }
}

#[test]
fn a_group_heals_after_all_failures() {
    for seed in seeds() {
        let sentinels = 3 + (seed % 3) as usize;
        let mut world = World::new(seed, sentinels, 3);
        world.run(10 * SECOND);
        for _ in 0..12 {
            world.trouble();
            world.run(world.some_time());
        }
        world.end_trouble();
        world.run(120 * SECOND);
        world.check_settled();
    }
}

#[test]
fn clocks_that_jump_take_nothing_down() {
    for seed in seeds() {
        assert_eq!(taken_for_down(seed, Flaw::None), 0, "seed {seed}");
    }
}

/// Returns how often a healthy instance counts as down, while clocks jump.
fn taken_for_down(seed: u64, flaw: Flaw) -> usize {
    let mut world = World::with_flaw(seed, 3, 3, flaw);
    world.run(15 * SECOND);
    for _ in 0..6 {
        // Pings are under way, for less time than would make a difference.
        world.isolate_sentinels(3);
        world.run(SECOND);
        (0..3).for_each(|node| world.jump_far(node));
        world.run(SECOND / 2);
        world.heal();
        world.run(3 * SECOND);
    }
    world.said("+sdown")
}

#[test]
fn a_vote_outlives_who_gave_it() {
    for seed in seeds() {
        // A violation ends the run at once.
        let mut world = World::new(seed, 5, 3);
        elect_and_restart(&mut world);
        world.end_trouble();
        world.run(120 * SECOND);
        world.check_settled();
    }
}

/// Kills the primary, and each Sentinel that has voted, which comes back at once.
fn elect_and_restart(world: &mut World) {
    world.run(15 * SECOND);
    world.crash_server(world.primary());
    for _ in 0..100 {
        world.run(100);
        world.restart_voters();
    }
}

/// Seeds among which a mistake must be found.
const ENOUGH_SEEDS: u64 = 200;

/// Returns the first seed with a violation.
fn seed_that_finds(flaw: Flaw, sentinels: usize) -> Option<u64> {
    (0..ENOUGH_SEEDS).find(|&seed| {
        let mut world = World::with_flaw(seed, sentinels, 3, flaw);
        world.run(10 * SECOND);
        for _ in 0..12 {
            world.trouble();
            world.run(world.some_time());
            if !world.violations().is_empty() {
                return true;
            }
        }
        false
    })
}

#[test]
fn votes_that_are_forgotten_are_found() {
    assert!((0..ENOUGH_SEEDS).any(|seed| {
        let mut world = World::with_flaw(seed, 5, 3, Flaw::Forgets);
        elect_and_restart(&mut world);
        !world.violations().is_empty()
    }));
}

#[test]
fn votes_for_all_are_found() {
    assert!(seed_that_finds(Flaw::VotesForAll, 3).is_some());
}

#[test]
fn a_leader_without_a_majority_is_found() {
    assert!(seed_that_finds(Flaw::CountsItsSideOnly, 3).is_some());
}

#[test]
fn clocks_that_are_trusted_are_found() {
    assert!((0..ENOUGH_SEEDS).any(|seed| taken_for_down(seed, Flaw::TrustsClocks) > 0));
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    let run = || {
        let mut world = World::new(99, 3, 3);
        world.run(10 * SECOND);
        (0..4).for_each(|_| {
            world.trouble();
            world.run(5 * SECOND);
        });
        world.history()
    };
    assert_eq!(run(), run());
}
