//! Balances slots by weight: each node's surplus, and the moves that even it out.
//!
//! The arithmetic is in single precision, as valkey-cli's is, so that the same slots move.

use std::ops::RangeInclusive;

use super::reshard_table::{Giver, reshard_table};
use super::slots::{SLOTS, Slots};

/// A node that takes part.
#[derive(Clone, Debug)]
pub struct Share {
    pub slots: Slots,
    /// Its share of the slots, against the others' weights.
    pub weight: f32,
}

/// A move of slots from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: usize,
    pub to: usize,
    /// Number that was planned: rounding may add one.
    pub count: usize,
    pub ranges: Vec<RangeInclusive<u16>>,
}

/// Returns each node's surplus of slots; negative: it lacks some. None if all are within the threshold, in percent.
pub fn balances(shares: &[Share], threshold: f32) -> Option<Vec<i64>> {
    let total: f32 = shares.iter().map(|share| share.weight).sum();
    let expected: Vec<i64> = shares.iter().map(|share| (f32::from(SLOTS) / total * share.weight) as i64).collect();
    let is_off = |(share, expected): (&Share, &i64)| match share.slots.len() {
        0 => *expected > 1,
        count => (100.0 - 100.0 * *expected as f64 / count as f64).abs() as f32 > threshold,
    };
    if threshold <= 0.0 || !shares.iter().zip(&expected).any(is_off) {
        return None;
    }
    let mut balances: Vec<i64> =
        shares.iter().zip(&expected).map(|(share, expected)| share.slots.len() as i64 - expected).collect();
    spread_rest(&mut balances);
    Some(balances)
}

/// Shares are rounded down, so nodes may give more than others take: each taker takes one more in turn.
fn spread_rest(balances: &mut [i64]) {
    let mut rest: i64 = balances.iter().sum();
    while rest > 0 && balances.iter().any(|balance| *balance <= 0) {
        for balance in balances.iter_mut().filter(|balance| **balance <= 0) {
            if rest > 0 {
                *balance -= 1;
                rest -= 1;
            }
        }
    }
}

/// Returns the nodes, from the one that lacks most to the one with the largest surplus.
pub fn by_balance(balances: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..balances.len()).collect();
    order.sort_by_key(|node| balances[*node]);
    order
}

/// Plans the moves: the node that lacks most gets from the one with the largest surplus, until one of them is even.
pub fn moves(shares: &[Share], balances: &[i64]) -> Vec<Move> {
    let order = by_balance(balances);
    let (mut balances, mut slots) = (balances.to_vec(), shares.iter().map(|s| s.slots.clone()).collect::<Vec<_>>());
    let (mut low, mut high) = (0, order.len().saturating_sub(1));
    let mut moves = Vec::new();
    while low < high {
        let (to, from) = (order[low], order[high]);
        let count = balances[to].unsigned_abs().min(balances[from].unsigned_abs()) as usize;
        if count > 0 {
            let giver = Giver { node: from, slots: &slots[from], counted: shares[from].slots.len() };
            let ranges: Vec<_> = reshard_table(vec![giver], count).into_iter().flat_map(|gift| gift.ranges).collect();
            for slot in ranges.iter().cloned().flatten() {
                slots[from].remove(slot);
                slots[to].insert(slot);
            }
            moves.push(Move { from, to, count, ranges });
        }
        balances[to] += count as i64;
        balances[from] -= count as i64;
        low += usize::from(balances[to] == 0);
        high -= usize::from(balances[from] == 0);
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(ranges: &[RangeInclusive<u16>], weight: f32) -> Share {
        Share { slots: Slots::of(ranges), weight }
    }

    #[test]
    fn a_new_node_gets_its_part_of_everybody() {
        let shares =
            [share(&[0..=5460], 1.0), share(&[5461..=10922], 1.0), share(&[10923..=16383], 1.0), share(&[], 1.0)];
        let balances = balances(&shares, 2.0).unwrap();
        assert_eq!(balances, [1365, 1366, 1365, -4096]);
        // As valkey-cli moves them with --cluster-use-empty-primaries.
        let expected = [(1, 1366, 5461..=6826), (2, 1365, 10923..=12287), (0, 1365, 0..=1364)];
        let moves = moves(&shares, &balances);
        assert_eq!(moves.len(), 3);
        for (found, (from, count, range)) in moves.iter().zip(expected) {
            assert_eq!((found.from, found.to, found.count, &found.ranges[..]), (from, 3, count, &[range][..]));
        }
    }

    #[test]
    fn slots_stay_where_shares_are_near_enough() {
        let shares = [share(&[0..=5460], 1.0), share(&[5461..=10922], 1.0), share(&[10923..=16383], 1.0)];
        assert_eq!(balances(&shares, 2.0), None);
        let uneven = [share(&[0..=8291], 1.0), share(&[8292..=16383], 1.0)];
        assert_eq!(balances(&uneven, 2.0), None);
        assert_eq!(balances(&uneven, 1.0), Some(vec![100, -100]));
        // Without a threshold, nothing is beyond it.
        assert_eq!(balances(&uneven, 0.0), None);
    }

    #[test]
    fn weights_are_parts() {
        let shares = [share(&[0..=5460], 3.0), share(&[5461..=10922], 0.0), share(&[10923..=16383], 1.0)];
        let balances = balances(&shares, 2.0).unwrap();
        assert_eq!(balances, [-6827, 5462, 1365]);
        let moves = moves(&shares, &balances);
        let shown: Vec<_> = moves.iter().map(|found| (found.from, found.to, found.count)).collect();
        assert_eq!(shown, [(1, 0, 5462), (2, 0, 1365)]);
    }

    #[test]
    fn slots_left_by_rounding_go_to_nodes_that_receive() {
        let shares = [share(&[0..=16383], 1.0), share(&[], 1.0), share(&[], 1.0)];
        assert_eq!(balances(&shares, 2.0), Some(vec![10923, -5462, -5461]));
    }
}
