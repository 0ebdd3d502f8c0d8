//! Numbers of which few are drawn often: rank `k` of `n` has a share that goes with `1 / (k + 1)^theta`.
//!
//! Rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6 (1996). A continuous hat lies over the steps of the distribution; a point below it is
//! found by inverting its integral, and is refused where it lies above the step. Nothing is tabulated, so a range of
//! any size costs nothing, and about one draw in ten is refused.
//!
//! ```text
//!   hat           h(x) = x^-theta
//!   its integral  H(x) = (x^(1-theta) - 1) / (1 - theta),   ln x where theta is 1
//! ```

use fastrand::Rng;

/// The distribution over a range, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Zipf {
    range: u64,
    theta: f64,
    /// Bounds of the integral between which a point is drawn: half a step into the first step, and past the last.
    first: f64,
    last: f64,
    /// A point no farther than this from its step's middle is below the step, whatever the step.
    sure: f64,
}

impl Zipf {
    /// Returns the distribution of numbers below `range`; `theta` is above zero, and about 1 for typical caches.
    pub fn new(range: u64, theta: f64) -> Zipf {
        let range = range.max(1);
        let mut zipf = Zipf { range, theta, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(range as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    /// Draws a number; 0 is drawn most often, then 1.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.last + rng.f64() * (self.first - self.last);
            let point = self.inverse(area);
            let step = (point + 0.5).clamp(1.0, self.range as f64).floor();
            if step - point <= self.sure || area >= self.integral(step + 0.5) - self.hat(step) {
                return (step as u64 - 1).min(self.range - 1);
            }
        }
    }

    fn hat(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        growth((1.0 - self.theta) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding must not take it below the least value that the integral has.
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        (shrinkage(scaled) * area).exp()
    }
}

/// Returns `(e^x - 1) / x`, which is 1 at 0.
fn growth(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// Returns `ln(1 + x) / x`, which is 1 at 0.
fn shrinkage(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns Pearson's sum over draws and the model; the last class takes the rest of the range.
    fn chi_square(range: u64, theta: f64, draws: usize, classes: usize) -> f64 {
        let (zipf, mut rng) = (Zipf::new(range, theta), Rng::with_seed(7));
        let mut seen = vec![0.0; classes];
        for _ in 0..draws {
            seen[(zipf.draw(&mut rng) as usize).min(classes - 1)] += 1.0;
        }
        let weight = |rank: u64| ((rank + 1) as f64).powf(-theta);
        let all: f64 = (0..range).map(weight).sum();
        let mut expected: Vec<f64> = (0..classes as u64 - 1).map(|rank| weight(rank) / all * draws as f64).collect();
        expected.push(draws as f64 - expected.iter().sum::<f64>());
        seen.iter().zip(expected).map(|(seen, expected)| (seen - expected).powi(2) / expected).sum()
    }

    #[test]
    fn draws_are_distributed_as_the_model_says() {
        // 99 degrees of freedom: a true model stays below 149 in 999 of 1000 cases, and the seed is fixed.
        for theta in [0.2, 0.5, 0.99, 1.0, 1.01, 1.5, 3.0] {
            assert!(chi_square(100, theta, 200_000, if theta > 2.0 { 20 } else { 100 }) < 149.0, "{theta}");
        }
        assert!(chi_square(1_000_000, 0.99, 200_000, 100) < 149.0);
    }

    #[test]
    fn another_model_is_told_apart() {
        let (zipf, mut rng) = (Zipf::new(100, 0.99), Rng::with_seed(7));
        let first = (0..10_000).filter(|_| zipf.draw(&mut rng) == 0).count();
        // Evenly drawn it would be 100 of them; by the model it is 1 of 5.18 draws.
        assert!((1800..2100).contains(&first), "{first}");
    }

    #[test]
    fn every_range_has_its_numbers_and_no_others() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(Zipf::new(0, 0.99).draw(&mut rng), 0);
        assert_eq!(Zipf::new(1, 2.0).draw(&mut rng), 0);
        for range in [2, 3, 10] {
            let zipf = Zipf::new(range, 0.5);
            let seen: std::collections::BTreeSet<u64> = (0..2000).map(|_| zipf.draw(&mut rng)).collect();
            assert_eq!(seen, (0..range).collect());
        }
        let widest = Zipf::new(u64::MAX, 0.99);
        assert!((0..1000).any(|_| widest.draw(&mut rng) > 1 << 40));
    }
}
