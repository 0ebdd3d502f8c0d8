//! Numbers for the places in commands: random ones of a range, evenly or by Zipf, or one after the other.

use crate::zipf::Zipf;
use fastrand::Rng;

/// Places that share a number within a sequence.
pub const SHARED_PLACES: usize = 9;

/// Kind of number for a place: one of its own, or one that places of a sequence share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Fresh,
    Shared(u8),
}

/// Source of numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Numbers are below this; at least 1.
    range: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Even(Rng),
    Zipf(Zipf, Rng),
    /// Next number of fresh places, and of each shared one.
    Sequential([u64; SHARED_PLACES + 1]),
}

impl Numbers {
    pub fn random(range: u64, seed: u64) -> Self {
        Numbers { range: range.max(1), source: Source::Even(Rng::with_seed(seed)) }
    }

    /// Draws few numbers often; 0 most of all.
    pub fn zipf(range: u64, theta: f64, seed: u64) -> Self {
        Numbers { range: range.max(1), source: Source::Zipf(Zipf::new(range, theta), Rng::with_seed(seed)) }
    }

    /// Counts up from `start`.
    pub fn sequential(range: u64, start: u64) -> Self {
        Numbers { range: range.max(1), source: Source::Sequential([start; SHARED_PLACES + 1]) }
    }

    pub fn next(&mut self, number: Number) -> u64 {
        match &mut self.source {
            Source::Even(rng) => rng.u64(..self.range),
            Source::Zipf(zipf, rng) => zipf.draw(rng),
            Source::Sequential(next) => {
                let counter = match number {
                    Number::Fresh => &mut next[0],
                    Number::Shared(at) => &mut next[1 + usize::from(at)],
                };
                let value = *counter % self.range;
                *counter = counter.wrapping_add(1);
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_sequence_count_apart() {
        let mut numbers = Numbers::sequential(3, 2);
        let drawn = [Number::Fresh, Number::Fresh, Number::Shared(0), Number::Shared(8), Number::Fresh];
        assert_eq!(drawn.map(|number| numbers.next(number)), [2, 0, 2, 2, 1]);
    }

    #[test]
    fn a_seed_tells_the_numbers() {
        for of in [|seed| Numbers::random(1000, seed), |seed| Numbers::zipf(1000, 0.9, seed)] {
            let some = |seed| {
                let mut numbers: Numbers = of(seed);
                (0..20).map(|_| numbers.next(Number::Fresh)).collect::<Vec<_>>()
            };
            assert_eq!(some(1), some(1));
            assert_ne!(some(1), some(2));
        }
    }
}
