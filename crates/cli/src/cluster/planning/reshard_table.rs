//! Slots that nodes give away: each gives its share, the one with the most rounded up, the others down.
//!
//! The arithmetic is in single precision, as valkey-cli's is, so that the same slots move.

use std::ops::RangeInclusive;

use super::slots::Slots;

/// A node that gives.
#[derive(Clone, Copy, Debug)]
pub struct Giver<'a> {
    /// Its number, which the table repeats.
    pub node: usize,
    pub slots: &'a Slots,
    /// Number of slots by which its share is measured.
    pub counted: usize,
}

/// Slots that one node gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    pub node: usize,
    pub ranges: Vec<RangeInclusive<u16>>,
}

impl Gift {
    pub fn slots(&self) -> impl Iterator<Item = u16> + use<> {
        self.ranges.clone().into_iter().flatten()
    }
}

/// Returns each node's gift so that about `wanted` slots move; nodes that give nothing are left out.
pub fn reshard_table(mut givers: Vec<Giver<'_>>, wanted: usize) -> Vec<Gift> {
    let total: usize = givers.iter().map(|giver| giver.counted).sum();
    givers.sort_by_key(|giver| std::cmp::Reverse(giver.counted));
    let gifts = givers.iter().enumerate().map(|(at, giver)| {
        let part = wanted as f32 / total as f32 * giver.counted as f32;
        let count = if at == 0 { part.ceil() } else { part.floor() };
        Gift { node: giver.node, ranges: giver.slots.first_ranges(count as usize) }
    });
    gifts.filter(|gift| !gift.ranges.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(slots: &[Slots], wanted: usize) -> Vec<Gift> {
        let givers = slots.iter().enumerate();
        let givers = givers.map(|(node, slots)| Giver { node, slots, counted: slots.len() }).collect();
        reshard_table(givers, wanted)
    }

    fn gift(node: usize, ranges: &[RangeInclusive<u16>]) -> Gift {
        Gift { node, ranges: ranges.to_vec() }
    }

    #[test]
    fn the_fullest_node_rounds_up_and_the_others_down() {
        let thirds = [Slots::of(&[0..=5460]), Slots::of(&[5461..=10922]), Slots::of(&[10923..=16383])];
        // As valkey-cli plans it for the cluster that it creates of three nodes.
        assert_eq!(table(&thirds, 10), [gift(1, &[5461..=5464]), gift(0, &[0..=2]), gift(2, &[10923..=10925])]);
        assert_eq!(table(&thirds[..2], 1), [gift(1, &[5461..=5461])]);
        assert_eq!(table(&thirds, 16384).iter().flat_map(Gift::slots).count(), 16384);
    }

    #[test]
    fn slots_are_given_from_the_lowest_and_in_ranges() {
        assert_eq!(table(&[Slots::of(&[3..=4, 7..=9])], 3), [gift(0, &[3..=4, 7..=7])]);
        // More than there are: all are given.
        assert_eq!(table(&[Slots::of(&[3..=4])], 9), [gift(0, &[3..=4])]);
        assert_eq!(table(&[Slots::default()], 9), []);
    }
}
