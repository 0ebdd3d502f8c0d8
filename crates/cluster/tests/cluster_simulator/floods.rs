//! Publishers at all nodes have more messages than lines and workers take.
//!
//! No node is suspected for that, messages come in their order, memory has bounds, and a node that takes nothing holds
//! publishers for a limited time.

use crate::cluster_world::{Flaw, World};
use crate::holders::Safety;
use crate::messages::TURN;
use crate::migrations::{judge, seeds, step, world};

const SECOND: i64 = 1000;

/// Floods a cluster in which nothing fails, and returns a violation.
fn flood(seed: u64, flaw: Flaw) -> (World, Option<String>) {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run(2 * SECOND);
    let (speed, longest) = if seed.is_multiple_of(2) {
        (world.random.usize(400..500), 0)
    } else {
        (world.random.usize(4000..20_000), 400)
    };
    world.mail.is_calm = true;
    world.begin_mail(speed, longest);
    let mut wrong = None;
    for _ in 0..60 {
        world.run(200);
        wrong = wrong.or_else(|| world.suspect());
    }
    world.mail.publishers_rest = true;
    for _ in 0..300 {
        if world.is_delivered() || wrong.is_some() || !world.violations.is_empty() {
            break;
        }
        world.run(200);
        wrong = wrong.or_else(|| world.suspect());
    }
    let is_lost = !world.is_delivered();
    wrong = wrong.or_else(|| world.violations.first().cloned());
    (world, wrong.or_else(|| is_lost.then(|| "messages are lost".to_owned())))
}

/// Floods a cluster whose nodes die, stand still and lose each other while slots move.
fn flood_with_failures(seed: u64, flaw: Flaw) -> (World, Option<String>) {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run(2 * SECOND);
    let speed = world.random.usize(2000..20_000);
    world.begin_mail(speed, 400);
    for _ in 0..25 {
        step(&mut world);
        let nodes = 0..world.members.len();
        nodes.for_each(|node| world.members[node].threads.limit_disk_delay(500));
        let time = world.random.i64(5..SECOND);
        world.run(time);
    }
    world.run(6 * SECOND);
    world.mail.publishers_rest = true;
    let wrong = judge(&mut world);
    (world, wrong)
}

#[test]
fn messages_of_many_publishers_make_no_node_suspected() {
    let (mut delivered, mut held) = (0, 0);
    for seed in seeds(4) {
        let (world, wrong) = flood(seed, Flaw::None);
        if let Some(wrong) = wrong {
            panic!("CINNABAR_SEED={seed}: {wrong}\n{}", world.history());
        }
        (delivered, held) = (delivered + world.mail.delivered, held + world.mail.held);
    }
    println!("{delivered} messages came, publishers waited in {held} turns");
    assert!(held > 0);
}

#[test]
fn messages_have_bounds_whatever_fails() {
    for seed in seeds(4) {
        let (world, wrong) = flood_with_failures(seed, Flaw::None);
        if let Some(wrong) = wrong {
            panic!("CINNABAR_SEED={seed}: {wrong}\n{}", world.history());
        }
    }
}

/// Kills a primary while slow lines are full of messages, and returns the time until its replica has its place; None
/// if it has not after a while.
fn elected_in_flood(seed: u64, flaw: Flaw) -> Option<i64> {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run_until("it is synchronized", 20 * SECOND, |world| world.members[3].is_linked);
    let speed = world.random.usize(400..500);
    world.begin_mail(speed, 0);
    world.run(4 * SECOND);
    world.crash(0);
    (1..200).map(|step| step * 100).find(|_| {
        world.run(100);
        world.me(3).has_vote()
    })
}

/// Time until a dead node has failed, and half of an election: much less than messages of full lines take.
const LONGEST_FAILOVER: i64 = 6 * SECOND;

#[test]
fn elections_overtake_messages_that_wait() {
    for seed in seeds(4) {
        let took = elected_in_flood(seed, Flaw::None);
        assert!(took.is_some_and(|took| took <= LONGEST_FAILOVER), "CINNABAR_SEED={seed}: {took:?}");
    }
}

#[test]
fn packets_that_wait_for_messages_are_found() {
    let took: Vec<_> = (0..4).map(|seed| elected_in_flood(seed, Flaw::PacketsWaitForMessages)).collect();
    println!("{took:?}");
    assert!(took.iter().any(|took| took.is_none_or(|took| took > LONGEST_FAILOVER)), "{took:?}");
}

fn is_found(flaw: Flaw, run: fn(u64, Flaw) -> (World, Option<String>)) {
    let found = (0..20).find_map(|seed| Some((seed, run(seed, flaw).1?)));
    let (seed, why) = found.expect("the mistake is found");
    println!("{flaw:?} is found by seed {seed}: {why}");
}

#[test]
fn publishers_that_nothing_holds_back_are_found() {
    is_found(Flaw::PublishersAreNotHeld, flood);
}

#[test]
fn links_that_take_all_messages_are_found() {
    is_found(Flaw::LinksTakeAll, flood);
}

/// Returns for how many milliseconds of twenty seconds a publisher waits while one node stands still.
fn held_by_a_stopped_node(seed: u64, flaw: Flaw) -> i64 {
    let mut world = world(seed, flaw, Safety::Applied);
    world.run(2 * SECOND);
    world.begin_mail(20_000, 0);
    world.run(SECOND);
    world.stop(5);
    let before = world.mail.held;
    world.run(20 * SECOND);
    (world.mail.held - before) as i64 * TURN / 5
}

/// Node timeout, the interval of pings, and what slow moments of lines add.
const LONGEST_HOLD: i64 = 4 * SECOND;

#[test]
fn publishers_that_wait_for_a_dead_node_are_found() {
    for seed in 0..2 {
        let held = [Flaw::None, Flaw::WaitsForTheDead].map(|flaw| held_by_a_stopped_node(seed, flaw));
        println!("{held:?}");
        assert!(held[0] <= LONGEST_HOLD && held[1] > LONGEST_HOLD, "{held:?}");
    }
}
