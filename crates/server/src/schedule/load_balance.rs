//! Whether a worker gives some of its connections to others, and which.
//!
//! ```text
//!   window   | even | lopsided                           | still lopsided | even, or lopsided anew
//!   does     |      | counts each connection's load      | gives some     |
//!              ^ from now on, from nothing
//! ```
//!
//! Every worker decides for itself by the loads of all, which look about the same to each. A worker gives when it is
//! busy nearly all of the time and another one is not by far. It gives as much as brings the two to the same load. If
//! several give, one after the other may do that for half a second, and the others together as much. A connection that
//! would reverse the difference stays: one that keeps a worker busy alone does so anywhere. A connection that was given
//! stays in its place for a while. So nothing moves back and forth.

use engine::time::Nanos;
use std::cmp::Reverse;

/// Nanoseconds over which loads are measured.
const WINDOW: u64 = 100_000_000;
/// Nanoseconds of a window for which a worker that gives is busy.
const HIGH: u64 = WINDOW / 4 * 3;
/// Nanoseconds of a window by which another worker has to be less busy.
const GAP: u64 = WINDOW / 10 * 3;
/// A connection that takes less of a window is not worth the work of moving it, in nanoseconds.
const SHARE_MIN: u64 = 50_000;
/// Connections that are given at a time.
const MOVES_MAX: usize = 16;
/// Nanoseconds for which one of the workers that give goes before the others.
const TURN: u64 = 5 * WINDOW;
/// Nanoseconds for which a connection stays where it was moved to.
const STAY: u64 = 2_000_000_000;

/// A connection that a worker may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveCandidate {
    /// Token by which the worker knows the connection.
    pub token: usize,
    /// Load of the connection in the window, in any unit.
    pub weight: u64,
    /// Time at which it was moved here.
    pub moved_at: Option<Nanos>,
    /// Whether its state allows the move.
    pub is_movable: bool,
}

/// A worker's next step about its load.
#[derive(Debug, PartialEq, Eq)]
pub enum BalanceStep {
    /// Nothing.
    Rest,
    /// The worker counts its connections' loads from now on.
    Measure,
    /// The worker gives some of its connections.
    Give(WorkerLoads),
}

/// A worker's view of all loads.
#[derive(Debug)]
pub struct LoadBalance {
    own: usize,
    /// Time at which the window began.
    since: Nanos,
    /// Time for which each worker had been busy then.
    busy: Vec<u64>,
    /// Whether the connections' loads are being counted.
    measures: bool,
}

impl LoadBalance {
    /// Creates the view of this worker.
    pub fn new(own: usize) -> LoadBalance {
        LoadBalance { own, since: Nanos(0), busy: Vec::new(), measures: false }
    }

    /// Returns whether the window has ended.
    pub fn is_due(&self, clock: Nanos) -> bool {
        clock.since(self.since) >= WINDOW
    }

    /// Ends the window. `busy`: for how many nanoseconds each worker has been busy until now.
    pub fn end_window(&mut self, clock: Nanos, busy: Vec<u64>) -> BalanceStep {
        let loads = self.loads(clock.since(self.since).max(1), &busy);
        (self.since, self.busy) = (clock, busy);
        let lopsided = loads.filter(|loads| is_lopsided(loads, self.own));
        let measured = std::mem::replace(&mut self.measures, false);
        match lopsided {
            None => BalanceStep::Rest,
            Some(loads) if measured => BalanceStep::Give(WorkerLoads { own: self.own, clock, loads }),
            Some(_) => {
                self.measures = true;
                BalanceStep::Measure
            }
        }
    }

    /// Returns the nanoseconds of a window for which each worker was busy. None if that is not known: it is the first
    /// look, or the counters were reset.
    fn loads(&self, elapsed: u64, busy: &[u64]) -> Option<Vec<u64>> {
        if busy.len() != self.busy.len() {
            return None;
        }
        let of_window = |nanos: u64| (u128::from(nanos.min(elapsed)) * u128::from(WINDOW) / u128::from(elapsed)) as u64;
        busy.iter().zip(&self.busy).map(|(now, before)| now.checked_sub(*before).map(of_window)).collect()
    }
}

fn is_lopsided(loads: &[u64], own: usize) -> bool {
    let least = loads.iter().copied().min().unwrap_or(0);
    loads[own] >= HIGH && loads[own] - least >= GAP
}

/// The loads of all workers in a window, as seen by one that gives.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkerLoads {
    own: usize,
    clock: Nanos,
    loads: Vec<u64>,
}

impl WorkerLoads {
    /// Returns the connections that the worker gives, each with its new worker. `connections`: all with a load.
    pub fn share_out(mut self, mut connections: Vec<MoveCandidate>) -> Vec<(usize, usize)> {
        let total: u128 = connections.iter().map(|it| u128::from(it.weight)).sum();
        let part = self.part();
        let own_load = self.loads[self.own];
        let share = |it: &MoveCandidate| (u128::from(it.weight) * u128::from(own_load) / total.max(1)) as u64;
        connections.retain(|it| {
            let is_settled = it.moved_at.is_none_or(|at| self.clock.since(at) >= STAY);
            it.is_movable && is_settled && share(it) >= SHARE_MIN
        });
        connections.sort_unstable_by_key(|it| (Reverse(it.weight), it.token));
        let mut moves = Vec::new();
        for it in &connections {
            let Some(to) = self.least_busy() else { break };
            let gap = self.loads[self.own].saturating_sub(self.loads[to]);
            if share(it) * 2 * part > gap {
                continue;
            }
            self.loads[self.own] -= share(it);
            self.loads[to] += share(it);
            moves.push((it.token, to));
            if moves.len() == MOVES_MAX {
                break;
            }
        }
        moves
    }

    /// Returns the number of parts into which a difference is cut; the worker may give one of them.
    fn part(&self) -> u64 {
        let givers: Vec<usize> = (0..self.loads.len()).filter(|worker| self.loads[*worker] >= HIGH).collect();
        let first = (self.clock.0 / TURN) as usize % givers.len().max(1);
        if givers.get(first) == Some(&self.own) { 1 } else { givers.len() as u64 }
    }

    fn least_busy(&self) -> Option<usize> {
        (0..self.loads.len()).filter(|worker| *worker != self.own).min_by_key(|worker| self.loads[*worker])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a connection that takes so many thousandths of a window.
    fn candidate(token: usize, thousandths: u64) -> MoveCandidate {
        MoveCandidate { token, weight: thousandths * WINDOW / 1000, moved_at: None, is_movable: true }
    }

    /// Returns the steps of a worker after windows with such loads, in thousandths.
    fn steps(own: usize, windows: &[&[u64]]) -> Vec<BalanceStep> {
        let mut balance = LoadBalance::new(own);
        let mut busy = vec![0; windows[0].len()];
        let mut clock = Nanos(WINDOW);
        assert_eq!(balance.end_window(clock, busy.clone()), BalanceStep::Rest, "nothing is known at first");
        let step = |loads: &&[u64]| {
            assert!(!balance.is_due(clock.after(WINDOW - 1)) && balance.is_due(clock.after(WINDOW)));
            clock = clock.after(WINDOW);
            busy.iter_mut().zip(*loads).for_each(|(busy, load)| *busy += load * WINDOW / 1000);
            balance.end_window(clock, busy.clone())
        };
        windows.iter().map(step).collect()
    }

    /// Returns the moves from a worker with the first of such loads, in thousandths, and these connections.
    fn given(loads: &[u64], connections: &[MoveCandidate]) -> Vec<(usize, usize)> {
        let loads = loads.iter().map(|load| load * WINDOW / 1000).collect();
        WorkerLoads { own: 0, clock: Nanos(10 * STAY), loads }.share_out(connections.to_vec())
    }

    #[test]
    fn a_worker_gives_when_the_difference_has_lasted_for_two_windows() {
        let seen = steps(0, &[&[1000, 0], &[1000, 100], &[1000, 100], &[900, 650], &[900, 100]]);
        let [BalanceStep::Measure, BalanceStep::Give(loads), BalanceStep::Measure, BalanceStep::Rest, last] = &seen[..]
        else {
            panic!("{seen:?}")
        };
        assert_eq!(loads.loads, [WINDOW, WINDOW / 10]);
        assert_eq!(*last, BalanceStep::Measure, "the window between them was even");
    }

    #[test]
    fn a_worker_that_has_time_or_is_alone_or_as_busy_as_the_others_gives_nothing() {
        for windows in [[&[700, 0][..]; 3], [&[1000][..]; 3], [&[1000, 1000, 990][..]; 3], [&[900, 601][..]; 3]] {
            assert!(steps(0, &windows).iter().all(|step| *step == BalanceStep::Rest), "{windows:?}");
        }
        assert!(steps(1, &[&[1000, 0][..]; 3]).iter().all(|step| *step == BalanceStep::Rest), "it is not the full one");
    }

    #[test]
    fn counters_that_were_reset_tell_nothing() {
        let mut balance = LoadBalance::new(0);
        balance.end_window(Nanos(WINDOW), vec![WINDOW, 0]);
        assert_eq!(balance.end_window(Nanos(2 * WINDOW), vec![2 * WINDOW, 0]), BalanceStep::Measure);
        assert_eq!(balance.end_window(Nanos(3 * WINDOW), vec![0, 0]), BalanceStep::Rest);
        assert_eq!(balance.end_window(Nanos(4 * WINDOW), vec![WINDOW, 0]), BalanceStep::Measure);
    }

    #[test]
    fn connections_are_spread_over_those_with_the_most_time() {
        let connections: Vec<_> = (0..8).map(|token| candidate(token, 125)).collect();
        let moves = given(&[1000, 0, 0, 0], &connections);
        let count = |worker| moves.iter().filter(|(_, to)| *to == worker).count();
        assert_eq!([1, 2, 3].map(count), [2, 2, 2]);
    }

    #[test]
    fn one_of_several_givers_goes_before_the_others() {
        let connections: Vec<_> = (0..4).map(|token| candidate(token, 250)).collect();
        let first_at = |turn: u64| {
            let given = |own| {
                let loads = vec![WINDOW, WINDOW, 0, HIGH];
                WorkerLoads { own, clock: Nanos(10 * STAY + turn * TURN), loads }.share_out(connections.clone()).len()
            };
            [0, 1, 3].map(given)
        };
        assert_eq!([0, 1, 2].map(first_at), [[0, 2, 0], [0, 0, 2], [2, 0, 0]]);
    }

    #[test]
    fn connections_that_would_turn_the_difference_round_stay() {
        assert_eq!(given(&[1000, 0], &[candidate(1, 1000)]), []);
        assert_eq!(given(&[1000, 0], &[candidate(1, 900), candidate(2, 100)]), [(2, 1)]);
        assert_eq!(given(&[1000, 0], &[candidate(1, 600), candidate(2, 400)]), [(2, 1)]);
        assert_eq!(given(&[1000, 600], &[candidate(1, 500), candidate(2, 500)]), []);
    }

    #[test]
    fn connections_that_may_not_move_or_have_just_come_or_take_nothing_stay() {
        let held = MoveCandidate { is_movable: false, ..candidate(1, 200) };
        let new = MoveCandidate { moved_at: Some(Nanos(9 * STAY + 1)), ..candidate(2, 200) };
        let old = MoveCandidate { moved_at: Some(Nanos(9 * STAY)), ..candidate(3, 200) };
        let idle = MoveCandidate { weight: SHARE_MIN / 2, ..candidate(4, 0) };
        assert_eq!(given(&[1000, 0], &[held, new, old, idle, candidate(5, 400)]), [(5, 1)]);
        assert_eq!(given(&[1000, 0], &[held, new, old, idle]), [(3, 1)]);
        assert_eq!(given(&[1000, 0], &[]), []);
    }

    #[test]
    fn only_so_many_are_given_at_a_time() {
        let connections: Vec<_> = (0..1000).map(|token| candidate(token, 1)).collect();
        assert_eq!(given(&[1000, 0], &connections).len(), MOVES_MAX);
    }

    proptest! {
        /// Workers with connections whose demands do not change. Work that a worker cannot do in a window is left
        /// undone.
        #[test]
        fn loads_even_out_and_then_nothing_moves(
            workers in 1_usize..6,
            demands in prop::collection::vec((0_usize..6, 0_u64..700), 1..60),
        ) {
            let mut places: Vec<(usize, u64, Option<Nanos>)> =
                demands.iter().map(|(worker, demand)| (worker % workers, demand * WINDOW / 1000, None)).collect();
            let mut balances: Vec<LoadBalance> = (0..workers).map(LoadBalance::new).collect();
            let mut busy = vec![0; workers];
            let (mut last_move, mut most_moves) = (0, 0);
            const WINDOWS: u64 = 600;
            for window in 1..=WINDOWS {
                let clock = Nanos(window * WINDOW);
                let wanted = |places: &[(usize, u64, Option<Nanos>)], worker: usize| -> u64 {
                    places.iter().filter(|place| place.0 == worker).map(|place| place.1).sum()
                };
                (0..workers).for_each(|worker| busy[worker] += wanted(&places, worker).min(WINDOW));
                let steps: Vec<BalanceStep> =
                    balances.iter_mut().map(|balance| balance.end_window(clock, busy.clone())).collect();
                for (worker, step) in steps.into_iter().enumerate() {
                    let BalanceStep::Give(loads) = step else { continue };
                    let here = places.iter().enumerate().filter(|(_, place)| place.0 == worker);
                    let connections = here.map(|(token, place)| MoveCandidate {
                        token,
                        weight: place.1,
                        moved_at: place.2,
                        is_movable: true,
                    });
                    let moves = loads.share_out(connections.collect());
                    prop_assert!(moves.len() <= MOVES_MAX);
                    for (token, to) in moves {
                        prop_assert!(to != worker && places[token].0 == worker);
                        (places[token].0, places[token].2) = (to, Some(clock));
                        (last_move, most_moves) = (window, most_moves + 1);
                    }
                }
            }
            prop_assert!(last_move < WINDOWS / 2, "it still moves at {last_move}");
            prop_assert!(most_moves <= 4 * demands.len(), "{most_moves} moves");
        }
    }
}
