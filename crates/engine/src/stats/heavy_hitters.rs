//! The heaviest of very many names, in bounded memory.
//!
//! Up to twice as many names are stored as are of interest. When there are more, all weights go down by the one in the
//! middle, and names without any weight left are removed. So a name's weight is never more than it was given, and less
//! by no more than the sum of all weights through [`max`](HeavyHitters::new): a name with a larger share is always
//! there.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Bytes of the longest name that is stored.
pub const NAME_MAX: usize = 16 << 10;

/// Names with their weights.
#[derive(Debug, Default)]
pub struct HeavyHitters {
    max: usize,
    weights: HashMap<Box<[u8]>, u64, RandomState>,
    total: u64,
}

impl HeavyHitters {
    /// Makes a table of so many names at least, and twice as many at most.
    pub fn new(max: usize) -> HeavyHitters {
        HeavyHitters { max: max.max(1), weights: HashMap::default(), total: 0 }
    }

    /// Adds to the weight of a name.
    pub fn add(&mut self, name: &[u8], weight: u64) {
        self.total += weight;
        if weight == 0 || name.len() > NAME_MAX {
            return;
        }
        if let Some(known) = self.weights.get_mut(name) {
            *known += weight;
            return;
        }
        if self.weights.len() >= 2 * self.max {
            self.thin_out();
        }
        self.weights.insert(name.into(), weight);
    }

    fn thin_out(&mut self) {
        let mut weights: Vec<u64> = self.weights.values().copied().collect();
        let middle = weights.len() - self.max;
        let (_, cut, _) = weights.select_nth_unstable(middle);
        let cut = *cut;
        self.weights.retain(|_, weight| {
            *weight = weight.saturating_sub(cut);
            *weight > 0
        });
    }

    /// Returns the sum of all weights, forgotten names included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the stored names, with their weights, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.weights.iter().map(|(name, weight)| (&**name, *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_weight_is_never_more_than_was_given_and_not_much_less(
            max in 1..8usize,
            added in prop::collection::vec((0..40u8, 0..100u64), 0..300),
        ) {
            let mut hitters = HeavyHitters::new(max);
            let mut model: BTreeMap<u8, u64> = BTreeMap::new();
            for (name, weight) in added {
                hitters.add(&[name], weight);
                *model.entry(name).or_default() += weight;
                prop_assert!(hitters.weights.len() <= 2 * max);
            }
            let kept: BTreeMap<u8, u64> = hitters.iter().map(|(name, weight)| (name[0], weight)).collect();
            prop_assert_eq!(hitters.total(), model.values().sum::<u64>());
            for (name, weight) in model {
                let known = kept.get(&name).copied().unwrap_or(0);
                prop_assert!(known <= weight);
                prop_assert!(weight - known <= hitters.total() / max as u64, "{} of {}", known, weight);
            }
        }
    }

    #[test]
    fn rare_names_do_not_drive_out_heavy_ones() {
        let mut hitters = HeavyHitters::new(10);
        for n in 0..100_000_u32 {
            hitters.add(&n.to_be_bytes(), 1);
            hitters.add(b"hot", 1);
        }
        let hottest = hitters.iter().max_by_key(|(_, weight)| *weight).unwrap();
        assert!(hottest.0 == b"hot" && hottest.1 >= 80_000, "{hottest:?}");
        hitters.add(&[b'x'; NAME_MAX + 1], 1 << 40);
        assert!(hitters.iter().all(|(name, _)| name.len() <= NAME_MAX));
    }
}
